//! Users and roles as documents, in the form in which MongoDB keeps them: `admin.system.users` and
//! `admin.system.roles`.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bson::{Bson, Document, doc};
use tessera_mongo_language::error::{Code, bad_value};

use super::scram::{Credential, Mechanism};
use super::storage::Stored;
use crate::access::privilege::Privilege;
use crate::failure::{Failure, Result};

/// A user or a role: its name and the database it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) name: String,
    pub(crate) database: String,
}

impl Name {
    pub(crate) fn new(name: impl Into<String>, database: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            database: database.into(),
        }
    }

    /// The `_id` of its document.
    pub(crate) fn id(&self) -> String {
        format!("{}.{}", self.database, self.name)
    }

    /// Reads `"name"` or `{ KIND: "name", db: "database" }`, KIND being `user` or `role`.
    pub(crate) fn parse(value: &Bson, kind: &str, database: &str) -> Result<Self> {
        match value {
            Bson::String(name) if !name.is_empty() => Ok(Self::new(name, database)),
            Bson::Document(document) => {
                let (Ok(name), Ok(database)) = (document.get_str(kind), document.get_str("db"))
                else {
                    let message = format!("Missing expected field \"{kind}\" or \"db\"");
                    return Err(Failure::new(Code::NO_SUCH_KEY, message));
                };
                Ok(Self::new(name, database))
            }
            _ => Err(bad_value(format!("{kind} names must be strings or documents")).into()),
        }
    }

    /// Reads an array of names.
    pub(crate) fn parse_all(values: &[Bson], kind: &str, database: &str) -> Result<Vec<Self>> {
        let mut names = Vec::with_capacity(values.len());
        for value in values {
            let name = Self::parse(value, kind, database)?;
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Reads the `_id` of a document. No database has a period in its name.
    pub(super) fn of_id(id: &str) -> Self {
        let (database, name) = id.split_once('.').unwrap_or(("", id));
        Self::new(name, database)
    }

    pub(crate) fn to_document(&self, kind: &str) -> Document {
        doc! { kind: &self.name, "db": &self.database }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.database)
    }
}

/// A user.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct User {
    pub(crate) name: Name,
    pub(crate) id: bson::Uuid,
    pub(crate) credentials: BTreeMap<Mechanism, Credential>,
    pub(crate) roles: Vec<Name>,
    pub(crate) custom_data: Option<Document>,
    pub(crate) restrictions: Vec<Bson>,
}

/// A role that someone created.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Role {
    pub(crate) name: Name,
    pub(crate) privileges: Vec<Privilege>,
    pub(crate) roles: Vec<Name>,
    pub(crate) restrictions: Vec<Bson>,
}

/// What is stored of a user or a role and cannot be read: it allows nothing, and can be dropped.
#[derive(Clone, Debug)]
pub(crate) struct Damaged {
    pub(crate) name: Name,
    reason: String,
    /// Where those who have such a role may log in from, as far as that can be read.
    pub(crate) restrictions: Vec<Bson>,
}

impl From<Damaged> for Failure {
    fn from(damaged: Damaged) -> Self {
        Self::new(Code::UNSUPPORTED_FORMAT, damaged.reason)
    }
}

impl Damaged {
    /// `kind` is `user` or `role`.
    pub(super) fn new(name: Name, kind: &str, stored: Stored) -> Self {
        let (cause, restrictions) = match stored {
            Ok(document) => (
                "a field is missing or wrong".to_owned(),
                restrictions(&document),
            ),
            // It may have had some, and nobody can tell whom they let in.
            Err(error) => (error.to_string(), vec![Bson::Null]),
        };
        let reason = format!(
            "the {kind} '{name}' is stored and cannot be read ({cause}); drop it, or restore it \
             from a backup"
        );
        Self {
            name,
            reason,
            restrictions,
        }
    }

    pub(super) fn reason(&self) -> &str {
        &self.reason
    }

    /// As `usersInfo` and `rolesInfo` show it.
    pub(crate) fn shown(&self, kind: &str) -> Document {
        let mut document = doc! { "_id": self.name.id() };
        document.extend(self.name.to_document(kind));
        document.insert("roles", Bson::Array(Vec::new()));
        document.insert("damaged", &self.reason);
        document
    }
}

fn names(list: &[Name], kind: &str) -> Vec<Bson> {
    let documents = list.iter().map(|name| name.to_document(kind));
    documents.map(Bson::Document).collect()
}

