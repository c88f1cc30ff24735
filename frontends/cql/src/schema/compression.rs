//! The compression of a table: a class that Cassandra has, and the length of its chunks.
//!
//! Nothing here compresses as they say. They are checked and kept because schemas carry them.

use std::collections::BTreeMap;

use super::options::{class, refuse_unless};
use crate::error::Result;

type Map = BTreeMap<String, String>;

const PACKAGE: &str = "org.apache.cassandra.io.compress";
const CLASSES: [&str; 5] = [
    "LZ4Compressor",
    "SnappyCompressor",
    "DeflateCompressor",
    "ZstdCompressor",
    "NoopCompressor",
];

/// What tables are compressed by if nothing is said.
pub(super) fn usual() -> Map {
    [
        ("chunk_length_in_kb", "16".to_owned()),
        ("class", format!("{PACKAGE}.LZ4Compressor")),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect()
}

/// The options as they are kept, with the class in full.
pub(super) fn compression(entries: &[(String, String)]) -> Result<Map> {
    let given = |name: &str| {
        let found = entries.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    };
    let off = || Map::from([("enabled".to_owned(), "false".to_owned())]);
    if given("enabled").is_some_and(|value| value.eq_ignore_ascii_case("false")) {
        refuse_unless(entries.len() == 1, || {
            "If the 'enabled' option is set to false no other options must be specified".to_owned()
        })?;
        return Ok(off());
    }
    if entries.is_empty() || given("sstable_compression") == Some("") {
        return Ok(off());
    }
    for (old, new, what) in [
        (
            "sstable_compression",
            "class",
            "compression algorithm is already specified by the",
        ),
        (
            "chunk_length_kb",
            "chunk_length_in_kb",
            "chunk length is already specified by the",
        ),
    ] {
        refuse_unless(given(old).is_none() || given(new).is_none(), || {
            format!("The '{old}' option must not be used if the {what} '{new}' option")
        })?;
    }
    refuse_unless(given("class") != Some(""), || {
        "The 'class' option must not be empty. To disable compression use 'enabled' : false"
            .to_owned()
    })?;
    let renamed: Vec<(String, String)> = entries
        .iter()
        .filter(|(key, _)| key != "enabled")
        .map(|(key, value)| match key.as_str() {
            "sstable_compression" => ("class".to_owned(), value.clone()),
            "chunk_length_kb" => ("chunk_length_in_kb".to_owned(), value.clone()),
            _ => (key.clone(), value.clone()),
        })
        .collect();
    let (class, mut map) = class("compression", &renamed, PACKAGE, &CLASSES)?;
    let length = map
        .entry("chunk_length_in_kb".to_owned())
        .or_insert_with(|| "16".to_owned());
    check_length(length)?;
    check_ratio(&mut map)?;
    // Cassandra takes this for the option of the table, which it is now.
    map.remove("crc_check_chance");
    check_known(&class, &map)?;
    map.insert("class".to_owned(), class);
    Ok(map)
}

/// Refuses what neither a table nor the class knows, as Cassandra does.
fn check_known(class: &str, map: &Map) -> Result<()> {
    const ALL: [&str; 2] = ["chunk_length_in_kb", "min_compress_ratio"];
    let own: &[&str] = match class.rsplit('.').next() {
        Some("LZ4Compressor") => &["lz4_compressor_type", "lz4_high_compressor_level"],
        Some("ZstdCompressor") => &["compression_level"],
        _ => &[],
    };
    let is_known = |name: &str| ALL.contains(&name) || own.contains(&name);
    let names = map.keys().map(String::as_str);
    let unknown: Vec<&str> = names.filter(|name| !is_known(name)).collect();
    refuse_unless(unknown.is_empty(), || {
        format!("Unknown compression options: ({})", unknown.join(", "))
    })
}

fn check_length(text: &str) -> Result<()> {
    let length = text.parse::<i32>().ok();
    refuse_unless(length.is_some(), || {
        format!("Invalid value for chunk_length_in_kb: {text}")
    })?;
    let length = length.and_then(|length| u32::try_from(length).ok());
    refuse_unless(length.is_some_and(|length| length > 0), || {
        format!("Invalid negative or null chunk_length_in_kb: {text}")
    })?;
    refuse_unless(length.is_some_and(u32::is_power_of_two), || {
        "chunk_length_in_kb must be a power of 2".to_owned()
    })
}

/// A ratio of 0 is none.
fn check_ratio(map: &mut Map) -> Result<()> {
    let Some(text) = map.remove("min_compress_ratio") else {
        return Ok(());
    };
    let ratio: Option<f64> = text.parse().ok().filter(|ratio: &f64| ratio.is_finite());
    refuse_unless(ratio.is_some(), || {
        format!("Invalid value for min_compress_ratio: {text}")
    })?;
    let ratio = ratio.unwrap_or_default();
    refuse_unless(ratio >= 0.0, || {
        format!("Invalid negative min_compress_ratio: {text}")
    })?;
    refuse_unless(ratio == 0.0 || ratio >= 1.0, || {
        "min_compress_ratio can either be 0 or greater than or equal to 1".to_owned()
    })?;
    if ratio > 0.0 {
        map.insert("min_compress_ratio".to_owned(), format!("{ratio:?}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(options: &[(&str, &str)]) -> Result<Map> {
        let owned: Vec<(String, String)> = options
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        compression(&owned)
    }

    #[test]
    fn classes_and_lengths_are_kept() {
        let lz4 = ("class", "LZ4Compressor");
        assert_eq!(of(&[lz4]).unwrap(), usual());
        assert_eq!(of(&[]).unwrap()["enabled"], "false");
        let old = of(&[
            ("sstable_compression", "SnappyCompressor"),
            ("chunk_length_kb", "64"),
        ]);
        assert_eq!(old.unwrap()["chunk_length_in_kb"], "64");
        let zstd = [("class", "ZstdCompressor"), ("compression_level", "3")];
        assert_eq!(of(&zstd).unwrap()["compression_level"], "3");
        assert!(of(&[lz4, ("lz4_compressor_type", "high")]).is_ok());
        assert_eq!(of(&[lz4, ("crc_check_chance", "0.5")]).unwrap(), usual());
        let ratio = of(&[lz4, ("min_compress_ratio", "2")]).unwrap();
        assert_eq!(ratio["min_compress_ratio"], "2.0");
        assert_eq!(of(&[lz4, ("min_compress_ratio", "0")]).unwrap(), usual());
    }

    #[test]
    fn others_are_refused() {
        let lz4 = ("class", "LZ4Compressor");
        for (options, words) in [
            (
                vec![("enabled", "false"), lz4],
                "If the 'enabled' option is set to false",
            ),
            (vec![("class", "")], "The 'class' option must not be empty"),
            (
                vec![("chunk_length_in_kb", "16")],
                "Missing sub-option 'class'",
            ),
            (
                vec![lz4, ("sstable_compression", "x")],
                "The 'sstable_compression' option must",
            ),
            (
                vec![lz4, ("chunk_length_in_kb", "dog")],
                "Invalid value for chunk_length_in_kb",
            ),
            (
                vec![lz4, ("chunk_length_in_kb", "0")],
                "Invalid negative or null",
            ),
            (
                vec![lz4, ("chunk_length_in_kb", "3")],
                "chunk_length_in_kb must be a power of 2",
            ),
            (
                vec![lz4, ("foo", "1"), ("bar", "2")],
                "Unknown compression options: (bar, foo)",
            ),
            (
                vec![lz4, ("compression_level", "3")],
                "Unknown compression options: (compression_level)",
            ),
            (
                vec![lz4, ("min_compress_ratio", "-1")],
                "Invalid negative min_compress_ratio",
            ),
            (
                vec![lz4, ("min_compress_ratio", "0.5")],
                "min_compress_ratio can either be 0",
            ),
        ] {
            let error = of(&options).unwrap_err();
            assert!(error.message.starts_with(words), "{}", error.message);
        }
    }
}
