//! The console: HTTP for people and for monitors.
//!
//! [`Console::serve`] runs HTTP/1.1 on one connection; `routes` finds the page; a page takes values
//! and returns a [`reply::Reply`]. Silent and slow clients are the server's matter, through the
//! connection's `Activity`; hyper's own header timer would also end idle connections, so it stays
//! off.

mod health;
mod reply;
mod routes;

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tessera_core::Store;
use tessera_frontend::{About, Activity, Connection, FrontEnd};
use tracing::{Instrument, debug, info_span};

/// Head and read-ahead of one request. Nothing the console reads is larger.
const MAX_BUFFER_BYTES: usize = 16 * 1024;

/// The console front end.
pub struct Console {
    store: Store,
    about: About,
}

impl Console {
    /// A console over `store`, showing `about`.
    pub fn new(store: Store, about: About) -> Self {
        Self { store, about }
    }

    async fn answer(
        &self,
        activity: &Activity,
        request: hyper::Request<Incoming>,
    ) -> hyper::Response<Full<Bytes>> {
        let running = activity.begin();
        let id = running.id();
        let span = info_span!("request", id = %id);
        let reply = async {
            let reply = routes::answer(self, request.method(), request.uri().path()).await;
            debug!(
                method = %request.method(),
                path = request.uri().path(),
                status = reply.status.as_u16(),
                "answered"
            );
            reply
        };
        reply.instrument(span).await.into_response(id)
    }
}

impl FrontEnd for Console {
    fn serve(&self, connection: Connection) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let Connection {
                stream,
                activity,
                mut shutdown,
                ..
            } = connection;
            let service = service_fn(|request| {
                let answer = self.answer(&activity, request);
                async { Ok::<_, Infallible>(answer.await) }
            });
            let mut http = pin!(
                http1::Builder::new()
                    .max_buf_size(MAX_BUFFER_BYTES)
                    .serve_connection(TokioIo::new(stream), service)
            );
            let ended = tokio::select! {
                ended = http.as_mut() => ended,
                () = shutdown.requested() => {
                    http.as_mut().graceful_shutdown();
                    http.await
                }
            };
            if let Err(error) = ended {
                debug!(%error, "connection ended early");
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use tessera_core::engine::Engine;
    use tessera_core::memory::MemoryEngine;
    use tessera_core::store::StoreOptions;
    use tessera_frontend::Listener;
    use tessera_frontend::testing::connection;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::sync::watch;

    use super::*;

    async fn console(engine: Arc<dyn Engine>) -> Console {
        let address = "127.0.0.1:8080".parse().unwrap();
        let listeners = vec![Listener {
            name: "console",
            address,
            tls: false,
        }];
        let about = About {
            version: "1.2.3",
            engine: "memory",
            started: Instant::now(),
            listeners,
        };
        let store = Store::open(engine, StoreOptions::default()).await.unwrap();
        Console::new(store, about)
    }

    /// Sends `request`, which must ask for the connection to be closed, and returns all that comes.
    async fn exchange(console: &Console, request: &str) -> String {
        let (mut client, server) = duplex(1 << 16);
        let (_stop, stopping) = watch::channel(false);
        let connection = connection(server, stopping);
        client.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let (_, read) = tokio::join!(
            console.serve(connection),
            client.read_to_string(&mut answer)
        );
        read.unwrap();
        answer
    }

    async fn check(console: &Console, request_line: &str, expected: &[&str]) {
        let request = format!("{request_line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let answer = exchange(console, &request).await;
        for part in expected {
            assert!(answer.contains(part), "{part:?} is not in {answer}");
        }
    }

    #[tokio::test]
    async fn health_follows_the_engine() {
        let engine = Arc::new(MemoryEngine::new());
        let console = console(engine.clone()).await;
        let healthy = [
            "HTTP/1.1 200 OK",
            "\"status\":\"ok\"",
            "\"version\":\"1.2.3\"",
        ];
        check(&console, "GET /health", &healthy).await;
        let listeners =
            "\"listeners\":{\"console\":{\"address\":\"127.0.0.1:8080\",\"tls\":false}}";
        check(&console, "GET /health", &[listeners, "x-request-id: 1-1"]).await;
        engine.close().await.unwrap();
        let closed = [
            "HTTP/1.1 503 ",
            "\"status\":\"unavailable\"",
            "\"reason\":\"the storage",
        ];
        check(&console, "GET /health", &closed).await;
    }

    #[tokio::test]
    async fn unknown_pages_and_methods_are_refused_in_json() {
        let console = console(Arc::new(MemoryEngine::new())).await;
        check(
            &console,
            "GET /",
            &["HTTP/1.1 404 ", "application/json", "/health"],
        )
        .await;
        check(
            &console,
            "DELETE /health",
            &["HTTP/1.1 405 ", "allow: GET, HEAD\r\n"],
        )
        .await;
        let head = exchange(&console, "HEAD /health HTTP/1.0\r\n\r\n").await;
        assert!(
            head.starts_with("HTTP/1.0 200 OK") && head.ends_with("\r\n\r\n"),
            "{head}"
        );
    }

    #[tokio::test]
    async fn requests_on_one_connection_are_answered_in_turn() {
        let console = console(Arc::new(MemoryEngine::new())).await;
        let request = "GET /health HTTP/1.1\r\nhost: x\r\n\r\n";
        let last = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        let answers = exchange(&console, &format!("{request}{request}{last}")).await;
        assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2, "{answers}");
        assert!(answers.contains("x-request-id: 1-3"), "{answers}");
    }
}
