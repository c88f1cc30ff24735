//! From the four sources to one [`Config`]: flags before environment before file before defaults.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use super::file::{self, FileValues};
use super::{Config, Setting, all, nearest};
use crate::error::Error;

const PREFIX: &str = "TESSERA_";
const CONFIG_VARIABLE: &str = "TESSERA_CONFIG";

/// The inputs, not parsed.
#[derive(Clone, Default)]
pub(crate) struct Sources {
    /// Flags by setting name.
    pub(crate) flags: BTreeMap<&'static str, String>,
    /// `--config`.
    pub(crate) config_flag: Option<PathBuf>,
    /// The `TESSERA_…` part of the environment. Empty variables count as unset.
    pub(crate) environment: BTreeMap<String, OsString>,
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // They hold secrets.
        f.write_str("Sources")
    }
}

impl Sources {
    /// Takes the environment of this process.
    pub(crate) fn with_process_environment(mut self) -> Self {
        self.environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .filter(|(name, value)| name.starts_with(PREFIX) && !value.is_empty())
            .collect();
        self
    }
}

/// The settings in force.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    pub(super) values: Vec<Value>,
    /// Variables that look like misspelt settings, with the probable settings.
    pub(crate) suspicious: Vec<(String, String)>,
    sources: Sources,
}

/// One setting in force.
pub(super) struct Value {
    pub(super) setting: Setting,
    pub(super) text: Option<String>,
    pub(super) origin: Origin,
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text.as_deref().map(|text| self.setting.shown(text));
        write!(f, "{} = {text:?} ({})", self.setting.name, self.origin)
    }
}

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File(PathBuf, usize),
    Environment(String),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, line) => write!(f, "file {}:{line}", path.display()),
            Self::Environment(variable) => write!(f, "environment {variable}"),
            Self::Flag(name) => write!(f, "flag --{name}"),
        }
    }
}

impl Settings {
    /// Reads all sources and checks every value, also those that a stronger source overrides: a
    /// file with a mistake in it should not start to fail on the day a flag is left out.
    pub(crate) fn resolve(sources: &Sources) -> Result<Self, Error> {
        let settings = all();
        let path = config_path(sources);
        let file = match &path {
            Some(path) => file::read(path, &settings)?,
            None => FileValues::new(),
        };
        let mut config = Config::blank();
        let mut values = Vec::with_capacity(settings.len());
        for setting in &settings {
            let given = candidates(setting, sources, path.as_ref(), &file)?;
            for (text, origin) in &given {
                check(setting, text, origin)?;
            }
            let winner = given.into_iter().next();
            let (text, origin) = winner.map_or((None, Origin::Default), |(text, origin)| {
                (Some(text), origin)
            });
            if let Some(text) = &text {
                setting.apply(&mut config, text);
            }
            values.push(Value {
                setting: *setting,
                text,
                origin,
            });
        }
        let suspicious = suspicious(&sources.environment, &settings);
        let resolved = Self {
            config,
            values,
            suspicious,
            sources: sources.clone(),
        };
        resolved.check_together()?;
        Ok(resolved)
    }

    /// The settings as they are now: the file may have changed.
    pub(crate) fn read_again(&self) -> Result<Self, Error> {
        Self::resolve(&self.sources)
    }

    /// The source of the value of the setting `name`.
    pub(crate) fn origin(&self, name: &str) -> Origin {
        let value = self.values.iter().find(|value| value.setting.name == name);
        value.map_or(Origin::Default, |value| value.origin.clone())
    }

    fn check_together(&self) -> Result<(), Error> {
        let config = &self.config;
        if config.memory && self.origin("engine") != Origin::Default {
            return Err(Error::Settings(format!(
                "memory = true ({}) and engine ({}) exclude each other: choose one",
                self.origin("memory"),
                self.origin("engine")
            )));
        }
        let problem = match (&config.tls_cert, &config.tls_key) {
            (Some(_), None) => {
                format!(
                    "tls-cert is set ({}) and tls-key is not",
                    self.origin("tls-cert")
                )
            }
            (None, Some(_)) => {
                format!(
                    "tls-key is set ({}) and tls-cert is not",
                    self.origin("tls-key")
                )
            }
            (Some(_), Some(_)) if config.tls_self_signed => format!(
                "tls-cert ({}) and tls-self-signed ({}) exclude each other: choose one",
                self.origin("tls-cert"),
                self.origin("tls-self-signed")
            ),
            _ => return Ok(()),
        };
        Err(Error::Settings(problem))
    }
}

fn config_path(sources: &Sources) -> Option<PathBuf> {
    let variable = || sources.environment.get(CONFIG_VARIABLE).map(PathBuf::from);
    sources.config_flag.clone().or_else(variable)
}

