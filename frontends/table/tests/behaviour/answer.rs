//! What came back.

use hyper::HeaderMap;
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};

/// One answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    /// Reads the next answer of a connection of HTTP/1.1, to anything but HEAD; none if it ends
    /// before one.
    pub(crate) async fn read(stream: &mut (impl AsyncBufRead + Unpin)) -> Option<Self> {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        let status = line.split(' ').nth(1)?.parse().unwrap();
        let mut headers = HeaderMap::new();
        loop {
            line.clear();
            stream.read_line(&mut line).await.unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                break;
            };
            let name: hyper::header::HeaderName = name.parse().unwrap();
            headers.insert(name, value.parse().unwrap());
        }
        let length = headers.get("content-length");
        let length = length.map_or(0, |length| length.to_str().unwrap().parse().unwrap());
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        Some(Self {
            status,
            headers,
            body: String::from_utf8(body).unwrap(),
        })
    }

    /// A header's text, empty if it is missing.
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }

    /// The code of a refusal.
    pub(crate) fn code(&self) -> &str {
        self.header("x-ms-error-code")
    }

    /// What the request cost, which must be said.
    pub(crate) fn charge(&self) -> f64 {
        let charge = self.header("x-ms-request-charge").parse();
        charge.unwrap_or_else(|_| panic!("no charge in {self:?}"))
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The entities of a page.
    pub(crate) fn entities(&self) -> Vec<Value> {
        match &self.json()["value"] {
            Value::Array(entities) => entities.clone(),
            _ => panic!("no page: {self:?}"),
        }
    }

    /// The keys of the entities of a page.
    pub(crate) fn keys(&self) -> Vec<(String, String)> {
        let text = |entity: &Value, name: &str| entity[name].as_str().unwrap().to_owned();
        let entities = self.entities();
        let keys = entities
            .iter()
            .map(|entity| (text(entity, "PartitionKey"), text(entity, "RowKey")));
        keys.collect()
    }

    /// What the query for the next page has more; none behind the last.
    pub(crate) fn next_page(&self) -> Option<String> {
        let partition_key = self.headers.get("x-ms-continuation-nextpartitionkey")?;
        Some(format!(
            "&NextPartitionKey={}&NextRowKey={}",
            partition_key.to_str().unwrap(),
            self.header("x-ms-continuation-nextrowkey")
        ))
    }
}
