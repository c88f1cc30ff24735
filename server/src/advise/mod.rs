//! `tessera advise`: compares partition keys for given records.
//!
//! The records are in a file ([`source`], [`records`]), in a container of a data folder
//! ([`stored`]) or in one of a server that is asked over HTTP ([`live`]). `tessera_advisor`
//! evaluates them.

mod arguments;
mod csv_records;
mod fields;
mod live;
mod ndjson;
mod records;
mod source;
mod stored;

use std::path::Path;

use clap::ArgMatches;
use tessera_advisor::{KeyPath, MAX_CANDIDATES, Printed, Report, Survey, Wish};

pub(crate) use arguments::arguments;
pub(crate) use stored::answer;

use arguments::{Asked, Subject};
use source::Source;

use crate::error::Error;
use crate::settings::Settings;
use crate::{output, telemetry};

/// Runs the command.
pub(crate) fn command(settings: &Settings, matches: &ArgMatches) -> Result<(), Error> {
    let asked = Asked::new(matches)?;
    let printed = match &asked.subject {
        Subject::File(path) => printed(&of_file(path, &asked)?)?,
        Subject::Stored(name) => {
            telemetry::init(&settings.config);
            stored::report(&settings.config, name, &asked.question)?
        }
        Subject::Live(server, name) => {
            let key = settings.config.console.admin_key();
            live::report((server, key), name, &asked.question)?
        }
    };
    if let Some(svg) = &asked.svg {
        std::fs::write(svg, &printed.svg)
            .map_err(|error| Error::Failed(format!("cannot write {}: {error}", svg.display())))?;
    }
    if asked.as_json {
        let json = serde_json::to_string_pretty(&printed.report)
            .map_err(|error| Error::Failed(error.to_string()))?;
        output::print(&format!("{json}\n"))?;
    } else {
        output::print(&printed.text)?;
        if let Some(svg) = &asked.svg {
            output::print(&format!("\nThe spread is drawn in {}\n", svg.display()))?;
        }
    }
    let absent = printed.absent;
    absent.map_or(Ok(()), |absent| Err(Error::Failed(absent)))
}

fn printed(report: &Report) -> Result<Printed, Error> {
    let printed = report.print();
    printed.map_err(|error| Error::Failed(error.to_string()))
}

/// The report about a file.
fn of_file(path: &Path, asked: &Asked) -> Result<Report, Error> {
    let question = &asked.question;
    let keys = KeyPath::parse_all(&question.keys).map_err(Error::Settings)?;
    let wish = Wish::new(question.partitions, question.throughput, question.growth);
    let wish = wish.map_err(Error::Settings)?;
    let mut source = Source::open(path)?;
    let proposed = records::proposed_fields(&source);
    let (keys, left_out) = candidates(keys, &proposed, &source.name)?;
    let mut survey = Survey::of_file(keys, wish).map_err(Error::Settings)?;
    let fields = survey.fields().to_vec();
    let rejected = records::read(&mut source, &fields, &mut |values, bytes| {
        survey.add(values, bytes);
    })?;
    let report = survey.finish(source.name, rejected, (proposed, left_out));
    report.map_err(Error::Failed)
}

/// The requested keys, or else the fields of the records, and those beyond the limit.
fn candidates(
    keys: Vec<KeyPath>,
    proposed: &[String],
    source: &str,
) -> Result<(Vec<KeyPath>, Vec<String>), Error> {
    if !keys.is_empty() {
        return Ok((keys, Vec::new()));
    }
    let (chosen, left_out) = proposed.split_at(proposed.len().min(MAX_CANDIDATES));
    if chosen.is_empty() {
        return Err(Error::Failed(format!(
            "the beginning of {source} shows no field that could be a key; it should hold one JSON \
             document on each line (as jq -c '.[]' makes of an array), or name fields with --key"
        )));
    }
    let chosen = chosen.iter().cloned().map(KeyPath::of_field).collect();
    Ok((chosen, left_out.to_vec()))
}
