//! Executing one change: a single document in one transaction, many in steps; a retried statement
//! is not executed again.

use std::sync::Arc;

use bson::{Bson, Document, doc};
use tessera_core::Transaction;
use tessera_core::locator::Locator;
use tessera_mongo_language::error::Code;

use crate::collection::{Collection, Namespace, place};
use crate::commands::insert::missing;
use crate::data::Data;
use crate::failure::{Failure, Result};
use crate::plan::clause::Conditions;
use crate::plan::predicate;
use crate::session::Session;
use crate::transaction::Scope;
use crate::write::change::{Change, Changed, Kind, Progress, STEP, lost_race};
use crate::write::retry::{Numbered, Record};
use crate::write::target::{Target, create_if_missing};
use crate::write::throttle::Throttle;

/// How often an upsert that lost its race looks again.
const MAX_RACES: usize = 10;

/// A change with where it goes.
pub(crate) struct Changing {
    pub(crate) namespace: Namespace,
    pub(crate) change: Arc<Change>,
    /// The number of the command and of the statement, if the client may send it again.
    pub(crate) numbered: Option<(Numbered, i32)>,
    /// Whether the document before and after is part of the answer, and so of what is kept.
    pub(crate) keeps_images: bool,
}

/// What a change did, for the reply.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    pub(crate) matched: u64,
    pub(crate) modified: u64,
    pub(crate) upserted: Option<Bson>,
    /// The document before and after, of a change of a single one.
    pub(crate) before: Option<Document>,
    pub(crate) after: Option<Document>,
    pub(crate) position: Option<usize>,
    /// Whether it had been done before, and this is what it did then.
    pub(crate) retried: bool,
    /// What kept it from changing all that it was to change.
    pub(crate) stopped: Option<Failure>,
}

impl Changing {
    /// The collection that changes go to, as it is now.
    pub(crate) async fn collection(
        data: &Data,
        scope: &mut Scope,
        namespace: &Namespace,
    ) -> Result<Option<Arc<Collection>>> {
        let mut reader = scope.reader(data).await?;
        let target = Target::for_write(data, &mut reader, namespace).await?;
        Ok(target.map(|target| target.collection))
    }

    /// Does all of it. One of many documents may be stopped on its way.
    pub(crate) async fn run(
        &self,
        data: &Data,
        session: &mut Session,
        scope: &mut Scope,
        throttle: &mut Throttle,
    ) -> Result<Changes> {
        let mut races = 0;
        loop {
            let done = if self.change.multi {
                self.run_many(data, session, scope, throttle).await
            } else {
                self.run_one(data, session, scope).await
            };
            match done {
                Err(failure) if failure.code() == Code::NAMESPACE_NOT_FOUND => {
                    if !matches!(self.change.kind, Kind::Update { upsert: true, .. }) {
                        return Ok(Changes::default());
                    }
                    create_if_missing(data, scope, &self.namespace).await?;
                }
                Err(failure) if lost_race(&self.change, &failure) && !scope.is_joined() => {
                    races += 1;
                    if races > MAX_RACES || !self.is_there_now(data, scope).await? {
                        return Err(failure);
                    }
                }
                Err(failure) if throttle.wait(&failure).await => {}
                done => {
                    let is_changed = done.as_ref().is_ok_and(Changes::is_some);
                    if is_changed && !scope.is_joined() {
                        throttle.begin();
                    }
                    return done;
                }
            }
        }
    }

    /// Whether the query finds something by now.
    async fn is_there_now(&self, data: &Data, scope: &mut Scope) -> Result<bool> {
        let mut reader = scope.reader(data).await?;
        let target = Target::for_write(data, &mut reader, &self.namespace).await?;
        let Some(target) = target else {
            return Ok(false);
        };
        let query = &self.change.query;
        let plan = query
            .plan(&mut reader, &target.container, &target.collection)
            .await?;
        let mut execution = crate::execute::Execution::new(Arc::clone(query), plan);
        Ok(execution
            .next(&mut reader, &target.container, 1)
            .await?
            .is_some())
    }

    async fn run_one(
        &self,
        data: &Data,
        session: &mut Session,
        scope: &mut Scope,
    ) -> Result<Changes> {
        let place = self.place();
        let items = place
            .as_ref()
            .map(|place| (&self.namespace.container, place));
        let (handle, namespace) = (data.clone(), self.namespace.clone());
        let (change, numbered) = (Arc::clone(&self.change), self.numbered);
        let keeps_images = self.keeps_images;
        // As in MongoDB: what moves a document must not be done twice, nor by halves.
        let may_move = numbered.is_some() || scope.is_joined();
        let written = scope.write(data, session, items.as_slice(), move |transaction| {
            let (data, namespace) = (handle.clone(), namespace.clone());
            let change = Arc::clone(&change);
            Box::pin(async move {
                let one = One {
                    data: &data,
                    namespace: &namespace,
                    change: &change,
                    may_move,
                };
                one.run(transaction, numbered, keeps_images).await
            })
        });
        written.await
    }

    /// Where the only document lies that the query can find: writers of it wait for each other.
    fn place(&self) -> Option<Locator> {
        let query = &self.change.query;
        let clause = predicate::clause(&query.filter, query.collation());
        let id = Conditions::of(&clause).equality("_id", query.collation())?;
        Some(place::usual(&id))
    }

