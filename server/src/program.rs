//! Version, shell completions and manual pages.

use std::fs;
use std::path::Path;

use clap_complete::Shell;

use crate::error::Error;
use crate::{VERSION, output};

/// The commit that the program was built from: see `build.rs`.
const COMMIT: &str = env!("TESSERA_BUILT_FROM");
/// The target that the program was built for.
const TARGET: &str = env!("TESSERA_BUILT_FOR");

/// Version and commit, on one line.
pub(crate) const VERSION_AND_COMMIT: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("TESSERA_BUILT_FROM"),
    ")"
);

/// `tessera version`.
pub(crate) fn print_version() -> Result<(), Error> {
    let profile = match cfg!(debug_assertions) {
        true => "debug",
        false => "release",
    };
    let text = format!(
        "tessera {VERSION}\n  commit     {COMMIT}\n  build      {profile}, {TARGET}\n  \
         processor  {}\n",
        processor()
    );
    Ok(output::print(&text)?)
}

/// The processor features that the check at the start requires.
fn processor() -> &'static str {
    if cfg!(target_feature = "avx2") {
        "with AVX2"
    } else if cfg!(target_feature = "pclmulqdq") {
        "x86-64-v2 with PCLMUL"
    } else if cfg!(all(target_feature = "crc", target_feature = "aes")) {
        "with CRC32 and AES"
    } else {
        "any"
    }
}

/// `tessera completions SHELL`.
pub(crate) fn print_completions(parser: &mut clap::Command, shell: Shell) -> Result<(), Error> {
    let mut text = Vec::new();
    clap_complete::generate(shell, parser, "tessera", &mut text);
    Ok(output::print(&String::from_utf8_lossy(&text))?)
}

/// `tessera man DIR`: one page for the program and one for each command.
pub(crate) fn write_manual(parser: clap::Command, folder: &Path) -> Result<(), Error> {
    let written = fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(parser.disable_help_subcommand(true), folder));
    written.map_err(|error| {
        let folder = folder.display();
        Error::Failed(format!(
            "cannot write the manual pages to {folder}: {error}; name one that you may write to"
        ))
    })
}
