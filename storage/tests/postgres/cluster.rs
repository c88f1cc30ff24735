//! The PostgreSQL that the tests of one run share, started by `scripts/postgres`.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

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
        run_at(&self.url_of_database("postgres"), statement).await;
    }

    /// Uses up numbers of transactions on the primary (0) or a promoted standby (1 or 2).
    pub(crate) async fn use_up_numbers(&self, server: usize) {
        for _ in 0..20 {
            run_at(&self.url_of(server), "SELECT pg_current_xact_id()").await;
        }
    }

    /// The address of the first database on the primary (0) or a standby (1 or 2), unencrypted.
    fn url_of(&self, server: usize) -> String {
        let (credentials, hosts) = self.url.split_once('@').unwrap();
        let host = hosts.split('/').next().unwrap().split(',').nth(server);
        format!("{credentials}@{}/postgres?sslmode=disable", host.unwrap())
    }

    /// Lets commits wait for no standby, and the standbys hear of none any more.
    pub(crate) async fn detach_standbys(&self) {
        for (server, setting) in [
            (0, "synchronous_standby_names"),
            (1, "primary_conninfo"),
            (2, "primary_conninfo"),
        ] {
            let url = self.url_of(server);
            run_at(&url, &format!("ALTER SYSTEM SET {setting} = ''")).await;
            run_at(&url, "SELECT pg_reload_conf()").await;
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        let connected = "SELECT count(*) FROM pg_stat_replication";
        let client = connect(&self.url_of(0)).await;
        while client
            .query_one(connected, &[])
            .await
            .unwrap()
            .get::<_, i64>(0)
            > 0
        {
            assert!(Instant::now() < deadline, "the standbys stay");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
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

async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    client
}

async fn run_at(url: &str, statement: &str) {
    connect(url).await.batch_execute(statement).await.unwrap();
}
