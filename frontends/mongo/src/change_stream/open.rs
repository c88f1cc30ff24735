//! Opening a stream: which feed has what is watched, turning it on if need be, and from where.

use bson::{Bson, Timestamp};
use tessera_core::feed::definition::FeedId;
use tessera_core::feed::policy::{FeedScope, FeedWish};
use tessera_core::feed::position::Position;
use tessera_core::feed::time::FeedTime;
use tessera_core::{Error as CoreError, Store};
use tessera_mongo_language::error::{Code, Error};
use tessera_mongo_language::pipeline::{Asked, Stage};

use crate::API;
use crate::aggregate::Aggregation;
use crate::aggregate::environment::{Environment, Handle, Within};
use crate::batch::{Batch, Turn};
use crate::change_stream::options::{Begin, Options, Scope};
use crate::change_stream::stream::{Stream, is_end, resumable};
use crate::change_stream::token::Token;
use crate::concern::Level;
use crate::cursor::{Cursor, Tail};
use crate::failure::{Failure, Result};
use crate::reply::Reply;
use crate::request::Request;
use crate::session::Session;
use crate::write::target::{Target, on_view};

/// The stages that may follow `$changeStream`: those that look at one event at a time.
const ALLOWED: &[&str] = &[
    "$addFields",
    "$match",
    "$project",
    "$redact",
    "$replaceRoot",
    "$replaceWith",
    "$set",
    "$unset",
];

/// The stage that splits events, which may only be the last one.
const SPLIT: &str = "$changeStreamSplitLargeEvent";

/// By how many seconds the first mark of a feed may be later than a time that is still told of.
const CLOCK_SLACK: u64 = 2;

/// By how many seconds the times of events may be behind the clock.
const MARKS_BEHIND: u64 = 11;

/// What is asked of a pipeline that begins with `$changeStream`; none of any other.
pub(crate) fn asked(aggregation: &Aggregation) -> Option<&Bson> {
    let stages = aggregation.pipeline.as_ref()?.stages();
    match stages.first()? {
        Stage::System(stage) if stage.asked == Asked::ChangeStream => Some(&stage.argument),
        _ => None,
    }
}

/// Opens a stream and answers its first batch.
pub(crate) async fn open(
    session: &mut Session,
    request: &Request<'_>,
    (aggregation, argument): (Aggregation, Bson),
    (size, shown): (usize, &str),
) -> Result<Reply> {
    let namespace = aggregation.namespace.clone();
    let splits = check_stages(&aggregation.stages)?;
    let pipeline = match aggregation.pipeline {
        Some(pipeline) => pipeline.without_leading(1).without_trailing(splits.into()),
        None => {
            return Err(Failure::new(
                Code::INTERNAL_ERROR,
                "a stream without its pipeline",
            ));
        }
    };
    let options = Options {
        splits,
        ..Options::parse(&argument, request.database, namespace.as_ref())?
    };
    check_level(request)?;
    let service = session.service();
    let (feed, begin) = begin(&service.store, session, &options)
        .await
        .map_err(resumable)?;
    let at = (request.database, namespace);
    let environment = Environment::new(session, at, false, Within::Now);
    let handle = Handle(std::sync::Arc::new(environment));
    let mut stream = Stream::new(options, (feed, begin), pipeline, handle.clone());
    let mut batch = Batch::new(Turn::First);
    let taken = stream.take(&mut batch, size).await;
    handle.0.settle(session);
    let done = taken?;
    let id = if done {
        0
    } else {
        let cursor = Cursor {
            namespace: shown.to_owned(),
            rows: Box::new(stream),
            owner: request.generic.owner,
            needs: session.needed.clone(),
            session: request.session(),
            transaction: None,
            never_expires: false,
            tail: Some(Tail {
                waits: true,
                ends: true,
            }),
            at: None,
        };
        service.data.cursors.keep(cursor, request)?
    };
    Ok(batch.reply(id, shown)?.into())
}

/// Checks the stages behind `$changeStream`; answers whether large events are to be split.
fn check_stages(stages: &[Bson]) -> Result<bool> {
    let mut splits = false;
    for stage in stages.iter().skip(1).filter_map(Bson::as_document) {
        let Some((name, argument)) = stage.iter().next() else {
            continue;
        };
        if splits {
            let message = format!("{SPLIT} must be the last stage in the pipeline");
            return Err(Error::new(Code(7_182_802), message).into());
        }
        if name == SPLIT {
            check_split(argument)?;
            splits = true;
        } else if !ALLOWED.contains(&name.as_str()) {
            let message = format!("{name} is not permitted in a $changeStream pipeline");
            return Err(Failure::new(Code::ILLEGAL_OPERATION, message));
        }
    }
    Ok(splits)
}

