//! Statements on keyspaces, with every option that one has.

use rand::Rng as _;

use super::Writer;

const REPLICATIONS: &[&str] = &[
    "{'class': 'SimpleStrategy', 'replication_factor': 1}",
    "{'class': 'SimpleStrategy', 'replication_factor': '3'}",
    "{'class': 'SimpleStrategy'}",
    "{'class': 'org.apache.cassandra.locator.SimpleStrategy', 'replication_factor': 0}",
    "{'replication_factor': 9223372036854775807, 'class': 'SimpleStrategy'}",
    "{'class': 'NetworkTopologyStrategy', 'datacenter1': 2}",
    "{'class': 'NetworkTopologyStrategy', 'datacenter1': '+5', 'replication_factor': 1}",
    "{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}",
    "{'class': 'NetworkTopologyStrategy'}",
    "{'class': 'NetworkTopologyStrategy', 'dc2': 1}",
    "{'class': 'LocalStrategy'}",
    "{'class': 'SimpleStrategy', 'replication_factor': -1}",
    "{'class': 'EverywhereStrategy'}",
    "{}",
];

const OPTIONS: &[&str] = &[
    "durable_writes = false",
    "durable_writes = true",
    "DURABLE_WRITES = 'no'",
    "durable_writes = 2",
    "cosmosdb_provisioned_throughput = 400",
    "cosmosdb_provisioned_throughput = 1000000",
    "cosmosdb_autoscale_max_throughput = 4000",
    "cosmosdb_note = 'it''s'",
    "graph_engine = 'Core'",
];

/// A name in quotes, as any name may be written.
pub(super) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Writer {
    fn keyspace_properties(&mut self) -> String {
        let mut properties = Vec::new();
        if !self.one_in(4) {
            let replication = match self.one_in(2) {
                true => REPLICATIONS[0],
                false => self.of(REPLICATIONS),
            };
            properties.push(format!("replication = {replication}"));
        }
        for _ in 0..self.random.random_range(0..3) {
            properties.push(self.of(OPTIONS).to_owned());
        }
        properties.join(" AND ")
    }

    pub(super) fn create_keyspace(&mut self) -> String {
        let name = match self.one_in(4) {
            true => self.name(),
            false => format!("k{}", self.random.random_range(0..4)),
        };
        let text = format!(
            "CREATE KEYSPACE {} WITH {}",
            quote(&name),
            self.keyspace_properties()
        );
        self.keyspaces.push(name);
        text
    }

    pub(super) fn change_keyspace(&mut self) -> String {
        let keyspaces = self.keyspaces.clone();
        let name = match self.one_in(2) {
            true => "ks".to_owned(),
            false => self.known(&keyspaces),
        };
        match self.random.random_range(0..4) {
            0 if name != "ks" => format!("DROP KEYSPACE {name}"),
            1 if name != "ks" => format!("CREATE TABLE {name}.t (k int PRIMARY KEY, v text)"),
            _ => format!("ALTER KEYSPACE {name} WITH {}", self.keyspace_properties()),
        }
    }
}