/// All values given for a setting, the strongest first.
fn candidates(
    setting: &Setting,
    sources: &Sources,
    path: Option<&PathBuf>,
    file: &FileValues,
) -> Result<Vec<(String, Origin)>, Error> {
    let mut given = Vec::new();
    if let Some(text) = sources.flags.get(setting.name) {
        given.push((text.clone(), Origin::Flag(setting.name)));
    }
    let variable = setting.variable();
    if let Some(value) = sources.environment.get(&variable) {
        let text = value.to_str().ok_or_else(|| {
            Error::Settings(format!(
                "the environment variable {variable} is not valid UTF-8"
            ))
        })?;
        given.push((text.to_owned(), Origin::Environment(variable)));
    }
    if let (Some(path), Some((text, line))) = (path, file.get(setting.name)) {
        given.push((text.clone(), Origin::File(path.clone(), *line)));
    }
    if let Some(text) = setting.default {
        given.push((text.to_owned(), Origin::Default));
    }
    Ok(given)
}

fn check(setting: &Setting, text: &str, origin: &Origin) -> Result<(), Error> {
    setting.apply(&mut Config::blank(), text).ok_or_else(|| {
        Error::Settings(format!(
            "{} = {:?} ({origin}) is not allowed; allowed is {}",
            setting.name,
            setting.shown(text),
            setting.allowed
        ))
    })
}

