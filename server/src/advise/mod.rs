//! `tessera advise`: which partition key suits some records.
//!
//! A [`source`] is read once, record by record; each candidate's [`profile`] counts in bounded
//! memory what its keys do; a [`report`] is made of that, with a [`verdict`] in words, and shown as
//! [`text`], JSON and a [`picture`].

mod arguments;
mod cardinality;
mod csv_records;
mod fields;
mod frequent;
mod key;
mod layout;
mod ndjson;
mod picture;
mod profile;
mod records;
mod report;
mod source;
mod spread;
mod stored;
mod tally;
mod text;
mod units;
mod value;
mod verdict;

use std::path::Path;

use clap::ArgMatches;
use tessera_core::throughput::{Charge, price};

pub(crate) use arguments::arguments;

use arguments::{MAX_CANDIDATES, Question, Subject};
use key::{Key, KeyPath};
use layout::{Layout, Wish};
use profile::Profile;
use report::{Report, Totals};
use source::Source;
use tally::Tally;
use value::{Kind, Scalar};

use crate::error::Error;
use crate::settings::Settings;
use crate::{output, telemetry};

/// Answers the question that `matches` ask.
pub(crate) fn command(settings: &Settings, matches: &ArgMatches) -> Result<(), Error> {
    let question = Question::new(matches)?;
    let (report, absent) = match &question.subject {
        Subject::File(path, keys) => of_file(path, keys, question.wish)?,
        Subject::Stored(name) => {
            telemetry::init(&settings.config);
            (stored::report(&settings.config, name, question.wish)?, None)
        }
    };
    if let Some(svg) = &question.svg {
        std::fs::write(svg, picture::svg(&report))
            .map_err(|error| Error::Failed(format!("cannot write {}: {error}", svg.display())))?;
    }
    if question.as_json {
        let json = serde_json::to_string_pretty(&report)
            .map_err(|error| Error::Failed(error.to_string()))?;
        output::print(&format!("{json}\n"))?;
    } else {
        output::print(&report.to_string())?;
        if let Some(svg) = &question.svg {
            output::print(&format!("\nThe spread is drawn in {}\n", svg.display()))?;
        }
    }
    absent.map_or(Ok(()), |absent| Err(Error::Failed(absent)))
}

/// The report about a file, and what to say of keys that it could not be made for.
fn of_file(path: &Path, keys: &[KeyPath], wish: Wish) -> Result<(Report, Option<String>), Error> {
    let layout = Layout::of(wish).map_err(Error::Settings)?;
    let mut source = Source::open(path)?;
    let proposed = records::proposed_fields(&source);
    let (keys, fields_left_out) = candidates(keys, &proposed, &source.name)?;
    let mut survey = Survey::new(keys, &layout);
    let fields = survey.fields.clone();
    let rejected = records::read(&mut source, &fields, &mut |values, bytes| {
        survey.add(values, bytes);
    })?;
    if survey.written.records == 0 {
        return Err(nothing_read(&source, &rejected));
    }
    let totals = Totals {
        source: source.name,
        written: survey.written,
        read: survey.read,
        rejected,
        fields_left_out,
    };
    let (profiles, absent) = survey.into_profiles();
    let absent = (!absent.is_empty()).then(|| {
        format!(
            "no record of {} has a value in {}; fields with values are {}",
            totals.source,
            absent.join(", "),
            proposed.join(", ")
        )
    });
    if let (true, Some(absent)) = (profiles.is_empty(), &absent) {
        return Err(Error::Failed(absent.clone()));
    }
    Ok((Report::new(totals, &layout, &profiles), absent))
}

/// The keys that were asked for, or else the fields at hand, and which of those were too many.
fn candidates(
    keys: &[KeyPath],
    proposed: &[String],
    source: &str,
) -> Result<(Vec<KeyPath>, Vec<String>), Error> {
    if !keys.is_empty() {
        return Ok((keys.to_vec(), Vec::new()));
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

fn nothing_read(source: &Source, rejected: &records::Rejected) -> Error {
    let name = &source.name;
    match rejected.first.first() {
        Some(first) => Error::Failed(format!(
            "no record could be read from the {} of {name}; line {}: {}",
            units::counted(rejected.lines, "line", "lines"),
            first.line,
            first.cause
        )),
        None => Error::Failed(format!("{name} holds no records")),
    }
}

/// All candidates while the records go by.
struct Survey {
    written: Tally,
    /// What reading each record once costs.
    read: Charge,
    /// Every field that some candidate names, once.
    fields: Vec<String>,
    /// Whether each field ever had a value.
    occurs: Vec<bool>,
    candidates: Vec<Candidate>,
}

struct Candidate {
    path: KeyPath,
    /// Where its fields stand among all fields.
    places: Vec<usize>,
    profile: Profile,
}

impl Survey {
    fn new(keys: Vec<KeyPath>, layout: &Layout) -> Self {
        let mut fields: Vec<String> = Vec::new();
        let mut place = |field: &String| {
            let known = fields.iter().position(|other| other == field);
            known.unwrap_or_else(|| {
                fields.push(field.clone());
                fields.len() - 1
            })
        };
        let candidates = keys.into_iter().map(|path| Candidate {
            places: path.fields().iter().map(&mut place).collect(),
            profile: Profile::new(&layout.partitions),
            path,
        });
        let candidates = candidates.collect();
        Self {
            written: Tally::default(),
            read: Charge::default(),
            occurs: vec![false; fields.len()],
            fields,
            candidates,
        }
    }

    fn add(&mut self, values: &[Scalar], bytes: usize) {
        let record = Tally::of_record(bytes);
        self.written.add(record);
        self.read += price::point_read(bytes);
        for (occurs, value) in self.occurs.iter_mut().zip(values) {
            *occurs |= value.kind() != Kind::Missing;
        }
        for candidate in &mut self.candidates {
            let own = candidate
                .places
                .iter()
                .filter_map(|place| values.get(*place));
            let key = Key::of(own.clone());
            candidate.profile.add(key, record, || key::name(own));
        }
    }

    /// The candidates whose fields all occur, and the fields that do not.
    fn into_profiles(self) -> (Vec<(String, Profile)>, Vec<String>) {
        let Self {
            fields,
            occurs,
            candidates,
            ..
        } = self;
        let is_there = |place: &usize| occurs.get(*place).copied().unwrap_or(false);
        let whole = candidates
            .into_iter()
            .filter(|one| one.places.iter().all(is_there));
        let profiles = whole
            .map(|one| (one.path.to_string(), one.profile))
            .collect();
        let absent = fields
            .into_iter()
            .zip(&occurs)
            .filter(|(_, occurs)| !**occurs);
        (profiles, absent.map(|(field, _)| field).collect())
    }
}
