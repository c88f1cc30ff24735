//! `GET /metrics`: the same figures in the text format of Prometheus.

use std::fmt::Write as _;

use hyper::Method;
use tessera_core::insight::{Insight, PartitionInsight};

use crate::containers::{failure, insights};
use crate::reply::Reply;
use crate::routes::{Call, Route};

pub(crate) const ROUTES: &[Route] = &[Route {
    method: Method::GET,
    path: "/metrics",
    is_public: false,
    run: |call| Box::pin(metrics(call)),
}];

/// One figure of each physical partition.
struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    value: fn(&PartitionInsight) -> Option<f64>,
}

const METRICS: &[Metric] = &[
    Metric {
        name: "tessera_partition_request_units_total",
        kind: "counter",
        help: "Request units charged since the server started.",
        value: |partition| Some(partition.charged.request_units()),
    },
    Metric {
        name: "tessera_partition_operations_total",
        kind: "counter",
        help: "Operations since the server started.",
        value: |partition| Some(count(partition.operations)),
    },
    Metric {
        name: "tessera_partition_throttled_total",
        kind: "counter",
        help: "Operations refused for want of throughput since the server started.",
        value: |partition| Some(count(partition.throttled)),
    },
    Metric {
        name: "tessera_partition_items",
        kind: "gauge",
        help: "Items stored.",
        value: |partition| Some(signed(partition.statistics.tally.items)),
    },
    Metric {
        name: "tessera_partition_bytes",
        kind: "gauge",
        help: "Bytes of those items.",
        value: |partition| Some(signed(partition.statistics.tally.bytes)),
    },
    Metric {
        name: "tessera_partition_budget_request_units",
        kind: "gauge",
        help: "Request units per second that the partition may spend.",
        value: |partition| partition.budget,
    },
    Metric {
        name: "tessera_partition_normalised_consumption",
        kind: "gauge",
        help: "Largest part of the budget spent in one second of the last minute.",
        value: |partition| partition.normalised_consumption,
    },
];

#[expect(
    clippy::cast_precision_loss,
    reason = "the format knows no other numbers"
)]
fn count(number: u64) -> f64 {
    number as f64
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the format knows no other numbers"
)]
fn signed(number: i64) -> f64 {
    number as f64
}

async fn metrics(call: &Call<'_>) -> Reply {
    match insights(call.console).await {
        Ok(insights) => {
            let mut text = render(&insights);
            let uptime = call.console.about.started.elapsed().as_secs_f64();
            let name = "tessera_uptime_seconds";
            text.push_str("# HELP tessera_uptime_seconds Since the server started.\n");
            text.push_str("# TYPE tessera_uptime_seconds gauge\n");
            let _infallible = writeln!(text, "{name} {uptime:.3}");
            Reply::text("text/plain; version=0.0.4; charset=utf-8", text)
        }
        Err(error) => failure(&error),
    }
}

fn render(insights: &[Insight]) -> String {
    let mut text = String::new();
    for metric in METRICS {
        // Writing into a text cannot fail.
        let _infallible = writeln!(text, "# HELP {} {}", metric.name, metric.help);
        let _infallible = writeln!(text, "# TYPE {} {}", metric.name, metric.kind);
        for insight in insights {
            let labels = labels(insight);
            for partition in &insight.partitions {
                let Some(value) = (metric.value)(partition) else {
                    continue;
                };
                let (name, id) = (metric.name, partition.statistics.partition);
                let _infallible = writeln!(text, "{name}{{{labels},partition=\"{id}\"}} {value}");
            }
        }
    }
    text
}

fn labels(insight: &Insight) -> String {
    let name = &insight.name;
    let label = |value: &str| {
        let value = value
            .replace('\\', r"\\")
            .replace('"', "\\\"")
            .replace('\n', r"\n");
        format!("\"{value}\"")
    };
    format!(
        "api={},database={},container={}",
        label(&name.api),
        label(&name.database),
        label(&name.container)
    )
}
