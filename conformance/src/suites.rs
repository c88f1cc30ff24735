//! What is walked over: each protocol with its clients, and the ways in which a server is set up.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::sync::Mutex;

use tempfile::TempDir;

use crate::clients::{Client, Issuer};
use crate::{Error, Postgres, Server};

/// How a server is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    /// As it is by itself, with its data in memory.
    Plain,
    /// With TLS and logins.
    Tls,
    /// As Azure Cosmos DB instead of Table storage.
    Cosmos,
    /// With its data in PostgreSQL.
    Postgres,
}

impl Variant {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Plain, Self::Tls, Self::Cosmos, Self::Postgres];

    /// Its name in commands and ledgers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Tls => "tls",
            Self::Cosmos => "cosmos",
            Self::Postgres => "postgres",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// The clients of one protocol.
#[derive(Debug)]
pub struct Suite {
    /// Also the name of the front end.
    pub name: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// Its clients.
    pub walkers: &'static [Walker],
    /// At least so many cases are tried.
    pub least: usize,
}

/// One client, and where it walks.
#[derive(Debug)]
pub struct Walker {
    /// Its name in commands and ledgers.
    pub name: &'static str,
    program: Program,
    /// Each variant that it is tried with, and its options there.
    pub variants: &'static [(Variant, &'static [&'static str])],
}

#[derive(Debug)]
enum Program {
    Python(&'static str),
    Node(&'static str),
    Script(&'static str),
    Rust(&'static str),
    Go(&'static str),
    Java(&'static str),
}

use Program::{Go, Java, Node, Python, Rust, Script};
use Variant::{Cosmos, Plain, Postgres as InPostgres, Tls};

/// What our server must copy in the time that others may need for less.
const MANY_ROWS: &[&str] = &["--rows", "100000"];
/// Where a client goes that has nothing to say about TLS or storage.
const ONLY_PLAIN: &[(Variant, &[&str])] = &[(Plain, &[])];
const PLAIN_AND_TLS: &[(Variant, &[&str])] = &[(Plain, &[]), (Tls, &[])];
const ALL: &[(Variant, &[&str])] = &[(Plain, &[]), (Tls, &[]), (Cosmos, &[]), (InPostgres, &[])];

/// All suites. Adding one is its row here.
pub const SUITES: &[Suite] = &[
    Suite {
        name: "mongo",
        title: "MongoDB",
        least: 150,
        walkers: &[
            Walker {
                name: "mongosh",
                program: Node("mongo/mongosh"),
                variants: &[(Plain, &[]), (InPostgres, &[])],
            },
            Walker {
                name: "pymongo",
                program: Python("mongo/python"),
                variants: &[
                    (Plain, &[]),
                    (Tls, &["--compressors", "zstd"]),
                    (InPostgres, &[]),
                ],
            },
            Walker {
                name: "node",
                program: Node("mongo/javascript"),
                variants: &[
                    (Plain, &[]),
                    (Tls, &["--compressors", "snappy,zlib"]),
                    (InPostgres, &[]),
                ],
            },
            Walker {
                name: "rust",
                program: Rust("mongo"),
                variants: &[(Plain, &[]), (Tls, &["--compressors", "zstd,zlib"])],
            },
            Walker {
                name: "go",
                program: Go("mongo"),
                variants: ONLY_PLAIN,
            },
            Walker {
                name: "java",
                program: Java("MongoWalk"),
                variants: ONLY_PLAIN,
            },
        ],
    },
    Suite {
        name: "cql",
        title: "Cassandra",
        least: 150,
        walkers: &[
            Walker {
                name: "cqlsh",
                program: Python("cql/cqlsh"),
                variants: &[(Plain, MANY_ROWS), (Tls, MANY_ROWS), (InPostgres, &[])],
            },
            Walker {
                name: "python",
                program: Python("cql/python"),
                variants: &[(Plain, &[]), (Tls, &[]), (InPostgres, &[])],
            },
            Walker {
                name: "node",
                program: Node("cql/javascript"),
                variants: PLAIN_AND_TLS,
            },
            Walker {
                name: "scylla",
                program: Rust("scylla"),
                variants: PLAIN_AND_TLS,
            },
            Walker {
                name: "cdrs",
                program: Rust("cdrs"),
                variants: PLAIN_AND_TLS,
            },
            Walker {
                name: "go",
                program: Go("cql"),
                variants: ONLY_PLAIN,
            },
            Walker {
                name: "java",
                program: Java("CqlWalk"),
                variants: ONLY_PLAIN,
            },
        ],
    },
    Suite {
        name: "table",
        title: "Azure Tables",
        least: 100,
        walkers: &[
            Walker {
                name: "python",
                program: Python("table/python"),
                variants: ALL,
            },
            Walker {
                name: "javascript",
                program: Node("table/javascript"),
                variants: ALL,
            },
            Walker {
                name: "curl",
                program: Script("table/curl"),
                variants: ALL,
            },
        ],
    },
];

/// The suite of this name.
pub fn suite(name: &str) -> Option<&'static Suite> {
    SUITES.iter().find(|suite| suite.name == name)
}

impl Walker {
    /// Brings what the client needs.
    pub(crate) fn client(&self) -> Result<Client, Error> {
        match self.program {
            Python(folder) => Client::python(folder),
            Node(folder) => Client::node(folder),
            Script(folder) => Ok(Client::script(folder)),
            Rust(program) => Client::rust(program),
            Go(program) => Client::go(program),
            Java(class) => Client::java(class),
        }
    }

    /// The program that this machine lacks and need not have: the scripts install all others.
    pub fn lacks(&self) -> Option<&'static str> {
        let needed: &[&str] = match self.program {
            Go(_) => &["go"],
            Java(_) => &["mvn", "javac"],
            _ => &[],
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_here = |name: &str| std::env::split_paths(&path).any(|it| it.join(name).is_file());
        needed.iter().copied().find(|name| !is_here(name))
    }

    /// Whether the test run may count on its language: `scripts/environment` installs it.
    pub fn is_everywhere(&self) -> bool {
        !matches!(self.program, Go(_) | Java(_))
    }
}

/// One client on its way over a server set up in one way.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    /// The protocol.
    pub suite: &'static Suite,
    /// The client.
    pub walker: &'static Walker,
    /// The server.
    pub variant: Variant,
    options: &'static [&'static str],
}

impl Walk {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        SUITES.iter().flat_map(|suite| {
            suite.walkers.iter().flat_map(move |walker| {
                let walk = move |&(variant, options): &(Variant, _)| Self {
                    suite,
                    walker,
                    variant,
                    options,
                };
                walker.variants.iter().map(walk)
            })
        })
    }

    /// The client with its options for our server.
    pub(crate) fn client(&self) -> Result<Client, Error> {
        Ok(self.walker.client()?.with(self.options))
    }
}

impl PartialEq for Walk {
    /// The options follow from the rest.
    fn eq(&self, other: &Self) -> bool {
        let parts = |walk: &Self| (walk.suite.name, walk.walker.name, walk.variant);
        parts(self) == parts(other)
    }
}

impl fmt::Display for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variant = self.variant.name();
        write!(f, "{} {} {variant}", self.suite.name, self.walker.name)
    }
}

const USER: &str = "walker";
const PASSWORD: &str = "walk:ing";
/// The account of every storage emulator.
const ACCOUNT: &str = "devstoreaccount1";

/// A server to walk over.
pub(crate) struct Place {
    pub(crate) endpoint: String,
    /// What a client must be told of it.
    pub(crate) options: Vec<OsString>,
    server: Option<Server>,
    kept: Kept,
}

/// What must be there as long as the server runs.
#[derive(Default)]
struct Kept {
    _folder: Option<TempDir>,
    _issuer: Option<Issuer>,
}

impl Place {
    /// Another server, that somebody else runs.
    pub(crate) fn target(suite: &Suite, target: &str) -> Self {
        let has_path = target
            .split("://")
            .nth(1)
            .is_some_and(|it| it.contains('/'));
        Self {
            endpoint: match suite.name {
                "table" if !has_path => format!("{target}/{ACCOUNT}"),
                _ => target.to_owned(),
            },
            options: Vec::new(),
            server: None,
            kept: Kept::default(),
        }
    }

