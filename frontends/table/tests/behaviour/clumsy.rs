//! An engine that panics when it is told to: a mistake somewhere below a handler.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tessera_core::engine::{
    Answer, BoxFuture, Capabilities, Engine, EngineResult, KeyRange, Snapshot,
};
use tessera_core::memory::MemoryEngine;
use tokio::io::AsyncWriteExt as _;

use crate::answer;
use crate::ask::{ask, create_table, entity};
use crate::service::Service;

#[derive(Default)]
struct Clumsy {
    engine: MemoryEngine,
    fails: AtomicBool,
}

impl Engine for Clumsy {
    fn snapshot(&self) -> Answer<'_, EngineResult<Box<dyn Snapshot>>> {
        assert!(!self.fails.load(Ordering::Relaxed), "on purpose");
        self.engine.snapshot()
    }

    fn capabilities(&self) -> Capabilities {
        self.engine.capabilities()
    }

    fn approximate_size<'a>(&'a self, range: &'a KeyRange) -> BoxFuture<'a, EngineResult<u64>> {
        self.engine.approximate_size(range)
    }

    fn checkpoint<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, EngineResult<()>> {
        self.engine.checkpoint(path)
    }

    fn close(&self) -> BoxFuture<'_, EngineResult<()>> {
        self.engine.close()
    }
}

#[tokio::test]
async fn a_panic_costs_one_answer_and_not_the_connection() {
    let engine = Arc::new(Clumsy::default());
    let service = Service::over(engine.clone()).await;
    service.must(create_table("table")).await;
    let (mut stream, _served) = service.connect();
    let asks = [
        ask("GET", entity("table", ("p", "r"))),
        ask("GET", "/table()?$filter=RowKey%20eq%20'r'"),
        ask("GET", "/Tables"),
        ask("GET", "/?restype=service&comp=properties"),
        create_table("another"),
    ];
    for (round, fails) in [(0, true), (1, false), (2, true)] {
        engine.fails.store(fails, Ordering::Relaxed);
        for ask in &asks {
            stream.write_all(ask.text().as_bytes()).await.unwrap();
            let answer = answer::Answer::read(&mut stream).await.unwrap();
            assert_eq!(answer.status == 500, fails, "{round} {answer:?}");
            if fails {
                assert!(answer.body.contains("InternalError"), "{answer:?}");
                let words = "The server encountered an internal error. Please retry the request.";
                assert!(answer.body.contains(words), "{answer:?}");
            }
        }
    }
}
