//! What `tessera advise` is asked.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use tessera_core::name::ContainerName;
use tessera_core::throughput::PARTITION_MAX_RUS;

use super::key::KeyPath;
use super::layout::{MAX_PARTITIONS, Wish};
use crate::error::Error;

/// More candidates at once would not fit the memory that the command allows itself.
pub(super) const MAX_CANDIDATES: usize = 12;

const FILE: &str = "FILE";
const KEY: &str = "key";
const CONTAINER: &str = "container";
const THROUGHPUT: &str = "throughput";
const PARTITIONS: &str = "partitions";
const GROWTH: &str = "growth";
const FORMAT: &str = "format";
const SVG: &str = "svg";

/// Where the records are.
pub(super) enum Subject {
    /// In a file, to be looked at under these keys; if there are none, under its fields.
    File(PathBuf, Vec<KeyPath>),
    /// In a container of a data folder, under the key it has.
    Stored(ContainerName),
}

/// One question.
pub(super) struct Question {
    pub(super) subject: Subject,
    pub(super) wish: Wish,
    pub(super) as_json: bool,
    pub(super) svg: Option<PathBuf>,
}

/// What the command takes besides settings.
pub(crate) fn arguments() -> Vec<Arg> {
    let option = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let most_rus = i64::from(MAX_PARTITIONS) * i64::from(PARTITION_MAX_RUS);
    vec![
        Arg::new(FILE)
            .value_parser(value_parser!(PathBuf))
            .required_unless_present(CONTAINER)
            .conflicts_with(CONTAINER)
            .help("Records as NDJSON or as CSV with a line of names; - is standard input"),
        option(
            KEY,
            "FIELD[,FIELD…]",
            "A candidate; again for the next one. A dot leads into a \
            nested document. Without any, the fields at the top of the documents are tried",
        )
        .action(ArgAction::Append)
        .conflicts_with(CONTAINER),
        option(
            CONTAINER,
            "API/DATABASE/NAME",
            "Look at a stored container and the key it has, \
            instead of a file; no server may have the data open",
        ),
        option(
            THROUGHPUT,
            "RU",
            "RU/s of the container; each 10,000 begun are a physical \
            partition [default: 10,000 for each partition]",
        )
        .value_parser(value_parser!(u32).range(1..=most_rus)),
        option(
            PARTITIONS,
            "N",
            "Physical partitions [default: as the throughput needs; 4]",
        )
        .value_parser(value_parser!(u32).range(1..=i64::from(MAX_PARTITIONS))),
        option(
            GROWTH,
            "FACTOR",
            "How many times today's data there will be, for the limits of \
            size [default: 1]",
        )
        .value_parser(growth),
        option(FORMAT, "FORMAT", "How to print the report")
            .value_parser(PossibleValuesParser::new(["text", "json"]))
            .default_value("text"),
        option(SVG, "FILE", "Also draw the spread into this file")
            .value_parser(value_parser!(PathBuf)),
    ]
}

fn growth(text: &str) -> Result<f64, String> {
    let factor: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let is_sensible = factor > 0.0 && factor <= 1e9;
    is_sensible
        .then_some(factor)
        .ok_or_else(|| "not a number above 0 and up to a billion".to_owned())
}

impl Question {
    pub(super) fn new(matches: &ArgMatches) -> Result<Self, Error> {
        let wish = Wish {
            partitions: matches.get_one(PARTITIONS).copied(),
            throughput: matches.get_one(THROUGHPUT).copied(),
            growth: matches.get_one(GROWTH).copied().unwrap_or(1.0),
        };
        Ok(Self {
            subject: subject(matches)?,
            wish,
            as_json: matches
                .get_one::<String>(FORMAT)
                .is_some_and(|format| format == "json"),
            svg: matches.get_one(SVG).cloned(),
        })
    }
}

fn subject(matches: &ArgMatches) -> Result<Subject, Error> {
    if let Some(name) = matches.get_one::<String>(CONTAINER) {
        return Ok(Subject::Stored(container_name(name)?));
    }
    let Some(file) = matches.get_one::<PathBuf>(FILE) else {
        return Err(Error::Settings(
            "advise needs a file or --container".to_owned(),
        ));
    };
    let mut keys: Vec<KeyPath> = Vec::new();
    for text in matches.get_many::<String>(KEY).into_iter().flatten() {
        let key = KeyPath::parse(text)
            .map_err(|cause| Error::Settings(format!("not a key for --key: {cause}")))?;
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    if keys.len() > MAX_CANDIDATES {
        return Err(Error::Settings(format!(
            "at most {MAX_CANDIDATES} keys can be looked at together; give --key less often"
        )));
    }
    Ok(Subject::File(file.clone(), keys))
}

fn container_name(text: &str) -> Result<ContainerName, Error> {
    let parts: Vec<&str> = text.splitn(3, '/').collect();
    match parts.as_slice() {
        [api, database, name] if !parts.contains(&"") => {
            Ok(ContainerName::new(*api, *database, *name))
        }
        _ => Err(Error::Settings(format!(
            "{text:?} is no container: name it as API/DATABASE/NAME, as in \
             table/devstoreaccount1/people or mongo/shop/orders"
        ))),
    }
}
