//! `docs/configuration.md`, generated from the table of settings.

use std::fmt::Write as _;
use std::path::Path;

use super::{FIXED, Kind, Setting, feeds, partitions};
use crate::front_ends;

const HEAD: &str = include_str!("document.txt");

fn page() -> String {
    let mut page = HEAD.to_owned();
    let (data, rest) = FIXED.split_at(super::DATA_SETTINGS);
    section(&mut page, "Data and engine", data.iter());
    section(&mut page, "Partitions", partitions::OPTIONS.iter());
    section(&mut page, "Change feeds", feeds::OPTIONS.iter());
    for row in front_ends::TABLE {
        let title = format!("`{}`", row.setting.name);
        let settings = std::iter::once(&row.setting).chain(row.options);
        section(&mut page, &title, settings);
    }
    section(&mut page, "Connections, TLS and logs", rest.iter());
    page
}

fn section<'a>(page: &mut String, title: &str, settings: impl Iterator<Item = &'a Setting>) {
    let head = "| Setting | Default | What it does | Allowed |\n|---|---|---|---|\n";
    write!(page, "\n## {title}\n\n{head}").unwrap();
    for setting in settings {
        let default = match (setting.default, setting.kind) {
            (None, _) => String::new(),
            (Some(text), Kind::Text) => format!("`\"{text}\"`"),
            (Some(text), _) => format!("`{text}`"),
        };
        let (name, help, allowed) = (setting.name, setting.help, setting.allowed);
        // A bar would end the cell.
        let line = format!("`{name}` | {default} | {help} | {allowed}");
        let line = line.replace("|postgres", "\\|postgres");
        writeln!(page, "| {line} |").unwrap();
    }
}

#[test]
fn the_configuration_page_is_current() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/configuration.md");
    if std::env::var_os("TESSERA_WRITE_DOCS").is_some() {
        std::fs::write(&file, page()).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        written == page(),
        "docs/configuration.md is not what the settings say: run \
         TESSERA_WRITE_DOCS=1 cargo test -p tessera-server configuration_page"
    );
}
