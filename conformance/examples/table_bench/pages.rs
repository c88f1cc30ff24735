//! Pages of queries: a large table must not make them slower.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::Failure;
use crate::client::{self, Answer, Connection, Done};
use crate::template::{GROUP, Key, PARTITION_KEYS, Template};

/// What is asked for.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Page {
    Whole,
    Partition,
    PartitionRange,
    RowRange,
}

pub(crate) const PAGES: [Page; 4] = [
    Page::Whole,
    Page::Partition,
    Page::PartitionRange,
    Page::RowRange,
];

impl Page {
    pub(crate) fn name(self) -> &'static str {
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
pub(crate) async fn fill(address: SocketAddr, table: &str, entities: u64) -> Result<Done, Failure> {
    create(address, table).await?;
    let next = AtomicU64::new(0);
    let keys = move || {
        let row = next.fetch_add(GROUP, Ordering::Relaxed);
        (row < entities).then_some(loaded(row))
    };
    let mut done = client::load(
        address,
        &Template::insert_group(address, table),
        Arc::new(keys),
    )
    .await?;
    done.requests = u32::try_from(entities)?;
    Ok(done)
}

/// The entity with this RowKey, as [`fill`] wrote it.
pub(crate) fn loaded(row: u64) -> Key {
    let partition = row / GROUP % PARTITION_KEYS;
    Key { partition, row }
}

pub(crate) async fn create(address: SocketAddr, table: &str) -> Result<(), Failure> {
    let mut connection = Connection::open(address).await?;
    let mut create = Template::create(address, table);
    connection.exchange(&mut create, loaded(0)).await?;
    Ok(())
}

/// The median latency of a page in each table, in milliseconds, asked by turns.
pub(crate) async fn latencies(
    address: SocketAddr,
    page: Page,
    tables: [&'static str; 2],
    rounds: u64,
) -> Result<[f64; 2], Failure> {
    let mut readers = tables.map(|table| Reader {
        address,
        table,
        page,
        position: String::new(),
        latencies_ms: Vec::new(),
    });
    let mut connection = Connection::open(address).await?;
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
    address: SocketAddr,
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
        let mut request = Template::page(self.address, self.table, &query);
        let start = Instant::now();
        let answer = connection.exchange(&mut request, loaded(0)).await?;
        self.latencies_ms
            .push(start.elapsed().as_secs_f64() * 1_000.0);
        let entities = answer.body.windows(8).filter(|it| *it == b"\"RowKey\"");
        let (entities, expected) = (entities.count(), self.page.entities());
        if entities != expected {
            return Err(format!("{query}: {entities} entities, not {expected}").into());
        }
        if self.page == Page::Whole {
            self.position = continuation(&answer);
        }
        Ok(())
    }
}

/// What the next page is asked for with; nothing at the end, where the walk begins again.
fn continuation(answer: &Answer<'_>) -> String {
    ["NextPartitionKey", "NextRowKey"]
        .iter()
        .filter_map(|name| {
            let value = answer.header(&format!("x-ms-continuation-{name}"))?;
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
