//! From a request to its reply: find the command, run the checks that all commands have, run it,
//! and complete its reply.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bson::{Document, RawDocument, RawDocumentBuf};
use bytes::Bytes;
use tessera_core::deadline::{self, Deadline};
use tessera_core::engine::BoxFuture;
use tessera_mongo_language::error::Code;
use tracing::debug;

use crate::access;
use crate::batch::REPLY_COPIES;
use crate::cluster_time::complete;
use crate::command::Command;
use crate::commands::{self, hello};
use crate::counters;
use crate::fail_point::Effect;
use crate::failure::{Failure, Result};
use crate::labels;
use crate::operation::Running;
use crate::reply::{self, Reply};
use crate::request::{Request, Sequence};
use crate::rules;
use crate::service::Service;
use crate::session::{LastCommand, Session};

/// How many bytes of a command are read in a step.
const BYTES_IN_STEP: usize = 32;

/// A message whose bytes are checked.
pub(crate) struct Incoming<'a> {
    pub(crate) body: &'a RawDocument,
    pub(crate) sequences: Vec<Sequence<'a>>,
    /// The database, where the body does not say.
    pub(crate) database: Option<&'a str>,
    /// What all of it lies in.
    pub(crate) packet: &'a Bytes,
    /// Whether the client takes several replies.
    pub(crate) exhaust: bool,
}

/// A request, or why it is none.
pub(crate) struct Asked<'a> {
    request: Result<Request<'a>>,
    packet: &'a Bytes,
    exhaust: bool,
    /// Whether it came in the form that only the first hello may have.
    legacy: bool,
}

impl<'a> Incoming<'a> {
    pub(crate) fn parse(self) -> Asked<'a> {
        Asked {
            request: Request::parse(self.body, self.sequences, self.database),
            packet: self.packet,
            exhaust: self.exhaust,
            legacy: false,
        }
    }

    pub(crate) fn parse_legacy(self) -> Asked<'a> {
        Asked {
            legacy: true,
            ..self.parse()
        }
    }
}

/// What becomes of a request.
pub(crate) enum Answer {
    Reply(RawDocumentBuf),
    /// Another reply follows without being asked for.
    MoreToCome(RawDocumentBuf),
    /// The connection is closed without a word.
    Close,
}

/// Answers one request, whatever it is.
pub(crate) async fn answer(
    service: &Service,
    session: &mut Session,
    asked: &mut Asked<'_>,
) -> Answer {
    let began = Instant::now();
    service.counters.requests.fetch_add(1, Ordering::Relaxed);
    counters::add(&service.counters.bytes_in, asked.packet.len());
    session.more_to_come = false;
    session.answer.shrink(0);
    if let Ok(request) = &mut asked.request {
        request.generic.owner = session.login.owner();
    }
    let (request, command) = match prepared(asked) {
        Ok(prepared) => prepared,
        Err(failure) => return Answer::Reply(failed(service, &failure)),
    };
    let effect = struck(service, session, command, request);
    if let Some(wait) = effect.as_ref().and_then(|effect| effect.block) {
        tokio::time::sleep(wait).await;
    }
    if effect.as_ref().is_some_and(|effect| effect.close) {
        return Answer::Close;
    }
    let outcome = match effect.as_ref().and_then(|effect| effect.code) {
        Some(code) => {
            let message = "Failing command via 'failCommand' failpoint";
            Err(Failure::new(code, message))
        }
        None => run(service, session, (command, request), (asked.packet, began)).await,
    };
    let took = began.elapsed();
    service.counters.ran(command.name, outcome.is_err());
    let last = &mut session.last_namespace;
    service.top.ran(command, request, last, took);
    session.last = Some(LastCommand {
        name: command.name,
        charge: session.settle(),
        took,
    });
    let reply = finished(service, session, (command, request), effect, outcome);
    let reply = within_memory(service, session, reply);
    counters::add(&service.counters.bytes_out, reply.as_bytes().len());
    if asked.exhaust && session.more_to_come {
        return Answer::MoreToCome(reply);
    }
    Answer::Reply(reply)
}

fn prepared<'a, 'b>(asked: &'b Asked<'a>) -> Result<(&'b Request<'a>, &'static Command)> {
    let request = asked.request.as_ref().map_err(Clone::clone)?;
    let name = request.name();
    let Some(command) = commands::find(name) else {
        let message = format!("no such command: '{name}'");
        return Err(Failure::new(Code::COMMAND_NOT_FOUND, message));
    };
    if asked.legacy && command.name != "hello" {
        let message = format!(
            "Unsupported OP_QUERY command: {name}. The client driver may require an upgrade."
        );
        return Err(Failure::new(Code::UNSUPPORTED_OP_QUERY_COMMAND, message));
    }
    Ok((request, command))
}

/// What a test wants to happen to this command.
fn struck(
    service: &Service,
    session: &Session,
    command: &Command,
    request: &Request<'_>,
) -> Option<Effect> {
    if !service.config.test_commands {
        return None;
    }
    let collection = request.argument().as_str().unwrap_or_default();
    let namespace = format!("{}.{collection}", request.database);
    let meet = |name: &str| {
        service
            .fail_points
            .meet(name, session.application(), &namespace)
    };
    meet(command.name).or_else(|| command.aliases.iter().find_map(|alias| meet(alias)))
}

