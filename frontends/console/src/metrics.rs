//! `GET /metrics`: the same figures in the text format of Prometheus.

use std::fmt::Write as _;

use hyper::Method;
use tessera_core::Error;
use tessera_core::insight::{Insight, LargeKey, PartitionInsight, Warning};

use crate::containers::{failure, insights};
use crate::memory;
use crate::reply::Reply;
use crate::routes::{Call, Route};
use crate::{Console, feeds, polls};

pub(crate) const ROUTES: &[Route] = &[Route {
    method: Method::GET,
    path: "/metrics",
    is_public: false,
    run: |call| Box::pin(metrics(call)),
}];

/// The figures of one container.
struct Told {
    insight: Insight,
    large_keys: Vec<LargeKey>,
    warnings: Vec<Warning>,
}

/// One figure of containers, partitions or keys.
struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    samples: fn(&Told) -> Vec<Sample>,
}

/// A value with its labels.
struct Sample {
    labels: Vec<(&'static str, String)>,
    value: f64,
}

const METRICS: &[Metric] = &[
    Metric {
        name: "tessera_partition_request_units_total",
        kind: "counter",
        help: "Request units charged since the server started.",
        samples: |told| told.partitions(|it| Some(it.charged.request_units())),
    },
    Metric {
        name: "tessera_partition_requests_total",
        kind: "counter",
        help: "Requests since the server started.",
        samples: |told| told.partitions(|it| Some(count(it.requests))),
    },
    Metric {
        name: "tessera_partition_throttled_total",
        kind: "counter",
        help: "Requests refused for want of throughput since the server started.",
        samples: |told| told.partitions(|it| Some(count(it.throttled))),
    },
    Metric {
        name: "tessera_partition_items",
        kind: "gauge",
        help: "Items stored.",
        samples: |told| told.partitions(|it| Some(signed(it.statistics.tally.items))),
    },
    Metric {
        name: "tessera_partition_bytes",
        kind: "gauge",
        help: "Bytes of those items.",
        samples: |told| told.partitions(|it| Some(signed(it.statistics.tally.bytes))),
    },
    Metric {
        name: "tessera_partition_request_units_per_second",
        kind: "gauge",
        help: "Request units per second, the mean of the last ten seconds.",
        samples: |told| told.partitions(|it| Some(it.request_units_per_second)),
    },
    Metric {
        name: "tessera_partition_budget_request_units",
        kind: "gauge",
        help: "Request units per second that the partition may spend.",
        samples: |told| told.partitions(|it| it.budget),
    },
    Metric {
        name: "tessera_partition_normalised_consumption",
        kind: "gauge",
        help: "Largest part of the budget spent in one second of the last minute.",
        samples: |told| told.partitions(|it| it.normalised_consumption),
    },
    Metric {
        name: "tessera_hot_key_request_units_per_second",
        kind: "gauge",
        help: "Partition keys that cost most lately.",
        samples: |told| {
            let keys = told.insight.hot_keys.iter();
            keys.map(|it| key(it.partition, &it.key, it.request_units_per_second))
                .collect()
        },
    },
    Metric {
        name: "tessera_large_key_bytes",
        kind: "gauge",
        help: "Partition keys that hold most.",
        samples: |told| {
            let keys = told.large_keys.iter();
            keys.map(|it| key(it.partition, &it.key, signed(it.tally.bytes)))
                .collect()
        },
    },
    Metric {
        name: "tessera_limit_used",
        kind: "gauge",
        help: "Limits of which 70 % or more are used: 1 is all.",
        samples: |told| told.warnings.iter().map(used).collect(),
    },
];

#[expect(
    clippy::cast_precision_loss,
    reason = "the format knows no other numbers"
)]
pub(crate) fn count(number: u64) -> f64 {
    number as f64
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the format knows no other numbers"
)]
fn signed(number: i64) -> f64 {
    number as f64
}

fn key(partition: u32, key: &str, value: f64) -> Sample {
    let labels = vec![
        ("partition", partition.to_string()),
        ("key", key.to_owned()),
    ];
    Sample { labels, value }
}

fn used(warning: &Warning) -> Sample {
    let mut labels = vec![
        ("partition", warning.partition.to_string()),
        ("limit", warning.limit.name().to_owned()),
    ];
    labels.extend(warning.key.iter().map(|key| ("key", key.clone())));
    Sample {
        labels,
        value: warning.used,
    }
}

impl Told {
    fn partitions(&self, value: fn(&PartitionInsight) -> Option<f64>) -> Vec<Sample> {
        let partitions = self.insight.partitions.iter();
        let sample = |partition: &PartitionInsight| {
            let labels = vec![("partition", partition.statistics.partition.to_string())];
            let value = value(partition)?;
            Some(Sample { labels, value })
        };
        partitions.filter_map(sample).collect()
    }
}

async fn metrics(call: &Call<'_>) -> Reply {
    let told = async {
        let told = told(call.console).await?;
        let feeds = feeds::metrics(&call.console.store).await?;
        Ok::<_, Error>((told, feeds))
    };
    match told.await {
        Ok((told, feeds)) => {
            let mut text = render(&told);
            text.push_str(&feeds);
            let store = &call.console.store;
            memory::render(store.memory(), store.engine().memory_used(), &mut text);
            let uptime = call.console.about.started.elapsed().as_secs_f64();
            let name = "tessera_uptime_seconds";
            text.push_str("# HELP tessera_uptime_seconds Since the server started.\n");
            text.push_str("# TYPE tessera_uptime_seconds gauge\n");
            let _infallible = writeln!(text, "{name} {uptime:.3}");
            text.push_str(&polls::metrics());
            Reply::text("text/plain; version=0.0.4; charset=utf-8", text)
        }
        Err(error) => failure(&error),
    }
}

async fn told(console: &Console) -> Result<Vec<Told>, Error> {
    let mut told = Vec::new();
    for insight in insights(console).await? {
        match console.store.largest_keys(&insight.name).await {
            Ok(large_keys) => told.push(Told {
                warnings: insight.warnings(&large_keys),
                large_keys,
                insight,
            }),
            // It was dropped meanwhile.
            Err(Error::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(told)
}

fn render(told: &[Told]) -> String {
    let mut text = String::new();
    for metric in METRICS {
        // Writing into a text cannot fail.
        let _infallible = writeln!(text, "# HELP {} {}", metric.name, metric.help);
        let _infallible = writeln!(text, "# TYPE {} {}", metric.name, metric.kind);
        for container in told {
            let name = &container.insight.name;
            let container_labels = [
                ("api", &name.api),
                ("database", &name.database),
                ("container", &name.container),
            ];
            for sample in (metric.samples)(container) {
                let own = sample.labels.iter().map(|(name, value)| (*name, value));
                let labels = container_labels.into_iter().chain(own);
                let labels: Vec<String> = labels.map(|(name, value)| label(name, value)).collect();
                let (name, labels, value) = (metric.name, labels.join(","), sample.value);
                let _infallible = writeln!(text, "{name}{{{labels}}} {value}");
            }
        }
    }
    text
}

pub(crate) fn label(name: &str, value: &str) -> String {
    let value = value
        .replace('\\', r"\\")
        .replace('"', "\\\"")
        .replace('\n', r"\n");
    format!("{name}=\"{value}\"")
}
