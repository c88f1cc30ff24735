//! Whether a role may run a statement. What may is handed on as [`Permitted`], and nothing else can
//! be run: so no way from a request to its execution can leave the question out.

use std::ops::Deref;
use std::sync::Arc;

use super::need::{Asker, Need};
use super::resource::shown;
use super::role::Role;
use super::roles::{RoleMap, any, is_superuser, with_granted};
use crate::catalog::Catalog;
use crate::error::{CqlError, ErrorKind, Result};
use crate::plan::Plan;
use crate::schema::DATA_CENTER;
use crate::service::Service;
use crate::session::Session;
use crate::statement::Statement;

/// What the role of a session may do, by one look at the roles.
pub(crate) struct Rights {
    /// None if nobody is asked who they are: everybody may do everything.
    role: Option<(Arc<str>, Arc<RoleMap>)>,
}

/// Something that the role of a session may run.
pub(crate) struct Permitted<'a, T>(&'a T);

impl<T> Clone for Permitted<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Permitted<'_, T> {}

impl<T> Deref for Permitted<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0
    }
}

impl Rights {
    /// Those of a session now.
    pub(crate) async fn of(service: &Service, session: &Session) -> Result<Self> {
        let Some(user) = session.user() else {
            if service.config.requires_authentication {
                return Err(unauthorized("You have not logged in"));
            }
            return Ok(Self { role: None });
        };
        let roles = service.roles.all().await?;
        Ok(Self {
            role: Some((user, roles)),
        })
    }

    /// Lets a statement on rows be run as planned.
    pub(crate) fn plan<'p>(&self, plan: &'p Plan) -> Result<Permitted<'p, Plan>> {
        if let Some((user, roles)) = &self.role {
            let judge = Judge::new(user, roles)?;
            if !judge.is_superuser {
                plan.needs().iter().try_for_each(|need| judge.meet(need))?;
            }
        }
        Ok(Permitted(plan))
    }

    /// Lets any other statement be run, in a session with this keyspace and by this catalog.
    pub(crate) fn statement<'s>(
        &self,
        statement: &'s Statement,
        keyspace: Option<&str>,
        catalog: &Catalog,
    ) -> Result<Permitted<'s, Statement>> {
        if let Some((user, roles)) = &self.role {
            let judge = Judge::new(user, roles)?;
            let asker = Asker {
                user,
                roles,
                keyspace,
                catalog,
            };
            for need in asker.needs(statement)? {
                judge.meet(&need)?;
            }
        }
        Ok(Permitted(statement))
    }

    /// Whose they are.
    pub(crate) fn user(&self) -> Option<&str> {
        self.role.as_ref().map(|(user, _)| &**user)
    }

    /// Whether a role has what is asked for, or need not have anything.
    pub(super) fn meet(&self, need: &Need) -> bool {
        let Some((user, roles)) = &self.role else {
            return true;
        };
        Judge::new(user, roles).is_ok_and(|judge| judge.meet(need).is_ok())
    }
}

/// Compares needs with what a role has.
struct Judge<'a> {
    user: &'a str,
    roles: &'a RoleMap,
    is_superuser: bool,
}

impl<'a> Judge<'a> {
    /// Refuses a role that may no longer be here, whatever it was granted.
    fn new(user: &'a str, roles: &'a RoleMap) -> Result<Self> {
        let role = roles.get(user).filter(|role| role.can_login);
        let Some(role) = role else {
            return Err(unauthorized(format!("{user} is not permitted to log in")));
        };
        let is_superuser = is_superuser(roles, user);
        if !is_superuser && !role.datacenters.is_empty() && !role.datacenters.contains(DATA_CENTER)
        {
            return Err(unauthorized(format!(
                "You do not have access to this datacenter ({DATA_CENTER})"
            )));
        }
        Ok(Self {
            user,
            roles,
            is_superuser,
        })
    }

    fn meet(&self, need: &Need) -> Result<()> {
        let user = self.user;
        match need {
            Need::Permission(permission, keys) => {
                let may = |role: &Role| keys.iter().any(|key| role.may(*permission, key));
                if self.is_superuser || any(self.roles, user, may) {
                    return Ok(());
                }
                Err(unauthorized(format!(
                    "User {user} has no {} permission on {} or any of its parents",
                    permission.name(),
                    keys.first().map_or_else(String::new, |key| shown(key)),
                )))
            }
            Need::OverRole(permission, keys) => {
                let may = |role: &Role| keys.iter().any(|key| role.may(*permission, key));
                if self.is_superuser || any(self.roles, user, may) {
                    return Ok(());
                }
                Err(unauthorized(format!(
                    "User {user} does not have sufficient privileges to perform the requested \
                     operation"
                )))
            }
            Need::Superuser(words) => match self.is_superuser {
                true => Ok(()),
                false => Err(unauthorized(words)),
            },
            Need::Without(role, words) => match with_granted(self.roles, user).contains(role) {
                true => Err(unauthorized(*words)),
                false => Ok(()),
            },
        }
    }
}

pub(super) fn unauthorized(words: impl Into<String>) -> CqlError {
    CqlError::new(ErrorKind::Unauthorized, words)
}
