//! What servers on one database tell each other with NOTIFY, behind the commit it belongs to.
//!
//! A notification has the name of the engine that sent it and a key in hexadecimal digits. It is
//! only a hint: what is sent while nobody listens is lost, and then listeners hear an empty key.

use std::fmt::Write;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use bytes::Bytes;
use tessera_core::engine::News;
use tokio::sync::broadcast;
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Error};
use tracing::debug;

use super::address::Address;
use super::tls::Tls;

/// A listener that is so far behind hears of the oldest no more.
const KEPT: usize = 256;

/// Longer keys are not named: a notification has less than 8,000 bytes.
const MAX_KEY_BYTES: usize = 1_000;

/// Before a lost connection is made again.
const PAUSE: Duration = Duration::from_secs(1);

/// Servers hear each other if they have one schema in common, whose name may be too long for this.
const CHANNEL: &str = "'tessera_' || md5(current_schema())";

/// A name for an engine that no other has.
pub(super) fn new_name() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

/// The SQL that announces these keys as the engine `name`; none if there are none.
pub(super) fn announcement(name: &str, keys: &[Bytes]) -> Option<String> {
    let mut sql = String::new();
    for key in keys {
        let key = if key.len() > MAX_KEY_BYTES {
            &[]
        } else {
            key.as_ref()
        };
        let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        // A String takes everything.
        let _written = write!(sql, "SELECT pg_notify({CHANNEL}, '{name} {digits}');").is_ok();
    }
    (!sql.is_empty()).then_some(sql)
}

/// The key in a notification; none if the engine `own` sent it, or nobody that we know.
fn parse(own: &str, payload: &str) -> Option<Bytes> {
    let (name, digits) = payload.split_once(' ')?;
    if name == own {
        return None;
    }
    let digits = digits.as_bytes().chunks(2);
    let bytes = digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    bytes.collect::<Option<Vec<u8>>>().map(Bytes::from)
}

/// Hears what others announce, on a connection of its own.
pub(super) struct Listener {
    news: broadcast::Sender<Bytes>,
    task: JoinHandle<()>,
}

impl Listener {
    /// Listens until stopped or dropped. `own` is the name of the engine that listens.
    pub(super) fn start(address: Address, tls: Tls, own: String) -> Self {
        let (news, _) = broadcast::channel(KEPT);
        let sender = news.clone();
        let task = tokio::spawn(async move {
            loop {
                if let Err(error) = listen(&address, &tls, &own, &sender).await {
                    debug!(%error, "what other servers announce is not heard");
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
        Self { news, task }
    }

    pub(super) fn news(&self) -> News {
        self.news.subscribe()
    }

    pub(super) fn stop(&self) {
        self.task.abort();
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Listens until the connection ends.
async fn listen(
    address: &Address,
    tls: &Tls,
    own: &str,
    news: &broadcast::Sender<Bytes>,
) -> Result<(), Error> {
    let (client, mut connection) = address.config().connect(tls.clone()).await?;
    let tell = |key: Bytes| {
        // Nobody may be listening yet.
        let _listeners = news.send(key).unwrap_or(0);
    };
    let hear = std::future::poll_fn(|context| {
        while let Some(message) = std::task::ready!(connection.poll_message(context)) {
            match message {
                Ok(AsyncMessage::Notification(notification)) => {
                    if let Some(key) = parse(own, notification.payload()) {
                        tell(key);
                    }
                }
                Ok(_) => {}
                Err(error) => return std::task::Poll::Ready(Err(error)),
            }
        }
        std::task::Poll::Ready(Ok(()))
    });
    let ask = async {
        let channel = client.query_one(&format!("SELECT {CHANNEL}"), &[]).await?;
        let channel: &str = channel.try_get(0)?;
        client.batch_execute(&format!("LISTEN {channel}")).await?;
        // Whatever was announced until now was not heard.
        tell(Bytes::new());
        // The connection is open as long as its client is there.
        std::future::pending::<Result<(), Error>>().await
    };
    tokio::select! {
        ended = hear => ended,
        failed = ask => failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_from_what_is_announced() {
        let sql = announcement("one", &[Bytes::from_static(b"v\x00\xff")]).unwrap();
        assert!(sql.ends_with(", 'one 7600ff');"), "{sql}");
        assert_eq!(announcement("one", &[]), None);
        let long = Bytes::from(vec![0; MAX_KEY_BYTES + 1]);
        assert!(
            announcement("one", &[long])
                .unwrap()
                .ends_with(", 'one ');")
        );
        for (payload, expected) in [
            ("two 7600ff", Some(&b"v\x00\xff"[..])),
            ("two ", Some(&[])),
            ("one 7600ff", None),
            ("two 7600f", Some(b"v\x00\x0f")),
            ("two zz", None),
            ("two äö", None),
            ("nothing", None),
        ] {
            assert_eq!(parse("one", payload).as_deref(), expected, "{payload}");
        }
    }
}
