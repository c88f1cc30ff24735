//! The name of a container: which API, which database, which container.

use std::fmt;

use crate::encoding::{put_bytes, take_bytes};

/// Names one container. The API is part of the name: front ends do not see each other's containers.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct ContainerName {
    /// The front end that owns it, as "mongo", "cql" or "table".
    pub api: String,
    /// Database, keyspace or account.
    pub database: String,
    /// Collection or table. Empty for the database itself.
    pub container: String,
}

impl ContainerName {
    /// A name of three parts.
    pub fn new(
        api: impl Into<String>,
        database: impl Into<String>,
        container: impl Into<String>,
    ) -> Self {
        Self {
            api: api.into(),
            database: database.into(),
            container: container.into(),
        }
    }

    /// Whether the container holds a front end's own records, under an API that no client can name,
    /// such as `mongo-system`. It is neither charged nor listed.
    pub fn is_bookkeeping(&self) -> bool {
        self.api.ends_with("-system")
    }

    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        for part in [&self.api, &self.database, &self.container] {
            put_bytes(out, part.as_bytes());
        }
    }

    pub(crate) fn decode(input: &mut &[u8]) -> Option<Self> {
        let mut part = || String::from_utf8(take_bytes(input)?.into_owned()).ok();
        Some(Self::new(part()?, part()?, part()?))
    }
}

impl fmt::Display for ContainerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.api, self.database)?;
        if !self.container.is_empty() {
            write!(f, ".{}", self.container)?;
        }
        Ok(())
    }
}
