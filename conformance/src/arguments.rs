//! The arguments that several commands take, each made in one place.

use std::path::PathBuf;

use clap::{Arg, value_parser};

/// The name of every suite together.
pub(crate) const ALL: &str = "all";

/// A file to write.
pub(crate) fn file(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help(help)
}

/// A text that narrows down what is run; empty for everything.
pub(crate) fn only(help: &'static str) -> Arg {
    Arg::new("only")
        .long("only")
        .value_name("TEXT")
        .default_value("")
        .hide_default_value(true)
        .help(help)
}
