//! Changes of single entities: the checked request, and its execution in a transaction. A batch is
//! several of these in one transaction.

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{HeaderMap, IF_MATCH, IF_NONE_MATCH};
use tessera_core::container::Container;
use tessera_core::item::{Item, NewItem};
use tessera_core::transaction::Transaction;

use crate::address::EntityAddress;
use crate::auth::{Action, EntityName};
use crate::entity::{self, DateTime, Incoming, Limits, Stored, Value};
use crate::error::{Code, Result};
use crate::failure::Failure;
use crate::model;
use crate::operation::Update;
use crate::options::Format;

/// One change of one entity.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) entity: EntityAddress,
    pub(crate) kind: Kind,
}

/// The kind of change.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Insert(Properties),
    /// With a condition, the entity must exist; without one, it is created if it does not.
    Update(Update, Properties, Option<Condition>),
    Delete(Condition),
}

type Properties = Arc<[(String, Value<'static>)]>;

/// The condition in `If-Match`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// `*`: the entity exists.
    Exists,
    /// The entity has this ETag; an ETag of another form matches nothing.
    Unchanged(Option<DateTime>),
}

impl Condition {
    /// The condition in a request's headers.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Option<Self>> {
        if headers.contains_key(IF_NONE_MATCH) {
            let why = "If-None-Match is not supported by this operation";
            return Err(Code::InvalidInput.because(why));
        }
        let Some(value) = headers.get(IF_MATCH) else {
            return Ok(None);
        };
        match value.to_str().unwrap_or_default().trim() {
            "*" => Ok(Some(Self::Exists)),
            etag => Ok(Some(Self::Unchanged(entity::parse_etag(etag)?))),
        }
    }

    fn check(self, stored: &Item) -> Result<()> {
        match self {
            Self::Exists => Ok(()),
            Self::Unchanged(Some(etag)) if etag == DateTime::from_version(stored.version) => Ok(()),
            Self::Unchanged(_) => Err(Code::UpdateConditionNotSatisfied.into()),
        }
    }
}

/// Reads an entity from a request's body.
pub(crate) fn read_body(format: Format, body: &[u8]) -> Result<Incoming> {
    match format {
        Format::Json(_) => Incoming::from_json(body),
        Format::Atom => Incoming::from_atom(body),
    }
}

impl Change {
    /// The insertion of the entity in a request's body.
    pub(crate) fn insert(table: String, incoming: Incoming, limits: &Limits) -> Result<Self> {
        let (Some(partition_key), Some(row_key)) = (incoming.partition_key, incoming.row_key)
        else {
            let why = "an entity needs a PartitionKey and a RowKey";
            return Err(Code::PropertiesNeedValue.because(why));
        };
        let entity = EntityAddress {
            table,
            partition_key,
            row_key,
        };
        let kind = Kind::Insert(incoming.properties.into());
        Self { entity, kind }.checked(limits)
    }

    /// The update of an addressed entity. Keys in the body are those of the address, or wrong.
    pub(crate) fn update(
        entity: EntityAddress,
        update: Update,
        incoming: Incoming,
        condition: Option<Condition>,
        limits: &Limits,
    ) -> Result<Self> {
        let differs = |sent: &Option<String>, key: &str| {
            sent.as_ref()
                .is_some_and(|sent| !sent.is_empty() && sent != key)
        };
        if differs(&incoming.partition_key, &entity.partition_key)
            || differs(&incoming.row_key, &entity.row_key)
        {
            let why = "the keys in the body are not those in the URL, and the keys of an entity \
                       cannot be changed";
            return Err(Code::InvalidInput.because(why));
        }
        let kind = Kind::Update(update, incoming.properties.into(), condition);
        Self { entity, kind }.checked(limits)
    }

    fn checked(self, limits: &Limits) -> Result<Self> {
        if let Kind::Insert(properties) | Kind::Update(_, properties, _) = &self.kind {
            let (partition_key, row_key) = (&self.entity.partition_key, &self.entity.row_key);
            limits.check_keys(partition_key, row_key)?;
            limits.check_properties(properties)?;
            let stored = properties.iter().map(|(name, value)| (name, value));
            limits.check_entity(partition_key, row_key, stored)?;
        }
        Ok(self)
    }

    /// The action that authorization must allow.
    pub(crate) fn action(&self) -> Action<'_> {
        let entity = EntityName::of(&self.entity);
        match &self.kind {
            Kind::Insert(_) => Action::InsertEntity(entity),
            Kind::Update(Update::Replace, _, Some(_)) => Action::UpdateEntity(entity),
            Kind::Update(Update::Merge, _, Some(_)) => Action::MergeEntity(entity),
            Kind::Update(_, _, None) => Action::UpsertEntity(entity),
            Kind::Delete(_) => Action::DeleteEntity(entity),
        }
    }

    /// Executes the change. Returns the entity as stored; none if it was deleted.
    pub(crate) async fn apply(
        &self,
        transaction: &mut Transaction,
        container: &Arc<Container>,
        limits: &Limits,
    ) -> std::result::Result<Option<Item>, Failure> {
        let locator = model::locator(&self.entity.partition_key, &self.entity.row_key);
        let (update, properties, condition) = match &self.kind {
            Kind::Insert(properties) => {
                let new = NewItem::new(locator, entity::encode(properties));
                return Ok(Some(transaction.insert(container, new).await?));
            }
            Kind::Delete(condition) => {
                let stored = transaction.read(container, &locator).await?;
                let stored = stored.ok_or(Code::ResourceNotFound)?;
                condition.check(&stored)?;
                transaction.remove(container, &stored).await?;
                return Ok(None);
            }
            Kind::Update(update, properties, condition) => (*update, properties, condition),
        };
        let entry = transaction.look(container, &locator).await?;
        let body = match (entry.visible(), condition) {
            (None, Some(_)) => return Err(Code::ResourceNotFound.into()),
            (None, None) => entity::encode(properties),
            (Some(stored), condition) => {
                condition.map_or(Ok(()), |condition| condition.check(stored))?;
                match update {
                    Update::Replace => entity::encode(properties),
                    Update::Merge => self.merged(stored, properties, limits)?,
                }
            }
        };
        let new = NewItem::new(locator, body);
        Ok(Some(transaction.put(container, &entry, new).await?))
    }

    /// The stored properties merged with the changed ones, which together may exceed a limit.
    fn merged(&self, stored: &Item, changes: &Properties, limits: &Limits) -> Result<Bytes> {
        let merged = entity::merge(&stored.body, changes).ok_or(Code::InternalError)?;
        let properties = Stored::new(&merged).ok_or(Code::InternalError)?;
        let EntityAddress {
            partition_key,
            row_key,
            ..
        } = &self.entity;
        limits.check_entity(partition_key, row_key, properties.iter())?;
        Ok(merged)
    }
}
