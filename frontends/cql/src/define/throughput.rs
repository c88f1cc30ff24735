//! Throughput as Cosmos DB lets tables and keyspaces ask for it, by options of their own.

use std::collections::BTreeMap;

use tessera_core::provisioning::Throughput;

use crate::API;
use crate::error::{CqlError, Result};
use crate::schema::Table;
use crate::service::Service;

/// Request units per second.
const MANUAL: &str = "cosmosdb_provisioned_throughput";
/// The most of them.
const AUTOSCALE: &str = "cosmosdb_autoscale_max_throughput";

/// The throughput that options ask for, given by name and value.
pub(super) fn asked<'a>(
    options: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<Option<Throughput>> {
    let (mut manual, mut autoscale) = (None, None);
    for (name, value) in options {
        let wanted = match name {
            MANUAL => &mut manual,
            AUTOSCALE => &mut autoscale,
            _ => continue,
        };
        let invalid = |_| CqlError::syntax(format!("Invalid integer value {value} for '{name}'"));
        *wanted = Some(value.parse().map_err(invalid)?);
    }
    Ok(match (manual, autoscale) {
        (_, Some(units)) => Some(Throughput::autoscale(units)?),
        (Some(units), None) => Some(Throughput::manual(units)?),
        (None, None) => None,
    })
}

/// How many tables are read at a time.
const PAGE: usize = 1_000;

/// The throughput in force, which others than statements may have set.
#[derive(Default)]
pub(crate) struct Throughputs {
    /// By keyspace, and by table within it; that of a keyspace itself by the empty name.
    found: BTreeMap<(String, String), Throughput>,
}

impl Throughputs {
    pub(crate) async fn load(service: &Service) -> Result<Self> {
        let mut found = BTreeMap::new();
        for (api, keyspace, throughput) in service.store.database_throughputs().await? {
            if api == API {
                found.insert((keyspace, String::new()), throughput);
            }
        }
        for keyspace in service.store.list_databases(API).await? {
            let mut from = String::new();
            loop {
                let store = &service.store;
                let page = store
                    .describe_containers(API, &keyspace, &from, PAGE)
                    .await?;
                let is_last = page.len() < PAGE;
                for (name, definition) in page {
                    from = format!("{}\0", name.container);
                    let throughput = definition.ok().as_ref().and_then(Throughput::of);
                    if let Some(throughput) = throughput {
                        found.insert((keyspace.clone(), name.container), throughput);
                    }
                }
                if is_last {
                    break;
                }
            }
        }
        Ok(Self { found })
    }

    /// The option that asks for the throughput of a keyspace.
    pub(crate) fn of_keyspace(&self, name: &str) -> Option<(&'static str, u32)> {
        self.of(name, "")
    }

    /// A table with the options that ask for what it has.
    pub(crate) fn applied(&self, table: &Table) -> Table {
        let mut table = table.clone();
        let options = &mut table.options.cosmos;
        options.retain(|name, _| ![MANUAL, AUTOSCALE].contains(&name.as_str()));
        if let Some((name, units)) = self.of(&table.keyspace, &table.name) {
            options.insert(name.to_owned(), units.to_string());
        }
        table
    }

    fn of(&self, keyspace: &str, table: &str) -> Option<(&'static str, u32)> {
        let throughput = self.found.get(&(keyspace.to_owned(), table.to_owned()))?;
        let name = match throughput {
            Throughput::Manual(_) => MANUAL,
            Throughput::Autoscale(_) => AUTOSCALE,
        };
        Some((name, throughput.units()))
    }
}
