//! The requests of the Table API, signed once.

use crate::bench::load::Dialect;
use crate::bench::template::{Form, Key, Mark, Place, Source, Template};
use crate::bench::wire::Wire;

/// An account signature, signed with the key that every storage emulator has: nothing is left to
/// sign while requests are sent.
const SIGNATURE: &str = "sv=2019-02-02&ss=t&srt=sco&sp=rwdlacu&se=2999-01-01T00%3A00%3A00Z\
                         &sig=KOr3tWqsonbK1RB%2F7v7SBD432Ff%2BmpO0%2Bskd1nMOGmE%3D";
const ACCOUNT: &str = "devstoreaccount1";
const ACCEPT: &str = "application/json;odata=nometadata";
/// Neither server cares under which name it is called.
const HOST: &str = "127.0.0.1";

/// Where the keys go.
const PARTITION: &str = "{partition}";
const ROW: &str = "{row}";

pub(super) const PARTITION_KEYS: u64 = 64;
/// Entities of one transaction: the most that the protocol allows.
pub(super) const GROUP: u64 = 100;

const CHANGE_HEADERS: &str = "Content-Type: application/json\r\nPrefer: return-no-content\r\n";

pub(super) fn dialect(table: &str) -> Dialect {
    let one = format!("{table}(PartitionKey='p{PARTITION}',RowKey='{ROW}')");
    let page = format!("{table}()?$top=100&$filter=PartitionKey%20eq%20%27p{PARTITION}%27");
    let merge = head("MERGE", &one, &format!("{CHANGE_HEADERS}If-Match: *\r\n"));
    let change = format!("{{\"Name\":\"{}\"}}", "u".repeat(40));
    Dialect {
        wire: Wire::Http,
        window: 1,
        greeting: Vec::new(),
        preparations: Vec::new(),
        read: template(&head("GET", &one, ""), |answer| {
            is(answer, "200") && answer.len() > 900
        }),
        insert: insert(table),
        update: template(&with_body(&merge, &change), |answer| is(answer, "204")),
        range: template(&head("GET", &page, ""), |answer| {
            is(answer, "200") && answer.len() > 90_000
        }),
        key: |item| Key {
            partition: item % PARTITION_KEYS,
            row: item,
        },
    }
}

/// Inserts the entity with the key.
fn insert(table: &str) -> Template {
    let head = head("POST", table, CHANGE_HEADERS);
    template(&with_body(&head, &entity()), |answer| is(answer, "204"))
}

/// The same with transactions of [`GROUP`] entities, whose rows follow each other, for inserts.
pub(super) fn group_dialect(table: &str) -> Dialect {
    let mut body =
        String::from("--batch\r\nContent-Type: multipart/mixed; boundary=changeset\r\n\r\n");
    for _ in 0..GROUP {
        body += &format!(
            "--changeset\r\nContent-Type: application/http\r\n\
             Content-Transfer-Encoding: binary\r\n\r\n\
             POST http://{HOST}/{ACCOUNT}/{table} HTTP/1.1\r\nAccept: {ACCEPT}\r\n\
             {CHANGE_HEADERS}\r\n{}\r\n",
            entity()
        );
    }
    body += "--changeset--\r\n--batch--\r\n";
    let headers = "Content-Type: multipart/mixed; boundary=batch\r\n";
    let head = head("POST", "$batch", headers);
    Dialect {
        insert: template(&with_body(&head, &body), |answer| {
            let inserted = answer.windows(12).filter(|it| *it == b"HTTP/1.1 204");
            is(answer, "202") && inserted.count() as u64 == GROUP
        }),
        key: |group| Key {
            partition: group % PARTITION_KEYS,
            row: group * GROUP,
        },
        ..dialect(table)
    }
}

/// Creates a table.
pub(super) fn create(table: &str) -> Template {
    let head = head("POST", "Tables", CHANGE_HEADERS);
    let body = format!("{{\"TableName\":\"{table}\"}}");
    template(&with_body(&head, &body), |answer| is(answer, "204"))
}

/// Queries a page; `query` is in the form of a URL.
pub(super) fn page(table: &str, query: &str) -> Template {
    let head = head("GET", &format!("{table}()?{query}"), "");
    template(&head, |answer| is(answer, "200"))
}

fn is(answer: &[u8], status: &str) -> bool {
    answer.get(9..12) == Some(status.as_bytes())
}

fn template(text: &str, expected: fn(&[u8]) -> bool) -> Template {
    let mark = |text: &'static str, source, digits, step| Mark {
        text: text.as_bytes(),
        place: Place {
            source,
            plus: 0,
            form: Form::Digits(digits),
        },
        step,
    };
    let marks = [
        mark(PARTITION, Source::Partition, 2, 0),
        mark(ROW, Source::Row, 10, 1),
    ];
    Template::new(text.as_bytes(), &marks, expected)
}

/// The beginning of a request, up to its body.
fn head(method: &str, path: &str, headers: &str) -> String {
    let separator = if path.contains('?') { '&' } else { '?' };
    format!(
        "{method} /{ACCOUNT}/{path}{separator}{SIGNATURE} HTTP/1.1\r\nHost: {HOST}\r\n\
         Accept: {ACCEPT}\r\nx-ms-version: 2019-02-02\r\nDataServiceVersion: 3.0\r\n{headers}\r\n"
    )
}

fn with_body(head: &str, body: &str) -> String {
    let length = template(body, |_| true).len();
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
