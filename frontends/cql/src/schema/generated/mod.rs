//! Definitions as text, of any kind and with any names, for properties that hold for all of them.
//!
//! The same seed gives the same statements. Some of them are refused, as they should be.

mod access;
mod keyspaces;

use keyspaces::quote;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// Names that something reads in another way unless they are quoted right, and common ones.
const NAMES: &[&str] = &[
    "a",
    "b",
    "c",
    "k",
    "v",
    "x1",
    "select",
    "table",
    "token",
    "primary",
    "static",
    "json",
    "distinct",
    "as",
    "count",
    "ttl",
    "writetime",
    "key",
    "keys",
    "values",
    "entries",
    "full",
    "list",
    "set",
    "map",
    "tuple",
    "vector",
    "frozen",
    "int",
    "text",
    "varchar",
    "date",
    "byte",
    "cast",
    "counter",
    "null",
    "nan",
    "infinity",
    "true",
    "false",
    "is",
    "not",
    "exists",
    "with",
    "masked",
    "default",
    "ann",
    "group",
    "per",
    "contains",
    "like",
    "in",
    "Upper",
    "mIxed_1",
    "with space",
    "q\"q",
    "\"",
    "'",
    "it's",
    "a.b",
    "a,b",
    "--",
    "/*",
    "*/",
    "$$",
    ";",
    "\n",
    "\t",
    "\0",
    "\u{7f}",
    "ä",
    "名前",
    "🎲",
    "\u{200b}",
    "e\u{301}",
    "1",
    "1a",
    "_",
    "_a",
    "-",
    "(",
    ")",
    "<",
    ">",
    "{}",
    "[0]",
    "\\",
    "%",
    "?",
    ":a",
    "0x1",
    "1e5",
    "p1y",
];

const NATIVES: &[&str] = &[
    "ascii",
    "bigint",
    "blob",
    "boolean",
    "date",
    "decimal",
    "double",
    "duration",
    "float",
    "inet",
    "int",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timeuuid",
    "tinyint",
    "uuid",
    "varchar",
    "varint",
];

const OPTIONS: &[&str] = &[
    "additional_write_policy = '95PERCENTILE'",
    "additional_write_policy = 'MIN(99p,50ms)'",
    "allow_auto_snapshot = false",
    "bloom_filter_fp_chance = 0.3333333333333333",
    "bloom_filter_fp_chance = 1",
    "caching = {'keys': 'none', 'rows_per_partition': '120'}",
    "caching = {}",
    "compaction = {'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': '160'}",
    "compaction = {'class': 'TimeWindowCompactionStrategy'}",
    "compression = {'class': 'ZstdCompressor', 'compression_level': '3'}",
    "compression = {'enabled': 'false'}",
    "cosmosdb_provisioned_throughput = 400",
    "cosmosdb_cell_level_timestamp = 'it''s'",
    "\"cosmosdb_cell_level_timetolive\" = '+5'",
    "crc_check_chance = 0.1",
    "crc_check_chance = 0.123456789012345678",
    "crc_check_chance = 5E-324",
    "default_time_to_live = 630720000",
    "extensions = {}",
    "extensions = {'a': '0x01'}",
    "gc_grace_seconds = 2147483647",
    "gc_grace_seconds = 0",
    "incremental_backups = false",
    "max_index_interval = 2147483647",
    "memtable = 'default'",
    "memtable = 'trie'",
    "memtable_flush_period_in_ms = 2147483647",
    "min_index_interval = 1",
    "read_repair = 'none'",
    "speculative_retry = 'ALWAYS'",
    "speculative_retry = '12.5ms'",
    "speculative_retry = 'NONE'",
];

const INDEX_OPTIONS: &[&str] = &[
    "{'case_sensitive': 'false', 'normalize': 'true'}",
    "{'case_sensitive': 'FALSE'}",
    "{'ascii': 'true'}",
    "{'ascii': 'true', 'normalize': 'true', 'case_sensitive': 'true'}",
    "{'similarity_function': 'cosine'}",
    "{'similarity_function': 'EUCLIDEAN'}",
    "{}",
];

/// Writes statements on a keyspace `ks`, on others, and on roles.
pub(crate) struct Writer {
    random: StdRng,
    keyspaces: Vec<String>,
    roles: Vec<String>,
    types: Vec<String>,
    /// Tables with their columns, which are keys first.
    tables: Vec<(String, Vec<String>)>,
    views: Vec<String>,
}

