//! The options of a table: what WITH may say, checked, and printed by DESCRIBE.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::{Deserialize, Serialize};

use super::compaction::{compaction, usual as usual_compaction};
use super::compression::{compression, usual as usual_compression};
use crate::error::{CqlError, Result};
use crate::statement::{Properties, PropertyValue, quoted};

type Map = BTreeMap<String, String>;

/// What Cosmos DB adds to the options of tables. Whatever it calls otherwise is a mistake, and
/// nobody shall believe that it was heard.
const COSMOS: &[&str] = &[
    "cosmosdb_provisioned_throughput",
    "cosmosdb_autoscale_max_throughput",
    "cosmosdb_cell_level_timestamp",
    "cosmosdb_cell_level_timestamp_tiebreak",
    "cosmosdb_cell_level_timetolive",
];

/// The configurations of memtables that Cassandra comes with.
const MEMTABLES: &[&str] = &["default", "skiplist", "trie"];

/// The options of a table.
///
/// `default_time_to_live` is applied to writes, and views have none of their own;
/// `gc_grace_seconds` decides which statements are refused or warned of. `comment` says nothing of
/// rows. `extensions` are for programs within Cassandra, and can only be none. `cdc` can only
/// be false, because a reader of changes would wait in vain. Those of Cosmos DB that ask for
/// throughput are provisioned. All others tune what Cassandra does with files, memory, replicas and
/// repairs: they are checked, kept and shown, and no answer depends on them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TableOptions {
    pub(crate) additional_write_policy: String,
    pub(crate) allow_auto_snapshot: bool,
    /// None: as the compaction wants it.
    bloom_filter_fp_chance: Option<f64>,
    pub(crate) caching: Map,
    pub(crate) cdc: bool,
    pub(crate) comment: String,
    pub(crate) compaction: Map,
    pub(crate) compression: Map,
    pub(crate) crc_check_chance: f64,
    pub(crate) default_time_to_live: i32,
    pub(crate) gc_grace_seconds: i32,
    pub(crate) incremental_backups: bool,
    pub(crate) max_index_interval: i32,
    pub(crate) memtable: String,
    pub(crate) memtable_flush_period_in_ms: i32,
    pub(crate) min_index_interval: i32,
    pub(crate) read_repair: String,
    pub(crate) speculative_retry: String,
    /// Options of Cosmos DB, such as the throughput.
    pub(crate) cosmos: Map,
}

/// Twenty years: the longest that anything lives.
const LONGEST_LIFE: i32 = 20 * 365 * 24 * 60 * 60;
/// The smallest chance for which Cassandra can build a filter.
const SMALLEST_CHANCE: f64 = 6.71e-5;

fn map<const N: usize>(entries: [(&str, &str); N]) -> Map {
    entries
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            additional_write_policy: "99p".to_owned(),
            allow_auto_snapshot: true,
            bloom_filter_fp_chance: None,
            caching: map([("keys", "ALL"), ("rows_per_partition", "NONE")]),
            cdc: false,
            comment: String::new(),
            compaction: usual_compaction(),
            compression: usual_compression(),
            crc_check_chance: 1.0,
            default_time_to_live: 0,
            gc_grace_seconds: 864_000,
            incremental_backups: true,
            max_index_interval: 2048,
            memtable: "default".to_owned(),
            memtable_flush_period_in_ms: 0,
            min_index_interval: 128,
            read_repair: "BLOCKING".to_owned(),
            speculative_retry: "99p".to_owned(),
            cosmos: Map::new(),
        }
    }
}

impl TableOptions {
    /// These options with the properties of a statement. The id is the table's and not one of them.
    pub(crate) fn with(mut self, properties: &Properties) -> Result<Self> {
        for (name, value) in properties {
            self.set(name, value)?;
        }
        self.check()?;
        Ok(self)
    }