async fn run(
    service: &Service,
    session: &mut Session,
    (command, request): (&'static Command, &Request<'_>),
    (packet, began): (&Bytes, Instant),
) -> Result<Reply> {
    rules::check(command, request)?;
    hello::check_length(command, request, packet)?;
    access::check(service, session, (command, request)).await?;
    // Who has not logged in where everybody must has no sessions.
    let has_sessions = session.may(|_| true);
    let key = request.session().filter(|_| has_sessions);
    if let Some(key) = key {
        let now_ms = service.store.clock().now_ms();
        service.sessions.touch(key, now_ms)?;
        let expired = service.sessions.expire(now_ms);
        service.end_sessions(&expired);
    }
    let place = session.place.clone();
    place.begin(Running {
        id: service.connections.next_operation(),
        name: command.name,
        body: packet.slice_ref(request.body.as_bytes()),
        began,
        session: key,
        killed: false,
    });
    let limit = request
        .generic
        .max_time
        .filter(|_| command.name != "getMore");
    let deadline = Deadline::new(limit, Some(Arc::clone(&session.wanted))).named(command.name);
    let deadline = deadline.within(service.store.memory().clone());
    let (outcome, answer) = {
        let running = deadline.run_for_answer(async {
            // Ending sessions takes a write concern, so that it need not be answered, and writes
            // nothing.
            if command.takes_write_concern && command.name != "endSessions" {
                service.write_lock.passed().await;
            }
            deadline::step(packet.len() / BYTES_IN_STEP)?;
            guarded((command.run)(service, session, request)).await
        });
        tokio::select! {
            biased;
            outcome = running => outcome,
            () = place.killed() => {
                (Err(Failure::new(Code::INTERRUPTED, "operation was interrupted")), None)
            }
            () = after(limit) => {
                let message = "operation exceeded time limit";
                (Err(Failure::new(Code::MAX_TIME_MS_EXPIRED, message)), None)
            }
        }
    };
    if let Some(answer) = answer {
        session.answer = answer;
    }
    place.end();
    outcome
}

/// The reply, if there is memory for it where it is made and where it is sent.
fn within_memory(
    service: &Service,
    session: &mut Session,
    reply: RawDocumentBuf,
) -> RawDocumentBuf {
    let bytes = REPLY_COPIES * reply.as_bytes().len();
    match session.answer.cover(service.store.memory(), bytes) {
        Ok(()) => reply,
        Err(refused) => failed(service, &tessera_core::Error::from(refused).into()),
    }
}

/// Runs a command so that a mistake in it costs one answer and not the connection.
async fn guarded(mut command: BoxFuture<'_, Result<Reply>>) -> Result<Reply> {
    let outcome = tessera_frontend::guarded(command.as_mut()).await;
    outcome.unwrap_or_else(|| {
        let message = "internal server error; see the server log";
        Err(Failure::new(Code::INTERNAL_ERROR, message))
    })
}

/// Waits so long, or for ever.
async fn after(limit: Option<std::time::Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

/// The reply with all that replies carry.
fn finished(
    service: &Service,
    session: &Session,
    (command, request): (&Command, &Request<'_>),
    effect: Option<Effect>,
    outcome: Result<Reply>,
) -> RawDocumentBuf {
    let outcome = outcome.and_then(|reply| {
        let reply = reply::with_concern(reply, command, request)?;
        let reply = reply::with_recovery(reply, service, (command, request))?;
        reply::with_effect(reply, request, effect.as_ref())?.encode()
    });
    let clock = service.store.clock();
    match outcome {
        Ok(reply) => {
            let time = match command.takes_write_concern {
                true => service.cluster_time.advance(clock),
                false => service.cluster_time.now(clock),
            };
            complete(reply, Some(1.0), time)
        }
        Err(failure) => {
            // A command of many statements may have done some of them.
            if command.takes_write_concern {
                service.cluster_time.advance(clock);
            }
            let (name, code) = (command.name, failure.code().0);
            debug!(
                name,
                code,
                message = failure.error.message,
                "a command failed"
            );
            match effect.and_then(|effect| effect.labels) {
                Some(labels) => {
                    let mut reply = reply::of_failure(&failure);
                    reply.insert("errorLabels", labels);
                    failed_with(service, &reply)
                }
                None => {
                    let overload = session.understands_overload;
                    failed(service, &labels::add(failure, request, overload))
                }
            }
        }
    }
}

fn failed(service: &Service, failure: &Failure) -> RawDocumentBuf {
    failed_with(service, &reply::of_failure(failure))
}

fn failed_with(service: &Service, reply: &Document) -> RawDocumentBuf {
    let reply = RawDocumentBuf::try_from(reply).unwrap_or_default();
    complete(reply, None, service.cluster_time.now(service.store.clock()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_mistake_costs_one_answer() {
        let answered = guarded(Box::pin(async { Ok(Reply::ok()) })).await;
        assert!(answered.is_ok());
        let mistaken = guarded(Box::pin(async { panic!("on purpose") })).await;
        assert_eq!(mistaken.err().map(|f| f.code()), Some(Code::INTERNAL_ERROR));
    }
}
