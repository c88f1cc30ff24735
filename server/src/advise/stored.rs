//! The report about a container in a data folder, under the partition key it has.

use std::time::{SystemTime, UNIX_EPOCH};

use tessera_core::clock::Clock;
use tessera_core::locator::RowKind;
use tessera_core::name::ContainerName;
use tessera_core::provisioning::Throughput;
use tessera_core::reading::{PageRequest, Span};
use tessera_core::store::StoreOptions;
use tessera_core::throughput::{Charge, price};
use tessera_core::{Container, Error as CoreError, Store, Transaction};
use tokio::runtime::Runtime;

use super::key::{Key, stored_name};
use super::layout::{Layout, Wish};
use super::profile::Profile;
use super::records::Rejected;
use super::report::{Report, Totals};
use super::tally::Tally;
use crate::error::Error;
use crate::settings::{Config, EngineChoice};
use crate::storage;

/// Reads the container and reports.
pub(super) fn report(config: &Config, name: &ContainerName, wish: Wish) -> Result<Report, Error> {
    if *config.engine() == EngineChoice::Rocks && !storage::holds_data(&config.data) {
        let data = config.data.display();
        return Err(Error::Failed(format!(
            "{data} holds no data; name the data folder with --data"
        )));
    }
    let runtime =
        Runtime::new().map_err(|error| Error::Failed(format!("cannot start threads: {error}")))?;
    runtime.block_on(async {
        let engine = storage::open(config).await?;
        // Reading is charged to the container. Time is made here, so that it never has to wait.
        let since_1970 = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let clock = Clock::manual(u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX));
        let options = StoreOptions {
            clock: clock.clone(),
            ..StoreOptions::default()
        };
        let read = match Store::open(engine.clone(), options).await {
            Ok(store) => read(&store, &clock, name, wish).await,
            Err(error) => Err(failed(name, &error)),
        };
        let closed = engine.close().await;
        closed
            .map_err(|error| Error::Failed(error.to_string()))
            .and(read)
    })
}

fn failed(name: &ContainerName, error: &CoreError) -> Error {
    Error::Failed(format!("cannot read {name}: {error}"))
}

async fn read(
    store: &Store,
    clock: &Clock,
    name: &ContainerName,
    wish: Wish,
) -> Result<Report, Error> {
    let failed = |error: CoreError| failed(name, &error);
    let mut transaction = store.begin().await.map_err(failed)?;
    let container = transaction.container(name).await.map_err(failed)?;
    let provisioned = container.definition.throughput().map(Throughput::units);
    let layout = Layout::of_stored(wish, &container.partitions, provisioned);
    let layout = layout.map_err(Error::Settings)?;
    let mut profile = Profile::new(&layout.partitions);
    let mut charge = Charge::default();
    scan(&mut transaction, &container, clock, |key, name, bytes| {
        charge += price::point_read(bytes);
        profile.add(key, Tally::of_record(bytes), name);
    })
    .await
    .map_err(failed)?;
    if profile.total.records == 0 {
        return Err(Error::Failed(format!("{name} holds no items")));
    }
    let totals = Totals {
        source: name.to_string(),
        written: profile.total,
        read: charge,
        rejected: Rejected::default(),
        fields_left_out: Vec::new(),
    };
    Ok(Report::new(
        totals,
        &layout,
        &[("its partition key".to_owned(), profile)],
    ))
}

/// Visits every item, page by page.
async fn scan(
    transaction: &mut Transaction,
    container: &Container,
    clock: &Clock,
    mut visit: impl FnMut(Key, &dyn Fn() -> Box<str>, usize),
) -> Result<(), CoreError> {
    let mut request = PageRequest {
        max_items: 1_000,
        ..PageRequest::default()
    };
    loop {
        let page = match transaction.scan(container, &Span::All, &request).await {
            Err(CoreError::Throttled { retry_after }) => {
                clock.advance(
                    u64::try_from(retry_after.as_millis())
                        .unwrap_or(u64::MAX)
                        .max(1),
                );
                continue;
            }
            page => page?,
        };
        for item in page
            .items
            .iter()
            .filter(|item| item.locator.kind == RowKind::Row)
        {
            let partition_key = &item.locator.partition_key;
            let key = Key::stored(item.locator.token, partition_key);
            visit(key, &|| stored_name(partition_key), item.counted_bytes());
        }
        match page.continuation {
            Some(continuation) => request.continuation = Some(continuation),
            None => return Ok(()),
        }
    }
}