    fn set(&mut self, name: &str, value: &PropertyValue) -> Result<()> {
        match name {
            "additional_write_policy" => {
                self.additional_write_policy = retry_policy(name, text(name, value)?)?;
            }
            "allow_auto_snapshot" => self.allow_auto_snapshot = boolean(name, value)?,
            "bloom_filter_fp_chance" => self.bloom_filter_fp_chance = Some(double(name, value)?),
            "caching" => self.caching = caching(entries(name, value)?)?,
            "cdc" => self.cdc = cdc(name, value)?,
            "comment" => text(name, value)?.clone_into(&mut self.comment),
            "compaction" => self.compaction = compaction(entries(name, value)?)?,
            "compression" => self.compression = compression(entries(name, value)?)?,
            "crc_check_chance" => self.crc_check_chance = double(name, value)?,
            "default_time_to_live" => self.default_time_to_live = integer(name, value)?,
            "gc_grace_seconds" => self.gc_grace_seconds = integer(name, value)?,
            "incremental_backups" => self.incremental_backups = boolean(name, value)?,
            "max_index_interval" => self.max_index_interval = integer(name, value)?,
            "memtable" => memtable(text(name, value)?)?.clone_into(&mut self.memtable),
            "memtable_flush_period_in_ms" => {
                self.memtable_flush_period_in_ms = integer(name, value)?;
            }
            "min_index_interval" => self.min_index_interval = integer(name, value)?,
            "read_repair" => self.read_repair = read_repair(text(name, value)?)?,
            "speculative_retry" => {
                self.speculative_retry = retry_policy(name, text(name, value)?)?;
            }
            "extensions" => no_extensions(entries(name, value)?)?,
            "id" => {}
            cosmos if COSMOS.contains(&cosmos) => {
                let value = text(name, value)?.to_owned();
                self.cosmos.insert(name.to_owned(), value);
            }
            _ => return Err(CqlError::syntax(format!("Unknown property '{name}'"))),
        }
        Ok(())
    }

    pub(crate) fn bloom_filter_fp_chance(&self) -> f64 {
        let is_leveled = self
            .compaction
            .get("class")
            .is_some_and(|class| class.ends_with(".LeveledCompactionStrategy"));
        self.bloom_filter_fp_chance
            .unwrap_or(if is_leveled { 0.1 } else { 0.01 })
    }

    /// The same with what the compaction wants said as if a statement had.
    #[cfg(test)]
    pub(crate) fn explicit(self) -> Self {
        Self {
            bloom_filter_fp_chance: Some(self.bloom_filter_fp_chance()),
            ..self
        }
    }

    fn check(&self) -> Result<()> {
        let at_least = |name: &str, value: i32, least: i32| {
            refuse_unless(value >= least, || {
                format!("{name} must be greater than or equal to {least} (got {value})")
            })
        };
        let chance = self.bloom_filter_fp_chance();
        refuse_unless(chance > SMALLEST_CHANCE && chance <= 1.0, || {
            format!(
                "bloom_filter_fp_chance must be larger than {SMALLEST_CHANCE:E} and less than or \
                 equal to 1.0 (got {chance:?})"
            )
        })?;
        refuse_unless((0.0..=1.0).contains(&self.crc_check_chance), || {
            let chance = self.crc_check_chance;
            format!(
                "crc_check_chance must be larger than or equal to 0 and smaller than or equal to \
                 1.0 (got {chance:?})"
            )
        })?;
        at_least("default_time_to_live", self.default_time_to_live, 0)?;
        refuse_unless(self.default_time_to_live <= LONGEST_LIFE, || {
            let life = self.default_time_to_live;
            format!(
                "default_time_to_live must be less than or equal to {LONGEST_LIFE} (got {life})"
            )
        })?;
        at_least("gc_grace_seconds", self.gc_grace_seconds, 0)?;
        at_least("min_index_interval", self.min_index_interval, 1)?;
        let (least, most) = (self.min_index_interval, self.max_index_interval);
        refuse_unless(most >= least, || {
            format!(
                "max_index_interval must be greater than or equal to min_index_interval ({least}) \
                 (got {most})"
            )
        })?;
        at_least(
            "memtable_flush_period_in_ms",
            self.memtable_flush_period_in_ms,
            0,
        )
    }

