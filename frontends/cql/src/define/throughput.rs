//! Throughput as Cosmos DB lets tables and keyspaces ask for it, by options of their own.

use tessera_core::provisioning::Throughput;

use crate::error::{CqlError, Result};

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
