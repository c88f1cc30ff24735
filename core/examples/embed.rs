//! The partitioned store inside a program of your own, without a server and without a front end:
//! `cargo run -p tessera-core --example embed`.

#![expect(clippy::print_stdout, reason = "an example is there to print")]

use std::sync::Arc;

use tessera_core::Store;
use tessera_core::definition::NewContainer;
use tessera_core::item::NewItem;
use tessera_core::locator::Locator;
use tessera_core::memory::MemoryEngine;
use tessera_core::name::ContainerName;
use tessera_core::reading::{PageRequest, Span};
use tessera_core::store::StoreOptions;

#[tokio::main]
async fn main() -> tessera_core::Result<()> {
    // Any engine will do; those that keep data on disk are in `tessera-storage`.
    let store = Store::open(Arc::new(MemoryEngine::new()), StoreOptions::default()).await?;
    let orders = ContainerName::new("example", "shop", "orders");
    let four_partitions = NewContainer {
        partitions: 4,
        ..NewContainer::default()
    };
    store.create_container(&orders, &four_partitions).await?;

    // A transaction is a snapshot and buffered writes, which commit together or not at all.
    let mut transaction = store.begin().await?;
    let container = transaction.container(&orders).await?;
    for (customer, order) in [("ada", "1"), ("ada", "2"), ("bob", "1")] {
        let place = Locator::murmur3(customer.to_owned(), order.to_owned());
        let item = NewItem::new(place, format!("order {order} of {customer}"));
        transaction.insert(&container, item).await?;
    }
    let committed = transaction.commit().await?;

    let mut transaction = store.begin().await?;
    let container = transaction.container(&orders).await?;
    let page = transaction
        .scan(&container, &Span::All, &PageRequest::default())
        .await?;
    for item in &page.items {
        println!("{}", String::from_utf8_lossy(&item.body));
    }
    let charge = committed.meter.charge().request_units();
    println!("writing them cost {charge} RU");
    assert_eq!(page.items.len(), 3);
    Ok(())
}
