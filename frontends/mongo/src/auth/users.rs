//! The users and roles there are, stored ones and configured ones, and what they allow.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use bson::{Bson, Document};
use rand::RngCore as _;
use tessera_core::Store;
use tessera_mongo_language::error::Code;

use super::record::{Name, Role, User};
use super::scram::{Credential, MECHANISMS, Mechanism};
use super::storage::Kept;
use crate::access::privilege::Privilege;
use crate::access::role;
use crate::failure::{Failure, Result};

/// A user that the server's settings name: it may do everything.
#[derive(Clone, PartialEq, Eq)]
pub struct Configured {
    /// Its name, in the database `admin`.
    pub name: String,
    /// Its password.
    pub password: String,
}

impl std::fmt::Debug for Configured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Configured({})", self.name)
    }
}

/// All users and roles.
pub(crate) struct Users {
    configured: Vec<User>,
    /// Makes up salts for users who do not exist.
    secret: [u8; 32],
    /// Grows with every change: what was read before is read again.
    generation: AtomicU64,
}

impl Users {
    /// The configured users beside the stored ones. A password that no mechanism takes is refused.
    pub(crate) fn new(configured: &[Configured]) -> std::result::Result<Self, String> {
        let user = |configured: &Configured| {
            let Configured { name, password } = configured;
            let credential = |mechanism| {
                let credential = Credential::new(mechanism, name, password)?;
                Some((mechanism, credential))
            };
            let credentials = MECHANISMS
                .into_iter()
                .map(credential)
                .collect::<Option<_>>();
            Ok(User {
                name: Name::new(name, "admin"),
                id: bson::Uuid::new(),
                credentials: credentials.ok_or_else(|| {
                    format!("the password of {name} has characters that passwords cannot have")
                })?,
                roles: vec![Name::new("root", "admin")],
                custom_data: None,
                restrictions: Vec::new(),
            })
        };
        let mut secret = [0; 32];
        rand::rng().fill_bytes(&mut secret);
        Ok(Self {
            configured: configured
                .iter()
                .map(user)
                .collect::<std::result::Result<_, String>>()?,
            secret,
            generation: AtomicU64::new(0),
        })
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Makes everyone read users and roles again.
    pub(crate) fn invalidate(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    fn configured(&self, name: &Name) -> Option<&User> {
        self.configured.iter().find(|user| user.name == *name)
    }

    /// The user of this name.
    pub(crate) async fn find(&self, store: &Store, name: &Name) -> Result<Option<User>> {
        if let Some(user) = self.configured(name) {
            return Ok(Some(user.clone()));
        }
        let stored = Kept::Users.get(store, &name.id()).await?;
        stored.map(|stored| User::read(&stored)).transpose()
    }

    /// All users, by name.
    pub(crate) async fn all(&self, store: &Store) -> Result<Vec<User>> {
        let mut users = self.configured.clone();
        users.extend(self.stored(store).await?);
        users.sort_by_key(|user| user.name.id());
        Ok(users)
    }

    /// The users that are stored. One that cannot be read keeps nobody else from logging in.
    pub(crate) async fn stored(&self, store: &Store) -> Result<Vec<User>> {
        let stored = Kept::Users.all(store).await?;
        let users = stored.iter().filter_map(|stored| User::read(stored).ok());
        Ok(users
            .filter(|user| self.configured(&user.name).is_none())
            .collect())
    }

    /// Whether there is any user.
    pub(crate) async fn any(&self, store: &Store) -> Result<bool> {
        Ok(!self.configured.is_empty() || !Kept::Users.all(store).await?.is_empty())
    }

    /// What a user's login is checked against: of someone who does not exist, or has no such
    /// credential, one that no password fits.
    pub(crate) async fn credential(
        &self,
        store: &Store,
        name: &Name,
        mechanism: Mechanism,
    ) -> Result<Credential> {
        let user = self.find(store, name).await?;
        let credential = user.and_then(|mut user| user.credentials.remove(&mechanism));
        Ok(credential
            .unwrap_or_else(|| Credential::of_nobody(mechanism, &self.secret, &name.to_string())))
    }

    /// Changes the user of this name, or makes or removes it.
    pub(crate) async fn change_user<C>(&self, store: &Store, name: &Name, change: C) -> Result<()>
    where
        C: Fn(Option<User>) -> Result<Option<User>> + Send + Sync,
    {
        if self.configured(name).is_some() {
            let message = format!("User {name} is set in the server's settings; change it there");
            return Err(Failure::new(Code::ILLEGAL_OPERATION, message));
        }
        let change = |stored: Option<Document>| {
            let old = stored.map(|stored| User::read(&stored)).transpose()?;
            Ok(change(old)?.map(|new| new.to_document()))
        };
        Kept::Users.change(store, &name.id(), change).await?;
        self.invalidate();
        Ok(())
    }

    /// The role of this name that someone created.
    pub(crate) async fn find_role(&self, store: &Store, name: &Name) -> Result<Option<Role>> {
        let stored = Kept::Roles.get(store, &name.id()).await?;
        stored.map(|stored| Role::read(&stored)).transpose()
    }

    /// All roles that someone created.
    pub(crate) async fn all_roles(&self, store: &Store) -> Result<Vec<Role>> {
        let stored = Kept::Roles.all(store).await?;
        stored.iter().map(Role::read).collect()
    }

    /// Changes the role of this name, or makes or removes it.
    pub(crate) async fn change_role<C>(&self, store: &Store, name: &Name, change: C) -> Result<()>
    where
        C: Fn(Option<Role>) -> Result<Option<Role>> + Send + Sync,
    {
        let change = |stored: Option<Document>| {
            let old = stored.map(|stored| Role::read(&stored)).transpose()?;
            Ok(change(old)?.map(|new| new.to_document()))
        };
        Kept::Roles.change(store, &name.id(), change).await?;
        self.invalidate();
        Ok(())
    }

    /// Refuses roles that do not exist.
    pub(crate) async fn check_roles(&self, store: &Store, roles: &[Name]) -> Result<()> {
        for name in roles {
            let built_in = role::built_in(&name.name, &name.database).is_some();
            if !built_in && self.find_role(store, name).await?.is_none() {
                let message = format!("Could not find role: {name}");
                return Err(Failure::new(Code::ROLE_NOT_FOUND, message));
            }
        }
        Ok(())
    }

    /// All that these roles allow, with the roles that they contain.
    pub(crate) async fn expand(&self, store: &Store, roles: &[Name]) -> Result<Granted> {
        let mut granted = Granted::default();
        let mut seen = HashSet::new();
        let mut left: Vec<Name> = roles.to_vec();
        while let Some(name) = left.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            if let Some(privileges) = role::built_in(&name.name, &name.database) {
                granted.privileges.extend(privileges);
            } else if let Some(role) = self.find_role(store, &name).await? {
                granted.privileges.extend(role.privileges);
                granted.restrictions.push(role.restrictions);
                left.extend(role.roles);
            } else {
                // A role that was dropped allows nothing any more.
                continue;
            }
            granted.roles.push(name);
        }
        granted.roles.sort();
        Ok(granted)
    }
}

/// What roles come to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Granted {
    pub(crate) roles: Vec<Name>,
    pub(crate) privileges: Vec<Privilege>,
    /// Where each of the roles may be used from.
    pub(crate) restrictions: Vec<Vec<Bson>>,
}
