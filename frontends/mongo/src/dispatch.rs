//! From a request to its reply: find the command, check what may be checked without knowing it, run
//! it, and complete its answer.

use std::time::Instant;

use bson::{RawDocumentBuf, raw::cstr};
use tessera_mongo_language::error::Code;

use crate::commands;
use crate::failure::{Failure, Result};
use crate::reply::{self, Reply};
use crate::request::Request;
use crate::service::Service;
use crate::session::{LastCommand, Session};

/// Answers one request, whatever it is.
pub(crate) async fn answer(
    service: &Service,
    session: &mut Session,
    request: &Request<'_>,
) -> Result<RawDocumentBuf> {
    let began = Instant::now();
    let outcome = run(service, session, request).await;
    session.last = Some(LastCommand {
        name: request.name().to_owned(),
        charge: session.settle(),
        took: began.elapsed(),
    });
    match outcome.and_then(Reply::encode) {
        Ok(mut reply) => {
            reply.append(cstr!("ok"), 1.0);
            Ok(reply)
        }
        Err(failure) => Ok(RawDocumentBuf::try_from(&reply::of_failure(&failure))?),
    }
}

async fn run(service: &Service, session: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let name = request.name();
    let Some(command) = commands::find(name) else {
        let message = format!("no such command: '{name}'");
        return Err(Failure::new(Code::COMMAND_NOT_FOUND, message));
    };
    (command.run)(service, session, request).await
}
