//! The settings of the Table front end, and the front end made from them.

use std::net::SocketAddr;
use std::path::PathBuf;

use tessera_table::{Accounts, Bearer, BearerConfig, Mode, TableConfig};

use super::value::Secret;
use super::{Apply, Kind, Setting, value};
use crate::error::Error;

/// The parsed settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TableSettings {
    mode: Option<Mode>,
    accounts: Option<Secret>,
    bearer_issuer: Option<String>,
    bearer_audience: Option<String>,
    bearer_keys: Option<PathBuf>,
}

impl TableSettings {
    /// Whether all accounts have secret keys.
    pub(crate) fn has_own_accounts(&self) -> bool {
        self.accounts.is_some()
    }

    /// The weakness of a key that can be guessed or is public.
    pub(crate) fn weakness(&self) -> Option<String> {
        let Secret(text) = self.accounts.as_ref()?;
        let weakness = Accounts::parse(text).ok()?.weakness()?;
        Some(format!("{weakness} (table-accounts)"))
    }

    /// The options of the front end. Reads the keys of a token issuer from their file.
    pub(crate) fn config(&self) -> Result<TableConfig, Error> {
        let accounts = match &self.accounts {
            None => Accounts::emulator(),
            Some(Secret(text)) => Accounts::parse(text)
                .map_err(|problem| Error::Settings(format!("table-accounts: {problem}")))?,
        };
        Ok(TableConfig {
            mode: self.mode.unwrap_or(Mode::Storage),
            accounts,
            bearer: self.bearer()?,
        })
    }

    /// The connection string for SDKs. The emulators' account is public; the keys of others are not
    /// shown.
    pub(crate) fn connection_string(&self, scheme: &str, address: SocketAddr) -> String {
        let account = match &self.accounts {
            None => "devstoreaccount1",
            Some(Secret(text)) => text.split(':').next().unwrap_or_default().trim(),
        };
        let key = match &self.accounts {
            None => tessera_table::EMULATOR_KEY,
            Some(_) => "YOUR_KEY",
        };
        format!(
            "'DefaultEndpointsProtocol={scheme};AccountName={account};AccountKey={key};\
             TableEndpoint={scheme}://{address}/{account}'"
        )
    }

    fn bearer(&self) -> Result<Option<Bearer>, Error> {
        let (issuer, file) = match (&self.bearer_issuer, &self.bearer_keys) {
            (None, None) => return Ok(None),
            (Some(issuer), Some(file)) => (issuer, file),
            (Some(_), None) => {
                let problem = "table-bearer-issuer is set and table-bearer-keys is not";
                return Err(Error::Settings(problem.to_owned()));
            }
            (None, Some(_)) => {
                let problem = "table-bearer-keys is set and table-bearer-issuer is not";
                return Err(Error::Settings(problem.to_owned()));
            }
        };
        let unusable = |cause: String| {
            Error::Settings(format!(
                "cannot take bearer tokens with the keys in {}: {cause}",
                file.display()
            ))
        };
        let keys = std::fs::read_to_string(file).map_err(|error| unusable(error.to_string()))?;
        let config = BearerConfig {
            issuer: issuer.clone(),
            audience: self.bearer_audience.iter().cloned().collect(),
            keys,
        };
        Bearer::new(config).map(Some).map_err(unusable)
    }
}

/// The front end's settings beside its address.
pub(crate) const OPTIONS: &[Setting] = &[
    Setting {
        name: "table-mode",
        kind: Kind::Text,
        placeholder: "storage|cosmos",
        secret: false,
        default: Some("storage"),
        help: "Service that the Table API emulates: Azure Table storage, or Azure Cosmos DB for \
               Table with its limits, order and request charges",
        allowed: "storage or cosmos",
        apply: Apply::Field(|config, text| {
            let modes = [("storage", Mode::Storage), ("cosmos", Mode::Cosmos)];
            config.table.mode = Some(value::one_of(text, &modes)?);
            Some(())
        }),
    },
    Setting {
        name: "table-accounts",
        kind: Kind::Text,
        placeholder: "NAME:KEY[:KEY],…",
        secret: true,
        default: None,
        help: "Accounts of the Table API with one or two keys each, base64; without it, the public \
               account of the storage emulators, devstoreaccount1",
        allowed: "NAME:KEY or NAME:KEY:KEY, several with commas between them, each key in base64",
        apply: Apply::Field(|config, text| {
            Accounts::parse(text).ok()?;
            config.table.accounts = Some(Secret(text.to_owned()));
            Some(())
        }),
    },
    Setting {
        name: "table-bearer-issuer",
        kind: Kind::Text,
        placeholder: "URL",
        secret: false,
        default: None,
        help: "Accept bearer tokens of this issuer; needs table-bearer-keys",
        allowed: "a URL",
        apply: Apply::Field(|config, text| {
            config.table.bearer_issuer = Some(text.to_owned());
            Some(())
        }),
    },
    Setting {
        name: "table-bearer-keys",
        kind: Kind::Text,
        placeholder: "FILE",
        secret: false,
        default: None,
        help: "Public keys of table-bearer-issuer, as a JSON Web Key Set",
        allowed: "a file",
        apply: Apply::Field(|config, text| {
            config.table.bearer_keys = Some(value::path(text)?);
            Some(())
        }),
    },
    Setting {
        name: "table-bearer-audience",
        kind: Kind::Text,
        placeholder: "URL",
        secret: false,
        default: None,
        help: "Audience of bearer tokens; https://storage.azure.com if not set",
        allowed: "a URL",
        apply: Apply::Field(|config, text| {
            config.table.bearer_audience = Some(text.to_owned());
            Some(())
        }),
    },
];