    async fn run_many(
        &self,
        data: &Data,
        session: &mut Session,
        scope: &mut Scope,
        throttle: &mut Throttle,
    ) -> Result<Changes> {
        let mut total = Changed::default();
        let mut progress: Arc<Option<Progress>> = Arc::default();
        loop {
            let (handle, namespace) = (data.clone(), self.namespace.clone());
            let (change, before) = (Arc::clone(&self.change), Arc::clone(&progress));
            let written = scope.write(data, session, &[], move |transaction| {
                let (data, namespace) = (handle.clone(), namespace.clone());
                let (change, before) = (Arc::clone(&change), Option::clone(&before));
                Box::pin(async move {
                    let one = One {
                        data: &data,
                        namespace: &namespace,
                        change: &change,
                        may_move: false,
                    };
                    one.step(transaction, before).await
                })
            });
            let (changed, next) = match written.await {
                Err(failure) if throttle.wait(&failure).await => continue,
                // Steps before this one were committed, unless the transaction ends with this one.
                Err(failure)
                    if failure.is_throttled() && total.matched > 0 && !scope.is_joined() =>
                {
                    let failure = failure.after_writing(total.modified);
                    return Ok(Changes {
                        stopped: Some(failure),
                        ..Changes::of(total)
                    });
                }
                written => written?,
            };
            total.add(changed);
            if total.matched > 0 && !scope.is_joined() {
                throttle.begin();
            }
            if next.is_done {
                break;
            }
            progress = Arc::new(Some(next));
        }
        if total.matched == 0 {
            return self.upsert_many(data, session, scope).await;
        }
        Ok(Changes::of(total))
    }

    /// Inserts for an update of many that found none, if it is to.
    async fn upsert_many(
        &self,
        data: &Data,
        session: &mut Session,
        scope: &mut Scope,
    ) -> Result<Changes> {
        if !matches!(self.change.kind, Kind::Update { upsert: true, .. }) {
            return Ok(Changes::default());
        }
        self.run_one(data, session, scope).await
    }
}

/// One transaction of a change.
struct One<'a> {
    data: &'a Data,
    namespace: &'a Namespace,
    change: &'a Change,
    may_move: bool,
}

impl One<'_> {
    async fn target(&self, transaction: &mut Transaction) -> Result<Target> {
        let target = Target::for_write(self.data, transaction, self.namespace).await?;
        let target = target.ok_or_else(|| missing(self.namespace))?;
        Ok(Target {
            may_move: self.may_move,
            ..target
        })
    }

    async fn run(
        &self,
        transaction: &mut Transaction,
        numbered: Option<(Numbered, i32)>,
        keeps_images: bool,
    ) -> Result<Changes> {
        let target = self.target(transaction).await?;
        let Some((numbered, statement)) = numbered else {
            let changed = self
                .change
                .change_one(self.data, transaction, &target)
                .await?;
            return Ok(Changes::of(changed));
        };
        let mut record = Record::load(self.data, transaction, numbered).await?;
        if let Some(answer) = record.answer(statement) {
            return Ok(Changes::recorded(answer));
        }
        let changed = self
            .change
            .change_one(self.data, transaction, &target)
            .await?;
        let changes = Changes::of(changed);
        record.note(statement, changes.record(keeps_images));
        record.save(transaction).await?;
        Ok(changes)
    }

    async fn step(
        &self,
        transaction: &mut Transaction,
        before: Option<Progress>,
    ) -> Result<(Changed, Progress)> {
        let target = self.target(transaction).await?;
        let mut progress = match before {
            Some(before) => before,
            None => self.change.begin(transaction, &target).await?,
        };
        let step = (&mut progress, STEP);
        let changed = self
            .change
            .step(self.data, transaction, &target, step)
            .await?;
        Ok((changed, progress))
    }
}

impl Changes {
    /// Whether it found or made anything.
    fn is_some(&self) -> bool {
        self.matched > 0 || self.upserted.is_some()
    }

    fn of(changed: Changed) -> Self {
        Self {
            matched: changed.matched,
            modified: changed.modified,
            upserted: changed.upserted,
            before: changed.before,
            after: changed.after,
            position: changed.position,
            retried: false,
            stopped: None,
        }
    }

    /// What is stored, to be answered again.
    fn record(&self, keeps_images: bool) -> Document {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let mut record = doc! { "n": number(self.matched), "m": number(self.modified) };
        if let Some(id) = &self.upserted {
            record.insert("u", id.clone());
        }
        for (name, image) in [("b", &self.before), ("a", &self.after)] {
            if let Some(image) = image.as_ref().filter(|_| keeps_images) {
                record.insert(name, image.clone());
            }
        }
        record
    }

    /// What was stored.
    fn recorded(record: &Document) -> Self {
        let number = |name| u64::try_from(record.get_i64(name).unwrap_or(0)).unwrap_or(0);
        Self {
            matched: number("n"),
            modified: number("m"),
            upserted: record.get("u").cloned(),
            before: record.get_document("b").ok().cloned(),
            after: record.get_document("a").ok().cloned(),
            position: None,
            retried: true,
            stopped: None,
        }
    }
}
