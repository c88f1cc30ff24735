//! Turning feeds on: of one container, of those of a database, or of all of an API.
//!
//! A scope that is followed as a whole has a feed of its own, which tells of each commit which
//! feeds of its containers it wrote to. New containers inherit that; those that are there are
//! switched on one by one, and whoever follows begins behind the last.

use serde::{Deserialize, Serialize};

use super::control::{Control, Event};
use super::definition::{FeedDefinition, FeedId, Images};
use super::position::Position;
use super::registry::{self, FeedEntry};
use super::waking::FeedAlarm;
use crate::container::Container;
use crate::definition::Definition;
use crate::encoding::put_bytes;
use crate::error::{Error, Result};
use crate::key::{self, system};
use crate::name::ContainerName;
use crate::store::Store;
use crate::transaction::Transaction;
use crate::write_set::WriteSet;

/// What is followed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FeedScope {
    /// One container.
    Container(ContainerName),
    /// All containers of a database, also those that are still to come.
    Database {
        /// The front end.
        api: String,
        /// The database.
        database: String,
    },
    /// All containers of a front end.
    Api(String),
}

impl FeedScope {
    /// As a name whose parts behind it are empty.
    fn name(&self) -> ContainerName {
        match self {
            Self::Container(name) => name.clone(),
            Self::Database { api, database } => ContainerName::new(api, database, ""),
            Self::Api(api) => ContainerName::new(api, "", ""),
        }
    }
}

/// What is asked of a feed. Wishes add up: nobody loses what another one asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedWish {
    /// Which bodies its entries carry.
    pub images: Images,
    /// For how long it is kept.
    pub retention_ms: Option<u64>,
    /// Whether it stays on though nobody follows.
    pub is_kept: bool,
}

impl FeedWish {
    fn is_met_by(&self, feed: &FeedDefinition) -> bool {
        feed.images.or(self.images) == feed.images
            && (feed.is_kept || !self.is_kept)
            && self
                .retention_ms
                .is_none_or(|_| feed.retention_ms == self.retention_ms)
    }

    fn add_to(&self, feed: &mut FeedDefinition) {
        feed.images = feed.images.or(self.images);
        feed.is_kept |= self.is_kept;
        feed.retention_ms = self.retention_ms.or(feed.retention_ms);
    }
}

/// A feed that is on, and where it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    /// The feed.
    pub feed: FeedId,
    /// Behind all commits that were answered before it was asked for.
    pub position: Position,
}

/// What is stored of a scope that is followed.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ScopePolicy {
    feed: FeedId,
    #[serde(default)]
    images: Images,
    #[serde(default)]
    retention_ms: Option<u64>,
}

impl Store {
    /// Follows a scope from now on: turns on what is not.
    pub async fn follow(&self, scope: &FeedScope, wish: &FeedWish) -> Result<Followed> {
        self.prepare_feeds().await?;
        let feed = match scope {
            FeedScope::Container(name) => self.turn_on(name, *wish, None).await?,
            FeedScope::Database { .. } | FeedScope::Api(_) => {
                self.turn_on_scope(&scope.name(), *wish).await?
            }
        };
        self.note_follower(feed).await?;
        Ok(Followed {
            feed,
            position: self.feed_end().await?,
        })
    }

    /// The feed of a scope, if it is on.
    pub async fn feed_of(&self, scope: &FeedScope) -> Result<Option<FeedId>> {
        let mut transaction = self.begin().await?;
        match scope {
            FeedScope::Container(name) => {
                let container = transaction.container(name).await?;
                Ok(container.definition.feed.as_ref().map(|feed| feed.number))
            }
            FeedScope::Database { .. } | FeedScope::Api(_) => {
                let policy = policy(&transaction, &scope.name()).await?;
                Ok(policy.map(|policy| policy.feed))
            }
        }
    }

    /// Behind all commits that were answered before.
    pub async fn feed_end(&self) -> Result<Position> {
        let snapshot = self.engine().snapshot().await?;
        let settled = snapshot.settled().await?;
        if settled.through < settled.newest && !self.engine().capabilities().shared {
            // What a power cut may take away must not be skipped when its numbers come again.
            let mut nothing = WriteSet::default();
            nothing.demand_sync();
            snapshot.commit(nothing).await?;
        }
        Ok(Position::at(settled.newest))
    }

    /// Hears what is added to a feed.
    pub fn feed_alarm(&self, feed: FeedId) -> FeedAlarm {
        let is_shared = self.engine().capabilities().shared;
        FeedAlarm::new(self.feeds(), feed, self.clock().now_ms(), is_shared)
    }

