//! Whether a client may run a command.

use tessera_mongo_language::error::Code;

use super::{Access, Action, Need};
use crate::auth::login::Identity;
use crate::command::Command;
use crate::failure::{Failure, Result};
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;

/// Refuses a command that this client may not run.
pub(crate) async fn check(
    service: &Service,
    session: &mut Session,
    (command, request): (&'static Command, &Request<'_>),
) -> Result<()> {
    if !service.config.requires_authentication || matches!(command.access, Access::Anyone) {
        return Ok(());
    }
    session.needed.clear();
    session.login.refresh(service, session.peer.ip()).await?;
    let Some(identity) = &session.login.identity else {
        if may_create_first_user(service, session, (command, request)).await? {
            return Ok(());
        }
        let message = format!("Command {} requires authentication", command.name);
        return Err(Failure::new(Code::UNAUTHORIZED, message));
    };
    let is_allowed = match command.access {
        Access::Judge(judge) => judge(request, identity)?,
        _ => {
            session.needed = needs(command, request)?;
            session.needed.iter().all(|need| identity.may(need))
        }
    };
    match is_allowed {
        true => Ok(()),
        false => Err(refused(request)),
    }
}

/// Whether a user may run a command, as far as that can be told before it is parsed.
pub(crate) fn allows(
    identity: &Identity,
    command: &Command,
    request: &Request<'_>,
) -> Result<bool> {
    if let Access::Judge(judge) = command.access {
        return judge(request, identity);
    }
    let needs = needs(command, request)?;
    Ok(needs.iter().all(|need| identity.may(need)))
}

/// The error for a command that a user may not run.
pub(crate) fn refused(request: &Request<'_>) -> Failure {
    let (database, name) = (request.database, request.name());
    let message = format!("not authorized on {database} to execute command {name}");
    Failure::new(Code::UNAUTHORIZED, message)
}

fn needs(command: &Command, request: &Request<'_>) -> Result<Vec<Need>> {
    let each = |actions: &[Action], need: &dyn Fn(Action) -> Need| {
        actions.iter().map(|action| need(*action)).collect()
    };
    let database = request.database;
    Ok(match command.access {
        Access::Anyone | Access::Authenticated | Access::Judge(_) | Access::Parsed => Vec::new(),
        Access::Collection(actions) => {
            let collection = request.collection()?;
            each(actions, &|action| {
                Need::on_collection(action, database, collection)
            })
        }
        Access::Database(actions) => each(actions, &|action| Need::on_database(action, database)),
        Access::Cluster(actions) => each(actions, &Need::on_cluster),
        Access::Decide(decide) => decide(request)?,
    })
}

/// Somebody must be the first: from the same machine, and only that.
async fn may_create_first_user(
    service: &Service,
    session: &Session,
    (command, request): (&Command, &Request<'_>),
) -> Result<bool> {
    let local = session.peer.ip().to_canonical().is_loopback();
    let creates = command.name == "createUser" && request.database == "admin";
    Ok(local && creates && !service.users.any(&service.store).await?)
}