    /// The options as DESCRIBE lists them, by name. Views have no time to live of their own.
    pub(super) fn described(&self, is_view: bool) -> Vec<String> {
        let quote = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let map = |map: &Map| {
            let entries: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{}: {}", quote(key), quote(value)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        };
        let mut lines = vec![
            line(
                "additional_write_policy",
                quote(&self.additional_write_policy),
            ),
            line("allow_auto_snapshot", self.allow_auto_snapshot),
            line(
                "bloom_filter_fp_chance",
                decimal(self.bloom_filter_fp_chance()),
            ),
            line("caching", map(&self.caching)),
            line("cdc", self.cdc),
            line("comment", quote(&self.comment)),
            line("compaction", map(&self.compaction)),
            line("compression", map(&self.compression)),
        ];
        lines.extend(self.cosmos.iter().map(|(name, value)| {
            let is_number = value
                .parse::<u64>()
                .is_ok_and(|it| it.to_string() == *value);
            line(
                &quoted(name),
                if is_number {
                    value.clone()
                } else {
                    quote(value)
                },
            )
        }));
        lines.extend([
            line("memtable", quote(&self.memtable)),
            line("crc_check_chance", decimal(self.crc_check_chance)),
        ]);
        if !is_view {
            lines.push(line("default_time_to_live", self.default_time_to_live));
        }
        lines.extend([
            line("extensions", "{}"),
            line("gc_grace_seconds", self.gc_grace_seconds),
            line("incremental_backups", self.incremental_backups),
            line("max_index_interval", self.max_index_interval),
            line(
                "memtable_flush_period_in_ms",
                self.memtable_flush_period_in_ms,
            ),
            line("min_index_interval", self.min_index_interval),
            line("read_repair", quote(&self.read_repair)),
            line("speculative_retry", quote(&self.speculative_retry)),
        ]);
        lines
    }
}

fn line(name: &str, value: impl Display) -> String {
    format!("{name} = {value}")
}

/// A number with a digit after the point.
fn decimal(number: f64) -> String {
    format!("{number:?}")
}

pub(super) fn refuse_unless(is_right: bool, words: impl FnOnce() -> String) -> Result<()> {
    if is_right {
        Ok(())
    } else {
        Err(CqlError::configuration(words()))
    }
}

fn text<'v>(name: &str, value: &'v PropertyValue) -> Result<&'v str> {
    match value {
        PropertyValue::Text(text) => Ok(text),
        PropertyValue::Map(_) => Err(CqlError::syntax(format!(
            "Invalid value for property '{name}'. It should be a string"
        ))),
    }
}

fn entries<'v>(name: &str, value: &'v PropertyValue) -> Result<&'v [(String, String)]> {
    match value {
        PropertyValue::Map(entries) => Ok(entries),
        PropertyValue::Text(_) => Err(CqlError::syntax(format!(
            "Invalid value for property '{name}'. It should be a map."
        ))),
    }
}

pub(super) fn boolean(name: &str, value: &PropertyValue) -> Result<bool> {
    let text = text(name, value)?;
    match text.to_lowercase().as_str() {
        "1" | "true" | "yes" => Ok(true),
        "0" | "false" | "no" => Ok(false),
        _ => Err(CqlError::syntax(format!(
            "Invalid boolean value {text} for '{name}'. Positive values can be '1', 'true' or \
             'yes'. Negative values can be '0', 'false' or 'no'."
        ))),
    }
}

/// There is no log of changes that a table could be in, so that nobody may rely on one.
fn cdc(name: &str, value: &PropertyValue) -> Result<bool> {
    let is_wanted = boolean(name, value)?;
    refuse_unless(!is_wanted, || {
        "Change data capture is not enabled on this server, which has no setting that enables it: \
         'cdc' cannot be true"
            .to_owned()
    })?;
    Ok(false)
}

fn integer(name: &str, value: &PropertyValue) -> Result<i32> {
    let text = text(name, value)?;
    text.parse()
        .map_err(|_| CqlError::syntax(format!("Invalid integer value {text} for '{name}'")))
}

fn double(name: &str, value: &PropertyValue) -> Result<f64> {
    let text = text(name, value)?;
    let number: Option<f64> = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| CqlError::syntax(format!("Invalid double value {text} for '{name}'")))
}

fn memtable(text: &str) -> Result<&str> {
    refuse_unless(MEMTABLES.contains(&text), || {
        format!("Memtable configuration \"{text}\" not found.")
    })?;
    Ok(text)
}

fn no_extensions(entries: &[(String, String)]) -> Result<()> {
    refuse_unless(entries.is_empty(), || {
        "extensions cannot be set: there is nothing here that they would be for".to_owned()
    })
}

/// Whether it is the smaller or larger of a percentile and a time, in either order.
fn is_hybrid(upper: &str) -> bool {
    let inner = ["MIN(", "MAX("]
        .into_iter()
        .find_map(|function| upper.strip_prefix(function)?.strip_suffix(')'));
    let Some((one, other)) = inner.and_then(|inner| inner.split_once(',')) else {
        return false;
    };
    let number = |text: &str, suffix: &str| {
        let number = text.trim().strip_suffix(suffix)?.parse::<f64>().ok()?;
        (number >= 0.0).then_some(number)
    };
    let is_percentile = |text: &str| {
        let found = ["PERCENTILE", "P"]
            .into_iter()
            .find_map(|suffix| number(text, suffix));
        found.is_some_and(|percentile| percentile <= 100.0)
    };
    let is_time = |text: &str| number(text, "MS").is_some();
    (is_percentile(one) && is_time(other)) || (is_time(one) && is_percentile(other))
}