    /// Sets what a container's definition asks of its feed: exactly that, where [`Self::follow`]
    /// only adds.
    pub async fn configure_feed(&self, name: &ContainerName, wish: FeedWish) -> Result<()> {
        self.prepare_feeds().await?;
        let number = self.take_storage_id().await?;
        self.alter(name, move |transaction, mut draft| {
            Box::pin(async move {
                let inherited = inherited(transaction, &draft.name).await?;
                let feed = &mut draft.definition.feed;
                let feed = feed.get_or_insert_with(|| FeedDefinition::new(number));
                feed.images = Images::default();
                (feed.is_kept, feed.retention_ms) = (false, None);
                inherited.add_to(feed);
                wish.add_to(feed);
                registry::note_retention(transaction, feed).await?;
                Ok(draft)
            })
        })
        .await
        .map(|_| ())
    }

    /// Turns the feed of a container off. What it has stays for as long as it is kept.
    pub async fn turn_off_feed(&self, name: &ContainerName) -> Result<()> {
        self.alter(name, |_, mut draft| {
            draft.definition.feed = None;
            Box::pin(async move { Ok(draft) })
        })
        .await
        .map(|_| ())
    }

    /// Tells the feeds of a database, and of its API, that it was dropped. Nothing, if nobody
    /// follows them.
    pub async fn note_database_dropped(&self, api: &str, database: &str) -> Result<()> {
        let name = ContainerName::new(api, database, "");
        let noted = self.run(&[], move |transaction| {
            let name = name.clone();
            Box::pin(async move {
                let now_ms = transaction.now_ms;
                for scope in [name.clone(), ContainerName::new(&name.api, "", "")] {
                    if let Some(policy) = policy(transaction, &scope).await? {
                        // Its own directory, so that whoever follows it looks.
                        let mut feed = FeedDefinition::new(policy.feed);
                        feed.scopes = vec![policy.feed];
                        let event = Control::new(Event::DatabaseDropped, now_ms, &name);
                        transaction.append_control(&feed, &event)?;
                    }
                }
                Ok::<_, Error>(())
            })
        });
        noted.await.map(|_| ())
    }

    /// Turns the feed of a container on as it is wished, and as the scope wishes that it joins.
    async fn turn_on(
        &self,
        name: &ContainerName,
        wish: FeedWish,
        scope: Option<FeedId>,
    ) -> Result<FeedId> {
        if name.is_bookkeeping() {
            return Err(Error::Rejected(
                "what a front end keeps for itself has no feed".into(),
            ));
        }
        let container = self.begin().await?.container(name).await?;
        let is_met = |feed: &&FeedDefinition| {
            wish.is_met_by(feed) && scope.is_none_or(|scope| feed.scopes.contains(&scope))
        };
        let met = container.definition.feed.as_ref().filter(is_met);
        if let Some(feed) = met {
            return Ok(feed.number);
        }
        let number = self.take_storage_id().await?;
        let altered = self.alter(name, move |transaction, mut draft| {
            Box::pin(async move {
                let inherited = inherited(transaction, &draft.name).await?;
                let feed = &mut draft.definition.feed;
                let feed = feed.get_or_insert_with(|| FeedDefinition::new(number));
                inherited.add_to(feed);
                wish.add_to(feed);
                registry::note_retention(transaction, feed).await?;
                Ok(draft)
            })
        });
        feed_number(altered.await?.as_ref())
    }

