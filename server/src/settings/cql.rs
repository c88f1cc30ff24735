//! The settings of the Cassandra front end, and the front end made from them.

use tessera_cql::{BatchLimits, CqlConfig, User};
use tessera_frontend::About;

use super::partitions::SIZES;
use super::value::Secret;
use super::{Apply, Kind, Setting, value};

/// The parsed settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CqlSettings {
    users: Option<Secret>,
    auth: bool,
    batches: BatchLimits,
}

impl CqlSettings {
    /// Whether authentication is required.
    pub(crate) fn requires_authentication(&self) -> bool {
        self.auth || self.users.is_some()
    }

    /// The first of the configured roles.
    pub(crate) fn first_user(&self) -> Option<&str> {
        let Secret(text) = self.users.as_ref()?;
        text.split(':').next()
    }

    /// The weakness of a weak password.
    pub(crate) fn weakness(&self) -> Option<String> {
        let Secret(text) = self.users.as_ref()?;
        value::weak_password("cql-users", text)
    }

    /// How to create the first role, if authentication is required and the settings name none.
    pub(crate) fn how_to_begin(&self) -> Option<&'static str> {
        let is_needed = self.auth && self.users.is_none();
        is_needed.then_some(
            "authentication is required, and cql-users is not set: if there is no role yet, start \
             with cql-users = \"NAME:PASSWORD\", a superuser, and create others with CREATE ROLE",
        )
    }

    /// The options of the front end.
    pub(crate) fn config(&self, about: &About) -> CqlConfig {
        let own = about.listeners.iter().find(|row| row.name == "cql");
        let users = match &self.users {
            Some(Secret(text)) => value::users(text).unwrap_or_default(),
            None => Vec::new(),
        };
        let user = |(name, password)| User { name, password };
        CqlConfig {
            address: own.map(|row| row.address),
            requires_authentication: self.requires_authentication(),
            users: users.into_iter().map(user).collect(),
            batches: self.batches,
            ..CqlConfig::default()
        }
    }
}

/// The front end's settings beside its address.
pub(crate) const OPTIONS: &[Setting] = &[
    Setting {
        name: "cql-users",
        kind: Kind::Text,
        placeholder: "NAME:PASSWORD,…",
        secret: true,
        default: None,
        help: "Superuser roles of the Cassandra API; turns authentication on",
        allowed: "NAME:PASSWORD, several with commas between them",
        apply: Apply::Field(|config, text| {
            value::users(text)?;
            config.cql.users = Some(Secret(text.to_owned()));
            Some(())
        }),
    },
    Setting {
        name: "cql-auth",
        kind: Kind::Switch,
        placeholder: "BOOL",
        secret: false,
        default: Some("false"),
        help: "Require authentication in the Cassandra API, with roles made by CREATE ROLE",
        allowed: "true or false",
        apply: Apply::Field(|config, text| value::switch(text).map(|on| config.cql.auth = on)),
    },
    Setting {
        name: "cql-batch-size-warn",
        kind: Kind::Text,
        placeholder: "SIZE",
        secret: false,
        default: Some("5KB"),
        help: "Size from which a CQL batch of several partitions causes a warning",
        allowed: SIZES,
        apply: Apply::Field(|config, text| {
            value::size(text).map(|size| config.cql.batches.warned_bytes = size)
        }),
    },
    Setting {
        name: "cql-batch-size-fail",
        kind: Kind::Text,
        placeholder: "SIZE",
        secret: false,
        default: Some("50KB"),
        help: "Size from which a CQL batch of several partitions is refused",
        allowed: SIZES,
        apply: Apply::Field(|config, text| {
            value::size(text).map(|size| config.cql.batches.refused_bytes = size)
        }),
    },
    Setting {
        name: "cql-batch-partitions-warn",
        kind: Kind::Number,
        placeholder: "COUNT",
        secret: false,
        default: Some("10"),
        help: "Number of partitions beyond which an unlogged CQL batch causes a warning",
        allowed: "a number",
        apply: Apply::Field(|config, text| {
            let count = text.parse().ok()?;
            config.cql.batches.warned_partitions = count;
            Some(())
        }),
    },
];
