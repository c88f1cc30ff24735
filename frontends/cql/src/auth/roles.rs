//! All roles: read from the core, and looked at again after a while.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tessera_core::definition::NewContainer;
use tessera_core::item::NewItem;
use tessera_core::locator::Locator;
use tessera_core::name::ContainerName;
use tessera_core::reading::{PageRequest, Span};
use tessera_core::{Error, Store};

use super::User;
use super::authenticator::Authenticator;
use super::role::Role;
use crate::API;
use crate::catalog::container_name;
use crate::error::{CqlError, ErrorKind, Result, refuse};

/// How long a change that another server made may stay unseen.
const FRESH: Duration = Duration::from_secs(1);

/// How often a change is tried while others change the same.
const ATTEMPTS: usize = 100;

/// All roles by name.
pub(crate) type RoleMap = BTreeMap<String, Role>;

/// Gives the roles in force.
pub(crate) struct Roles {
    pub(super) authenticator: Authenticator,
    store: Store,
    /// Those that the settings name.
    configured: BTreeSet<String>,
    read: RwLock<Read>,
}

/// What was last read.
#[derive(Default)]
struct Read {
    roles: Option<(Arc<RoleMap>, Instant)>,
    /// How often roles have changed here: what was read before the last change is not kept.
    changes: u64,
}

impl Roles {
    pub(crate) fn new(store: Store, users: &[User]) -> Self {
        Self {
            authenticator: Authenticator::new(users),
            store,
            configured: users.iter().map(|user| user.name.clone()).collect(),
            read: RwLock::default(),
        }
    }

    /// Whether the settings name this role, and so decide on everything but its grants.
    pub(super) fn is_configured(&self, name: &str) -> bool {
        self.configured.contains(name)
    }

    /// The roles in force.
    pub(crate) async fn all(&self) -> Result<Arc<RoleMap>> {
        let (kept, changes) = {
            let read = self.read.read().unwrap_or_else(PoisonError::into_inner);
            (read.roles.clone(), read.changes)
        };
        if let Some((roles, read_at)) = kept
            && read_at.elapsed() < FRESH
        {
            return Ok(roles);
        }
        let begun = Instant::now();
        let mut roles = self.load().await?;
        for name in &self.configured {
            let stored = roles.remove(name).unwrap_or_default();
            roles.insert(name.clone(), configured(stored));
        }
        let roles = Arc::new(roles);
        let mut read = self.read.write().unwrap_or_else(PoisonError::into_inner);
        if read.changes == changes {
            read.roles = Some((Arc::clone(&roles), begun));
        }
        Ok(roles)
    }

    async fn load(&self) -> Result<RoleMap> {
        let mut transaction = self.store.begin().await?;
        let container = match transaction.container(&place()).await {
            Ok(container) => container,
            Err(Error::NotFound(_)) => return Ok(RoleMap::new()),
            Err(error) => return Err(error.into()),
        };
        let mut roles = RoleMap::new();
        let mut page = PageRequest::default();
        loop {
            let found = transaction.scan(&container, &Span::All, &page).await?;
            for item in found.items {
                let name = String::from_utf8_lossy(&item.locator.row_key).into_owned();
                roles.insert(name, decode(&item.body));
            }
            page.continuation = found.continuation;
            if page.continuation.is_none() {
                return Ok(roles);
            }
        }
    }

