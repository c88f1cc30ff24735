//! The settings of partitions: size limits, and the treatment of requests beyond their throughput.

use std::time::Duration;

use tessera_core::budget::Throttling;
use tessera_core::limits::Limits;

use super::value;
use super::{Apply, Kind, Setting};

/// The parsed settings.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct PartitionSettings {
    pub(crate) throttling: Throttling,
    pub(crate) limits: Limits,
}

pub(super) const SIZES: &str = "a size such as 64KB, 10MB or 20GB";

pub(crate) const OPTIONS: &[Setting] = &[
    Setting {
        name: "burst",
        kind: Kind::Switch,
        placeholder: "BOOL",
        secret: false,
        default: Some("false"),
        help: "Let physical partitions spend unused throughput of the last 300 seconds, up to \
               3,000 request units per second",
        allowed: "true or false",
        apply: Apply::Field(|config, text| {
            config.partitions.throttling.burst = value::switch(text)?;
            Some(())
        }),
    },
    Setting {
        name: "throttle-wait",
        kind: Kind::Text,
        placeholder: "TIME",
        secret: false,
        default: Some("off"),
        help: "How long a request beyond the throughput waits before it is refused",
        allowed: "a time such as 500ms, 5s or 1m, or off",
        apply: Apply::Field(|config, text| {
            let patience = match text {
                "off" => Duration::ZERO,
                text => value::duration(text)?,
            };
            config.partitions.throttling.patience = patience;
            Some(())
        }),
    },
    Setting {
        name: "max-logical-partition",
        kind: Kind::Text,
        placeholder: "SIZE",
        secret: false,
        default: None,
        help: "Size limit of a logical partition; 20GB if not set, and no limit in the MongoDB API",
        allowed: SIZES,
        apply: Apply::Field(|config, text| {
            config.partitions.limits.logical_bytes = Some(bytes(text)?);
            Some(())
        }),
    },
    Setting {
        name: "max-physical-partition",
        kind: Kind::Text,
        placeholder: "SIZE",
        secret: false,
        default: None,
        help: "Size from which a physical partition is split; 50GB if not set, and 30GB in the \
               Cassandra API",
        allowed: SIZES,
        apply: Apply::Field(|config, text| {
            config.partitions.limits.physical_bytes = Some(bytes(text)?);
            Some(())
        }),
    },
    Setting {
        name: "max-partition-key",
        kind: Kind::Text,
        placeholder: "SIZE",
        secret: false,
        default: None,
        help: "Longest partition key; the limit of each API if not set",
        allowed: SIZES,
        apply: Apply::Field(|config, text| {
            let size = value::size(text).filter(|size| *size > 0)?;
            config.partitions.limits.partition_key_bytes = Some(size);
            Some(())
        }),
    },
    Setting {
        name: "max-shared-containers",
        kind: Kind::Number,
        placeholder: "N",
        secret: false,
        default: Some("25"),
        help: "Number of containers that may share the throughput of their database",
        allowed: "a whole number from 1 to 1000000",
        apply: Apply::Field(|config, text| {
            let count = text.parse().ok();
            let count = count.filter(|count| (1..=1_000_000).contains(count))?;
            config.partitions.limits.shared_containers = Some(count);
            Some(())
        }),
    },
];

fn bytes(text: &str) -> Option<i64> {
    let size = value::size(text).filter(|size| *size > 0)?;
    i64::try_from(size).ok()
}
