//! `GET /api/feeds`: every change feed, who follows it and how far behind; and the feed of one
//! container: shown, turned on for good, turned off.

use std::fmt::Write as _;

use hyper::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use tessera_core::feed::definition::Images;
use tessera_core::feed::policy::{FeedScope, FeedWish};
use tessera_core::feed::status::{ConsumerStatus, FeedStatus, SettledStatus};
use tessera_core::name::ContainerName;
use tessera_core::{Error, Store};

use crate::actions::{Failure, read};
use crate::changes_text::time_text;
use crate::containers::{failure, name};
use crate::metrics::{count, label};
use crate::reply::Reply;
use crate::routes::{Call, Route};

const PATH: &str = "/api/containers/{api}/{database}/{container}/feed";

pub(crate) const ROUTES: &[Route] = &[
    Route {
        method: Method::GET,
        path: "/api/feeds",
        is_public: false,
        run: |call| Box::pin(list(call)),
    },
    Route {
        method: Method::GET,
        path: PATH,
        is_public: false,
        run: |call| Box::pin(act(call, Action::Show)),
    },
    Route {
        method: Method::PUT,
        path: PATH,
        is_public: false,
        run: |call| Box::pin(act(call, Action::TurnOn)),
    },
    Route {
        method: Method::DELETE,
        path: PATH,
        is_public: false,
        run: |call| Box::pin(act(call, Action::TurnOff)),
    },
];

#[derive(Clone, Copy)]
enum Action {
    Show,
    TurnOn,
    TurnOff,
}

/// What a feed is to be like. What is left out stays as it is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// For how long changes are kept.
    retention: Option<String>,
    /// Whether it stays on though nobody follows; it does, if nothing is said.
    keep: Option<bool>,
    /// Whether changes have the item before.
    before: Option<bool>,
    /// Whether updates have the item after.
    after: Option<bool>,
}

/// All feeds.
#[derive(Serialize)]
struct ShownFeeds {
    settled: ShownSettled,
    feeds: Vec<ShownFeed>,
}