    /// Our server, started for this walk alone: some clients show all that is there.
    pub(crate) fn start(walk: &Walk, database: &Database) -> Result<Self, Error> {
        let suite = walk.suite.name;
        match walk.variant {
            Plain => Self::of(suite, Server::start(&["--memory"])?),
            Tls if suite == "table" => Self::table_over_tls(),
            Tls => Self::with_logins(suite),
            Cosmos => {
                let server = Server::start(&["--memory", "--table-mode", "cosmos"])?;
                let mut place = Self::of(suite, server)?;
                place.options.push("--cosmos".into());
                Ok(place)
            }
            InPostgres => {
                let engine = database.place(&format!("{suite}_{}", walk.walker.name))?;
                Self::of(suite, Server::start(&["--engine", &engine])?)
            }
        }
    }

    fn of(suite: &str, server: Server) -> Result<Self, Error> {
        let address = server.address(suite).ok_or_else(|| Error::NoListener {
            front_end: suite.to_owned(),
            output: server.output(),
        })?;
        let endpoint = match suite {
            "mongo" => format!("mongodb://{address}/"),
            "table" => {
                let scheme = server.certificate().map_or("http", |_| "https");
                format!("{scheme}://{address}/{ACCOUNT}")
            }
            _ => address.to_string(),
        };
        let certificate = server.certificate();
        let trust = certificate.map(|file: &Path| ["--ca".into(), file.into()]);
        Ok(Self {
            endpoint,
            options: trust.into_iter().flatten().collect(),
            server: Some(server),
            kept: Kept::default(),
        })
    }

