//! The PostgreSQL that the tests of one run share, started by `scripts/postgres`.

use std::io::{BufRead, BufReader};
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
    _commands: ChildStdin,
    _answers: BufReader<ChildStdout>,
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

    fn start() -> Self {
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
            _commands: commands,
            _answers: answers,
        }
    }

    /// The address of a schema, which is made if it is not there.
    pub(crate) async fn address(&self, schema: &str) -> Address {
        let plain = self.url.split('?').next().unwrap();
        let url = format!("{plain}?sslmode=disable&target_session_attrs=read-write");
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        let create = format!("CREATE SCHEMA IF NOT EXISTS {schema}");
        client.batch_execute(&create).await.unwrap();
        let url = format!("{}&options=-csearch_path%3D{schema}", self.url);
        Address::parse(&url).unwrap()
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
