//! A front end on the memory engine, and connections to it.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;
use tessera_core::Store;
use tessera_core::clock::Clock;
use tessera_core::engine::Engine;
use tessera_core::memory::MemoryEngine;
use tessera_core::memory_budget::MemoryBudget;
use tessera_core::model::Model;
use tessera_core::name::ContainerName;
use tessera_core::store::StoreOptions;
use tessera_frontend::FrontEnd as _;
use tessera_frontend::testing::connection;
use tessera_table::{API, Accounts, EMULATOR_KEY, Mode, Table, TableConfig, TableModel};
use tokio::io::{AsyncWriteExt as _, BufReader, DuplexStream, duplex};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::answer::Answer;
use crate::ask::{ACCOUNT, Ask, KEYS, batch, create_table, put, query};
use crate::hesitant::Hesitant;

/// Another account, and its only key.
pub(crate) const OTHER_ACCOUNT: (&str, &str) = ("two", "a2V5IHRocmVl");

/// An account whose key everybody knows.
pub(crate) const PUBLIC_ACCOUNT: &str = "public";

/// What a connection holds of bytes that the other side has not read.
const BUFFER_BYTES: usize = 1 << 16;

/// A service without sockets.
#[derive(Clone)]
pub(crate) struct Service {
    table: Arc<Table>,
    pub(crate) store: Store,
    /// As long as it lives, nobody is asked to stop.
    running: Arc<watch::Sender<bool>>,
}

impl Service {
    pub(crate) async fn storage() -> Self {
        Self::new(Mode::Storage, Clock::system()).await
    }

    /// One whose statements meet in many orders.
    pub(crate) async fn hesitant() -> Self {
        let engine = Arc::new(Hesitant::default());
        Self::on(engine, Mode::Storage, Clock::system()).await
    }

    /// One on this engine.
    pub(crate) async fn over(engine: Arc<dyn Engine>) -> Self {
        Self::on(engine, Mode::Storage, Clock::system()).await
    }

    pub(crate) async fn cosmos() -> Self {
        Self::new(Mode::Cosmos, Clock::system()).await
    }

    pub(crate) async fn new(mode: Mode, clock: Clock) -> Self {
        Self::on(Arc::new(MemoryEngine::new()), mode, clock).await
    }

    /// One with so little memory.
    pub(crate) async fn within(bytes: usize) -> Self {
        let engine = Arc::new(MemoryEngine::new());
        let memory = MemoryBudget::new(bytes, 0);
        Self::sharing(memory, engine, Mode::Storage, Clock::system()).await
    }

    async fn on(engine: Arc<dyn Engine>, mode: Mode, clock: Clock) -> Self {
        Self::sharing(MemoryBudget::unlimited(), engine, mode, clock).await
    }

    async fn sharing(
        memory: MemoryBudget,
        engine: Arc<dyn Engine>,
        mode: Mode,
        clock: Clock,
    ) -> Self {
        let model: Arc<dyn Model> = Arc::new(TableModel);
        let options = StoreOptions {
            models: HashMap::from([(API.to_owned(), model)]),
            clock,
            memory,
            ..StoreOptions::default()
        };
        let store = Store::open(engine, options).await.unwrap();
        let (other, other_key) = OTHER_ACCOUNT;
        let [first, second] = KEYS;
        let accounts = format!(
            "{ACCOUNT}:{first}:{second},{other}:{other_key},{PUBLIC_ACCOUNT}:{EMULATOR_KEY}"
        );
        let config = TableConfig {
            mode,
            accounts: Accounts::parse(&accounts).unwrap(),
            bearer: None,
        };
        Self {
            table: Arc::new(Table::new(store.clone(), config)),
            store,
            running: Arc::new(watch::channel(false).0),
        }
    }

    /// A connection, and the task that serves it.
    pub(crate) fn connect(&self) -> (BufReader<DuplexStream>, JoinHandle<()>) {
        let (client, server) = duplex(BUFFER_BYTES);
        let connection = connection(server, self.running.subscribe());
        let table = Arc::clone(&self.table);
        let served = tokio::spawn(async move { table.serve(connection).await });
        (BufReader::new(client), served)
    }

    /// Sends one request on a connection of its own.
    pub(crate) async fn ask(&self, ask: Ask) -> Answer {
        let (mut stream, _served) = self.connect();
        stream.write_all(ask.text().as_bytes()).await.unwrap();
        Answer::read(&mut stream).await.unwrap()
    }

    /// The same for a request that must pass.
    pub(crate) async fn must(&self, ask: Ask) -> Answer {
        let asked = format!("{} {}", ask.method, ask.target);
        let answer = self.ask(ask).await;
        let refused_part = answer.body.contains("odata.error");
        assert!(answer.status < 300 && !refused_part, "{asked}: {answer:?}");
        answer
    }

    /// A table of `partitions` times `rows` small entities.
    pub(crate) async fn fill(&self, table: &str, partitions: usize, rows: usize) {
        self.must(create_table(table)).await;
        for partition in 0..partitions {
            let changes: Vec<_> = (0..rows)
                .map(|row| {
                    let (partition, row) = (key('p', partition), key('r', row));
                    put(table, (&partition, &row), &json!({ "n": 1 }))
                })
                .collect();
            self.must(batch(&changes)).await;
        }
    }

    /// All pages of a query.
    pub(crate) async fn pages(&self, table: &str, filter: &str, top: usize) -> Vec<Answer> {
        let mut pages = Vec::new();
        let mut next = String::new();
        loop {
            let page = query(table, filter, &format!("&$top={top}{next}"));
            let page = self.must(page).await;
            let more = page.next_page();
            pages.push(page);
            match more {
                Some(more) => next = more,
                None => return pages,
            }
        }
    }
}

/// The key of `fill` with this number.
pub(crate) fn key(letter: char, number: usize) -> String {
    format!("{letter}{number:03}")
}

/// The container of a table of the first account.
pub(crate) fn container(table: &str) -> ContainerName {
    ContainerName::new(API, ACCOUNT, table)
}
