//! The arguments of `tessera advise`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use tessera_advisor::Question;
use tessera_core::name::ContainerName;

use crate::error::Error;

const FILE: &str = "FILE";
const KEY: &str = "key";
const CONTAINER: &str = "container";
const LIVE: &str = "live";
const TRUST: &str = "live-ca";
const THROUGHPUT: &str = "throughput";
const PARTITIONS: &str = "partitions";
const GROWTH: &str = "growth";
const FORMAT: &str = "format";
const SVG: &str = "svg";

/// The source of the records.
pub(super) enum Subject {
    File(PathBuf),
    /// In a container of a data folder.
    Stored(ContainerName),
    /// In a container of a server.
    Live(Server, ContainerName),
}

/// A server that is asked through its console.
pub(super) struct Server {
    pub(super) address: String,
    /// The certificate to trust if it speaks TLS.
    pub(super) trust: Option<PathBuf>,
}

/// The question and the form of the answer.
pub(super) struct Asked {
    pub(super) subject: Subject,
    pub(super) question: Question,
    pub(super) as_json: bool,
    pub(super) svg: Option<PathBuf>,
}

/// The arguments of the command besides settings.
pub(crate) fn arguments() -> Vec<Arg> {
    let option = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    vec![
        Arg::new(FILE)
            .value_parser(value_parser!(PathBuf))
            .required_unless_present(CONTAINER)
            .conflicts_with(CONTAINER)
            .help("Records as NDJSON or as CSV with a line of names; - is standard input"),
        option(
            KEY,
            "FIELD[,FIELD…]",
            "A candidate key; may be repeated. A dot selects a field of a nested document. \
             Without it, the top-level fields are compared",
        )
        .action(ArgAction::Append),
        option(
            CONTAINER,
            "API/DATABASE/NAME",
            "Compare keys for a stored container, its present one included, instead of a file; a \
             server may be running on the data",
        ),
        option(
            LIVE,
            "URL",
            "The console of the server that has the container, such as http://127.0.0.1:8080; \
            without it, the data folder's own",
        )
        .requires(CONTAINER),
        option(
            TRUST,
            "FILE",
            "The certificate to trust if the URL is https",
        )
        .value_parser(value_parser!(PathBuf))
        .requires(LIVE),
        option(
            THROUGHPUT,
            "RU",
            "RU/s of the container; each 10,000 begun are a physical \
            partition [default: 10,000 for each partition]",
        )
        .value_parser(value_parser!(u32)),
        option(
            PARTITIONS,
            "N",
            "Physical partitions [default: as the throughput needs; 4]",
        )
        .value_parser(value_parser!(u32)),
        option(
            GROWTH,
            "FACTOR",
            "Expected growth of the data, for the size limits [default: 1]",
        )
        .allow_negative_numbers(true)
        .value_parser(value_parser!(f64)),
        option(FORMAT, "FORMAT", "How to print the report")
            .value_parser(PossibleValuesParser::new(["text", "json"]))
            .default_value("text"),
        option(SVG, "FILE", "Also draw the spread into this file")
            .value_parser(value_parser!(PathBuf)),
    ]
}

impl Asked {
    pub(super) fn new(matches: &ArgMatches) -> Result<Self, Error> {
        let keys = matches.get_many::<String>(KEY).into_iter().flatten();
        Ok(Self {
            subject: subject(matches)?,
            question: Question {
                keys: keys.cloned().collect(),
                partitions: matches.get_one(PARTITIONS).copied(),
                throughput: matches.get_one(THROUGHPUT).copied(),
                growth: matches.get_one(GROWTH).copied(),
            },
            as_json: matches
                .get_one::<String>(FORMAT)
                .is_some_and(|format| format == "json"),
            svg: matches.get_one(SVG).cloned(),
        })
    }
}

fn subject(matches: &ArgMatches) -> Result<Subject, Error> {
    let container = matches.get_one::<String>(CONTAINER);
    let container = container.map(|name| container_name(name)).transpose()?;
    let live = matches.get_one::<String>(LIVE).map(|address| Server {
        address: address.clone(),
        trust: matches.get_one(TRUST).cloned(),
    });
    match (container, live, matches.get_one::<PathBuf>(FILE)) {
        (Some(name), Some(server), _) => Ok(Subject::Live(server, name)),
        (Some(name), None, _) => Ok(Subject::Stored(name)),
        (None, _, Some(file)) => Ok(Subject::File(file.clone())),
        (None, _, None) => Err(Error::Settings(
            "advise needs a file or --container".to_owned(),
        )),
    }
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
