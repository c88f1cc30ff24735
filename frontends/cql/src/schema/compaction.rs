//! The compaction of a table: a strategy that Cassandra has, with the options that it knows.
//!
//! Nothing here compacts as they say. They are checked and kept because schemas carry them.

use std::collections::BTreeMap;

use super::options::{class, refuse_unless};
use crate::error::{CqlError, Result};

type Map = BTreeMap<String, String>;

const PACKAGE: &str = "org.apache.cassandra.db.compaction";

/// A strategy, and what it takes besides the options that all of them take.
struct Strategy {
    name: &'static str,
    options: &'static [(&'static str, Check)],
    has_thresholds: bool,
}

/// What an option must be.
#[derive(Clone, Copy)]
enum Check {
    Anything,
    Boolean,
    /// Between 0 and 1, with or without its ends.
    Share {
        with_ends: bool,
    },
    /// A number above 1.
    AboveOne,
    /// Seconds, more than none.
    Seconds,
    Positive,
    NotNegative,
    /// A number of files that are compacted together.
    Threshold,
    /// A number of windows.
    Windows,
    /// One of these words; the text is what it is called if it is none.
    Word(&'static [&'static str], &'static str),
}

const EVERY: &[(&str, Check)] = &[
    ("enabled", Check::Boolean),
    ("tombstone_threshold", Check::Share { with_ends: true }),
    ("tombstone_compaction_interval", Check::Seconds),
    ("unchecked_tombstone_compaction", Check::Boolean),
    ("only_purge_repaired_tombstones", Check::Boolean),
    ("log_all", Check::Boolean),
    ("provide_overlapping_tombstones", Check::Anything),
];

const THRESHOLDS: &[(&str, Check)] = &[
    ("min_threshold", Check::Threshold),
    ("max_threshold", Check::Threshold),
];

const SIZE_TIERED: &[(&str, Check)] = &[
    ("min_sstable_size", Check::NotNegative),
    ("bucket_low", Check::Share { with_ends: false }),
    ("bucket_high", Check::AboveOne),
    ("cold_reads_to_omit", Check::Share { with_ends: true }),
];

const LEVELED: &[(&str, Check)] = &[
    ("sstable_size_in_mb", Check::Positive),
    ("fanout_size", Check::Positive),
    ("single_sstable_uplevel", Check::Boolean),
    ("min_sstable_size", Check::NotNegative),
    ("bucket_low", Check::Share { with_ends: false }),
    ("bucket_high", Check::AboveOne),
];

const TIME_WINDOW: &[(&str, Check)] = &[
    (
        "compaction_window_unit",
        Check::Word(&["MINUTES", "HOURS", "DAYS"], "window unit"),
    ),
    ("compaction_window_size", Check::Windows),
    (
        "timestamp_resolution",
        Check::Word(
            &["MICROSECONDS", "MILLISECONDS", "SECONDS", "NANOSECONDS"],
            "timestamp resolution",
        ),
    ),
    (
        "expired_sstable_check_frequency_seconds",
        Check::NotNegative,
    ),
    ("unsafe_aggressive_sstable_expiration", Check::Boolean),
    ("min_sstable_size", Check::NotNegative),
    ("bucket_low", Check::Share { with_ends: false }),
    ("bucket_high", Check::AboveOne),
];

const UNIFIED: &[(&str, Check)] = &[
    ("scaling_parameters", Check::Anything),
    ("target_sstable_size", Check::Anything),
    ("min_sstable_size", Check::Anything),
    ("base_shard_count", Check::Positive),
    ("sstable_growth", Check::Anything),
    ("flush_size_override", Check::Anything),
    ("max_sstables_to_compact", Check::Anything),
    (
        "expired_sstable_check_frequency_seconds",
        Check::NotNegative,
    ),
    ("unsafe_aggressive_sstable_expiration", Check::Boolean),
    ("overlap_inclusion_method", Check::Anything),
];

const STRATEGIES: &[Strategy] = &[
    Strategy {
        name: "SizeTieredCompactionStrategy",
        options: SIZE_TIERED,
        has_thresholds: true,
    },
    Strategy {
        name: "LeveledCompactionStrategy",
        options: LEVELED,
        has_thresholds: true,
    },
    Strategy {
        name: "TimeWindowCompactionStrategy",
        options: TIME_WINDOW,
        has_thresholds: true,
    },
    Strategy {
        name: "UnifiedCompactionStrategy",
        options: UNIFIED,
        has_thresholds: false,
    },
];