impl Writer {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: StdRng::seed_from_u64(seed),
            keyspaces: Vec::new(),
            roles: Vec::new(),
            types: Vec::new(),
            tables: Vec::new(),
            views: Vec::new(),
        }
    }

    fn one_in(&mut self, count: u32) -> bool {
        self.random.random_ratio(1, count)
    }

    fn of<'v>(&mut self, values: &[&'v str]) -> &'v str {
        values.choose(&mut self.random).copied().unwrap_or("a")
    }

    fn name(&mut self) -> String {
        if self.one_in(40) {
            let length = self.random.random_range(1..3_000);
            return "ü".repeat(length);
        }
        if self.one_in(8) {
            let length = self.random.random_range(1..6);
            return (0..length).map(|_| self.random.random::<char>()).collect();
        }
        self.of(NAMES).to_owned()
    }

    /// A string with any text.
    fn text(&mut self) -> String {
        let parts: Vec<String> = (0..self.random.random_range(0..4))
            .map(|_| self.name())
            .collect();
        format!("'{}'", parts.concat().replace('\'', "''"))
    }

    fn known(&mut self, known: &[String]) -> String {
        match known.choose(&mut self.random) {
            Some(name) => quote(name),
            None => quote("none"),
        }
    }

    fn data_type(&mut self, depth: usize) -> String {
        if depth == 0 || self.one_in(3) {
            if !self.types.is_empty() && self.one_in(3) {
                let types = self.types.clone();
                let name = self.known(&types);
                return format!("frozen<{name}>");
            }
            return self.of(NATIVES).to_owned();
        }
        let inner = self.data_type(depth - 1);
        let frozen = !self.one_in(4);
        let written = match self.random.random_range(0..5) {
            0 => format!("list<{inner}>"),
            1 => format!("set<{inner}>"),
            2 => format!("map<{}, {inner}>", self.of(NATIVES)),
            3 => {
                let other = self.data_type(depth - 1);
                format!("tuple<{inner}, {other}>")
            }
            _ => {
                let dimension = *[1, 2, 3, 8_192, 2_147_483_647, 2_147_483_648_i64]
                    .choose(&mut self.random)
                    .unwrap_or(&1);
                format!("vector<{inner}, {dimension}>")
            }
        };
        if frozen {
            format!("frozen<{written}>")
        } else {
            written
        }
    }

    /// A type of any depth, also one that is too deep.
    fn any_type(&mut self) -> String {
        if self.one_in(25) {
            let levels = self.random.random_range(1..60);
            let (open, close) = match self.random.random_range(0..4) {
                0 => ("tuple<", ">"),
                1 => ("frozen<list<", ">>"),
                2 => ("vector<", ", 2>"),
                _ => ("frozen<map<int, ", ">>"),
            };
            let inner = self.data_type(0);
            return format!("{}{inner}{}", open.repeat(levels), close.repeat(levels));
        }
        let depth = self.random.random_range(0..5);
        self.data_type(depth)
    }

    fn options(&mut self) -> Vec<String> {
        let count = self.random.random_range(0..4);
        let mut options: Vec<String> = (0..count).map(|_| self.of(OPTIONS).to_owned()).collect();
        if self.one_in(2) {
            let text = self.text();
            options.push(format!("comment = {text}"));
        }
        options
    }

    fn with(options: &[String]) -> String {
        match options {
            [] => String::new(),
            options => format!(" WITH {}", options.join(" AND ")),
        }
    }

    fn create_type(&mut self) -> String {
        let name = self.name();
        let fields: Vec<String> = (0..self.random.random_range(1..5))
            .map(|_| {
                let (name, data_type) = (self.name(), self.any_type());
                format!("{} {data_type}", quote(&name))
            })
            .collect();
        let text = format!("CREATE TYPE {} ({})", quote(&name), fields.join(", "));
        self.types.push(name);
        text
    }

    fn create_table(&mut self) -> String {
        let name = format!("t{}", self.tables.len());
        let (keys, clustering) = (
            self.random.random_range(1..3),
            self.random.random_range(0..3),
        );
        let mut columns: Vec<String> = Vec::new();
        let mut written = Vec::new();
        let is_counter = self.one_in(12);
        while columns.len() < keys + clustering + self.random.random_range(0..5) {
            let column = self.name();
            if columns.contains(&column) {
                continue;
            }
            let is_key = columns.len() < keys + clustering;
            let data_type = match (is_key, is_counter) {
                (true, _) => self
                    .of(&["int", "text", "uuid", "varint", "frozen<list<int>>"])
                    .to_owned(),
                (false, true) => "counter".to_owned(),
                (false, false) => self.any_type(),
            };
            let is_static = !is_key && self.one_in(6);
            let word = if is_static { " static" } else { "" };
            written.push(format!("{} {data_type}{word}", quote(&column)));
            columns.push(column);
        }
        let quoted: Vec<String> = columns.iter().map(|column| quote(column)).collect();
        let (partition, rest) = quoted.split_at(keys);
        let clustered = &rest[..clustering];
        let key: Vec<String> = std::iter::once(format!("({})", partition.join(", ")))
            .chain(clustered.iter().cloned())
            .collect();
        let mut options = self.options();
        if !clustered.is_empty() && self.one_in(2) {
            let order: Vec<String> = clustered
                .iter()
                .map(|column| format!("{column} {}", self.of(&["ASC", "DESC"])))
                .collect();
            options.push(format!("CLUSTERING ORDER BY ({})", order.join(", ")));
        }
        self.tables.push((name.clone(), columns));
        format!(
            "CREATE TABLE {name} ({}, PRIMARY KEY ({})){}",
            written.join(", "),
            key.join(", "),
            Self::with(&options)
        )
    }

    fn table(&mut self) -> (String, Vec<String>) {
        let known = self.tables.choose(&mut self.random).cloned();
        known.unwrap_or_else(|| ("none".to_owned(), vec!["a".to_owned()]))
    }

    fn create_index(&mut self) -> String {
        let (table, columns) = self.table();
        let column = self.known(&columns);
        let target = match self.random.random_range(0..6) {
            0 => format!("keys({column})"),
            1 => format!("entries({column})"),
            2 => format!("values({column})"),
            3 => format!("full({column})"),
            _ => column,
        };
        let name = if self.one_in(3) {
            String::new()
        } else {
            quote(&self.name())
        };
        match self.random.random_range(0..3) {
            0 => format!("CREATE CUSTOM INDEX {name} ON {table} ({target}) USING 'sai'"),
            1 => {
                let options = self.of(INDEX_OPTIONS);
                format!(
                    "CREATE CUSTOM INDEX {name} ON {table} ({target}) USING \
                     'StorageAttachedIndex' WITH OPTIONS = {options}"
                )
            }
            _ => format!("CREATE INDEX {name} ON {table} ({target})"),
        }
    }

    fn value(&mut self) -> String {
        match self.random.random_range(0..7) {
            0 => self.text(),
            1 => format!("$${}$$", self.of(&["it's", "a", "", "--"])),
            2 => "- 5".to_owned(),
            3 => "(int) 7".to_owned(),
            4 => "1 + 2 * (3 - 4)".to_owned(),
            5 => "CAST(5 AS int)".to_owned(),
            _ => self.random.random::<i32>().to_string(),
        }
    }

    fn create_view(&mut self) -> String {
        let (table, mut columns) = self.table();
        let name = format!("m{}", self.views.len());
        let keys = self.random.random_range(1..=columns.len());
        let rotated = self.random.random_range(0..keys);
        let all = columns.clone();
        columns.truncate(keys);
        columns.rotate_left(rotated);
        let relations: Vec<String> = columns
            .iter()
            .map(|column| {
                let column = quote(column);
                match self.one_in(3) {
                    true => {
                        let comparison = self.of(&["=", ">", ">=", "<"]);
                        format!("{column} {comparison} {}", self.value())
                    }
                    false => format!("{column} IS NOT NULL"),
                }
            })
            .collect();
        let quoted = |columns: &[String]| {
            let columns: Vec<String> = columns.iter().map(|column| quote(column)).collect();
            columns.join(", ")
        };
        let selection = if self.one_in(2) {
            "*".to_owned()
        } else {
            quoted(&all)
        };
        self.views.push(name.clone());
        let options = self.options();
        format!(
            "CREATE MATERIALIZED VIEW {name} AS SELECT {selection} FROM {table} WHERE {} PRIMARY \
             KEY ({}){}",
            relations.join(" AND "),
            quoted(&columns),
            Self::with(&options)
        )
    }

    fn alter(&mut self) -> String {
        let (table, columns) = self.table();
        let column = self.known(&columns);
        let (new, data_type) = (quote(&self.name()), self.any_type());
        let types = self.types.clone();
        let user_type = self.known(&types);
        match self.random.random_range(0..9) {
            0 => format!("ALTER TABLE {table} ADD {new} {data_type}"),
            1 => format!("ALTER TABLE {table} DROP {column} USING TIMESTAMP 17"),
            2 => format!("ALTER TABLE {table} RENAME {column} TO {new}"),
            3 => format!("ALTER TYPE {user_type} ADD {new} {data_type}"),
            4 => format!(
                "ALTER TYPE {user_type} RENAME {} TO {new}",
                quote(&self.name())
            ),
            5 => format!("DROP TYPE {user_type}"),
            6 => {
                let option = self.of(OPTIONS);
                format!("ALTER TABLE {table} WITH {option}")
            }
            7 => {
                let (views, text) = (self.views.clone(), self.text());
                let view = self.known(&views);
                format!("ALTER MATERIALIZED VIEW {view} WITH comment = {text}")
            }
            _ => {
                let views = self.views.clone();
                let view = self.known(&views);
                format!("DROP MATERIALIZED VIEW {view}")
            }
        }
    }

    /// The next statement.
    pub(crate) fn next(&mut self) -> String {
        match self.random.random_range(0..19) {
            0..3 => self.create_type(),
            3..6 => self.create_table(),
            6 | 7 => self.create_index(),
            8 => self.create_view(),
            9 => self.create_keyspace(),
            10 => self.change_keyspace(),
            11 | 12 => self.create_role(),
            13..16 => self.change_access(),
            _ => self.alter(),
        }
    }
}
