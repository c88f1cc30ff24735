//! All users and roles, stored and configured, and their privileges.

use std::collections::HashSet;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bson::{Bson, Document};
use rand::RngCore as _;
use tessera_core::Store;
use tessera_mongo_language::error::Code;

use super::record::{Damaged, Name, Role, User};
use super::scram::{Credential, MECHANISMS, Mechanism};
use super::storage::{Kept, Stored};
use crate::access::privilege::Privilege;
use crate::access::role;
use crate::failure::{Failure, Result};

/// What depends on whether there is a user is told at multiples of this: it hides the microseconds
/// that it takes to read one.
const STEP: Duration = Duration::from_millis(2);

/// Tells what was looked up after as long a time whatever was found.
async fn held_back<T>(look_up: impl Future<Output = T>) -> T {
    let begun = Instant::now();
    let found = look_up.await;
    let passed = begun.elapsed();
    let steps = passed.as_micros() / STEP.as_micros() + 1;
    let until = STEP * u32::try_from(steps).unwrap_or(u32::MAX);
    tokio::time::sleep(until.saturating_sub(passed)).await;
    found
}

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

    /// The user of this name. One who cannot be read is nobody.
    pub(crate) async fn find(&self, store: &Store, name: &Name) -> Result<Option<User>> {
        if let Some(user) = self.configured(name) {
            return Ok(Some(user.clone()));
        }
        let stored = Kept::Users.get(store, &name.id()).await?;
        Ok(stored.and_then(|stored| User::read(&stored.ok()?)))
    }

    /// How this user may log in. Of someone who does not exist nothing must tell, so they may in
    /// every way.
    pub(crate) async fn mechanisms(&self, store: &Store, name: &Name) -> Result<Vec<Mechanism>> {
        let look_up = async {
            let user = self.find(store, name).await?;
            let own = user.map(|user| user.credentials.into_keys().collect());
            Ok(own.unwrap_or_else(|| MECHANISMS.to_vec()))
        };
        held_back(look_up).await
    }

    /// All users, by name.
    pub(crate) async fn all(&self, store: &Store) -> Result<Vec<User>> {
        let mut users = self.configured.clone();
        users.extend(self.stored(store).await?.0);
        users.sort_by_key(|user| user.name.id());
        Ok(users)
    }

    /// The users that are stored, and what is stored and cannot be read.
    pub(crate) async fn stored(&self, store: &Store) -> Result<(Vec<User>, Vec<Damaged>)> {
        let stored = Kept::Users.all(store).await?.into_iter();
        let mut stored = stored
            .map(|(id, stored)| (Name::of_id(&id), stored))
            .collect::<Vec<_>>();
        stored.retain(|(name, _)| self.configured(name).is_none());
        Ok(read_all(stored, "user", User::read))
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
        // All that depends on the user happens before it is told, the end of what was read too.
        let look_up = async {
            let user = self.find(store, name).await?;
            let credential = user.and_then(|mut user| user.credentials.remove(&mechanism));
            let nobody = || Credential::of_nobody(mechanism, &self.secret, &name.to_string());
            Ok(credential.unwrap_or_else(nobody))
        };
        held_back(look_up).await
    }

    fn check_own(&self, name: &Name) -> Result<()> {
        if self.configured(name).is_none() {
            return Ok(());
        }
        let message = format!("User {name} is set in the server's settings; change it there");
        Err(Failure::new(Code::ILLEGAL_OPERATION, message))
    }

    /// Changes the user of this name, or makes or removes it.
    pub(crate) async fn change_user<C>(&self, store: &Store, name: &Name, change: C) -> Result<()>
    where
        C: Fn(Option<User>) -> Result<Option<User>> + Send + Sync,
    {
        self.check_own(name)?;
        let change = |stored: Option<Stored>| {
            let old = stored.map(|stored| readable(name, "user", stored, User::read));
            let new = change(old.transpose()?)?;
            Ok((new.map(|new| new.to_document()), ()))
        };
        Kept::Users.change(store, &name.id(), change).await?;
        self.invalidate();
        Ok(())
    }

    /// Puts a user in the place of whatever has that name.
    pub(crate) async fn put_user(&self, store: &Store, user: &User) -> Result<()> {
        self.check_own(&user.name)?;
        let put = |_| Ok((Some(user.to_document()), ()));
        Kept::Users.change(store, &user.name.id(), put).await?;
        self.invalidate();
        Ok(())
    }

    /// Drops the user of this name, even if it cannot be read; answers whether there was one.
    pub(crate) async fn drop_user(&self, store: &Store, name: &Name) -> Result<bool> {
        self.check_own(name)?;
        let drop = |stored: Option<Stored>| Ok((None, stored.is_some()));
        let was_there = Kept::Users.change(store, &name.id(), drop).await?;
        self.invalidate();
        Ok(was_there)
    }

    /// The role of this name that someone created.
    pub(crate) async fn find_role(&self, store: &Store, name: &Name) -> Result<Option<Role>> {
        let stored = Kept::Roles.get(store, &name.id()).await?;
        let role = stored.map(|stored| readable(name, "role", stored, Role::read));
        Ok(role.transpose()?)
    }

    /// All roles that someone created, and what is stored and cannot be read.
    pub(crate) async fn all_roles(&self, store: &Store) -> Result<(Vec<Role>, Vec<Damaged>)> {
        let stored = Kept::Roles.all(store).await?.into_iter();
        let stored = stored.map(|(id, stored)| (Name::of_id(&id), stored));
        Ok(read_all(stored, "role", Role::read))
    }

    /// Changes the role of this name, or makes or removes it.
    pub(crate) async fn change_role<C>(&self, store: &Store, name: &Name, change: C) -> Result<()>
    where
        C: Fn(Option<Role>) -> Result<Option<Role>> + Send + Sync,
    {
        let change = |stored: Option<Stored>| {
            let old = stored.map(|stored| readable(name, "role", stored, Role::read));
            let new = change(old.transpose()?)?;
            Ok((new.map(|new| new.to_document()), ()))
        };
        Kept::Roles.change(store, &name.id(), change).await?;
        self.invalidate();
        Ok(())
    }

    /// Puts a role in the place of whatever has that name.
    pub(crate) async fn put_role(&self, store: &Store, role: &Role) -> Result<()> {
        let put = |_| Ok((Some(role.to_document()), ()));
        Kept::Roles.change(store, &role.name.id(), put).await?;
        self.invalidate();
        Ok(())
    }

    /// Drops the role of this name, even if it cannot be read; answers whether there was one.
    pub(crate) async fn drop_role(&self, store: &Store, name: &Name) -> Result<bool> {
        let drop = |stored: Option<Stored>| Ok((None, stored.is_some()));
        let was_there = Kept::Roles.change(store, &name.id(), drop).await?;
        self.invalidate();
        Ok(was_there)
    }

    /// Says which users and roles cannot be read.
    pub(crate) async fn warn_of_damaged(&self, store: &Store) {
        let found = async {
            let (_, mut damaged) = self.stored(store).await?;
            damaged.extend(self.all_roles(store).await?.1);
            Result::Ok(damaged)
        };
        match found.await {
            Ok(damaged) => {
                for lost in damaged {
                    tracing::warn!("{}", lost.reason());
                }
            }
            Err(failure) => tracing::warn!(%failure.error, "users and roles cannot be read"),
        }
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
                granted.roles.push(name);
                continue;
            }
            let stored = Kept::Roles.get(store, &name.id()).await?;
            let role = stored.map(|stored| readable(&name, "role", stored, Role::read));
            match role {
                Some(Ok(role)) => {
                    granted.privileges.extend(role.privileges);
                    granted.restrictions.push(role.restrictions);
                    left.extend(role.roles);
                    granted.roles.push(name);
                }
                // It allows nothing, and keeps out whom it kept out.
                Some(Err(damaged)) => granted.restrictions.push(damaged.restrictions),
                // A role that was dropped allows nothing any more.
                None => {}
            }
        }
        granted.roles.sort();
        Ok(granted)
    }
}

