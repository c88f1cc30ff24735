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

use super::role::Role;
use super::{User, password};
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
    pub(super) passwords: password::Checker,
    store: Store,
    /// Those that the settings name.
    configured: RoleMap,
    read: RwLock<Option<(Arc<RoleMap>, Instant)>>,
}

impl Roles {
    pub(crate) fn new(store: Store, users: &[User]) -> Self {
        let configured = users.iter().map(|user| {
            let role = Role {
                is_superuser: true,
                can_login: true,
                password: Some(password::hash(&user.password)),
                ..Role::default()
            };
            (user.name.clone(), role)
        });
        Self {
            passwords: password::Checker::default(),
            store,
            configured: configured.collect(),
            read: RwLock::default(),
        }
    }

    /// The roles in force.
    pub(crate) async fn all(&self) -> Result<Arc<RoleMap>> {
        let kept = {
            let read = self.read.read().unwrap_or_else(PoisonError::into_inner);
            read.clone()
        };
        if let Some((roles, read_at)) = kept
            && read_at.elapsed() < FRESH
        {
            return Ok(roles);
        }
        let begun = Instant::now();
        let mut roles = self.load().await?;
        for (name, role) in &self.configured {
            let stored = roles.entry(name.clone()).or_default();
            // What it was granted is kept; what the settings say of it goes before.
            *stored = Role {
                member_of: std::mem::take(&mut stored.member_of),
                permissions: std::mem::take(&mut stored.permissions),
                ..role.clone()
            };
        }
        let roles = Arc::new(roles);
        let mut read = self.read.write().unwrap_or_else(PoisonError::into_inner);
        *read = Some((Arc::clone(&roles), begun));
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
    /// be.
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
            let (role, value) = change(role.or_else(|| self.configured.get(name).cloned()))?;
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
        *self.read.write().unwrap_or_else(PoisonError::into_inner) = None;
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