impl User {
    /// As it is stored.
    pub(crate) fn to_document(&self) -> Document {
        let mut credentials = Document::new();
        for (mechanism, credential) in &self.credentials {
            let iterations = i32::try_from(credential.iterations).unwrap_or(i32::MAX);
            let kept = doc! {
                "iterationCount": iterations,
                "salt": STANDARD.encode(&credential.salt),
                "storedKey": STANDARD.encode(&credential.stored_key),
                "serverKey": STANDARD.encode(&credential.server_key),
            };
            credentials.insert(mechanism.name(), kept);
        }
        let mut document = doc! {
            "_id": self.name.id(),
            "userId": self.id,
            "user": &self.name.name,
            "db": &self.name.database,
            "credentials": credentials,
            "roles": names(&self.roles, "role"),
        };
        if let Some(custom_data) = &self.custom_data {
            document.insert("customData", custom_data.clone());
        }
        if !self.restrictions.is_empty() {
            document.insert("authenticationRestrictions", self.restrictions.clone());
        }
        document
    }

    /// Reads what is stored; none if it is no such thing.
    pub(crate) fn read(document: &Document) -> Option<Self> {
        let name = Name::new(document.get_str("user").ok()?, document.get_str("db").ok()?);
        let id = match document.get("userId")? {
            Bson::Binary(id) => id.to_uuid().ok()?,
            _ => return None,
        };
        let mut credentials = BTreeMap::new();
        for (mechanism, kept) in document.get_document("credentials").ok()? {
            let Some(mechanism) = Mechanism::parse(mechanism) else {
                continue;
            };
            let kept = kept.as_document()?;
            let bytes = |field: &str| STANDARD.decode(kept.get_str(field).ok()?).ok();
            let credential = Credential {
                iterations: u32::try_from(kept.get_i32("iterationCount").ok()?).ok()?,
                salt: bytes("salt")?,
                stored_key: bytes("storedKey")?,
                server_key: bytes("serverKey")?,
            };
            credentials.insert(mechanism, credential);
        }
        let roles = document.get_array("roles").ok()?;
        Some(Self {
            roles: Name::parse_all(roles, "role", &name.database).ok()?,
            name,
            id,
            credentials,
            custom_data: document.get_document("customData").ok().cloned(),
            restrictions: restrictions(document),
        })
    }

    /// As `usersInfo` shows it.
    pub(crate) fn shown(&self, with_credentials: bool) -> Document {
        let mechanisms = self.credentials.keys().map(|mechanism| mechanism.name());
        let mechanisms: Vec<Bson> = mechanisms.map(Bson::from).collect();
        let mut document = self.to_document();
        if !with_credentials {
            document.remove("credentials");
        }
        document.insert("mechanisms", mechanisms);
        document
    }
}

impl Role {
    /// As it is stored.
    pub(crate) fn to_document(&self) -> Document {
        let privileges = self.privileges.iter().map(Privilege::to_document);
        let privileges: Vec<Bson> = privileges.map(Bson::Document).collect();
        let mut document = doc! {
            "_id": self.name.id(),
            "role": &self.name.name,
            "db": &self.name.database,
            "privileges": privileges,
            "roles": names(&self.roles, "role"),
        };
        if !self.restrictions.is_empty() {
            document.insert("authenticationRestrictions", self.restrictions.clone());
        }
        document
    }

    /// Reads what is stored; none if it is no such thing.
    pub(crate) fn read(document: &Document) -> Option<Self> {
        let name = Name::new(document.get_str("role").ok()?, document.get_str("db").ok()?);
        let privileges = document.get_array("privileges").ok()?.iter();
        let privileges =
            privileges.map(|privilege| Privilege::parse(privilege.as_document()?).ok());
        let roles = document.get_array("roles").ok()?;
        Some(Self {
            privileges: privileges.collect::<Option<_>>()?,
            roles: Name::parse_all(roles, "role", &name.database).ok()?,
            name,
            restrictions: restrictions(document),
        })
    }
}

fn restrictions(document: &Document) -> Vec<Bson> {
    let stored = document.get_array("authenticationRestrictions");
    stored.cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Action;
    use crate::access::privilege::Pattern;

    #[test]
    fn users_and_roles_read_back_and_passwords_are_not_in_them() {
        let credential = |mechanism| {
            let credential = Credential::new(mechanism, "ada", "secret").unwrap();
            (mechanism, credential)
        };
        let user = User {
            name: Name::new("ada", "shop"),
            id: bson::Uuid::new(),
            credentials: [Mechanism::Sha1, Mechanism::Sha256].map(credential).into(),
            roles: vec![Name::new("read", "shop"), Name::new("root", "admin")],
            custom_data: Some(doc! { "a": 1 }),
            restrictions: Vec::new(),
        };
        let stored = user.to_document();
        assert!(!stored.to_string().contains("secret"));
        assert_eq!(User::read(&stored).unwrap(), user);
        assert!(!user.shown(false).contains_key("credentials"));

        let role = Role {
            name: Name::new("r", "shop"),
            privileges: vec![Privilege::new(Pattern::Cluster, vec![Action::Killop])],
            roles: vec![Name::new("read", "shop")],
            restrictions: Vec::new(),
        };
        assert_eq!(Role::read(&role.to_document()).unwrap(), role);
        assert!(User::read(&doc! {}).is_none() && Role::read(&doc! {}).is_none());
    }
}