/// What tables are compacted by if nothing is said.
pub(super) fn usual() -> Map {
    [
        ("class", format!("{PACKAGE}.SizeTieredCompactionStrategy")),
        ("max_threshold", "32".to_owned()),
        ("min_threshold", "4".to_owned()),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect()
}

/// The options as they are kept, with the class in full.
pub(super) fn compaction(entries: &[(String, String)]) -> Result<Map> {
    let names: Vec<&str> = STRATEGIES.iter().map(|strategy| strategy.name).collect();
    let (class, mut map) = class("compaction", entries, PACKAGE, &names)?;
    let is_named = |strategy: &&Strategy| class.ends_with(strategy.name);
    if let Some(strategy) = STRATEGIES.iter().find(is_named) {
        check(strategy, &map)?;
        if strategy.has_thresholds {
            for (name, usual) in [("max_threshold", "32"), ("min_threshold", "4")] {
                map.entry(name.to_owned())
                    .or_insert_with(|| usual.to_owned());
            }
        }
    }
    map.insert("class".to_owned(), class);
    Ok(map)
}

fn check(strategy: &Strategy, options: &Map) -> Result<()> {
    let thresholds = if strategy.has_thresholds {
        THRESHOLDS
    } else {
        &[]
    };
    let mut unknown = Vec::new();
    for (name, value) in options {
        let mut known = EVERY.iter().chain(thresholds).chain(strategy.options);
        match known.find(|(known, _)| known == name) {
            Some((_, check)) => check.option(name, value)?,
            None => unknown.push(name.as_str()),
        }
    }
    refuse_unless(unknown.is_empty(), || {
        format!(
            "Properties specified [{}] are not understood by {}",
            unknown.join(", "),
            strategy.name
        )
    })
}

impl Check {
    fn option(self, name: &str, value: &str) -> Result<()> {
        let must = |is_right: bool, words: &str| {
            refuse_unless(is_right, || {
                format!("{name} value ({value}) must be {words}")
            })
        };
        match self {
            Self::Anything => Ok(()),
            Self::Boolean => must(
                value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false"),
                "\"true\" or \"false\"",
            ),
            Self::Share { with_ends } => {
                let share = number(name, value)?;
                let is_inside = share > 0.0 && share < 1.0;
                let is_end = with_ends && (share == 0.0 || share == 1.0);
                refuse_unless(is_inside || is_end, || {
                    format!("{name} value ({share}) must be between 0.0 and 1.0")
                })
            }
            Self::AboveOne => must(number(name, value)? > 1.0, "greater than 1.0"),
            Self::Seconds => {
                let seconds = number(name, value)?;
                refuse_unless(seconds > 0.0, || {
                    format!("{name} value ({}ms) must be positive", seconds * 1000.0)
                })
            }
            Self::Positive => refuse_unless(number(name, value)? > 0.0, || {
                format!("{name} must be larger than 0, but was {value}")
            }),
            Self::NotNegative => refuse_unless(number(name, value)? >= 0.0, || {
                format!("{name} must be non negative: {value}")
            }),
            Self::Threshold => must(number(name, value)? >= 2.0, "bigger or equal to 2"),
            Self::Windows => refuse_unless(number(name, value)? >= 1.0, || {
                format!("{value} must be greater than 1 for {name}")
            }),
            Self::Word(words, what) => refuse_unless(words.contains(&value), || {
                format!("Invalid {what} {value} for {name}")
            }),
        }
    }
}

fn number(name: &str, value: &str) -> Result<f64> {
    let parsed: Option<f64> = value.parse().ok().filter(|number: &f64| number.is_finite());
    parsed.ok_or_else(|| {
        CqlError::configuration(format!(
            "{value} is not a parsable number for compaction option {name}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(class: &str, options: &[(&str, &str)]) -> Result<Map> {
        let named = [("class", class)];
        let entries = options.iter().chain(&named);
        let owned: Vec<(String, String)> = entries
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        compaction(&owned)
    }

    #[test]
    fn options_are_those_of_their_strategy() {
        let leveled = of("LeveledCompactionStrategy", &[("sstable_size_in_mb", "10")]).unwrap();
        assert_eq!(leveled["max_threshold"], "32");
        let unified = of("UnifiedCompactionStrategy", &[("scaling_parameters", "T4")]).unwrap();
        assert_eq!(unified.len(), 2);
        let words = of("SizeTieredCompactionStrategy", &[("abc", "1")]).unwrap_err();
        assert_eq!(
            words.message,
            "Properties specified [abc] are not understood by SizeTieredCompactionStrategy"
        );
        of("UnifiedCompactionStrategy", &[("min_threshold", "4")]).unwrap_err();
    }

    #[test]
    fn values_are_checked() {
        for (option, value, words) in [
            (
                "tombstone_threshold",
                "-0.4",
                "tombstone_threshold value (-0.4) must be between 0.0 and 1.0",
            ),
            (
                "tombstone_compaction_interval",
                "-7",
                "tombstone_compaction_interval value (-7000ms) must be positive",
            ),
            (
                "enabled",
                "maybe",
                "enabled value (maybe) must be \"true\" or \"false\"",
            ),
            (
                "compaction_window_unit",
                "SECONDS",
                "Invalid window unit SECONDS for compaction_window_unit",
            ),
            (
                "compaction_window_size",
                "-8",
                "-8 must be greater than 1 for compaction_window_size",
            ),
            (
                "bucket_low",
                "0.0",
                "bucket_low value (0) must be between 0.0 and 1.0",
            ),
            (
                "bucket_high",
                "0.7",
                "bucket_high value (0.7) must be greater than 1.0",
            ),
            (
                "max_threshold",
                "1",
                "max_threshold value (1) must be bigger or equal to 2",
            ),
            (
                "min_sstable_size",
                "-1",
                "min_sstable_size must be non negative: -1",
            ),
            (
                "bucket_high",
                "x",
                "x is not a parsable number for compaction option bucket_high",
            ),
        ] {
            let error = of("TimeWindowCompactionStrategy", &[(option, value)]).unwrap_err();
            assert_eq!(error.message, words);
        }
    }
}