#[derive(Serialize)]
struct ShownSettled {
    is_behind: bool,
    lag_seconds: f64,
    /// What holds it back, if it is behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

/// The feed of one container.
#[derive(Serialize)]
struct ShownOne {
    feed: Option<ShownFeed>,
    /// The physical partitions, as `feed-range` takes them.
    ranges: Vec<String>,
}

#[derive(Serialize)]
struct ShownFeed {
    number: u64,
    api: String,
    database: String,
    container: String,
    is_on: bool,
    is_kept: bool,
    before: bool,
    after: bool,
    retention_seconds: f64,
    since: Option<String>,
    bytes: u64,
    followed: Option<String>,
    consumers: Vec<ShownConsumer>,
}

#[derive(Serialize)]
struct ShownConsumer {
    manner: &'static str,
    since: String,
    lag_seconds: f64,
}

async fn list(call: &Call<'_>) -> Reply {
    let store = &call.console.store;
    let shown = async {
        let feeds = store.feed_statuses().await?;
        let settled = match feeds.is_empty() {
            true => SettledStatus {
                is_behind: false,
                lag_ms: 0,
            },
            false => store.settled_status().await?,
        };
        Ok::<_, Error>(ShownFeeds {
            settled: ShownSettled::of(settled, call.console.about.engine),
            feeds: feeds.into_iter().map(ShownFeed::of).collect(),
        })
    };
    match shown.await {
        Ok(shown) => Reply::json(StatusCode::OK, &shown),
        Err(error) => failure(&error),
    }
}

async fn act(call: &Call<'_>, action: Action) -> Reply {
    let name = match name(call) {
        Ok(name) => name,
        Err(refusal) => return refusal,
    };
    let store = &call.console.store;
    let done = async {
        match action {
            Action::Show => {}
            Action::TurnOn => turn_on(call, &name).await?,
            Action::TurnOff => store.turn_off_feed(&name).await?,
        }
        Ok::<_, Failure>(shown(store, &name).await?)
    };
    match done.await {
        Ok(shown) => Reply::json(StatusCode::OK, &shown),
        Err(failure) => failure.into(),
    }
}

async fn turn_on(call: &Call<'_>, name: &ContainerName) -> Result<(), Failure> {
    let expected = r#"{"retention": "7d", "keep": true, "before": false, "after": true}"#;
    let wanted: Wanted = read(call, expected)?;
    let retention_ms = wanted.retention.as_deref().map(millis).transpose()?;
    let store = &call.console.store;
    let known = status(store, name).await?;
    let images = known.as_ref().map_or_else(Images::default, |it| it.images);
    let wish = FeedWish {
        images: Images {
            before: wanted.before.unwrap_or(images.before),
            after: wanted.after.unwrap_or(images.after),
        },
        retention_ms: retention_ms.or(known.and_then(|known| known.own_retention_ms)),
        is_kept: wanted.keep.unwrap_or(true),
    };
    Ok(store.configure_feed(name, wish).await?)
}

/// The time that a text such as `30m`, `24h` or `7d` names.
fn millis(text: &str) -> Result<u64, Failure> {
    let parsed = text.chars().last().and_then(|unit| {
        let unit_ms = match unit {
            's' => 1_000,
            'm' => 60_000,
            'h' => 3_600_000,
            'd' => 86_400_000,
            _ => return None,
        };
        let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
        count.checked_mul(unit_ms).filter(|time| *time > 0)
    });
    parsed.ok_or_else(|| {
        Failure::Unreadable(format!(
            "retention must be a time such as 30m, 24h or 7d, and not '{text}'"
        ))
    })
}

async fn shown(store: &Store, name: &ContainerName) -> Result<ShownOne, Error> {
    let ranges = store.feed_ranges(name).await?;
    let feed = status(store, name).await?;
    let range = |(first, last): (i64, i64)| format!("{first}..{last}");
    Ok(ShownOne {
        feed: feed.map(ShownFeed::of),
        ranges: ranges.into_iter().map(range).collect(),
    })
}

async fn status(store: &Store, name: &ContainerName) -> Result<Option<FeedStatus>, Error> {
    let scope = FeedScope::Container(name.clone());
    match store.feed_of(&scope).await? {
        Some(feed) => store.feed_status(feed).await,
        None => Ok(None),
    }
}

impl ShownSettled {
    fn of(settled: SettledStatus, engine: &str) -> Self {
        let reason = match engine {
            "postgres" => "a transaction that runs in the database, of this server or another one",
            _ => "changes that are not on the disk yet",
        };
        Self {
            is_behind: settled.is_behind,
            lag_seconds: seconds(settled.lag_ms),
            reason: settled.is_behind.then_some(reason),
        }
    }
}

impl ShownFeed {
    fn of(status: FeedStatus) -> Self {
        let consumers = status.consumers.into_iter();
        Self {
            number: status.feed,
            is_on: status.is_on,
            is_kept: status.is_kept,
            before: status.images.before,
            after: status.images.after,
            retention_seconds: seconds(status.retention_ms),
            since: status.since_ms.map(time_text),
            bytes: status.bytes,
            followed: status.followed_ms.map(time_text),
            consumers: consumers.map(ShownConsumer::of).collect(),
            api: status.name.api,
            database: status.name.database,
            container: status.name.container,
        }
    }
}

impl ShownConsumer {
    fn of(consumer: ConsumerStatus) -> Self {
        Self {
            manner: consumer.manner,
            since: time_text(consumer.since_ms),
            lag_seconds: seconds(consumer.lag_ms),
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "thousandths of seconds, far below 2^53"
)]
fn seconds(millis: u64) -> f64 {
    millis as f64 / 1_000.0
}

/// One figure of a feed, for Prometheus.
struct Metric {
    name: &'static str,
    help: &'static str,
    value: fn(&FeedStatus, u64) -> Option<f64>,
}

const METRICS: &[Metric] = &[
    Metric {
        name: "tessera_feed_bytes",
        help: "Size of a change feed, roughly.",
        value: |feed, _| Some(count(feed.bytes)),
    },
    Metric {
        name: "tessera_feed_retention_seconds",
        help: "For how long changes are kept.",
        value: |feed, _| Some(seconds(feed.retention_ms)),
    },
    Metric {
        name: "tessera_feed_reaches_back_seconds",
        help: "Age of the oldest change that is kept.",
        value: |feed, now_ms| Some(seconds(now_ms.saturating_sub(feed.since_ms?))),
    },
    Metric {
        name: "tessera_feed_consumers",
        help: "How many clients of this server follow the feed now.",
        value: |feed, _| Some(feed.consumers.iter().map(|_| 1.0).sum()),
    },
    Metric {
        name: "tessera_feed_lag_seconds",
        help: "Age of the first change that the slowest of them has not read.",
        value: |feed, _| {
            let lags = feed.consumers.iter().map(|consumer| consumer.lag_ms);
            lags.max().map(seconds)
        },
    },
];

/// The figures of all feeds, in the text format of Prometheus.
pub(crate) async fn metrics(store: &Store) -> Result<String, Error> {
    let feeds = store.feed_statuses().await?;
    let mut text = String::new();
    if feeds.is_empty() {
        return Ok(text);
    }
    let now_ms = store.clock().now_ms();
    // Writing into a text cannot fail.
    for metric in METRICS {
        let (name, help) = (metric.name, metric.help);
        let _infallible = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
        for feed in &feeds {
            let labels = [
                label("api", &feed.name.api),
                label("database", &feed.name.database),
                label("container", &feed.name.container),
                label("feed", &feed.feed.to_string()),
            ];
            if let Some(value) = (metric.value)(feed, now_ms) {
                let _infallible = writeln!(text, "{name}{{{}}} {value}", labels.join(","));
            }
        }
    }
    let settled = store.settled_status().await?;
    let name = "tessera_feed_unsettled_seconds";
    let help = "Age of the newest commit that feeds can tell, while later ones cannot be told.";
    let lag = seconds(settled.lag_ms);
    let _infallible = writeln!(
        text,
        "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {lag}"
    );
    Ok(text)
}
