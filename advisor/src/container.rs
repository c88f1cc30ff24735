//! Surveys of a container, in use or not: under the key it has, and under others.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use tessera_core::item::Item;
use tessera_core::model::ScalarRef;
use tessera_core::name::ContainerName;
use tessera_core::provisioning::Throughput;
use tessera_core::{Container, Error, Store, survey};

use crate::key::{self, Key, KeyPath};
use crate::layout::{Layout, Wish};
use crate::profile::{Arrival, Profile};
use crate::proposal::Proposal;
use crate::report::{NAMELESS, Named, Rejected, Report};
use crate::survey::{MAX_CANDIDATES, Subject, Survey};
use crate::tally::Tally;
use crate::value::Scalar;

/// What is asked of a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Question {
    /// Candidates as `FIELD[,FIELD…]`. Without any, the fields of its first items are tried.
    pub keys: Vec<String>,
    /// Physical partitions to imagine, instead of those it has.
    pub partitions: Option<u32>,
    /// RU/s to imagine, instead of those it has.
    pub throughput: Option<u32>,
    /// How many times today's data there will be.
    pub growth: Option<f64>,
}

/// Why there is no report.
#[derive(Debug)]
pub enum Refusal {
    /// The question makes no sense.
    Question(String),
    /// There is nothing to report on.
    Nothing(String),
    /// The container could not be read.
    Core(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Core(error)
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Question(words) | Self::Nothing(words) => f.write_str(words),
            Self::Core(error) => error.fmt(f),
        }
    }
}

/// Reads all items of a container, charging nobody, and reports on what `question` asks.
pub async fn of_container(
    store: &Store,
    name: &ContainerName,
    question: &Question,
) -> Result<Report, Refusal> {
    let keys = KeyPath::parse_all(&question.keys).map_err(Refusal::Question)?;
    let wish = Wish::new(question.partitions, question.throughput, question.growth);
    let wish = wish.map_err(Refusal::Question)?;
    let mut items = store.survey(name).await?;
    let layout = layout(wish, items.container()).map_err(Refusal::Question)?;
    let own = items.container().key_fields();
    let first = items.next().await?.unwrap_or_default();
    let proposed = proposed(items.container(), &first)?;
    let (keys, left_out) = candidates(keys, &proposed, &own);
    let mut reading = Reading {
        own: Profile::new(&layout.partitions, Arrival::Unknown),
        places: HashMap::new(),
        values: Vec::new(),
        survey: Survey::new(keys, layout, Arrival::Unknown),
    };
    reading.prepare();
    read(&mut items, first, &mut reading).await?;
    let named = Named {
        key: match own.as_slice() {
            [] => NAMELESS.to_owned(),
            fields => fields.join(","),
        },
        is_current: true,
        profile: reading.own,
    };
    let subject = Subject {
        source: name.to_string(),
        rejected: Rejected::default(),
        proposed,
        left_out,
    };
    reading
        .survey
        .report(subject, Some(named))
        .map_err(Refusal::Nothing)
}

/// The container as it is, unless something else was wished for.
fn layout(wish: Wish, container: &Container) -> Result<Layout, String> {
    let provisioned = container.definition.throughput().map(Throughput::units);
    Layout::of_stored(wish, &container.partitions, provisioned)
}

/// The fields that could be keys, as the first items show them.
fn proposed(container: &Container, items: &[Item]) -> Result<Vec<String>, Error> {
    let mut proposal = Proposal::default();
    for item in items {
        let mut names: Vec<String> = Vec::new();
        let is_record = container.describe(item, &mut |path, _| {
            if !names.iter().any(|name| name == path) {
                names.push(path.to_owned());
            }
        });
        if is_record? {
            proposal.note(names.iter().map(String::as_str));
        }
    }
    Ok(proposal.fields())
}

/// The keys that were asked for, or else the fields at hand, and which of those were too many. The
/// key that the container has is looked at in any case, and not twice.
fn candidates(
    keys: Vec<KeyPath>,
    proposed: &[String],
    own: &[String],
) -> (Vec<KeyPath>, Vec<String>) {
    let is_other = |key: &KeyPath| key.fields() != own;
    if !keys.is_empty() {
        return (keys.into_iter().filter(is_other).collect(), Vec::new());
    }
    let fields = proposed.iter().cloned().map(KeyPath::of_field);
    let mut chosen: Vec<KeyPath> = fields.filter(is_other).collect();
    let left_out = chosen.split_off(chosen.len().min(MAX_CANDIDATES));
    let left_out = left_out.iter().map(ToString::to_string).collect();
    (chosen, left_out)
}

/// What is counted while the items go by.
struct Reading {
    own: Profile,
    survey: Survey,
    /// Where each field stands in `values`.
    places: HashMap<String, usize>,
    values: Vec<Scalar>,
}

impl Reading {
    fn prepare(&mut self) {
        let fields = self.survey.fields().iter().cloned();
        self.places = fields.zip(0..).collect();
        self.values = vec![Scalar::default(); self.places.len()];
    }

    fn add(&mut self, container: &Container, item: &Item) -> Result<(), Error> {
        let Self {
            own,
            survey,
            places,
            values,
        } = self;
        values.iter_mut().for_each(Scalar::clear);
        let is_record = container.describe(item, &mut |path, value| {
            let slot = places.get(path).and_then(|place| values.get_mut(*place));
            if let Some(slot) = slot {
                slot.set_ref(value);
            }
        })?;
        if is_record {
            let (locator, bytes) = (&item.locator, item.counted_bytes());
            let key = Key::stored(locator.token, &locator.partition_key);
            own.add(key, Tally::of_record(bytes), || {
                key::shortened(container.key_text(&locator.partition_key))
            });
            survey.add(values, bytes);
        }
        Ok(())
    }
}

/// Reads everything. Between two pages others have their turn.
async fn read(
    items: &mut survey::Survey,
    first: Vec<Item>,
    reading: &mut Reading,
) -> Result<(), Error> {
    let mut page = Some(first);
    while let Some(read) = page {
        for item in &read {
            reading.add(items.container(), item)?;
        }
        tokio::task::yield_now().await;
        page = items.next().await?;
    }
    Ok(())
}

impl Scalar {
    /// The value that a front end told.
    fn set_ref(&mut self, value: ScalarRef<'_>) {
        match value {
            ScalarRef::Boolean(truth) => self.set_boolean(truth),
            ScalarRef::Integer(number) => self.set_integer(number),
            ScalarRef::Double(number) => self.set_double(number),
            ScalarRef::Text(text) => self.set_text(text.as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests;
