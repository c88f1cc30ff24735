//! Whether a name and a password belong together: the one place where guesses are answered.
//!
//! Checking a hash takes a processor's time on purpose, so it happens beside the threads that serve
//! requests, a few at once. A login that was right once is known again by a keyed hash, so that
//! clients that connect again do not pay for it. A refusal takes as long whoever is named: it is
//! the work of the costliest hash that there is, in vain if need be, and what still differs is
//! waited for.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit as _, Mac as _};
use rand::Rng as _;
use sha2::Sha256;
use tokio::sync::Semaphore;

use super::password::{self, EFFORT};
use super::roles::RoleMap;
use super::{User, password::same};

/// At most so many right logins are known again.
const KNOWN: usize = 10_000;

/// Refusals are told at multiples of this, which hides what remains of their differences.
const STEP: Duration = Duration::from_millis(100);

/// How a login went.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The password is right. The new hash is stronger than the one that is kept.
    Right { stronger: Option<String> },
    /// There is no such role, it has no password, or it has another one.
    Wrong,
}

type Digest = [u8; 32];

/// Checks passwords.
pub(super) struct Authenticator {
    permits: Semaphore,
    /// Makes what is kept in memory of no use elsewhere.
    key: [u8; 32],
    /// The passwords of roles that the settings name.
    configured: BTreeMap<String, Digest>,
    known: Mutex<HashSet<Digest>>,
}

impl Authenticator {
    pub(super) fn new(users: &[User]) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut authenticator = Self {
            permits: Semaphore::new((cores / 2).clamp(1, 8)),
            key: rand::rng().random(),
            configured: BTreeMap::new(),
            known: Mutex::default(),
        };
        let digests = users.iter().map(|user| {
            let digest = authenticator.digest([&user.name, "", &user.password]);
            (user.name.clone(), digest)
        });
        authenticator.configured = digests.collect();
        authenticator
    }

    /// Answers a guess.
    pub(super) async fn check(&self, roles: &RoleMap, name: &str, password: &str) -> Outcome {
        if let Some(expected) = self.configured.get(name) {
            let is_right = same(expected, &self.digest([name, "", password]));
            if is_right {
                return Outcome::Right { stronger: None };
            }
        }
        let role = roles
            .get(name)
            .filter(|_| !self.configured.contains_key(name));
        let hashed = role.and_then(|role| role.password.as_deref());
        let digest = hashed.map(|hashed| self.digest([name, hashed, password]));
        if self.is_known(digest) {
            return Outcome::Right { stronger: None };
        }
        let Ok(permit) = self.permits.acquire().await else {
            return Outcome::Wrong;
        };
        // Another connection may have shown the same meanwhile.
        if self.is_known(digest) {
            return Outcome::Right { stronger: None };
        }
        let begun = Instant::now();
        let outcome = verify(hashed, password, costliest(roles)).await;
        drop(permit);
        match (&outcome, digest) {
            (Outcome::Right { .. }, Some(digest)) => self.learn(digest),
            (Outcome::Right { .. } | Outcome::Wrong, _) => hold_back(begun).await,
        }
        outcome
    }

    /// The hash of a password, made beside the threads that serve requests.
    pub(super) async fn hash(&self, password: &str) -> Option<String> {
        let _permit = self.permits.acquire().await.ok()?;
        let password = password.to_owned();
        let hashed = tokio::task::spawn_blocking(move || password::hash(&password));
        hashed.await.ok()
    }

    fn is_known(&self, digest: Option<Digest>) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        digest.is_some_and(|digest| known.contains(&digest))
    }

    fn learn(&self, digest: Digest) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN {
            known.clear();
        }
        known.insert(digest);
    }

    /// A keyed hash of some texts. It has the stored hash in it, so that it is worth nothing once
    /// the password is another one.
    fn digest(&self, texts: [&str; 3]) -> Digest {
        // Keys of this kind may have any length, so this cannot fail; if it did, nothing is known.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.key) else {
            return rand::rng().random();
        };
        for text in texts {
            mac.update(&(text.len() as u64).to_be_bytes());
            mac.update(text.as_bytes());
        }
        mac.finalize().into_bytes().into()
    }
}