/// Only a near miss is reported: orchestrators set variables such as `TESSERA_PORT` on their own.
fn suspicious(
    environment: &BTreeMap<String, OsString>,
    settings: &[Setting],
) -> Vec<(String, String)> {
    let mut known: Vec<String> = settings.iter().map(Setting::variable).collect();
    known.push(CONFIG_VARIABLE.to_owned());
    let unknown = environment.keys().filter(|name| !known.contains(name));
    unknown
        .filter_map(|name| {
            let short = name.strip_prefix(PREFIX)?;
            let known = nearest(short, settings.iter().map(|setting| setting.name))?;
            let known = settings.iter().find(|setting| setting.name == known)?;
            Some((name.clone(), known.variable()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value of each setting that is not its default. A new setting must be added here.
    fn sample(setting: &Setting) -> &'static str {
        match setting.name {
            "burst"
            | "memory"
            | "tls-self-signed"
            | "cql-auth"
            | "mongo-auth"
            | "enable-test-commands" => "true",
            "data" => "/some where/\"quoted\"",
            "durability" => "periodic",
            "engine" => "postgres://ada:secret@db/shop",
            "engine-connections" => "8",
            "memory-limit" => "1GB",
            "max-logical-partition" | "max-physical-partition" => "10MB",
            "max-partition-key" => "64KB",
            "cql-batch-size-warn" | "cql-batch-size-fail" => "20KB",
            "max-connections" | "max-shared-containers" | "cql-batch-partitions-warn" => "7",
            "idle-timeout" => "off",
            "read-timeout" | "shutdown-timeout" | "throttle-wait" | "change-feed-retention" => {
                "1500ms"
            }
            "change-feed" => "always",
            "change-feed-size" => "10MB",
            "tls-cert" => "/cert.pem",
            "tls-key" => "/key.pem",
            "log" => "json",
            "log-level" => "trace",
            "console-admin-key" => "sixteen-or-more-characters",
            "cql-users" | "mongo-users" => "ada:secret",
            "mongo-replica-set" => "rs0",
            "table-mode" => "cosmos",
            "table-accounts" => "ada:c2VjcmV0",
            "table-bearer-issuer" => "https://issuer.example",
            "table-bearer-keys" => "/keys.json",
            "table-bearer-audience" => "https://audience.example",
            name if setting.placeholder == "ADDR" => match name {
                "console" => "[::1]:0",
                _ => "off",
            },
            name => panic!("no sample for {name}"),
        }
    }

    /// A certificate and a self-signed one exclude each other; leave one of them out. Secrets are
    /// not printed.
    fn compatible_settings() -> impl Iterator<Item = Setting> {
        all()
            .into_iter()
            .filter(|setting| setting.name != "tls-self-signed" && !setting.secret)
    }

    fn resolve_file(toml: &str, sources: Sources) -> Settings {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tessera.toml");
        std::fs::write(&path, toml).unwrap();
        Settings::resolve(&Sources {
            config_flag: Some(path),
            ..sources
        })
        .unwrap()
    }

    fn flags() -> BTreeMap<&'static str, String> {
        compatible_settings()
            .map(|setting| (setting.name, sample(&setting).into()))
            .collect()
    }

    #[test]
    fn file_environment_flags_and_print_agree_on_every_setting() {
        let by_flags = Settings::resolve(&Sources {
            flags: flags(),
            ..Sources::default()
        })
        .unwrap();
        let environment =
            compatible_settings().map(|setting| (setting.variable(), sample(&setting).into()));
        let environment = environment.collect();
        let by_environment = Settings::resolve(&Sources {
            environment,
            ..Sources::default()
        })
        .unwrap();
        let by_file = resolve_file(&by_flags.to_toml(), Sources::default());

        assert_eq!(by_flags.config, by_environment.config);
        assert_eq!(by_flags.config, by_file.config);
        for setting in compatible_settings() {
            assert_ne!(setting.default, Some(sample(&setting)), "{}", setting.name);
            assert_eq!(by_flags.origin(setting.name), Origin::Flag(setting.name));
            let variable = setting.variable();
            assert_eq!(
                by_environment.origin(setting.name),
                Origin::Environment(variable)
            );
            assert!(
                matches!(by_file.origin(setting.name), Origin::File(..)),
                "{}",
                setting.name
            );
        }
    }

    #[test]
    fn every_setting_changes_the_configuration() {
        for setting in all() {
            let mut config = Config::blank();
            setting.apply(&mut config, sample(&setting)).unwrap();
            let mut default = Config::blank();
            if let Some(text) = setting.default {
                setting.apply(&mut default, text).unwrap();
            }
            assert_ne!(config, default, "{}", setting.name);
        }
    }

    #[test]
    fn two_engines_exclude_each_other_and_the_password_is_not_shown() {
        let address = "postgres://ada:secret@db/shop".to_owned();
        let flags = BTreeMap::from([("engine", address)]);
        let settings = Settings::resolve(&Sources {
            flags: flags.clone(),
            ..Sources::default()
        })
        .unwrap();
        assert!(!settings.to_toml().contains("secret"));
        assert!(!format!("{settings:?}").contains("secret"));
        let mut both = flags;
        both.insert("memory", "true".to_owned());
        let error = Settings::resolve(&Sources {
            flags: both,
            ..Sources::default()
        });
        let error = error.unwrap_err().to_string();
        assert!(error.contains("exclude each other"), "{error}");
    }

    #[test]
    fn the_printed_defaults_are_a_file_with_the_same_meaning() {
        let defaults = Settings::resolve(&Sources::default()).unwrap();
        let again = resolve_file(&defaults.to_toml(), Sources::default());
        assert_eq!(defaults.config, again.config);
        assert!(defaults.to_toml().lines().all(|line| line.contains("  # ")));
    }

    #[test]
    fn flags_win_over_environment_over_file_over_default() {
        let flag = ("max-connections", "1".to_owned());
        let variable = ("TESSERA_MAX_CONNECTIONS".to_owned(), "2".into());
        let file = "max-connections = 3";
        let check = |flag: Option<_>, variable: Option<_>, file, expected| {
            let sources = Sources {
                flags: flag.into_iter().collect(),
                environment: variable.into_iter().collect(),
                config_flag: None,
            };
            assert_eq!(resolve_file(file, sources).config.max_connections, expected);
        };
        check(Some(flag), Some(variable.clone()), file, 1);
        check(None, Some(variable), file, 2);
        check(None, None, file, 3);
        check(None, None, "", 2_000);
    }

    fn problem(sources: &Sources) -> String {
        Settings::resolve(sources).unwrap_err().to_string()
    }

    #[test]
    fn a_bad_value_is_named_with_its_origin_and_what_is_allowed() {
        let flags = BTreeMap::from([("durability", "sometimes".to_owned())]);
        assert_eq!(
            problem(&Sources {
                flags,
                ..Sources::default()
            }),
            "durability = \"sometimes\" (flag --durability) is not allowed; \
             allowed is group or periodic"
        );
        let environment = BTreeMap::from([("TESSERA_CONSOLE".to_owned(), ":8080".into())]);
        let problem = problem(&Sources {
            environment,
            ..Sources::default()
        });
        assert!(problem.starts_with("console = \":8080\" (environment TESSERA_CONSOLE) is not"));
    }

    #[test]
    fn tls_settings_must_fit_together() {
        let check = |names: &[&'static str], part: &str| {
            let value = |name: &str| {
                if name == "tls-self-signed" {
                    "true"
                } else {
                    "/x"
                }
            };
            let flags = names
                .iter()
                .map(|name| (*name, value(name).to_owned()))
                .collect();
            let problem = problem(&Sources {
                flags,
                ..Sources::default()
            });
            assert!(problem.contains(part), "{problem}");
        };
        check(
            &["tls-cert"],
            "tls-cert is set (flag --tls-cert) and tls-key is not",
        );
        check(
            &["tls-key"],
            "tls-key is set (flag --tls-key) and tls-cert is not",
        );
        check(
            &["tls-cert", "tls-key", "tls-self-signed"],
            "exclude each other",
        );
    }

    #[test]
    fn only_near_misses_in_the_environment_are_suspicious() {
        let names = [
            "TESSERA_CONSOL",
            "TESSERA_PORT",
            "TESSERA_CONSOLE",
            "TESSERA_CONFIG_DIR",
        ];
        let environment = names.map(|name| (name.to_owned(), "off".into())).into();
        let settings = Settings::resolve(&Sources {
            environment,
            ..Sources::default()
        })
        .unwrap();
        let expected = ("TESSERA_CONSOL".to_owned(), "TESSERA_CONSOLE".to_owned());
        assert_eq!(settings.suspicious, [expected]);
    }
}