    /// Changes one role, or makes or removes it: `change` gets what is there and answers what shall
    /// be. Of a role that the settings name only grants are kept, so that nothing is left of it but
    /// those once they name it no longer.
    pub(super) async fn change<T, C>(&self, name: &str, change: C) -> Result<T>
    where
        C: Fn(Option<Role>) -> Result<(Option<Role>, T)>,
    {
        self.create().await?;
        for _ in 0..ATTEMPTS {
            let mut transaction = self.store.begin().await?;
            let container = transaction.container(&place()).await?;
            let stored = transaction.read(&container, &locator(name)).await?;
            let role = stored.as_ref().map(|item| decode(&item.body));
            let (role, value) = match self.is_configured(name) {
                false => change(role)?,
                true => {
                    // What cannot be read of it was no more than grants.
                    let own = role
                        .filter(|role| role.damage.is_none())
                        .unwrap_or_default();
                    let (role, value) = change(Some(configured(own.clone())))?;
                    (role.map(|role| with_grants_of(own, role)), value)
                }
            };
            match (stored, role) {
                (_, Some(role)) => {
                    check_whole(name, &role)?;
                    let item = NewItem::new(locator(name), encode(&role)?);
                    transaction.upsert(&container, item).await?;
                }
                (Some(stored), None) => transaction.remove(&container, &stored).await?,
                (None, None) => {}
            }
            match transaction.commit().await {
                Ok(_) => {
                    self.forget();
                    return Ok(value);
                }
                // Someone else changed the same role just now.
                Err(Error::Conflict) => tokio::task::yield_now().await,
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Conflict.into())
    }

    /// Lets the next look be at the core.
    pub(super) fn forget(&self) {
        let mut read = self.read.write().unwrap_or_else(PoisonError::into_inner);
        read.roles = None;
        read.changes += 1;
    }

    async fn create(&self) -> Result<()> {
        let there = self.store.begin().await?.container(&place()).await;
        if !matches!(there, Err(Error::NotFound(_))) {
            return Ok(there.map(|_| ())?);
        }
        match self
            .store
            .create_container(&place(), &NewContainer::default())
            .await
        {
            Ok(_) | Err(Error::AlreadyExists(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// A role that the settings name, with the grants of the stored one.
fn configured(stored: Role) -> Role {
    Role {
        is_superuser: true,
        can_login: true,
        ..with_grants_of(Role::default(), stored)
    }
}

fn with_grants_of(role: Role, other: Role) -> Role {
    Role {
        member_of: other.member_of,
        permissions: other.permissions,
        ..role
    }
}

/// Whether something is so of a role or of one that was granted to it, directly or through others.
pub(super) fn any(roles: &RoleMap, name: &str, is_so: impl Fn(&Role) -> bool) -> bool {
    let Some(own) = roles.get(name) else {
        return false;
    };
    if own.member_of.is_empty() || is_so(own) {
        return is_so(own);
    }
    let all = with_granted(roles, name);
    all.iter().filter_map(|name| roles.get(name)).any(is_so)
}

/// Whether a role, or one that was granted to it, is a superuser.
pub(super) fn is_superuser(roles: &RoleMap, name: &str) -> bool {
    any(roles, name, |role| role.is_superuser)
}

/// A role and all that were granted to it, directly or through others.
pub(super) fn with_granted(roles: &RoleMap, name: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut left = vec![name];
    while let Some(name) = left.pop() {
        if found.insert(name.to_owned())
            && let Some(role) = roles.get(name)
        {
            left.extend(role.member_of.iter().map(String::as_str));
        }
    }
    found
}

/// Where roles are kept. Nothing tells of this container but `system_auth`.
fn place() -> ContainerName {
    debug_assert_eq!(API, "cql");
    container_name("system_auth", "roles")
}

fn locator(name: &str) -> Locator {
    Locator::row(0, Bytes::new(), name.as_bytes().to_vec())
}

/// One that cannot be read costs no other.
fn decode(body: &[u8]) -> Role {
    serde_json::from_slice(body).unwrap_or_else(|error| Role {
        damage: Some(format!("A stored role is damaged: {error}")),
        ..Role::default()
    })
}

/// Refuses to go on with a role that cannot be read, and would lose what it had.
fn check_whole(name: &str, role: &Role) -> Result<()> {
    match &role.damage {
        None => Ok(()),
        Some(why) => refuse(format!("Role '{name}' can only be dropped. {why}")),
    }
}

fn encode(role: &Role) -> Result<Vec<u8>> {
    serde_json::to_vec(role).map_err(|error| {
        let words = format!("The role cannot be kept: {error}");
        CqlError::new(ErrorKind::Server, words)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::tests::{rows, testers};

    /// Bodies that are no role.
    const DAMAGED: &[&[u8]] = &[
        b"",
        b"{",
        b"null",
        b"5",
        b"\"role\"",
        b"{\"is_superuser\": true",
        b"{\"is_superuser\": 5}",
        b"{\"member_of\": {}}",
        b"{\"permissions\": {\"data\": [1]}}",
        b"{\"password\": []}",
        b"{\"can_login\": true}}",
        b"\xff\x00",
        &[b'['; 100_000],
    ];

    async fn store_as(store: &Store, name: &str, body: &[u8]) {
        let mut transaction = store.begin().await.unwrap();
        let container = transaction.container(&place()).await.unwrap();
        let item = NewItem::new(locator(name), body.to_vec());
        transaction.upsert(&container, item).await.unwrap();
        transaction.commit().await.unwrap();
    }

    /// How many roles are listed as damaged.
    async fn damaged(tester: &crate::testing::Tester) -> usize {
        let listed = rows(tester.ok(&["LIST ROLES"]).await.body);
        let is_damaged = |row: &&[Option<Vec<u8>>]| {
            let options = row[3].clone().unwrap();
            options.windows(7).any(|part| part == b"damaged")
        };
        let cells = listed.cells();
        cells.chunks(5).filter(is_damaged).count()
    }

    #[tokio::test]
    async fn a_role_that_cannot_be_read_costs_no_other_and_can_be_dropped() {
        let (mut root, _) = testers().await;
        root.ok(&["GRANT SELECT ON ks.t TO bob"]).await;
        for body in DAMAGED {
            root.ok(&["CREATE ROLE lost", "GRANT lost TO bob"]).await;
            store_as(&root.service.store, "lost", body).await;
            store_as(&root.service.store, "root", body).await;
            root = root.restarted().await;
            root.session.log_in("root");
            let bob = root.another();
            bob.session.log_in("bob");
            assert_eq!(damaged(&root).await, 1);
            bob.ok(&["SELECT * FROM ks.t"]).await;
            root.ok(&[
                "SELECT * FROM system_auth.roles",
                "LIST ALL PERMISSIONS",
                "LIST USERS",
                "ALTER ROLE bob WITH LOGIN = true",
                "GRANT MODIFY ON ks.t TO bob",
                "REVOKE MODIFY ON ks.t FROM bob",
                "CREATE ROLE IF NOT EXISTS lost",
                // What the settings name needs nothing that is stored.
                "GRANT SELECT ON ks.t TO root",
                "REVOKE SELECT ON ks.t FROM root",
            ])
            .await;
            for text in [
                "ALTER ROLE lost WITH LOGIN = true",
                "GRANT SELECT ON ks.t TO lost",
                "GRANT readers TO lost",
            ] {
                let refused = root.refused(text).await;
                let words = "Role 'lost' can only be dropped. A stored role is damaged";
                assert!(refused.starts_with(words), "{text}: {refused}");
            }
            let refused = root.refused("CREATE ROLE lost").await;
            assert_eq!(refused, "lost already exists");
            root.ok(&["DROP ROLE lost"]).await;
            assert_eq!(damaged(&root).await, 0);
        }
    }

    #[tokio::test]
    async fn nobody_logs_in_as_a_role_that_cannot_be_read() {
        let (root, _) = testers().await;
        let token = b"\0bob\0b";
        for body in DAMAGED {
            store_as(&root.service.store, "bob", body).await;
            let root = root.restarted().await;
            let refused = crate::auth::log_in(&root.service, Some(token)).await;
            assert_eq!(refused.unwrap_err().kind, ErrorKind::BadCredentials);
            let root_token = b"\0root\0r";
            assert!(
                crate::auth::log_in(&root.service, Some(root_token))
                    .await
                    .is_ok()
            );
        }
    }
}
