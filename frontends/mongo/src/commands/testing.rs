//! Commands that only tests need. A server that was not started for tests does not know them.

use bson::{Bson, Document, RawBsonRef, doc};
use tessera_mongo_language::error::{Code, type_mismatch};

use crate::access::Access;
use crate::command::Command;
use crate::failure::{Failure, Result};
use crate::fields::{ANY, DOCUMENT, Field, Fields, optional, required};
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;

pub(crate) const COMMANDS: &[Command] = &[Command::new(
    "configureFailPoint",
    "Sets a fail point.",
    Access::Authenticated,
    |service, session, request| Box::pin(configure(service, session, request)),
)
.admin_only()
.writes()];

const CONFIGURE: &[Field] = &[required("mode", ANY), optional("data", DOCUMENT)];

async fn configure(service: &Service, _: &mut Session, request: &Request<'_>) -> Result<Reply> {
    if !service.config.test_commands {
        let message = "no such command: 'configureFailPoint'";
        return Err(Failure::new(Code::COMMAND_NOT_FOUND, message));
    }
    let fields = Fields::of(request, CONFIGURE)?;
    let RawBsonRef::String(name) = request.argument() else {
        return Err(type_mismatch("the name of a fail point is a string").into());
    };
    let mode = fields.get("mode").map_or(Ok(Bson::Null), Bson::try_from)?;
    let data = fields
        .document("data")
        .map(Document::try_from)
        .transpose()?;
    let count = service.fail_points.configure(name, &mode, data.as_ref())?;
    Ok(doc! { "count": count }.into())
}
