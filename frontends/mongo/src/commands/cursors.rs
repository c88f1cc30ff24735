//! `getMore` and `killCursors`.

use std::time::{Duration, Instant};

use bson::{Bson, RawBsonRef, doc};
use tessera_core::Error as CoreError;
use tessera_mongo_language::error::{Code, Error, bad_value, type_mismatch};

use crate::access::{self, Access, Action, Need};
use crate::batch::{Batch, Turn};
use crate::change_stream;
use crate::collection::Namespace;
use crate::command::Command;
use crate::commands::asked;
use crate::commands::hello::unwanted;
use crate::cursor::Cursor;
use crate::failure::{Failure, Result};
use crate::fields::{
    ANY, ARRAY, BOOL_OR_NUMBER, Field, Fields, Kind, NUMBER, STRING, optional, required,
};
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;
use crate::transaction::Scope;

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(
        "getMore",
        "Returns the next batch of a cursor.",
        Access::Authenticated,
        |service, session, request| Box::pin(get_more(service, session, request)),
    )
    .in_transactions()
    // Some drivers say again what the cursor knows.
    .snapshots()
    .stable(),
    Command::new(
        "killCursors",
        "Kills cursors.",
        // Whose cursors they are is known when they are found.
        Access::Authenticated,
        |service, session, request| Box::pin(kill_cursors(service, session, request)),
    )
    .in_transactions()
    .stable(),
];

const LONG: Kind = Kind(&[bson::spec::ElementType::Int64]);

const GET_MORE: &[Field] = &[
    required("collection", STRING),
    optional("batchSize", NUMBER),
    optional("term", LONG),
    optional("lastKnownCommittedOpTime", ANY),
    optional("includeQueryStatsMetrics", BOOL_OR_NUMBER),
];

const KILL_CURSORS: &[Field] = &[required("cursors", ARRAY)];

/// How long a cursor that waits for data does so if the client does not say.
const DEFAULT_WAIT: Duration = Duration::from_secs(1);

/// How often such a cursor looks by itself where nothing tells it of what is written.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

async fn get_more(
    service: &Service,
    session: &mut Session,
    request: &Request<'_>,
) -> Result<Reply> {
    let id = match request.argument() {
        RawBsonRef::Int64(id) => id,
        RawBsonRef::Null => {
            let message = "BSON field 'getMore.getMore' is missing but a required field";
            return Err(Failure::new(Code::IDL_FAILED_TO_PARSE, message));
        }
        other => {
            let found = crate::fields::type_name(other.element_type());
            let message = format!(
                "BSON field 'getMore.getMore' is the wrong type '{found}', expected type 'long'"
            );
            return Err(type_mismatch(message).into());
        }
    };
    let fields = Fields::of(request, GET_MORE)?;
    let name = fields.str("collection").unwrap_or_default();
    if name.is_empty() || name.contains('\0') {
        let message = format!("Invalid namespace specified '{}.{name}'", request.database);
        return Err(Failure::new(Code::INVALID_NAMESPACE, message));
    }
    let namespace = format!("{}.{name}", request.database);
    let size = asked::not_negative(&fields, "batchSize")?.filter(|size| *size > 0);
    let size = size.map_or(usize::MAX, |size| {
        usize::try_from(size).unwrap_or(usize::MAX)
    });
    let mut cursor = service
        .data
        .cursors
        .take(id, &namespace, request.generic.owner)?;
    let checked =
        check(&cursor, request).and_then(|()| session.check_needs(request, &cursor.needs));
    if let Err(failure) = checked {
        service.data.cursors.give_back(id, cursor);
        return Err(failure);
    }
    if let Some(failure) = fails_on_purpose(service, session, &cursor) {
        service.data.cursors.close(id);
        return Err(failure);
    }
    let filled = fill(service, session, request, (&mut cursor, size)).await;
    match filled {
        Ok((batch, done)) => {
            let id = if done && may_end(&cursor) {
                service.data.cursors.close(id);
                0
            } else {
                service.data.cursors.give_back(id, cursor);
                id
            };
            Ok(batch.reply(id, &namespace)?.into())
        }
        Err(failure) => {
            service.data.cursors.close(id);
            Err(failure)
        }
    }
}

/// The failure that a test asks for, in the form that failures of such a cursor have.
fn fails_on_purpose(service: &Service, session: &Session, cursor: &Cursor) -> Option<Failure> {
    if !service.config.test_commands {
        return None;
    }
    let points = &service.fail_points;
    let code = points.meet_cursor(session.application(), &cursor.namespace)?;
    let failure = Failure::new(code, "failing getMore due to a fail point");
    let is_change_stream = cursor.tail.is_some_and(|tail| tail.ends);
    Some(match is_change_stream {
        true => change_stream::resumable(failure),
        false => failure,
    })
}

/// Whether a cursor without more to read is at its end.
fn may_end(cursor: &Cursor) -> bool {
    cursor.tail.is_none_or(|tail| tail.ends)
}

