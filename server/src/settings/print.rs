//! `tessera config`: the settings in force, as a valid configuration file.

use std::fmt::Write as _;

use super::Kind;
use super::resolve::{Settings, Value};

impl Settings {
    /// TOML, with a comment at each line that names the source of the value.
    pub(crate) fn to_toml(&self) -> String {
        let lines: Vec<(String, String)> = self.values.iter().map(line).collect();
        let width = lines
            .iter()
            .map(|(setting, _)| setting.chars().count())
            .max()
            .unwrap_or(0);
        let mut toml = String::new();
        for (setting, origin) in lines {
            // Writing to a String cannot fail.
            let _written = writeln!(toml, "{setting:width$}  # {origin}").is_ok();
        }
        toml
    }
}

fn line(value: &Value) -> (String, String) {
    let setting = &value.setting;
    let origin = value.origin.to_string();
    match &value.text {
        None => (
            format!("# {} = \"{}\"", setting.name, setting.placeholder),
            "not set".to_owned(),
        ),
        // A comment, so that the file stays valid.
        Some(_) if setting.secret => (format!("# {} = \"(hidden)\"", setting.name), origin),
        Some(text) => match setting.kind {
            Kind::Switch | Kind::Number => (format!("{} = {text}", setting.name), origin),
            Kind::Text => (format!("{} = {}", setting.name, quoted(text)), origin),
        },
    }
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}
