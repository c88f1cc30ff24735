//! Requests that are written once: between two of them only the keys change, in place.

use std::net::SocketAddr;

use crate::client::Answer;

/// An account signature, signed with the key that every storage emulator has: nothing is left to
/// sign while requests are sent.
const SIGNATURE: &str = "sv=2019-02-02&ss=t&srt=sco&sp=rwdlacu&se=2999-01-01T00%3A00%3A00Z\
                         &sig=KOr3tWqsonbK1RB%2F7v7SBD432Ff%2BmpO0%2Bskd1nMOGmE%3D";
const ACCOUNT: &str = "devstoreaccount1";
const ACCEPT: &str = "application/json;odata=nometadata";

/// Where the keys go.
const PARTITION: &str = "{partition}";
const ROW: &str = "{row}";

pub(crate) const PARTITION_KEYS: u64 = 64;
/// Entities of one transaction: the most that the protocol allows.
pub(crate) const GROUP: u64 = 100;

/// An entity: its PartitionKey and its RowKey are made from these numbers.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    pub(crate) partition: u64,
    pub(crate) row: u64,
}

/// A request with places for keys.
#[derive(Clone)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    places: Vec<(usize, Place)>,
    pub(crate) expected: fn(&Answer<'_>) -> bool,
}

#[derive(Clone, Copy)]
enum Place {
    Partition,
    /// The key's row and so many further.
    Row(u64),
}

impl Template {
    /// Reads the entity with the key.
    pub(crate) fn get(address: SocketAddr, table: &str) -> Self {
        let path = format!("{table}(PartitionKey='p{PARTITION}',RowKey='{ROW}')");
        Self::of(&head(address, "GET", &path, ""), |answer| {
            answer.status == 200 && answer.body.len() > 900
        })
    }

    /// Inserts the entity with the key.
    pub(crate) fn insert(address: SocketAddr, table: &str) -> Self {
        let head = head(address, "POST", table, INSERT_HEADERS);
        Self::of(&with_body(&head, &entity()), |answer| answer.status == 204)
    }

    /// Inserts the entity with the key and those that follow it, in one transaction.
    pub(crate) fn insert_group(address: SocketAddr, table: &str) -> Self {
        let mut body =
            String::from("--batch\r\nContent-Type: multipart/mixed; boundary=changeset\r\n\r\n");
        for _ in 0..GROUP {
            body += &format!(
                "--changeset\r\nContent-Type: application/http\r\n\
                 Content-Transfer-Encoding: binary\r\n\r\n\
                 POST http://{address}/{ACCOUNT}/{table} HTTP/1.1\r\nAccept: {ACCEPT}\r\n\
                 {INSERT_HEADERS}\r\n{}\r\n",
                entity()
            );
        }
        body += "--changeset--\r\n--batch--\r\n";
        let headers = "Content-Type: multipart/mixed; boundary=batch\r\n";
        let head = head(address, "POST", "$batch", headers);
        Self::of(&with_body(&head, &body), |answer| {
            let inserted = answer.body.windows(12).filter(|it| *it == b"HTTP/1.1 204");
            answer.status == 202 && inserted.count() as u64 == GROUP
        })
    }

    /// Creates a table.
    pub(crate) fn create(address: SocketAddr, table: &str) -> Self {
        let head = head(address, "POST", "Tables", INSERT_HEADERS);
        let body = format!("{{\"TableName\":\"{table}\"}}");
        Self::of(&with_body(&head, &body), |answer| answer.status == 204)
    }

    /// Queries a page; `query` is in the form of a URL.
    pub(crate) fn page(address: SocketAddr, table: &str, query: &str) -> Self {
        let head = head(address, "GET", &format!("{table}()?{query}"), "");
        Self::of(&head, |answer| answer.status == 200)
    }

    fn of(text: &str, expected: fn(&Answer<'_>) -> bool) -> Self {
        let (mut bytes, mut places, mut rows) = (Vec::new(), Vec::new(), 0);
        let mut rest = text;
        while let Some(at) = rest.find(PARTITION).into_iter().chain(rest.find(ROW)).min() {
            let (before, place) = rest.split_at(at);
            bytes.extend_from_slice(before.as_bytes());
            if let Some(after) = place.strip_prefix(PARTITION) {
                places.push((bytes.len(), Place::Partition));
                bytes.extend_from_slice(b"00");
                rest = after;
            } else {
                places.push((bytes.len(), Place::Row(rows)));
                bytes.extend_from_slice(b"0000000000");
                rows += 1;
                rest = place.strip_prefix(ROW).unwrap_or_default();
            }
        }
        bytes.extend_from_slice(rest.as_bytes());
        Self {
            bytes,
            places,
            expected,
        }
    }

    /// The request for this key.
    pub(crate) fn fill(&mut self, key: Key) -> &[u8] {
        for (at, place) in &self.places {
            let (mut number, digits) = match place {
                Place::Partition => (key.partition, 2),
                Place::Row(further) => (key.row + further, 10),
            };
            let digits = self.bytes.get_mut(*at..at + digits).unwrap_or_default();
            for digit in digits.iter_mut().rev() {
                *digit = b'0' + u8::try_from(number % 10).unwrap_or_default();
                number /= 10;
            }
        }
        &self.bytes
    }
}

const INSERT_HEADERS: &str = "Content-Type: application/json\r\nPrefer: return-no-content\r\n";

/// The beginning of a request, up to its body.
fn head(address: SocketAddr, method: &str, path: &str, headers: &str) -> String {
    let separator = if path.contains('?') { '&' } else { '?' };
    format!(
        "{method} /{ACCOUNT}/{path}{separator}{SIGNATURE} HTTP/1.1\r\nHost: {address}\r\n\
         Accept: {ACCEPT}\r\nx-ms-version: 2019-02-02\r\nDataServiceVersion: 3.0\r\n{headers}\r\n"
    )
}

fn with_body(head: &str, body: &str) -> String {
    let length = Template::of(body, |_| true).bytes.len();
    let head = head.strip_suffix("\r\n").unwrap_or(head);
    format!("{head}Content-Length: {length}\r\n\r\n{body}")
}

/// An entity of about 1 KB.
fn entity() -> String {
    format!(
        "{{\"PartitionKey\":\"p{PARTITION}\",\"RowKey\":\"{ROW}\",\"Count\":7,\"Price\":12.5,\
         \"Active\":true,\"Due\":\"2026-11-16T08:00:00Z\",\"Due@odata.type\":\"Edm.DateTime\",\
         \"Name\":\"{}\",\"Text\":\"{}\"}}",
        "n".repeat(40),
        "text ".repeat(160)
    )
}
