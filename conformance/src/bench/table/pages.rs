//! Pages of queries: a large table must not make them slower.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::requests::{self, GROUP, PARTITION_KEYS};
use crate::Failure;
use crate::bench::load::{self, Connection, Operation, Pace};
use crate::bench::target;
use crate::bench::template::{Key, Sender, Template};
use crate::bench::wire;

/// What is asked for.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Page {
    Whole,
    Partition,
    PartitionRange,
    RowRange,
}

pub(super) const PAGES: [Page; 4] = [
    Page::Whole,
    Page::Partition,
    Page::PartitionRange,
    Page::RowRange,
];

impl Page {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Whole => "page of the whole table",
            Self::Partition => "page of a PartitionKey",
            Self::PartitionRange => "page of a PartitionKey range",
            Self::RowRange => "page of a RowKey range",
        }
    }

    fn entities(self) -> usize {
        match self {
            Self::Whole | Self::Partition | Self::PartitionRange => 100,
            Self::RowRange => 50,
        }
    }

    fn filter(self, partition: u64) -> String {
        match self {
            Self::Whole => String::new(),
            Self::Partition => format!("PartitionKey eq 'p{partition:02}'"),
            Self::PartitionRange => format!(
                "PartitionKey ge 'p{partition:02}' and PartitionKey lt 'p{:02}'",
                partition + 10
            ),
            // The first transaction of this partition wrote a hundred rows from here on.
            Self::RowRange => format!(
                "PartitionKey eq 'p{partition:02}' and RowKey ge '{:010}' and RowKey lt '{:010}'",
                partition * GROUP + 25,
                partition * GROUP + 75,
            ),
        }
    }
}

/// Fills a new table with so many entities.
pub(super) async fn fill(address: SocketAddr, table: &str, entities: u64) -> Result<(), Failure> {
    const LONGEST: Duration = Duration::from_secs(1_800);
    create(address, table).await?;
    let next = AtomicU64::new(0);
    let steps = move || {
        let group = next.fetch_add(1, Ordering::Relaxed);
        let more = group * GROUP < entities;
        more.then_some(target::step(Operation::Insert, group))
    };
    let dialect = requests::group_dialect(table);
    load::load(address, &dialect, Pace::Answers, LONGEST, Arc::new(steps)).await?;
    Ok(())
}

pub(super) async fn create(address: SocketAddr, table: &str) -> Result<(), Failure> {
    let mut connection = Connection::open(address, &requests::dialect(table)).await?;
    ask(&mut connection, requests::create(table)).await?;
    Ok(())
}

/// Sends a request without keys; its answer must be as expected.
async fn ask(connection: &mut Connection, mut request: Template) -> Result<&[u8], Failure> {
    let bytes = request.fill(Key::default(), Sender::default()).to_vec();
    let answer = connection.ask(&bytes).await?;
    match (request.expected)(answer) {
        true => Ok(answer),
        false => Err(load::unexpected(answer)),
    }
}

/// The median latency of a page in each table, in milliseconds, asked by turns.
pub(super) async fn latencies(
    address: SocketAddr,
    page: Page,
    tables: [&'static str; 2],
    rounds: u64,
) -> Result<[f64; 2], Failure> {
    let mut readers = tables.map(|table| Reader {
        table,
        page,
        position: String::new(),
        latencies_ms: Vec::new(),
    });
    let mut connection = Connection::open(address, &requests::dialect("")).await?;
    for round in 0..rounds {
        for reader in &mut readers {
            reader.read(&mut connection, round).await?;
        }
    }
    Ok(readers.map(|mut reader| {
        reader.latencies_ms.sort_by(f64::total_cmp);
        let middle = reader.latencies_ms.get(reader.latencies_ms.len() / 2);
        middle.copied().unwrap_or(f64::NAN)
    }))
}

/// Reads one page after the other of one table.
struct Reader {
    table: &'static str,
    page: Page,
    /// Where the walk over the whole table is, as parameters of the next request.
    position: String,
    latencies_ms: Vec<f64>,
}

impl Reader {
    async fn read(&mut self, connection: &mut Connection, round: u64) -> Result<(), Failure> {
        let filter = self.page.filter(round % (PARTITION_KEYS - 10));
        let mut query = format!("$top=100{}", self.position);
        if !filter.is_empty() {
            query += &format!("&$filter={}", encoded(&filter));
        }
        let request = requests::page(self.table, &query);
        let start = Instant::now();
        let answer = ask(connection, request).await?;
        self.latencies_ms
            .push(start.elapsed().as_secs_f64() * 1_000.0);
        let entities = answer.windows(8).filter(|it| *it == b"\"RowKey\"");
        let (entities, expected) = (entities.count(), self.page.entities());
        if entities != expected {
            return Err(format!("{query}: {entities} entities, not {expected}").into());
        }
        if self.page == Page::Whole {
            self.position = continuation(answer);
        }
        Ok(())
    }
}

/// What the next page is asked for with; nothing at the end, where the walk begins again.
fn continuation(answer: &[u8]) -> String {
    ["NextPartitionKey", "NextRowKey"]
        .iter()
        .filter_map(|name| {
            let name_sent = format!("x-ms-continuation-{name}");
            let mut lines = answer.split(|byte| *byte == b'\n');
            let value = lines.find_map(|line| wire::http_header(line, &name_sent))?;
            Some(format!("&{name}={}", encoded(value)))
        })
        .collect()
}

fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
