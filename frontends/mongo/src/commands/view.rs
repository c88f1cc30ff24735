//! Reading views: the pipeline of the view, and behind it what was asked.

use tessera_mongo_language::error::Code;

use crate::failure::{Failure, Result};
use crate::fields::Fields;
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;
use crate::write::target::Target;

/// A `find` on a view.
pub(crate) async fn find(
    _service: &Service,
    _session: &mut Session,
    _request: &Request<'_>,
    (_target, _fields): (&Target, &Fields<'_>),
) -> Result<Reply> {
    Err(Failure::new(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, "views"))
}