/// Compares with a hash. What is wrong takes the work of the costliest one.
async fn verify(hashed: Option<&str>, password: &str, costliest: u64) -> Outcome {
    let (hashed, password) = (hashed.map(str::to_owned), password.to_owned());
    let checked = tokio::task::spawn_blocking(move || {
        let right = hashed.as_deref();
        let right = right.filter(|hashed| password::verify(&password, hashed));
        if let Some(right) = right {
            let is_outdated = password::is_outdated(right);
            return Outcome::Right {
                stronger: is_outdated.then(|| password::hash(&password)),
            };
        }
        let done = hashed.as_deref().map_or(0, password::effort);
        password::work(&password, costliest.saturating_sub(done));
        Outcome::Wrong
    });
    checked.await.unwrap_or(Outcome::Wrong)
}

/// The rounds of the costliest hash that there is.
fn costliest(roles: &RoleMap) -> u64 {
    let hashes = roles.values().filter_map(|role| role.password.as_deref());
    hashes.map(password::effort).fold(EFFORT, u64::max)
}

/// Waits for the next moment at which refusals are told.
async fn hold_back(begun: Instant) {
    let passed = begun.elapsed();
    let steps = passed.as_millis() / STEP.as_millis() + 1;
    let until = STEP * u32::try_from(steps).unwrap_or(u32::MAX);
    tokio::time::sleep(until.saturating_sub(passed)).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::role::Role;

    fn roles(hashes: &[(&str, Option<String>)]) -> RoleMap {
        let role = |(name, password): &(&str, Option<String>)| {
            let role = Role {
                password: password.clone(),
                can_login: true,
                ..Role::default()
            };
            ((*name).to_owned(), role)
        };
        hashes.iter().map(role).collect()
    }

    fn root() -> Vec<User> {
        vec![User {
            name: "root".to_owned(),
            password: "r".to_owned(),
        }]
    }

    fn costly(password: &str, cost: u32) -> Option<String> {
        let hashed = bcrypt::hash_with_salt(password, cost, [7; 16]).unwrap();
        Some(hashed.format_for_version(bcrypt::Version::TwoA))
    }

    #[tokio::test]
    async fn right_logins_are_known_again_until_the_password_is_another() {
        let authenticator = Authenticator::new(&root());
        let right = Outcome::Right { stronger: None };
        let before = roles(&[("ada", Some(password::hash("a"))), ("bob", None)]);
        assert_eq!(authenticator.check(&before, "ada", "a").await, right);
        assert_eq!(authenticator.known.lock().unwrap().len(), 1);
        // Known: nothing is checked, even if nothing could be.
        let all = authenticator.permits.acquire_many(1).await.unwrap();
        assert_eq!(authenticator.check(&before, "ada", "a").await, right);
        assert_eq!(authenticator.check(&before, "root", "r").await, right);
        drop(all);
        let after = roles(&[("ada", Some(password::hash("b")))]);
        for (name, password) in [
            ("ada", "a"),
            ("ada", ""),
            ("bob", "a"),
            ("root", "R"),
            ("nobody", "a"),
        ] {
            let outcome = authenticator.check(&after, name, password).await;
            assert_eq!(outcome, Outcome::Wrong, "{name} {password}");
        }
        assert_eq!(authenticator.known.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn what_is_known_has_a_bound() {
        let authenticator = Authenticator::new(&[]);
        for number in 0..KNOWN + 5 {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&number.to_be_bytes());
            authenticator.learn(digest);
        }
        assert_eq!(authenticator.known.lock().unwrap().len(), 5);
    }

    /// Names that are not there, without a password, with hashes that cost less and more, and of
    /// the settings: the same time for each.
    #[tokio::test]
    async fn refusals_take_as_long_whoever_is_named() {
        let authenticator = Authenticator::new(&root());
        let roles = roles(&[
            ("usual", Some(password::hash("a"))),
            ("none", None),
            ("costly", costly("a", 9)),
            ("cheap", costly("a", 4)),
        ]);
        let costliest = costliest(&roles);
        assert_eq!(costliest, 512);
        let mut took = Vec::new();
        for name in ["usual", "none", "costly", "cheap", "root", "nobody"] {
            let begun = Instant::now();
            let outcome = authenticator.check(&roles, name, "wrong").await;
            assert_eq!(outcome, Outcome::Wrong);
            took.push((name, begun.elapsed().as_millis() / STEP.as_millis()));
        }
        let shortest = took.iter().map(|(_, steps)| *steps).min();
        // A busy machine may delay some; none is told early.
        assert!(shortest >= Some(1), "{took:?}");
    }
}
