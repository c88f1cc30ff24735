//! `run`: walks over our server, or any other, with the real clients of a protocol.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches};
use tessera_conformance::check::{Checked, Options, check, update};
use tessera_conformance::peers::Peer;
use tessera_conformance::reports;
use tessera_conformance::suites::{SUITES, Variant, Walk};

use crate::Failure;
use crate::arguments::{ALL, file, only};

pub(crate) fn arguments() -> Vec<Arg> {
    let text = |name, value, help| Arg::new(name).long(name).value_name(value).help(help);
    let suites = SUITES.iter().map(|suite| suite.name).chain([ALL]);
    let variants = Variant::ALL.into_iter().map(Variant::name).chain([ALL]);
    vec![
        Arg::new("SUITE")
            .default_value(ALL)
            .value_parser(suites.collect::<Vec<_>>())
            .help("Which protocol"),
        text(
            "target",
            "ADDRESS",
            "Another server: mongodb://…, HOST:9042 or http://…, or one that is started: \
             azurite, cassandra",
        ),
        text("client", "NAME", "Only this client"),
        text("variant", "NAME", "How our server is set up")
            .default_value(Variant::Plain.name())
            .value_parser(variants.collect::<Vec<_>>()),
        only("Only cases with this text in their area or name"),
        file("junit", "Write the results there as JUnit XML"),
        file("json", "Write the results there as JSON"),
        file("html", "Write the results there as a page"),
        Arg::new("update")
            .long("update")
            .action(ArgAction::SetTrue)
            .conflicts_with_all(["target", "only"])
            .help("Write what passes into the ledgers and docs/compatibility.md"),
    ]
}

/// Fails if anything is otherwise than the ledgers say.
pub(crate) fn command(matches: &ArgMatches) -> Result<(), Failure> {
    let walks = chosen(matches)?;
    let text = |name| matches.get_one::<String>(name).map(String::as_str);
    let peer = text("target").filter(|target| Peer::NAMES.contains(target));
    let peer = peer.map(Peer::start).transpose()?;
    let started = peer.as_ref().map(Peer::target);
    let options = Options {
        target: started.as_deref().or(text("target")),
        server: peer.as_ref().map(|peer| peer.name),
        only: text("only").unwrap_or_default(),
    };
    let checked = check(&walks, &options)?;
    write!(io::stdout(), "\n{}", checked.text())?;
    write_files(matches, &checked)?;
    if matches.get_flag("update") {
        update(&checked.results)?;
        return Ok(());
    }
    match checked.unexplained().count() {
        0 => Ok(()),
        _ => Err("the ledgers in conformance/expected say otherwise".into()),
    }
}

fn chosen(matches: &ArgMatches) -> Result<Vec<Walk>, Failure> {
    let text = |name| matches.get_one::<String>(name).map(String::as_str);
    let (suite, variant) = (text("SUITE"), text("variant"));
    let is = |wanted: Option<&str>, name: &str| wanted.is_none_or(|it| it == ALL || it == name);
    let mut walks: Vec<Walk> = Walk::all()
        .filter(|walk| is(suite, walk.suite.name) && is(variant, walk.variant.name()))
        .filter(|walk| is(text("client"), walk.walker.name))
        .collect();
    walks.retain(|walk| match walk.walker.lacks() {
        None => true,
        Some(program) => {
            // Without a standard error there is nobody to tell.
            let _told = writeln!(io::stderr(), "{walk}: left out, {program} is not here").is_ok();
            false
        }
    });
    let target = text("target");
    if target.is_some() && (suite == Some(ALL) || variant != Some(Variant::Plain.name())) {
        return Err("a target speaks one protocol, and is as it is".into());
    }
    match walks.is_empty() {
        true => Err("there is no such walk".into()),
        false => Ok(walks),
    }
}

fn write_files(matches: &ArgMatches, checked: &Checked) -> Result<(), Failure> {
    for (name, write) in [
        ("junit", reports::junit as fn(&_) -> String),
        ("json", |checked| format!("{:#}\n", reports::json(checked))),
        ("html", reports::html),
    ] {
        if let Some(file) = matches.get_one::<PathBuf>(name) {
            fs::write(file, write(checked))?;
        }
    }
    Ok(())
}