    async fn turn_on_scope(&self, scope: &ContainerName, wish: FeedWish) -> Result<FeedId> {
        let number = self.take_storage_id().await?;
        let name = scope.clone();
        let noted = self.run(&[], move |transaction| {
            let name = name.clone();
            Box::pin(async move {
                let known = policy(transaction, &name).await?;
                let new = ScopePolicy {
                    feed: number,
                    images: Images::default(),
                    retention_ms: None,
                };
                let mut policy = known.unwrap_or(new);
                policy.images = policy.images.or(wish.images);
                policy.retention_ms = wish.retention_ms.or(policy.retention_ms);
                let json = serde_json::to_vec(&policy);
                let json = json.map_err(|error| Error::Internal(error.to_string()))?;
                transaction.writes.put(policy_key(&name), json.into());
                let entry = FeedEntry::new(name.clone(), policy.retention_ms);
                entry.save(transaction, policy.feed)?;
                Ok::<_, Error>(policy.feed)
            })
        });
        let feed = noted.await?.value;
        let database = Some(scope.database.as_str()).filter(|database| !database.is_empty());
        for name in self.list_containers(&scope.api, database).await? {
            match self.turn_on(&name, wish, Some(feed)).await {
                // It went away meanwhile, or cannot be read: then nothing happens to it.
                Ok(_) | Err(Error::NotFound(_) | Error::Corrupt(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(feed)
    }

    /// Turns on the feeds of containers from before it was asked that all have one.
    pub(crate) async fn turn_on_all_feeds(&self) -> Result<()> {
        if !self.feed_options().always {
            return Ok(());
        }
        self.prepare_feeds().await?;
        for name in self.all_containers().await? {
            match self.turn_on(&name, FeedWish::default(), None).await {
                Ok(_) | Err(Error::NotFound(_) | Error::Corrupt(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// What must be so before the first feed is on: a server that knows nothing of feeds can no
    /// longer be started on this data, and the engine has room.
    pub(crate) async fn prepare_feeds(&self) -> Result<()> {
        if self.feeds().is_prepared() {
            return Ok(());
        }
        self.engine().snapshot().await?.settled().await?;
        self.engine().tend_log(0).await?;
        self.mark_format_of_feeds().await?;
        // What is followed from now on has a time from its first entry on.
        self.mark_feed_clock().await?;
        self.feeds().set_prepared();
        Ok(())
    }
}

fn feed_number(container: &Container) -> Result<FeedId> {
    let feed = container.definition.feed.as_ref();
    let lost = || Error::Internal("a feed that was turned on is missing".into());
    Ok(feed.ok_or_else(lost)?.number)
}

/// What the scopes of a container ask of its feed.
#[derive(Default)]
pub(crate) struct Inherited {
    scopes: Vec<FeedId>,
    wish: FeedWish,
    is_always: bool,
}

impl Inherited {
    fn add_to(&self, feed: &mut FeedDefinition) {
        feed.scopes.clone_from(&self.scopes);
        self.wish.add_to(feed);
    }

    /// Gives a container that comes into being, or into another database, what it inherits there.
    pub(crate) fn apply_to(&self, definition: &mut Definition, number: FeedId) {
        if definition.feed.is_none() && self.scopes.is_empty() && !self.is_always {
            return;
        }
        let feed = &mut definition.feed;
        self.add_to(feed.get_or_insert_with(|| FeedDefinition::new(number)));
    }
}

/// Gives a feed what the schema of its container asks for, and turns it on under this number if it
/// is off.
pub(crate) async fn meet_schema(
    transaction: &Transaction,
    name: &ContainerName,
    (definition, number): (&mut Definition, FeedId),
) -> Result<()> {
    let store = transaction.store.clone();
    let schema_images = store
        .catalog()
        .model(&name.api)
        .images(&definition.schema)?;
    if schema_images.is_none() && definition.feed.is_none() {
        return Ok(());
    }
    if definition.feed.is_none() {
        store.prepare_feeds().await?;
    }
    let feed = &mut definition.feed;
    feed.get_or_insert_with(|| FeedDefinition::new(number))
        .schema_images = schema_images;
    Ok(())
}

/// What a container of this name inherits. The commit depends on it: one that comes into being
/// while that changes would not be told.
pub(crate) async fn inherited(
    transaction: &mut Transaction,
    name: &ContainerName,
) -> Result<Inherited> {
    let mut inherited = Inherited::default();
    if name.is_bookkeeping() {
        return Ok(inherited);
    }
    inherited.is_always = transaction.store.feed_options().always;
    for database in [name.database.as_str(), ""] {
        let scope = ContainerName::new(&name.api, database, "");
        transaction.writes.guard(policy_key(&scope));
        if let Some(policy) = policy(transaction, &scope).await? {
            inherited.scopes.push(policy.feed);
            inherited.wish.images = inherited.wish.images.or(policy.images);
            let retention_ms = inherited.wish.retention_ms;
            inherited.wish.retention_ms = retention_ms.max(policy.retention_ms);
        }
    }
    Ok(inherited)
}

async fn policy(transaction: &Transaction, scope: &ContainerName) -> Result<Option<ScopePolicy>> {
    let stored = transaction.get(&policy_key(scope)).await?;
    let damaged = |error| Error::Corrupt(format!("the feed of a database: {error}"));
    let policy = stored.map(|stored| serde_json::from_slice(&stored).map_err(damaged));
    policy.transpose()
}

/// Forgets that a scope was followed.
pub(crate) fn forget_policy(transaction: &mut Transaction, scope: &ContainerName) {
    transaction.writes.delete(policy_key(scope));
}

fn policy_key(scope: &ContainerName) -> bytes::Bytes {
    let mut rest = Vec::new();
    put_bytes(&mut rest, scope.api.as_bytes());
    put_bytes(&mut rest, scope.database.as_bytes());
    key::system_key(system::FEED_POLICY, &rest)
}

impl Store {
    /// Notes that a feed has somebody who follows it.
    pub(crate) async fn note_follower(&self, feed: FeedId) -> Result<()> {
        let now_ms = self.clock().now_ms();
        if !self.feeds().is_news(feed, now_ms) {
            return Ok(());
        }
        let noted = self.run(&[], move |transaction| {
            registry::set_seen(transaction, feed, now_ms);
            Box::pin(async { Ok::<_, Error>(()) })
        });
        noted.await.map(|_| ())
    }
}