/// Whether a cursor may be read by this request.
fn check(cursor: &Cursor, request: &Request<'_>) -> Result<()> {
    let generic = &request.generic;
    if cursor.session != generic.session() {
        let (code, message) = match cursor.session {
            None => (
                50_737,
                "Cannot run getMore on a cursor that was not created in a session, in a session",
            ),
            Some(_) if generic.session().is_none() => (
                50_736,
                "Cannot run getMore on a cursor that was created in a session, without one",
            ),
            Some(_) => (
                50_738,
                "Cannot run getMore on a cursor that was created in another session",
            ),
        };
        return Err(Error::new(Code(code), message).into());
    }
    let number = generic
        .transaction_number
        .filter(|_| request.in_transaction());
    if cursor.transaction != number {
        let message = "Cannot run getMore on a cursor that was created in another transaction";
        return Err(Error::new(Code(50_740), message).into());
    }
    // Even one that means no limit.
    let limited = request.body.get("maxTimeMS")?.is_some();
    if limited && !cursor.tail.is_some_and(|tail| tail.waits) {
        let message = "cannot set maxTimeMS on getMore command for a non-awaitData cursor";
        return Err(bad_value(message).into());
    }
    Ok(())
}

async fn fill(
    service: &Service,
    session: &mut Session,
    request: &Request<'_>,
    (cursor, size): (&mut Cursor, usize),
) -> Result<(Batch, bool)> {
    let mut scope = match &cursor.at {
        Some(at) => Scope::At(at.clone()),
        None => {
            let transactions = &service.data.transactions;
            transactions.scope(service, request).await?
        }
    };
    let may_wait = cursor.tail.is_some_and(|tail| tail.waits);
    let wait = request.generic.max_time.unwrap_or(DEFAULT_WAIT);
    let until = Instant::now() + wait;
    loop {
        if may_wait {
            cursor.rows.prepare(&service.data).await;
        }
        let mut batch = Batch::new(Turn::Next).read_at(scope.at());
        let mut reader = scope.reader(&service.data).await?;
        let filled = cursor
            .rows
            .fill(&service.data, &mut reader, &mut batch, size)
            .await;
        session.spent(reader.meter());
        drop(reader);
        let done = filled.map_err(|failure| gone(failure, cursor))?;
        let waits = may_wait && batch.len() == 0;
        let is_over = done && may_end(cursor);
        let left = until.saturating_duration_since(Instant::now());
        if !waits || is_over || left.is_zero() {
            scope.succeed();
            return Ok((batch, done));
        }
        let news = async {
            match cursor.rows.wait(until.into()) {
                Some(news) => news.await,
                None => tokio::time::sleep(left.min(LOOK_AGAIN)).await,
            }
        };
        tokio::select! {
            () = news => {}
            interruption = unwanted(session) => return Err(interruption.into()),
        }
        // Roles may have been revoked while it waited.
        session.login.refresh(service, session.peer.ip()).await?;
        session.check_needs(request, &cursor.needs)?;
    }
}

/// What it means for a cursor that its collection is not there any more, or another one.
fn gone(failure: Failure, cursor: &Cursor) -> Failure {
    let lost = Failure::from(CoreError::InvalidContinuation("")).code();
    if failure.code() == Code::NAMESPACE_NOT_FOUND || failure.code() == lost {
        let message = format!("collection dropped. {}", cursor.namespace);
        return Failure::new(Code::QUERY_PLAN_KILLED, message);
    }
    failure
}

/// Everybody may kill their own cursors; those of others are a right.
fn check_owners(
    service: &Service,
    session: &Session,
    request: &Request<'_>,
    (name, ids): (&str, &[i64]),
) -> Result<()> {
    let owner = |id: &i64| service.data.cursors.owner(*id);
    let mut owners = ids.iter().filter_map(owner);
    if owners.all(|owner| owner == request.generic.owner) {
        return Ok(());
    }
    let may_kill_any = session.may(|user| {
        let any = Action::KillAnyCursor;
        user.may(&Need::on_cluster(any)) || user.may_all(&[any], request.database, name)
    });
    match may_kill_any {
        true => Ok(()),
        false => Err(access::refused(request)),
    }
}

async fn kill_cursors(
    service: &Service,
    session: &Session,
    request: &Request<'_>,
) -> Result<Reply> {
    let name = request.collection()?;
    if !name.starts_with("$cmd.") {
        Namespace::new(request.database, name)?;
    }
    let fields = Fields::of(request, KILL_CURSORS)?;
    let (mut killed, mut not_there) = (Vec::new(), Vec::new());
    let cursors = fields.array("cursors");
    let mut ids = Vec::new();
    for (position, id) in cursors.into_iter().flatten().enumerate() {
        match id? {
            RawBsonRef::Int64(id) => ids.push(id),
            RawBsonRef::Null => {}
            other => {
                let path = format!("cursors.{position}");
                let found = other.element_type();
                let Kind(expected) = LONG;
                let error = crate::fields::wrong_type("killCursors", &path, found, expected);
                return Err(error.into());
            }
        }
    }
    check_owners(service, session, request, (name, &ids))?;
    for id in ids {
        if service.data.cursors.kill(id) {
            killed.push(Bson::Int64(id));
        } else {
            not_there.push(Bson::Int64(id));
        }
    }
    let reply = doc! {
        "cursorsKilled": killed,
        "cursorsNotFound": not_there,
        "cursorsAlive": [],
        "cursorsUnknown": [],
    };
    Ok(reply.into())
}
