//! A privilege: actions on a resource pattern. User-defined roles are stored as privileges,
//! built-in ones expand to privileges.

use bson::{Bson, Document, doc};
use tessera_mongo_language::error::{bad_value, failed_to_parse};

use super::{Action, Need, Resource};
use crate::failure::Result;

/// What a privilege is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// Everything there is, system data included.
    Anything,
    Cluster,
    /// Every database but `local` and `config`, and its ordinary collections.
    AnyDatabase,
    /// A database and its ordinary collections.
    Database(String),
    /// A collection of this name in any database.
    AnyDatabaseCollection(String),
    /// One collection.
    Collection(String, String),
}

impl Pattern {
    fn matches(&self, resource: &Resource) -> bool {
        match (self, resource) {
            (Self::Anything, _) | (Self::Cluster, Resource::Cluster) => true,
            (Self::AnyDatabase, Resource::Database(database)) => is_ordinary_database(database),
            (Self::AnyDatabase, Resource::Collection(database, collection)) => {
                is_ordinary_database(database) && is_ordinary_collection(collection)
            }
            (Self::AnyDatabase, Resource::AnyDatabase) => true,
            (Self::Database(own), Resource::Database(database)) => own == database,
            (Self::Database(own), Resource::Collection(database, collection)) => {
                own == database && is_ordinary_collection(collection)
            }
            (Self::AnyDatabaseCollection(own), Resource::Collection(_, collection)) => {
                own == collection
            }
            (Self::Collection(own, name), Resource::Collection(database, collection)) => {
                own == database && name == collection
            }
            _ => false,
        }
    }

    /// Whether it is about a database or something of it.
    fn reaches_database(&self, database: &str) -> bool {
        match self {
            Self::Anything | Self::AnyDatabaseCollection(_) => true,
            Self::Cluster => false,
            Self::AnyDatabase => is_ordinary_database(database),
            Self::Database(own) | Self::Collection(own, _) => own == database,
        }
    }

    /// The database whose roles one must be allowed to grant to grant something on this: `admin`
    /// if it reaches beyond one database.
    pub(crate) fn granted_by(&self) -> &str {
        match self {
            Self::Anything | Self::Cluster | Self::AnyDatabase | Self::AnyDatabaseCollection(_) => {
                "admin"
            }
            Self::Database(own) | Self::Collection(own, _) => own,
        }
    }

    /// As `createRole` has it.
    fn parse(resource: &Document) -> Result<Self> {
        if let Ok(cluster) = resource.get_bool("cluster") {
            return match cluster {
                true if resource.len() == 1 => Ok(Self::Cluster),
                _ => Err(bad_value("resource {cluster} must be true and alone").into()),
            };
        }
        if let Ok(anything) = resource.get_bool("anyResource") {
            return match anything {
                true if resource.len() == 1 => Ok(Self::Anything),
                _ => Err(bad_value("resource {anyResource} must be true and alone").into()),
            };
        }
        let (Ok(database), Ok(collection)) =
            (resource.get_str("db"), resource.get_str("collection"))
        else {
            let message = "resource must have string 'db' and 'collection' fields, 'cluster: true' \
                           or 'anyResource: true'";
            return Err(failed_to_parse(message).into());
        };
        Ok(match (database, collection) {
            ("", "") => Self::AnyDatabase,
            ("", collection) => Self::AnyDatabaseCollection(collection.to_owned()),
            (database, "") => Self::Database(database.to_owned()),
            (database, collection) => Self::Collection(database.to_owned(), collection.to_owned()),
        })
    }

    fn to_document(&self) -> Document {
        match self {
            Self::Anything => doc! { "anyResource": true },
            Self::Cluster => doc! { "cluster": true },
            Self::AnyDatabase => doc! { "db": "", "collection": "" },
            Self::Database(database) => doc! { "db": database, "collection": "" },
            Self::AnyDatabaseCollection(name) => doc! { "db": "", "collection": name },
            Self::Collection(database, name) => doc! { "db": database, "collection": name },
        }
    }
}

fn is_ordinary_database(name: &str) -> bool {
    name != "local" && name != "config"
}

/// System data is not part of a database's collections, but for views and GridFS-like names.
fn is_ordinary_collection(name: &str) -> bool {
    !name.starts_with("system.") || name == "system.views" || name == "system.js"
}

/// Actions on what a pattern matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Privilege {
    pub(crate) pattern: Pattern,
    pub(crate) actions: Vec<Action>,
}

impl Privilege {
    pub(crate) fn new(pattern: Pattern, mut actions: Vec<Action>) -> Self {
        actions.sort_unstable_by_key(|action| action.name());
        actions.dedup();
        Self { pattern, actions }
    }

    pub(crate) fn allows(&self, need: &Need) -> bool {
        let acts = self.actions.contains(&need.action) || self.actions.contains(&Action::Anything);
        acts && self.pattern.matches(&need.on)
    }