fn retry_policy(name: &str, text: &str) -> Result<String> {
    let upper = text.to_uppercase();
    let number = |suffix: &str| {
        let digits = upper.strip_suffix(suffix)?;
        digits.parse::<f64>().ok().filter(|number| *number >= 0.0)
    };
    let is_percentile = ["PERCENTILE", "P"]
        .into_iter()
        .any(|s| number(s).is_some_and(|n| n <= 100.0));
    let is_fixed = number("MS").is_some();
    if upper == "ALWAYS" || upper == "NEVER" || upper == "NONE" {
        return Ok(if upper == "NONE" {
            "NEVER".to_owned()
        } else {
            upper
        });
    }
    let is_hybrid = is_hybrid(&upper);
    if is_percentile {
        return Ok(upper.trim_end_matches("ERCENTILE").to_lowercase());
    }
    if is_fixed || is_hybrid {
        return Ok(upper.to_lowercase());
    }
    Err(CqlError::configuration(format!(
        "Invalid value {text} for option '{name}'"
    )))
}

fn read_repair(text: &str) -> Result<String> {
    let upper = text.to_uppercase();
    if upper == "NONE" || upper == "BLOCKING" {
        return Ok(upper);
    }
    Err(CqlError::configuration(format!(
        "No enum constant org.apache.cassandra.service.reads.repair.ReadRepairStrategy.{upper}"
    )))
}

fn caching(entries: &[(String, String)]) -> Result<Map> {
    let mut caching = TableOptions::default().caching;
    for (key, shown) in entries {
        let value = shown.to_uppercase();
        let is_right = match key.as_str() {
            "keys" => value == "ALL" || value == "NONE",
            "rows_per_partition" => {
                value == "ALL" || value == "NONE" || value.parse::<u32>().is_ok()
            }
            _ => {
                return Err(CqlError::configuration(format!(
                    "Invalid caching sub-options [{key}]: only 'keys' and 'rows_per_partition' \
                     are allowed"
                )));
            }
        };
        refuse_unless(is_right, || {
            format!(
                "Invalid value '{shown}' for caching sub-option '{key}': only 'ALL' and 'NONE' are \
                 allowed"
            )
        })?;
        caching.insert(key.clone(), value);
    }
    Ok(caching)
}

