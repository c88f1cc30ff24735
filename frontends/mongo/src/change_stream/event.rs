//! Events: a change of the feed as a document.

use bson::{Binary, Bson, DateTime, Document, RawDocument, Timestamp, doc};
use tessera_core::feed::control::{Control, Event as Happened};
use tessera_core::feed::reader::{Change, FeedItem};
use tessera_core::feed::record::{Annotation, ChangeKind, ChangeRecord};
use tessera_core::feed::time::{FeedClock, FeedTime};
use tessera_core::name::ContainerName;

use crate::change_stream::expanded::{self, Told};
use crate::change_stream::images::{Image, Missing};
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
    /// What the stream cannot go on without.
    pub(crate) missing: Option<Missing>,
    /// How many of its fragments the client was told already.
    pub(crate) told_fragments: usize,
    /// Whether the stream ends with it.
    pub(crate) is_end: bool,
}

/// Makes events of what a page of the feed has.
pub(crate) struct Events<'a> {
    pub(crate) options: &'a Options,
    pub(crate) clock: &'a FeedClock,
    /// Documents from before are no longer shown, if they are kept.
    pub(crate) images_since_ms: u64,
}

impl Events<'_> {
    /// The events of one entry: none, one, or several.
    pub(crate) fn of(&self, item: &FeedItem) -> Result<Vec<Event>> {
        match &item.change {
            Change::Item(record) => {
                let event = self.of_record(item, record)?;
                Ok(event.into_iter().collect())
            }
            Change::Container(control) => self.of_control(item, control),
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
                looks_up = self.options.images.after == Image::LookedUp;
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
        let mut document = self.begun(item, token, (operation, record.wall_ms))?;
        if let Some(note) = &record.note {
            add_transaction(&mut document, note);
        }
        document.extend(described);
        let images = self.options.images;
        let missing = images.add_to(&mut document, record, self.images_since_ms)?;
        Ok(Some(Event {
            token,
            document,
            looks_up,
            missing,
            told_fragments: 0,
            is_end: false,
        }))
    }

    fn of_control(&self, item: &FeedItem, control: &Control) -> Result<Vec<Event>> {
        let before = control.renamed_from.as_ref().unwrap_or(&control.name);
        if !self.shows(before) {
            return Ok(Vec::new());
        }
        let is_expanded = self.options.is_expanded;
        let of_one = self.follows_one_collection();
        let (operation, described, is_end) = match control.event {
            // Without expanded events views come and go in silence, as in MongoDB.
            Happened::Dropped if !is_expanded && is_of_view(item)? => return Ok(Vec::new()),
            Happened::Dropped => ("drop", doc! { "ns": namespace(before) }, of_one),
            Happened::Renamed => ("rename", self.renaming(before, control)?, of_one),
            Happened::DatabaseDropped => {
                let described = doc! { "ns": { "db": before.database.clone() } };
                let is_end = matches!(self.options.scope, Scope::Database(_));
                ("dropDatabase", described, is_end)
            }
            Happened::Created => return self.of_definition(item, expanded::created(item)?),
            Happened::Altered | Happened::Relocated => {
                return self.of_definition(item, expanded::altered(item)?);
            }
            // Partitions and the feed itself are no news.
            Happened::Begun | Happened::Repartitioned | Happened::Truncated | Happened::Ended => {
                return Ok(Vec::new());
            }
        };
        let token = Token::event(item.position);
        let told = self.of_container(item, token, (operation, described))?;
        let end = match is_end {
            true => {
                let token = Token::invalidate(item.position);
                let event = self.of_container(item, token, ("invalidate", Document::new()))?;
                Some(Event {
                    is_end: true,
                    ..event
                })
            }
            false => None,
        };
        Ok([Some(told), end].into_iter().flatten().collect())
    }

    fn renaming(&self, from: &ContainerName, control: &Control) -> Result<Document> {
        let to = namespace(&control.name);
        let mut described = doc! { "ns": namespace(from), "to": to.clone() };
        if self.options.is_expanded {
            let mut description = doc! { "to": to };
            if let Some(schema) = &control.replaced {
                let replaced = Collection::decode(schema)?;
                description.insert("dropTarget", replaced.uuid_bson());
            }
            described.insert("operationDescription", description);
        }
        Ok(described)
    }

    /// What happened to a definition, as far as the stream is to tell it: each an event of its own.
    fn of_definition(&self, item: &FeedItem, told: Vec<Told>) -> Result<Vec<Event>> {
        let is_asked = |told: &Told| match told.is_of_system {
            true => self.options.shows_system,
            false => self.options.is_expanded,
        };
        let last = told.len().saturating_sub(1);
        let mut events = Vec::new();
        for (at, told) in told.into_iter().enumerate() {
            if !is_asked(&told) {
                continue;
            }
            // Whoever resumes behind one of several hears the rest.
            let token = match u32::try_from(at) {
                Ok(number) if at < last => Token::part(item.position, number),
                _ => Token::event(item.position),
            };
            let mut described = doc! {
                "ns": namespace(&item.term.name),
                "operationDescription": told.description,
            };
            if let Some(state) = told.state_before {
                described.insert("stateBeforeChange", state);
            }
            if told.operation == "create" {
                let is_view = is_of_view(item)?;
                described.insert("nsType", if is_view { "view" } else { "collection" });
            }
            events.push(self.of_container(item, token, (told.operation, described))?);
        }
        Ok(events)
    }

    fn of_container(
        &self,
        item: &FeedItem,
        token: Token,
        (operation, described): (&str, Document),
    ) -> Result<Event> {
        let wall_ms = item.change.wall_ms();
        let mut document = self.begun(item, token, (operation, wall_ms))?;
        document.extend(described);
        Ok(Event {
            token,
            document,
            looks_up: false,
            missing: None,
            told_fragments: 0,
            is_end: false,
        })
    }

    /// What every event begins with.
    fn begun(
        &self,
        item: &FeedItem,
        token: Token,
        (operation, wall_ms): (&str, u64),
    ) -> Result<Document> {
        let mut begun = doc! {
            "_id": token.document(),
            "operationType": operation,
            "clusterTime": timestamp(self.clock.time_of(token.position.stamp)),
        };
        if self.options.is_expanded
            && operation != "invalidate"
            && let Some(collection) = defined(item)?
            && collection.view.is_none()
        {
            begun.insert("collectionUUID", collection.uuid_bson());
        }
        let wall_ms = i64::try_from(wall_ms).unwrap_or(i64::MAX);
        begun.insert("wallTime", DateTime::from_millis(wall_ms));
        Ok(begun)
    }

    fn follows_one_collection(&self) -> bool {
        matches!(self.options.scope, Scope::Collection(_))
    }

    /// Whether a change of this container is told: of another collection of the database it is not,
    /// and of those that only the server writes neither.
    fn shows(&self, name: &ContainerName) -> bool {
        let is_internal = ["admin", "config", "local"].contains(&name.database.as_str())
            || (name.container.starts_with("system.") && !self.options.shows_system);
        match &self.options.scope {
            Scope::Collection(watched) => watched.container == *name,
            Scope::Database(database) => name.database == *database && !is_internal,
            Scope::Cluster => !is_internal,
        }
    }
}

/// The collection that a change concerns: as it was last, if it is gone.
fn defined(item: &FeedItem) -> Result<Option<Collection>> {
    let terms = [Some(&item.term), item.before.as_ref()];
    let mut schemas = terms.into_iter().flatten().map(|term| &term.schema);
    let schema = schemas.find(|schema| !schema.is_empty());
    Ok(schema
        .map(|schema| Collection::decode(schema))
        .transpose()?)
}

fn is_of_view(item: &FeedItem) -> Result<bool> {
    Ok(defined(item)?.is_some_and(|collection| collection.view.is_some()))
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

fn add_transaction(document: &mut Document, note: &Annotation) {
    if let Some((session, number)) = transaction_of(note) {
        document.insert("lsid", session);
        document.insert("txnNumber", number);
    }
}

/// The session and number of a transaction, in the form in which a statement notes it: its number
/// and the hash of its owner.
pub(crate) fn transaction_of(note: &Annotation) -> Option<(Document, i64)> {
    let number = note.transaction?;
    let (id, owner) = note.session.split_at_checked(16)?;
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
    Some((lsid, i64::try_from(number).unwrap_or(i64::MAX)))
}