    /// Whether it allows anything at all in a database.
    pub(crate) fn reaches_database(&self, database: &str) -> bool {
        !self.actions.is_empty() && self.pattern.reaches_database(database)
    }

    /// Whether it allows anything at all on a collection.
    pub(crate) fn reaches(&self, resource: &Resource) -> bool {
        !self.actions.is_empty() && self.pattern.matches(resource)
    }

    /// Reads `{ resource: …, actions: [ … ] }`.
    pub(crate) fn parse(document: &Document) -> Result<Self> {
        let resource = document
            .get_document("resource")
            .map_err(|_| failed_to_parse("a privilege needs a document 'resource'"))?;
        let names = document
            .get_array("actions")
            .map_err(|_| failed_to_parse("a privilege needs an array 'actions'"))?;
        let mut actions = Vec::with_capacity(names.len());
        for name in names {
            let action = name.as_str().and_then(Action::parse);
            actions.push(action.ok_or_else(|| {
                failed_to_parse(format!("Unrecognized action privilege strings: {name}"))
            })?);
        }
        Ok(Self::new(Pattern::parse(resource)?, actions))
    }

    pub(crate) fn to_document(&self) -> Document {
        let actions = self.actions.iter().map(|action| Bson::from(action.name()));
        let actions: Vec<Bson> = actions.collect();
        doc! { "resource": self.pattern.to_document(), "actions": actions }
    }
}

#[cfg(test)]
mod tests {
    use super::super::role::built_in;
    use super::*;

    fn check(role: (&str, &str), need: Need, expected: bool) {
        let (name, database) = role;
        let privileges = built_in(name, database).unwrap();
        let allowed = privileges.iter().any(|privilege| privilege.allows(&need));
        assert_eq!(allowed, expected, "{role:?} {need:?}");
    }

    #[test]
    fn built_in_roles_allow_what_they_should() {
        let find = |database: &str, name: &str| Need::on_collection(Action::Find, database, name);
        let insert =
            |database: &str, name: &str| Need::on_collection(Action::Insert, database, name);
        check(("read", "shop"), find("shop", "c"), true);
        check(("read", "shop"), insert("shop", "c"), false);
        check(("read", "shop"), find("other", "c"), false);
        check(("read", "shop"), find("shop", "system.users"), false);
        check(("readWrite", "shop"), insert("shop", "c"), true);
        check(("readAnyDatabase", "admin"), find("shop", "c"), true);
        check(
            ("readAnyDatabase", "admin"),
            find("config", "shards"),
            false,
        );
        check(
            ("readAnyDatabase", "admin"),
            find("admin", "system.users"),
            false,
        );
        check(
            ("userAdminAnyDatabase", "admin"),
            find("admin", "system.users"),
            true,
        );
        check(
            ("clusterMonitor", "admin"),
            Need::on_cluster(Action::ServerStatus),
            true,
        );
        check(
            ("clusterMonitor", "admin"),
            Need::on_cluster(Action::Killop),
            false,
        );
        check(
            ("clusterAdmin", "admin"),
            Need::on_cluster(Action::Killop),
            true,
        );
        check(("root", "admin"), insert("config", "settings"), true);
        check(("root", "admin"), find("admin", "system.users"), true);
        check(("dbAdmin", "shop"), find("shop", "c"), false);
        check(
            ("dbOwner", "shop"),
            Need::on_database(Action::CreateUser, "shop"),
            true,
        );
        check(
            ("dbOwner", "shop"),
            Need::on_database(Action::CreateUser, "admin"),
            false,
        );
        assert_eq!(built_in("root", "shop"), None);
        assert_eq!(built_in("nobody", "admin"), None);
    }

    #[test]
    fn privileges_read_back() {
        for resource in [
            doc! { "cluster": true },
            doc! { "anyResource": true },
            doc! { "db": "", "collection": "" },
            doc! { "db": "a", "collection": "" },
            doc! { "db": "", "collection": "c" },
            doc! { "db": "a", "collection": "c" },
        ] {
            let document = doc! { "resource": resource, "actions": ["find", "insert"] };
            assert_eq!(Privilege::parse(&document).unwrap().to_document(), document);
        }
    }

    #[test]
    fn malformed_privileges_are_refused() {
        for document in [
            doc! {},
            doc! { "resource": { "db": "a" }, "actions": [] },
            doc! { "resource": { "cluster": false }, "actions": [] },
            doc! { "resource": { "cluster": true, "db": "a" }, "actions": [] },
            doc! { "resource": { "cluster": true }, "actions": ["fly"] },
            doc! { "resource": { "cluster": true }, "actions": [1] },
            doc! { "resource": { "cluster": true } },
        ] {
            assert!(Privilege::parse(&document).is_err(), "{document}");
        }
    }
}