/// What is stored under a name, as what it should be.
fn readable<T>(
    name: &Name,
    kind: &str,
    stored: Stored,
    read: fn(&Document) -> Option<T>,
) -> std::result::Result<T, Damaged> {
    let is_named = |stored: &&Document| {
        let (own, database) = (stored.get_str(kind).ok(), stored.get_str("db").ok());
        own == Some(&name.name) && database == Some(&name.database)
    };
    let found = stored.as_ref().ok().filter(is_named).and_then(read);
    found.ok_or_else(|| Damaged::new(name.clone(), kind, stored))
}

/// What can be read, and what cannot: that keeps nobody from using the others.
fn read_all<T>(
    stored: impl IntoIterator<Item = (Name, Stored)>,
    kind: &str,
    read: fn(&Document) -> Option<T>,
) -> (Vec<T>, Vec<Damaged>) {
    let (mut good, mut damaged) = (Vec::new(), Vec::new());
    for (name, stored) in stored {
        match readable(&name, kind, stored, read) {
            Ok(found) => good.push(found),
            Err(lost) => damaged.push(lost),
        }
    }
    (good, damaged)
}

/// What roles come to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Granted {
    pub(crate) roles: Vec<Name>,
    pub(crate) privileges: Vec<Privilege>,
    /// Where each of the roles may be used from.
    pub(crate) restrictions: Vec<Vec<Bson>>,
}