/// The class of an option in full, or what is wrong with it.
pub(super) fn class(
    what: &str,
    entries: &[(String, String)],
    package: &str,
    known: &[&str],
) -> Result<(String, Map)> {
    let mut map: Map = entries.iter().cloned().collect();
    let missing = || {
        CqlError::configuration(format!(
            "Missing sub-option 'class' for the '{what}' option."
        ))
    };
    let class = map
        .remove("class")
        .filter(|class| !class.is_empty())
        .ok_or_else(missing)?;
    let short = class
        .strip_prefix(package)
        .and_then(|rest| rest.strip_prefix('.'));
    let short = short.unwrap_or(&class);
    if known.contains(&short) {
        return Ok((format!("{package}.{short}"), map));
    }
    let full = if class.contains('.') {
        class
    } else {
        format!("{package}.{class}")
    };
    Err(CqlError::configuration(match what {
        "compaction" => format!("Unable to find compaction strategy class '{full}'"),
        _ => format!("Could not create Compression for type {full}"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::schema::testing::properties;

    fn with(text: &str) -> Result<TableOptions> {
        TableOptions::default().with(&properties(text))
    }

    #[test]
    fn options_are_taken() {
        let options = with(
            "comment = 'x' AND gc_grace_seconds = 5 AND cdc = no AND speculative_retry = \
             '95PERCENTILE' AND compaction = {'class': 'LeveledCompactionStrategy'} AND caching = \
             {'keys': 'none'} AND compression = {'enabled': false} AND read_repair = 'none' \
             AND cosmosdb_provisioned_throughput = 400",
        )
        .unwrap();
        assert_eq!(
            (options.comment.as_str(), options.gc_grace_seconds),
            ("x", 5)
        );
        assert!(!options.cdc);
        assert_eq!(options.speculative_retry, "95p");
        assert_eq!(options.read_repair, "NONE");
        assert_eq!(options.caching["keys"], "NONE");
        assert_eq!(options.compression["enabled"], "false");
        assert_eq!(options.cosmos["cosmosdb_provisioned_throughput"], "400");
        let leveled = "org.apache.cassandra.db.compaction.LeveledCompactionStrategy";
        assert_eq!(options.compaction["class"], leveled);
        assert!((options.bloom_filter_fp_chance() - 0.1).abs() < 1e-9);
    }

    #[test]
    fn what_would_have_no_effect_is_refused() {
        for text in [
            "memtable = 'default'",
            "memtable = 'skiplist'",
            "memtable = 'trie'",
            "extensions = {}",
            "speculative_retry = 'MIN(99p, 50ms)'",
            "speculative_retry = 'max(50.5ms,99PERCENTILE)'",
            "cosmosdb_cell_level_timestamp = true",
            "cosmosdb_autoscale_max_throughput = 4000",
        ] {
            assert!(with(text).is_ok(), "{text}");
        }
        for (text, kind) in [
            ("memtable = 'Default'", ErrorKind::Configuration),
            ("memtable = ''", ErrorKind::Configuration),
            ("memtable = 'skiplist_sharded'", ErrorKind::Configuration),
            ("memtable = {}", ErrorKind::Syntax),
            ("extensions = {'a': '0x01'}", ErrorKind::Configuration),
            ("extensions = ''", ErrorKind::Syntax),
            ("speculative_retry = 'MIN('", ErrorKind::Configuration),
            ("speculative_retry = 'MIN()'", ErrorKind::Configuration),
            ("speculative_retry = 'MIN(50ms)'", ErrorKind::Configuration),
            (
                "speculative_retry = 'MIN(50ms,60ms)'",
                ErrorKind::Configuration,
            ),
            ("speculative_retry = 'MAX(9p,8p)'", ErrorKind::Configuration),
            (
                "speculative_retry = 'MAX(101p,8ms)'",
                ErrorKind::Configuration,
            ),
            (
                "speculative_retry = 'MIN(50ms,99p'",
                ErrorKind::Configuration,
            ),
            (
                "speculative_retry = 'AVG(50ms,99p)'",
                ErrorKind::Configuration,
            ),
            (
                "additional_write_policy = 'MIN(x,y)'",
                ErrorKind::Configuration,
            ),
            ("cosmosdb_provisoned_throughput = 400", ErrorKind::Syntax),
            ("cosmosdb_note = 'x'", ErrorKind::Syntax),
            ("cosmosdb_ = 'x'", ErrorKind::Syntax),
        ] {
            let kinds = with(text).map_err(|error| error.kind).unwrap_err();
            assert_eq!(kinds, kind, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (text, kind, words) in [
            (
                "memtable = 'x'",
                ErrorKind::Configuration,
                "Memtable configuration \"x\" not found.",
            ),
            ("foo = 1", ErrorKind::Syntax, "Unknown property 'foo'"),
            (
                "comment = {}",
                ErrorKind::Syntax,
                "Invalid value for property 'comment'. It should be a string",
            ),
            (
                "caching = 'a'",
                ErrorKind::Syntax,
                "Invalid value for property 'caching'. It should be a map.",
            ),
            (
                "gc_grace_seconds = 'x'",
                ErrorKind::Syntax,
                "Invalid integer value x for 'gc_grace_seconds'",
            ),
            (
                "gc_grace_seconds = -1",
                ErrorKind::Configuration,
                "gc_grace_seconds must be greater than or equal to 0 (got -1)",
            ),
            (
                "default_time_to_live = 700000000",
                ErrorKind::Configuration,
                "default_time_to_live must be less than or equal to 630720000 (got 700000000)",
            ),
            (
                "compaction = {'min_threshold': 2}",
                ErrorKind::Configuration,
                "Missing sub-option 'class' for the 'compaction' option.",
            ),
            (
                "compaction = {'class': 'X'}",
                ErrorKind::Configuration,
                "Unable to find compaction strategy class 'org.apache.cassandra.db.compaction.X'",
            ),
            (
                "speculative_retry = 'x'",
                ErrorKind::Configuration,
                "Invalid value x for option 'speculative_retry'",
            ),
            (
                "bloom_filter_fp_chance = 0",
                ErrorKind::Configuration,
                "bloom_filter_fp_chance must be larger than 6.71E-5 and less than or equal to 1.0 \
                 (got 0.0)",
            ),
        ] {
            let error = with(text).unwrap_err();
            assert_eq!((error.kind, error.message.as_str()), (kind, words));
        }
    }
}
