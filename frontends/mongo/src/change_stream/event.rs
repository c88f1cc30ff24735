//! Events: a change of the feed as a document.

use bson::{Binary, Bson, DateTime, Document, RawDocument, Timestamp, doc};
use tessera_core::feed::control::{Control, Event as Happened};
use tessera_core::feed::reader::{Change, FeedItem};
use tessera_core::feed::record::{Annotation, ChangeKind, ChangeRecord};
use tessera_core::feed::time::{FeedClock, FeedTime};
use tessera_core::name::ContainerName;

use crate::change_stream::key;
use crate::change_stream::options::{Options, Scope};
use crate::change_stream::payload::Payload;
use crate::change_stream::token::Token;
use crate::collection::Collection;
use crate::execute::decode;
use crate::failure::Result;

/// An event and where the stream stands with it.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) token: Token,
    pub(crate) document: Document,
    /// Whether it is an update that shows the document as it is now, which is still to be read.
    pub(crate) looks_up: bool,
    /// Whether the stream ends with it.
    pub(crate) is_end: bool,
}

/// Makes events of what a page of the feed has.
pub(crate) struct Events<'a> {
    pub(crate) options: &'a Options,
    pub(crate) clock: &'a FeedClock,
}

impl Events<'_> {
    /// The events of one entry: none, one, or two if the stream ends with it.
    pub(crate) fn of(&self, item: &FeedItem) -> Result<Vec<Event>> {
        match &item.change {
            Change::Item(record) => {
                let event = self.of_record(item, record)?;
                Ok(event.into_iter().collect())
            }
            Change::Container(control) => Ok(self.of_control(item, control)),
        }
    }

    fn of_record(&self, item: &FeedItem, record: &ChangeRecord) -> Result<Option<Event>> {
        if !self.shows(&item.term.name) {
            return Ok(None);
        }
        let mut looks_up = false;
        let (operation, described) = match record.kind {
            ChangeKind::Insert | ChangeKind::Replace => {
                let collection = Collection::decode(&item.term.schema)?;
                let raw = RawDocument::from_bytes(&record.payload)?;
                let described = doc! {
                    "fullDocument": decode(&record.payload)?,
                    "ns": namespace(&item.term.name),
                    "documentKey": key::of(&collection, raw)?,
                };
                let is_insert = record.kind == ChangeKind::Insert;
                (if is_insert { "insert" } else { "replace" }, described)
            }
            ChangeKind::Update => {
                looks_up = self.options.looks_up;
                let payload = Payload::decode(&record.payload)?;
                let mut described = key_of_change(item, payload.key);
                let mut description = payload.description.unwrap_or_default();
                if !self.options.is_expanded {
                    description.remove("disambiguatedPaths");
                }
                described.insert("updateDescription", description);
                ("update", described)
            }
            ChangeKind::Delete | ChangeKind::Expire => {
                let payload = Payload::decode(&record.payload)?;
                ("delete", key_of_change(item, payload.key))
            }
            // No statement of MongoDB is written as one.
            ChangeKind::Operation => return Ok(None),
        };
        let token = Token::event(item.position);
        let mut document = self.begun(token, operation, record.wall_ms);
        if let Some(note) = &record.note {
            add_transaction(&mut document, note);
        }
        document.extend(described);
        Ok(Some(Event {
            token,
            document,
            looks_up,
            is_end: false,
        }))
    }

    fn of_control(&self, item: &FeedItem, control: &Control) -> Vec<Event> {
        let before = control.renamed_from.as_ref().unwrap_or(&control.name);
        if !self.shows(before) {
            return Vec::new();
        }
        let (operation, described, is_end) = match control.event {
            Happened::Dropped => {
                let described = doc! { "ns": namespace(before) };
                ("drop", described, self.follows_one_collection())
            }
            Happened::Renamed => {
                let to = namespace(&control.name);
                let described = doc! { "ns": namespace(before), "to": to };
                ("rename", described, self.follows_one_collection())
            }
            Happened::DatabaseDropped => {
                let described = doc! { "ns": { "db": before.database.clone() } };
                let is_end = matches!(self.options.scope, Scope::Database(_));
                ("dropDatabase", described, is_end)
            }
            // Expanded events are not told yet; partitions and the feed itself are no news.
            Happened::Begun
            | Happened::Created
            | Happened::Altered
            | Happened::Repartitioned
            | Happened::Truncated
            | Happened::Relocated
            | Happened::Ended => return Vec::new(),
        };
        let event = |token: Token, operation: &str, described: Document, is_end: bool| {
            let mut document = self.begun(token, operation, control.wall_ms);
            document.extend(described);
            Event {
                token,
                document,
                looks_up: false,
                is_end,
            }
        };
        let told = event(Token::event(item.position), operation, described, false);
        let end = is_end.then(|| {
            let token = Token::invalidate(item.position);
            event(token, "invalidate", Document::new(), true)
        });
        [Some(told), end].into_iter().flatten().collect()
    }

    /// What every event begins with.
    fn begun(&self, token: Token, operation: &str, wall_ms: u64) -> Document {
        let wall_ms = i64::try_from(wall_ms).unwrap_or(i64::MAX);
        doc! {
            "_id": token.document(),
            "operationType": operation,
            "clusterTime": timestamp(self.clock.time_of(token.position.stamp)),
            "wallTime": DateTime::from_millis(wall_ms),
        }
    }

    fn follows_one_collection(&self) -> bool {
        matches!(self.options.scope, Scope::Collection(_))
    }

    /// Whether a change of this container is told: of another collection of the database it is not,
    /// and of those that only the server writes neither.
    fn shows(&self, name: &ContainerName) -> bool {
        let is_internal = ["admin", "config", "local"].contains(&name.database.as_str())
            || name.container.starts_with("system.");
        match &self.options.scope {
            Scope::Collection(watched) => watched.container == *name,
            Scope::Database(database) => name.database == *database && !is_internal,
            Scope::Cluster => !is_internal,
        }
    }
}

/// A time of the feed as MongoDB writes it.
pub(crate) fn timestamp(time: FeedTime) -> Timestamp {
    Timestamp {
        time: u32::try_from(time.seconds).unwrap_or(u32::MAX),
        increment: time.increment,
    }
}

fn namespace(name: &ContainerName) -> Document {
    doc! { "db": name.database.clone(), "coll": name.container.clone() }
}

fn key_of_change(item: &FeedItem, key: Document) -> Document {
    doc! { "ns": namespace(&item.term.name), "documentKey": key }
}

/// The session of a transaction, in the form in which a statement notes it: its number and the hash
/// of its owner.
fn add_transaction(document: &mut Document, note: &Annotation) {
    let (Some(number), Some((id, owner))) = (note.transaction, note.session.split_at_checked(16))
    else {
        return;
    };
    let binary = |subtype, bytes: &[u8]| {
        Bson::Binary(Binary {
            subtype,
            bytes: bytes.to_vec(),
        })
    };
    let lsid = doc! {
        "id": binary(bson::spec::BinarySubtype::Uuid, id),
        "uid": binary(bson::spec::BinarySubtype::Generic, owner),
    };
    document.insert("lsid", lsid);
    document.insert("txnNumber", i64::try_from(number).unwrap_or(i64::MAX));
}