#[cfg(test)]
mod tests {
    use bson::doc;
    use tessera_core::item::NewItem;
    use tessera_core::name::ContainerName;

    use super::*;
    use crate::auth::storage::locator;
    use crate::client::Client;

    /// Bodies that are no user and no role of this name.
    fn damaged(name: &Name) -> Vec<Vec<u8>> {
        let mut bodies = vec![Vec::new(), vec![0xff; 40], vec![5, 0, 0, 0, 0, 0]];
        let own = doc! { "_id": name.id(), "user": &name.name, "role": &name.name };
        let other = doc! { "user": "another", "role": "another", "db": &name.database };
        for fields in [
            doc! {},
            own.clone(),
            other,
            doc! { "user": &name.name, "role": &name.name, "db": 5 },
            doc! { "user": 1, "role": 1, "db": &name.database },
        ] {
            bodies.push(fields.to_vec().unwrap());
        }
        let mut whole = own;
        whole.insert("db", &name.database);
        for (field, value) in [
            ("userId", Bson::from("x")),
            ("credentials", Bson::from(1)),
            ("credentials", Bson::from(doc! { "SCRAM-SHA-256": {} })),
            ("roles", Bson::from("read")),
            ("roles", Bson::Array(vec![1.into()])),
            (
                "privileges",
                Bson::Array(vec![doc! { "resource": 1 }.into()]),
            ),
        ] {
            let mut document = whole.clone();
            document.insert(field, value);
            bodies.push(document.to_vec().unwrap());
        }
        let cut = whole.to_vec().unwrap();
        bodies.push(cut[..cut.len() - 3].to_vec());
        bodies
    }

    async fn store_as(store: &Store, collection: &str, name: &Name, body: &[u8]) {
        let mut transaction = store.begin().await.unwrap();
        let place = ContainerName::new(crate::API, "admin", collection);
        let container = transaction.container(&place).await.unwrap();
        let item = NewItem::new(locator(&name.id()), body.to_vec());
        transaction.upsert(&container, item).await.unwrap();
        transaction.commit().await.unwrap();
    }

    /// The names of those that are shown as damaged.
    async fn shown(client: &mut Client, command: &str, list: &str) -> Vec<String> {
        let reply = client.run("shop", doc! { command: 1 }).await;
        let all = reply.get_array(list).unwrap().iter();
        let all = all.map(|it| it.as_document().unwrap());
        let damaged = all.filter(|it| it.contains_key("damaged"));
        damaged
            .map(|it| it.get_str("_id").unwrap().to_owned())
            .collect()
    }

    /// Checks that what cannot be read allows nothing and is nobody, and that its name is taken.
    async fn allows_nothing(
        client: &mut Client,
        lost: &Name,
        (user, role): (&Document, &Document),
    ) {
        let store = &client.service.store.clone();
        let users = &client.service.users;
        assert_eq!(users.find(store, lost).await.unwrap(), None);
        let granted = users
            .expand(store, std::slice::from_ref(lost))
            .await
            .unwrap();
        assert!(granted.privileges.is_empty() && granted.roles.is_empty());
        users
            .credential(store, lost, Mechanism::Sha256)
            .await
            .unwrap();
        assert!(users.any(store).await.unwrap());
        for (command, code) in [
            (user.clone(), 12),
            (role.clone(), 12),
            (doc! { "updateUser": "lost.1", "pwd": "x" }, 12),
            (doc! { "updateRole": "lost.1", "roles": [] }, 12),
            (doc! { "grantRolesToUser": "ada", "roles": ["lost.1"] }, 12),
        ] {
            let reply = client.send("shop", command.clone()).await;
            assert_eq!(
                reply.get_i32("code").unwrap_or(0),
                code,
                "{command}: {reply}"
            );
            let message = reply.get_str("errmsg").unwrap();
            assert!(message.contains("lost.1@shop") && message.contains("drop it"));
        }
    }

