//! The settings of the MongoDB front end, and the front end made from them.

use tessera_frontend::About;
use tessera_mongo::{MongoConfig, User};

use super::value::Secret;
use super::{Apply, Kind, Setting, value};

/// The parsed settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct MongoSettings {
    users: Option<Secret>,
    auth: bool,
    replica_set: Option<String>,
    test_commands: bool,
}

impl MongoSettings {
    /// Whether authentication is required.
    pub(crate) fn requires_authentication(&self) -> bool {
        self.auth || self.users.is_some()
    }

    /// The first of the configured users.
    pub(crate) fn first_user(&self) -> Option<&str> {
        let Secret(text) = self.users.as_ref()?;
        text.split(':').next()
    }

    /// The weakness of a weak password.
    pub(crate) fn weakness(&self) -> Option<String> {
        let Secret(text) = self.users.as_ref()?;
        value::weak_password("mongo-users", text)
    }

    /// How to create the first user, if authentication is required and the settings name none.
    pub(crate) fn how_to_begin(&self) -> Option<&'static str> {
        let is_needed = self.auth && self.users.is_none();
        is_needed.then_some(
            "authentication is required, and mongo-users is not set: if there is no user yet, \
             connect from this machine and create the first with \
             db.getSiblingDB(\"admin\").createUser({user: \"NAME\", \
             pwd: passwordPrompt(), roles: [\"root\"]})",
        )
    }

    /// The options of the front end.
    pub(crate) fn config(&self, about: &About) -> MongoConfig {
        let own = about.listeners.iter().find(|row| row.name == "mongo");
        let address = own.map(|row| row.address);
        let users = match &self.users {
            Some(Secret(text)) => value::users(text).unwrap_or_default(),
            None => Vec::new(),
        };
        let user = |(name, password)| User { name, password };
        let mut settings = vec![("mongo-auth", self.requires_authentication().to_string())];
        settings.extend(address.map(|address| ("mongo", address.to_string())));
        settings.extend(
            self.replica_set
                .clone()
                .map(|name| ("mongo-replica-set", name)),
        );
        if self.test_commands {
            settings.push(("enable-test-commands", "true".to_owned()));
        }
        let named = |(name, value): (&str, String)| (name.to_owned(), value);
        MongoConfig {
            version: about.version,
            address,
            replica_set: self.replica_set.clone(),
            test_commands: self.test_commands,
            requires_authentication: self.requires_authentication(),
            users: users.into_iter().map(user).collect(),
            settings: settings.into_iter().map(named).collect(),
        }
    }
}

/// The front end's settings beside its address.
pub(crate) const OPTIONS: &[Setting] = &[
    Setting {
        name: "mongo-users",
        kind: Kind::Text,
        placeholder: "NAME:PASSWORD,…",
        secret: true,
        default: None,
        help: "Superusers of the MongoDB API; turns authentication on",
        allowed: "NAME:PASSWORD, several with commas between them",
        apply: Apply::Field(|config, text| {
            value::users(text)?;
            config.mongo.users = Some(Secret(text.to_owned()));
            Some(())
        }),
    },
    Setting {
        name: "mongo-auth",
        kind: Kind::Switch,
        placeholder: "BOOL",
        secret: false,
        default: Some("false"),
        help: "Require authentication in the MongoDB API, with users made by createUser; the \
               first may be created from this machine without a login",
        allowed: "true or false",
        apply: Apply::Field(|config, text| value::switch(text).map(|on| config.mongo.auth = on)),
    },
    Setting {
        name: "mongo-replica-set",
        kind: Kind::Text,
        placeholder: "NAME",
        secret: false,
        default: None,
        help: "Present the server as a replica set of one member, of this name, instead of a \
               mongos",
        allowed: "a name",
        apply: Apply::Field(|config, text| {
            config.mongo.replica_set = Some(text.to_owned()).filter(|name| !name.is_empty());
            config.mongo.replica_set.as_ref().map(|_| ())
        }),
    },
    Setting {
        name: "enable-test-commands",
        kind: Kind::Switch,
        placeholder: "BOOL",
        secret: false,
        default: Some("false"),
        help: "Allow MongoDB commands that only tests need, such as fail points",
        allowed: "true or false",
        apply: Apply::Field(|config, text| {
            value::switch(text).map(|on| config.mongo.test_commands = on)
        }),
    },
];
