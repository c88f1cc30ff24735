//! Logging in where failures are counted: who fails too often waits.

use tessera_frontend::{Guessing, LoginGate};

use super::login::log_in;
use crate::error::{CqlError, ErrorKind, Result};
use crate::service::Service;

/// Checks a token when its turn has come; answers the role that it is of.
pub(crate) async fn admit(
    service: &Service,
    gate: &LoginGate,
    token: Option<&[u8]>,
) -> Result<String> {
    let name = claimed(token.unwrap_or_default());
    let Some(attempt) = gate.admit(Guessing::Password, name).await else {
        let words = format!("Provided username {name} and/or password are incorrect");
        return Err(CqlError::new(ErrorKind::BadCredentials, words));
    };
    let outcome = log_in(service, token).await;
    match &outcome {
        Ok(_) => attempt.succeeded(),
        Err(error) if error.kind == ErrorKind::BadCredentials => attempt.failed(),
        // Nobody knows whether it was right.
        Err(_) => drop(attempt),
    }
    outcome
}

/// The role that a token claims to be of, or nothing.
fn claimed(token: &[u8]) -> &str {
    let name = token.split(|byte| *byte == 0).nth(1).unwrap_or_default();
    str::from_utf8(name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::auth::User;
    use crate::service::CqlConfig;
    use crate::testing::Tester;

    #[tokio::test]
    async fn guesses_are_held_up_and_a_right_password_still_counts() {
        let config = CqlConfig {
            requires_authentication: true,
            users: vec![User {
                name: "root".to_owned(),
                password: "secret".to_owned(),
            }],
            ..CqlConfig::default()
        };
        let tester = Tester::with(config).await;
        let gate = tessera_frontend::testing::gate();
        let tokens = [
            &b"\0root\0wrong"[..],
            b"\0root\0",
            b"\0nobody\0x",
            b"nonsense",
            b"",
        ];
        for token in tokens.into_iter().cycle().take(10) {
            let error = admit(&tester.service, &gate, Some(token))
                .await
                .unwrap_err();
            assert_eq!(error.kind, ErrorKind::BadCredentials);
        }
        let began = Instant::now();
        let role = admit(&tester.service, &gate, Some(b"\0root\0secret")).await;
        assert_eq!(role.as_deref(), Ok("root"));
        assert!(began.elapsed() >= Duration::from_millis(100));
    }

    #[test]
    fn names_are_found_in_tokens() {
        assert_eq!(claimed(b"\0ada\0secret"), "ada");
        assert_eq!(claimed(b"x\0ada"), "ada");
        for token in [&b""[..], b"ada", b"\0\xff\0x", b"\0\0x"] {
            assert_eq!(claimed(token), "", "{token:?}");
        }
    }
}
