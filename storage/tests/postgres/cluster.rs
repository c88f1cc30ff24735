//! The PostgreSQL that the tests of one run share, started by `scripts/postgres`.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use tessera_core::engine::Engine;
use tessera_storage::{Address, PostgresEngine};

const CONNECTIONS: usize = 40;

/// A running primary with its standbys. They stop when this process ends, however it does.
pub(crate) struct Cluster {
    url: String,
    _child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// A name that no other test uses.
pub(crate) fn new_schema_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

impl Cluster {
    /// The one of this process.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Cluster> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// One that nobody else uses.
    pub(crate) fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/postgres");
        let mut child = Command::new(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        let mut url = String::new();
        answers.read_line(&mut url).unwrap();
        assert!(
            url.starts_with("postgres://"),
            "scripts/postgres said {url:?}"
        );
        Self {
            url: url.trim().to_owned(),
            _child: child,
            commands,
            answers,
        }
    }

    /// Has `scripts/postgres` do something.
    pub(crate) fn tell(&mut self, command: &str) {
        writeln!(self.commands, "{command}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        assert_eq!(answer, "done\n", "{command}");
    }

    /// The address of a schema, which is made if it is not there.
    pub(crate) async fn address(&self, schema: &str) -> Address {
        self.make(schema).await;
        let url = format!("{}&options=-csearch_path%3D{schema}", self.url);
        Address::parse(&url).unwrap()
    }

    /// The same, unencrypted, for whoever listens on another port.
    pub(crate) async fn address_through(&self, port: u16, schema: &str) -> Address {
        self.make(schema).await;
        let (credentials, _) = self.url.split_once('@').unwrap();
        let place = format!("127.0.0.1:{port}/postgres?sslmode=disable");
        let url = format!("{credentials}@{place}&options=-csearch_path%3D{schema}");
        Address::parse(&url).unwrap()
    }

    /// Where the primary listened at first.
    pub(crate) fn primary_port(&self) -> u16 {
        let (_, behind) = self.url.split_once("127.0.0.1:").unwrap();
        behind.split(',').next().unwrap().parse().unwrap()
    }

    /// The address of a database on the primary, unencrypted.
    pub(crate) fn url_of_database(&self, name: &str) -> String {
        let (credentials, _) = self.url.split_once('@').unwrap();
        let port = self.primary_port();
        format!("{credentials}@127.0.0.1:{port}/{name}?sslmode=disable")
    }

    /// Runs a statement as the superuser.
    pub(crate) async fn run(&self, statement: &str) {
        let url = self.url_of_database("postgres");
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        client.batch_execute(statement).await.unwrap();
    }

    async fn make(&self, schema: &str) {
        self.run(&format!("CREATE SCHEMA IF NOT EXISTS {schema}"))
            .await;
    }

    /// Opens an engine on a schema of its own.
    pub(crate) fn open(&self, schema: &str) -> Arc<dyn Engine> {
        let connect = async {
            let address = self.address(schema).await;
            PostgresEngine::connect(&address, CONNECTIONS).await
        };
        let runtime = tokio::runtime::Handle::current();
        let engine = tokio::task::block_in_place(|| runtime.block_on(connect));
        Arc::new(engine.unwrap())
    }
}