    #[tokio::test]
    async fn users_and_roles_that_cannot_be_read_cost_no_other_and_can_be_dropped() {
        let mut client = Client::new().await;
        let create = doc! { "createRole": "good", "privileges": [], "roles": ["read"] };
        client.run("shop", create).await;
        let create = doc! { "createUser": "ada", "pwd": "secret", "roles": ["good", "lost.1"] };
        assert_eq!(client.code("shop", create.clone()).await, 31);
        let lost = Name::new("lost.1", "shop");
        let role = doc! { "createRole": "lost.1", "privileges": [], "roles": [] };
        let user = doc! { "createUser": "lost.1", "pwd": "secret", "roles": [] };
        for (number, body) in damaged(&lost).into_iter().enumerate() {
            client.run("shop", role.clone()).await;
            client.run("shop", user.clone()).await;
            client.run("shop", create.clone()).await;
            let store = client.service.store.clone();
            store_as(&store, "system.users", &lost, &body).await;
            store_as(&store, "system.roles", &lost, &body).await;
            client.service.users.invalidate();
            assert_eq!(
                shown(&mut client, "usersInfo", "users").await,
                ["shop.lost.1"]
            );
            assert_eq!(
                shown(&mut client, "rolesInfo", "roles").await,
                ["shop.lost.1"]
            );
            for command in [
                doc! { "usersInfo": "ada", "showPrivileges": true },
                doc! { "usersInfo": { "forAllDBs": true } },
                doc! { "rolesInfo": "good", "showPrivileges": true },
                doc! { "grantRolesToUser": "ada", "roles": ["readWrite"] },
                doc! { "updateUser": "ada", "customData": { "a": 1 } },
                doc! { "grantRolesToRole": "good", "roles": ["readWrite"] },
                doc! { "revokeRolesFromUser": "ada", "roles": ["readWrite"] },
            ] {
                client.run("shop", command).await;
            }
            allows_nothing(&mut client, &lost, (&user, &role)).await;
            match number % 2 {
                0 => {
                    client.run("shop", doc! { "dropUser": "lost.1" }).await;
                    client.run("shop", doc! { "dropRole": "lost.1" }).await;
                    client.run("shop", doc! { "dropUser": "ada" }).await;
                }
                _ => {
                    let all = doc! { "dropAllUsersFromDatabase": 1 };
                    assert_eq!(client.run("shop", all).await.get_i64("n").ok(), Some(2));
                    let all = doc! { "dropAllRolesFromDatabase": 1 };
                    assert_eq!(client.run("shop", all).await.get_i64("n").ok(), Some(2));
                    let again = doc! { "createRole": "good", "privileges": [], "roles": [] };
                    client.run("shop", again).await;
                }
            }
            assert!(shown(&mut client, "usersInfo", "users").await.is_empty());
            assert!(shown(&mut client, "rolesInfo", "roles").await.is_empty());
            assert_eq!(client.code("shop", doc! { "dropUser": "lost.1" }).await, 11);
            assert_eq!(client.code("shop", doc! { "dropRole": "lost.1" }).await, 31);
        }
    }

    #[tokio::test]
    async fn whether_there_is_a_user_takes_as_long_to_tell() {
        let mut client = Client::new().await;
        let create = doc! { "createUser": "ada", "pwd": "secret", "roles": [] };
        client.run("shop", create).await;
        let (users, store) = (&client.service.users, &client.service.store);
        for name in ["ada", "eve"].map(|name| Name::new(name, "shop")) {
            for _ in 0..5 {
                let begun = Instant::now();
                users
                    .credential(store, &name, Mechanism::Sha256)
                    .await
                    .unwrap();
                assert!(begun.elapsed() >= STEP, "{name}");
                let begun = Instant::now();
                let mechanisms = users.mechanisms(store, &name).await.unwrap();
                assert!(begun.elapsed() >= STEP && mechanisms.len() == 2, "{name}");
            }
        }
    }

    #[test]
    fn a_damaged_role_still_keeps_out_whom_it_kept_out() {
        let name = Name::new("r", "shop");
        let restriction = doc! { "clientSource": ["10.0.0.0/8"] };
        let stored = doc! { "role": "r", "authenticationRestrictions": [restriction.clone()] };
        let lost = Damaged::new(name.clone(), "role", Ok(stored));
        assert_eq!(lost.restrictions, [Bson::from(restriction)]);
        let unreadable = Document::from_reader(&[0_u8; 3][..]);
        let lost = Damaged::new(name, "role", unreadable);
        let ends = super::super::restriction::Ends {
            client: [127, 0, 0, 1].into(),
            server: None,
        };
        assert!(!super::super::restriction::lets_in(
            &lost.restrictions,
            ends
        ));
    }
}
