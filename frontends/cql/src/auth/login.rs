//! Logging in: the token of SASL PLAIN, and whether it is right.

use crate::error::{CqlError, ErrorKind, Result};
use crate::service::Service;

/// Checks a token; answers the role that it is of.
pub(crate) async fn log_in(service: &Service, token: Option<&[u8]>) -> Result<String> {
    let (name, given) = credentials(token.unwrap_or_default())?;
    let roles = service.roles.all().await?;
    let role = roles.get(name);
    let hashed = role.and_then(|role| role.password.as_deref());
    let is_right = match hashed {
        Some(hashed) => service.roles.passwords.is_right(given, hashed).await,
        None => false,
    };
    let Some(role) = role.filter(|_| is_right) else {
        return refuse(format!(
            "Provided username {name} and/or password are incorrect"
        ));
    };
    if !role.can_login {
        return refuse(format!("{name} is not permitted to log in"));
    }
    Ok(name.to_owned())
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
