//! Logging in: the token of SASL PLAIN, and whether it is right.

use super::authenticator::Outcome;
use super::roles::RoleMap;
use crate::error::{CqlError, ErrorKind, Result};
use crate::service::Service;

/// What an administrator is told of a server on which nobody can log in.
const NOBODY: &str = "logins are required and no role can log in; name the first one with \
                      --cql-users NAME:PASSWORD or TESSERA_CQL_USERS=NAME:PASSWORD, and let it \
                      CREATE ROLE others";

/// Checks a token; answers the role that it is of.
pub(crate) async fn log_in(service: &Service, token: Option<&[u8]>) -> Result<String> {
    let (name, given) = credentials(token.unwrap_or_default())?;
    let roles = service.roles.all().await?;
    let outcome = service.roles.authenticator.check(&roles, name, given).await;
    let stronger = match outcome {
        Outcome::Right { stronger } => stronger,
        Outcome::Wrong => {
            if !can_anybody_log_in(service, &roles) {
                tracing::warn!("a login was refused: {NOBODY}");
            }
            return refuse(format!(
                "Provided username {name} and/or password are incorrect"
            ));
        }
    };
    let role = roles.get(name);
    if let Some(stronger) = stronger {
        let kept = role.and_then(|role| role.password.as_deref());
        keep_stronger(service, name, kept, &stronger).await;
    }
    if !role.is_some_and(|role| role.can_login) {
        return refuse(format!("{name} is not permitted to log in"));
    }
    Ok(name.to_owned())
}

/// Says at the start which roles cannot be read, and if nobody can log in.
pub(crate) async fn warn_of_roles(service: &Service) {
    match service.roles.all().await {
        Ok(roles) => {
            let lost = roles
                .iter()
                .filter_map(|(name, role)| Some((name, role.damage.as_ref()?)));
            for (role, why) in lost {
                tracing::warn!(role, why, "a role can only be dropped");
            }
            let is_needed = service.config.requires_authentication;
            if is_needed && !can_anybody_log_in(service, &roles) {
                tracing::warn!("{NOBODY}");
            }
        }
        Err(error) => tracing::warn!(error = error.message, "the roles cannot be read"),
    }
}

/// Roles that the settings name always can, and have no hash.
fn can_anybody_log_in(service: &Service, roles: &RoleMap) -> bool {
    roles.iter().any(|(name, role)| {
        let has_password = role.password.is_some() || service.roles.is_configured(name);
        role.can_login && has_password
    })
}

/// Puts a hash in the place of a weaker one of the same password. If that fails, the next login
/// does it.
async fn keep_stronger(service: &Service, name: &str, kept: Option<&str>, stronger: &str) {
    let changed = service.roles.change(name, |role| {
        let is_same = |role: &super::role::Role| role.password.as_deref() == kept;
        let role = role.map(|mut role| {
            if is_same(&role) {
                role.password = Some(stronger.to_owned());
            }
            role
        });
        Ok((role, ()))
    });
    if let Err(error) = changed.await {
        tracing::debug!(error = error.message, "a stronger hash was not kept");
    }
}

/// The name and the password in a token: `authorization NUL name NUL password`.
fn credentials(token: &[u8]) -> Result<(&str, &str)> {
    let text = str::from_utf8(token).unwrap_or_default();
    let parts: Vec<&str> = text.split('\0').collect();
    match parts.as_slice() {
        [_, "", _] => refuse("Authentication ID must not be null"),
        [_, _, ""] => refuse("Password must not be null"),
        [_, name, password] => Ok((name, password)),
        _ => refuse(
            "Credential format error: username or password is empty or contains NUL(\\0) character",
        ),
    }
}

fn refuse<T>(words: impl Into<String>) -> Result<T> {
    Err(CqlError::new(ErrorKind::BadCredentials, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read() {
        assert_eq!(credentials(b"\0ada\0secret"), Ok(("ada", "secret")));
        assert_eq!(credentials(b"x\0ada\0secret"), Ok(("ada", "secret")));
        for token in [
            &b""[..],
            b"ada",
            b"\0ada",
            b"\0\0x",
            b"\0ada\0",
            b"\0a\0b\0c",
            b"\0\xff\0x",
        ] {
            let error = credentials(token).unwrap_err();
            assert_eq!(error.kind, ErrorKind::BadCredentials, "{token:?}");
        }
    }
}