    /// Everyone must log in, and all bytes are encrypted.
    fn with_logins(suite: &str) -> Result<Self, Error> {
        let folder = folder()?;
        let users = [&format!("--{suite}-users"), &format!("{USER}:{PASSWORD}")];
        let server = Server::start_tls(folder.path(), &users.map(String::as_str))?;
        let mut place = Self::of(suite, server)?;
        match suite {
            "mongo" => {
                let login = format!("//{USER}:{}@", PASSWORD.replace(':', "%3A"));
                place.endpoint = place.endpoint.replacen("//", &login, 1);
            }
            _ => {
                let login = ["--user", USER, "--password", PASSWORD];
                place.options.extend(login.map(OsString::from));
            }
        }
        place.kept._folder = Some(folder);
        Ok(place)
    }

    /// Clients send bearer tokens over TLS only.
    fn table_over_tls() -> Result<Self, Error> {
        let (folder, issuer) = (folder()?, Issuer::new("table")?);
        let keys = issuer.keys().display().to_string();
        let options = [
            "--table-bearer-issuer",
            Issuer::NAME,
            "--table-bearer-keys",
            &keys,
        ];
        let server = Server::start_tls(folder.path(), &options)?;
        let mut place = Self::of("table", server)?;
        place
            .options
            .extend(["--token".into(), issuer.token().into()]);
        place.kept = Kept {
            _folder: Some(folder),
            _issuer: Some(issuer),
        };
        Ok(place)
    }

    /// What the server printed, if it is ours.
    pub(crate) fn printed(&self) -> String {
        self.server.as_ref().map(Server::output).unwrap_or_default()
    }

    /// Stops the server, which must end well.
    pub(crate) fn stop(self) -> Result<(), Error> {
        self.server.map_or(Ok(()), Server::stop)
    }
}

fn folder() -> Result<TempDir, Error> {
    tempfile::tempdir().map_err(Error::io("making a folder for a server"))
}

/// A PostgreSQL for all walks that want one, started for the first of them.
#[derive(Default)]
pub(crate) struct Database(Mutex<Option<Postgres>>);

impl Database {
    fn place(&self, name: &str) -> Result<String, Error> {
        let mut started = self
            .0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        match &*started {
            Some(postgres) => postgres.place(name),
            None => started.insert(Postgres::start()?).place(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_walk_has_a_name_of_its_own() {
        let names: BTreeSet<String> = Walk::all().map(|walk| walk.to_string()).collect();
        assert_eq!(names.len(), Walk::all().count());
        assert!(names.contains("cql cqlsh tls"));
    }

    #[test]
    fn a_target_may_leave_out_the_account() {
        for (name, target, endpoint) in [
            ("table", "http://a:1", "http://a:1/devstoreaccount1"),
            ("table", "http://a:1/b", "http://a:1/b"),
            ("mongo", "mongodb://a:1", "mongodb://a:1"),
            ("cql", "a:9042", "a:9042"),
        ] {
            let place = Place::target(suite(name).unwrap(), target);
            assert_eq!(place.endpoint, endpoint);
        }
    }
}
