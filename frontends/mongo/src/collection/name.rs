//! Namespaces: the allowed names of databases and collections, and their names in the core.

use std::fmt;

use tessera_core::name::ContainerName;
use tessera_mongo_language::error::{Code, Error, Result};

use crate::API;

/// The most bytes of `database.collection`.
const MAX_NAMESPACE_BYTES: usize = 255;
/// A database's name is shorter than this.
const DATABASE_NAME_LIMIT: usize = 64;
/// Names of the `system.` family that anyone may create.
const ALLOWED_SYSTEM_NAMES: &[&str] = &[
    "system.views",
    "system.profile",
    "system.js",
    "system.users",
    "system.roles",
];

/// A collection's name with its database.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Namespace {
    pub(crate) container: ContainerName,
}

impl Namespace {
    /// A namespace whose collection is one that may exist.
    pub(crate) fn new(database: &str, collection: &str) -> Result<Self> {
        check_database(database)?;
        check_collection(database, collection)?;
        Ok(Self::unchecked(database, collection))
    }

    /// A namespace of names that were checked before, or that exist already.
    pub(crate) fn unchecked(database: &str, collection: &str) -> Self {
        Self {
            container: ContainerName::new(API, database, collection),
        }
    }

    /// Reads `database.collection`.
    pub(crate) fn parse(full: &str) -> Result<Self> {
        let (database, collection) = full
            .split_once('.')
            .ok_or_else(|| invalid(format!("Invalid namespace specified '{full}'")))?;
        Self::new(database, collection)
    }

    pub(crate) fn database(&self) -> &str {
        &self.container.database
    }

    pub(crate) fn collection(&self) -> &str {
        &self.container.container
    }

    /// Another collection of the same database.
    pub(crate) fn sibling(&self, collection: &str) -> Self {
        Self::unchecked(self.database(), collection)
    }

    /// Refuses names that only the server itself may give to a new collection.
    pub(crate) fn check_creatable(&self) -> Result<()> {
        let name = self.collection();
        if name.starts_with("system.")
            && !ALLOWED_SYSTEM_NAMES.contains(&name)
            && !name.starts_with("system.buckets.")
        {
            return Err(invalid(format!("Invalid system namespace: {self}")));
        }
        Ok(())
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.database(), self.collection())
    }
}

/// Refuses names that no database has.
pub(crate) fn check_database(database: &str) -> Result<()> {
    const FORBIDDEN: &[char] = &['/', '\\', '.', ' ', '"', '$', '\0'];
    if database.is_empty() || database.len() >= DATABASE_NAME_LIMIT {
        return Err(invalid(format!(
            "db name must have 1 to 63 characters, and '{database}' has {}",
            database.len()
        )));
    }
    if database.contains(FORBIDDEN) {
        return Err(invalid(format!("Invalid database name: '{database}'")));
    }
    Ok(())
}

fn check_collection(database: &str, collection: &str) -> Result<()> {
    let full = || format!("{database}.{collection}");
    if collection.is_empty() || collection.starts_with('.') {
        return Err(invalid(format!("Invalid namespace specified '{}'", full())));
    }
    if collection.contains('\0') {
        return Err(invalid("namespaces cannot have embedded null characters"));
    }
    if collection.contains('$') {
        return Err(invalid(format!("Invalid collection name: {collection}")));
    }
    let length = database.len() + 1 + collection.len();
    if length > MAX_NAMESPACE_BYTES {
        return Err(invalid(format!(
            "Fully qualified namespace is too long. Namespace: {} Max: {MAX_NAMESPACE_BYTES}",
            full()
        )));
    }
    Ok(())
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::INVALID_NAMESPACE, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules() {
        let long = "x".repeat(252);
        let too_long = "x".repeat(254);
        for (database, collection, allowed) in [
            ("db", "c", true),
            ("db", "a.b", true),
            ("db", "a.", true),
            ("db", "with space", true),
            ("db", long.as_str(), true),
            ("db", too_long.as_str(), false),
            ("db", "", false),
            ("db", ".a", false),
            ("db", "a$b", false),
            ("db", "a\0b", false),
            ("", "c", false),
            ("d b", "c", false),
            ("d.b", "c", false),
        ] {
            let named = Namespace::new(database, collection);
            assert_eq!(named.is_ok(), allowed, "{database:?} {collection:?}");
            if let Err(error) = named {
                assert_eq!(error.code, Code(73));
            }
        }
    }

    #[test]
    fn system_names_are_reserved() {
        for (name, allowed) in [
            ("system.test", false),
            ("system.js", true),
            ("System.a", true),
        ] {
            let namespace = Namespace::new("db", name).unwrap();
            assert_eq!(namespace.check_creatable().is_ok(), allowed, "{name}");
        }
    }

    #[test]
    fn full_names_read_back() {
        let namespace = Namespace::parse("db.a.b").unwrap();
        assert_eq!(
            (namespace.database(), namespace.collection()),
            ("db", "a.b")
        );
        assert_eq!(namespace.to_string(), "db.a.b");
        assert!(Namespace::parse("nodot").is_err());
    }
}
