//! All candidates while the records go by.

use tessera_core::throughput::{Charge, price};

use crate::Wish;
use crate::key::{self, Key, KeyPath};
use crate::layout::Layout;
use crate::profile::{Arrival, Profile};
use crate::report::{Named, Rejected, Report, Totals};
use crate::tally::Tally;
use crate::units;
use crate::value::{Kind, Scalar};

/// More candidates at once would take more memory than a look at some records is worth.
pub const MAX_CANDIDATES: usize = 12;

/// Counts records under each of its candidates.
pub struct Survey {
    layout: Layout,
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

/// What a survey was about, besides the records that it saw.
pub(crate) struct Subject {
    pub(crate) source: String,
    pub(crate) rejected: Rejected,
    /// The fields that could be keys, as the first records show them.
    pub(crate) proposed: Vec<String>,
    /// Those among them that were too many.
    pub(crate) left_out: Vec<String>,
}

impl Survey {
    /// A survey of records in the order in which they might arrive, in the container wished for.
    pub fn of_file(keys: Vec<KeyPath>, wish: Wish) -> Result<Self, String> {
        Ok(Self::new(keys, Layout::of(wish)?, Arrival::InOrder))
    }

    pub(crate) fn new(keys: Vec<KeyPath>, layout: Layout, arrival: Arrival) -> Self {
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
            profile: Profile::new(&layout.partitions, arrival),
            path,
        });
        let candidates = candidates.collect();
        Self {
            layout,
            written: Tally::default(),
            read: Charge::default(),
            occurs: vec![false; fields.len()],
            fields,
            candidates,
        }
    }

    /// The fields whose values a record is added with, in this order.
    pub fn fields(&self) -> &[String] {
        &self.fields
    }

    /// Counts a record of so many bytes, with the values of [`Self::fields`].
    pub fn add(&mut self, values: &[Scalar], bytes: usize) {
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

    /// The report on the records of `source`, of which some lines were rejected. `proposed` are the
    /// fields that could be keys, `left_out` those of them that were too many.
    pub fn finish(
        self,
        source: String,
        rejected: Rejected,
        (proposed, left_out): (Vec<String>, Vec<String>),
    ) -> Result<Report, String> {
        let subject = Subject {
            source,
            rejected,
            proposed,
            left_out,
        };
        self.report(subject, None)
    }

    /// The report, on `first` before all candidates. Fields that never occur are named in it, and
    /// it is none if there is nothing to report on.
    pub(crate) fn report(self, subject: Subject, first: Option<Named>) -> Result<Report, String> {
        if self.written.records == 0 {
            return Err(nothing_read(&subject));
        }
        let is_there = |place: &usize| self.occurs.get(*place).copied().unwrap_or(false);
        let (whole, partial): (Vec<_>, Vec<_>) = self
            .candidates
            .into_iter()
            .partition(|one| one.places.iter().all(is_there));
        let absent = self.fields.iter().zip(&self.occurs);
        let absent: Vec<&str> = absent
            .filter(|(_, occurs)| !**occurs)
            .map(|(field, _)| field.as_str())
            .collect();
        let absent = (!partial.is_empty()).then(|| {
            format!(
                "no record of {} has a value in {}; fields with values are {}",
                subject.source,
                absent.join(", "),
                subject.proposed.join(", ")
            )
        });
        let named = whole.into_iter().map(|one| Named {
            key: one.path.to_string(),
            is_current: false,
            profile: one.profile,
        });
        let profiles: Vec<Named> = first.into_iter().chain(named).collect();
        if let (true, Some(absent)) = (profiles.is_empty(), &absent) {
            return Err(absent.clone());
        }
        let totals = Totals {
            source: subject.source,
            written: self.written,
            read: self.read,
            rejected: subject.rejected,
            fields_left_out: subject.left_out,
            absent,
        };
        Ok(Report::new(totals, &self.layout, &profiles))
    }
}

fn nothing_read(subject: &Subject) -> String {
    let name = &subject.source;
    match subject.rejected.first.first() {
        Some(first) => format!(
            "no record could be read from the {} of {name}; line {}: {}",
            units::counted(subject.rejected.lines, "line", "lines"),
            first.line,
            first.cause
        ),
        None => format!("{name} holds no records"),
    }
}
