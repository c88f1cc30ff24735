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
use crate::error::{CqlError, ErrorKind, Result};

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
                roles.insert(name, decode(&item.body)?);
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
            let role = stored.as_ref().map(|item| decode(&item.body)).transpose()?;
            let (role, value) = match self.is_configured(name) {
                false => change(role)?,
                true => {
                    let own = role.unwrap_or_default();
                    let (role, value) = change(Some(configured(own.clone())))?;
                    (role.map(|role| with_grants_of(own, role)), value)
                }
            };
            match (stored, role) {
                (_, Some(role)) => {
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

fn decode(body: &[u8]) -> Result<Role> {
    serde_json::from_slice(body).map_err(|error| damaged(&error))
}

fn encode(role: &Role) -> Result<Vec<u8>> {
    serde_json::to_vec(role).map_err(|error| damaged(&error))
}

fn damaged(error: &serde_json::Error) -> CqlError {
    CqlError::new(
        ErrorKind::Server,
        format!("A stored role is damaged: {error}"),
    )
}