fn check_split(argument: &Bson) -> Result<()> {
    if argument.as_document().is_some_and(bson::Document::is_empty) {
        return Ok(());
    }
    let message = format!("{SPLIT} spec should be an empty object");
    Err(Error::new(Code(7_182_800), message).into())
}

fn check_level(request: &Request<'_>) -> Result<()> {
    let concern = request.generic.read_concern.as_ref();
    match concern.and_then(|concern| concern.level) {
        None | Some(Level::Majority) => Ok(()),
        Some(level) => {
            let message = format!(
                "$changeStream cannot run with a readConcern of {}; use 'majority'",
                level.name()
            );
            Err(Failure::new(Code::INVALID_OPTIONS, message))
        }
    }
}

/// The feed of what is watched, and where the stream begins in it.
async fn begin(store: &Store, session: &Session, options: &Options) -> Result<(FeedId, Token)> {
    let scopes = scopes(session, &options.scope).await?;
    let mut lost = None;
    for (position, scope) in scopes.into_iter().enumerate() {
        // What nobody followed cannot tell of the past.
        let is_second = position > 0 && options.begin != Begin::Now;
        if is_second && store.feed_of(&scope).await?.is_none() {
            continue;
        }
        let followed = match store.follow(&scope, &FeedWish::default()).await {
            // The collection went meanwhile: whatever has its name next is in the database.
            Err(CoreError::NotFound(_)) => continue,
            followed => followed?,
        };
        let floor = store.feed_floor(followed.feed).await?;
        let begin = match options.begin {
            Begin::Now => Some(Token::mark(followed.position)),
            // Behind the end of a stream there may be another collection of the same name.
            Begin::After(token) if is_end(token) && token.position < floor => {
                Some(Token::mark(floor))
            }
            Begin::After(token) => (floor <= token.position).then_some(token),
            Begin::At(time) => at(store, floor, time).await?.map(Token::mark),
        };
        if let Some(begin) = begin {
            return Ok((followed.feed, begin));
        }
        lost = Some(CoreError::HistoryLost(
            "the resume point may no longer be in the change feed",
        ));
    }
    let gone = || CoreError::HistoryLost("what was watched is not there any more");
    Err(lost.unwrap_or_else(gone).into())
}

/// Where a stream begins to read that wants all from a time on; none if that is not kept any more.
///
/// Such times come from replies, whose times go by the clock of the server that made them, and from
/// events, whose times go by marks in the feed and are up to ten seconds behind. So it begins
/// before both, and [`Stream`] leaves out what is too early by both.
async fn at(store: &Store, floor: Position, time: Timestamp) -> Result<Option<Position>> {
    let seconds = u64::from(time.time);
    let position_at = async |seconds| {
        let increment = 0;
        store.position_at(FeedTime { seconds, increment }).await
    };
    let latest = position_at(seconds + CLOCK_SLACK).await?;
    if latest == Position::START || latest < floor {
        return Ok(None);
    }
    let early = position_at(seconds.saturating_sub(MARKS_BEHIND)).await?;
    Ok(Some(early.max(floor)))
}

/// What may have the feed of what is watched: a collection its own, and that of its database, which
/// also tells of collections that are not there yet or any more.
async fn scopes(session: &Session, scope: &Scope) -> Result<Vec<FeedScope>> {
    let database = |database: &str| FeedScope::Database {
        api: API.to_owned(),
        database: database.to_owned(),
    };
    let namespace = match scope {
        Scope::Cluster => return Ok(vec![FeedScope::Api(API.to_owned())]),
        Scope::Database(name) => return Ok(vec![database(name)]),
        Scope::Collection(namespace) => namespace,
    };
    let service = session.service();
    let mut transaction = service.store.begin().await?;
    let target = Target::find(&service.data, &mut transaction, namespace).await?;
    Ok(match target {
        Some(target) if target.collection.view.is_some() => return Err(on_view(namespace)),
        Some(_) => vec![
            FeedScope::Container(namespace.container.clone()),
            database(namespace.database()),
        ],
        None => vec![database(namespace.database())],
    })
}
