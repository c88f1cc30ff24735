//! Read and write concerns. One engine has all data and every read returns committed data, so each
//! level is satisfied; invalid ones are refused here.

use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocument, Timestamp};
use tessera_mongo_language::error::{Code, Error, bad_value, failed_to_parse};

use crate::failure::Result;
use crate::fields::{
    ANY, BOOL_OR_NUMBER, Field, Fields, STRING, TIMESTAMP, exact, float, optional, wrong_type,
};

/// What a read asks of the data it sees.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReadConcern {
    /// None: the server's default.
    pub(crate) level: Option<Level>,
    pub(crate) after_cluster_time: Option<Timestamp>,
    pub(crate) at_cluster_time: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Local,
    Available,
    Majority,
    Linearizable,
    Snapshot,
}

const LEVELS: &[(&str, Level)] = &[
    ("local", Level::Local),
    ("available", Level::Available),
    ("majority", Level::Majority),
    ("linearizable", Level::Linearizable),
    ("snapshot", Level::Snapshot),
];

const READ_CONCERN: &[Field] = &[
    optional("level", STRING),
    optional("afterClusterTime", TIMESTAMP),
    optional("atClusterTime", TIMESTAMP),
    optional("afterOpTime", ANY),
    optional("allowTransactionTableSnapshot", ANY),
    optional("waitLastStableRecoveryTimestamp", ANY),
    optional("provenance", STRING),
];

impl ReadConcern {
    pub(crate) fn parse(document: &RawDocument) -> Result<Self> {
        let fields = Fields::of_document("readConcern", document, READ_CONCERN)?;
        for name in ["afterClusterTime", "atClusterTime"] {
            if let Some(RawBsonRef::Null) = document.get(name)? {
                let (found, expected) = (ElementType::Null, &[ElementType::Timestamp]);
                return Err(wrong_type("readConcern", name, found, expected).into());
            }
        }
        let level = fields.str("level").map(|name| {
            let known = LEVELS.iter().find(|(known, _)| *known == name);
            known.map(|(_, level)| *level).ok_or_else(|| {
                bad_value(format!(
                    "Enumeration value '{name}' for field 'readConcern.level' is not a valid value."
                ))
            })
        });
        check_provenance("readConcern", fields.str("provenance"))?;
        for name in ["afterClusterTime", "atClusterTime"] {
            let is_null = |time: Timestamp| {
                time.time == 0 && (time.increment == 0 || name == "atClusterTime")
            };
            if fields.timestamp(name).is_some_and(is_null) {
                let message = format!("readConcern.{name} cannot be a null timestamp");
                return Err(Error::new(Code::INVALID_OPTIONS, message).into());
            }
        }
        Ok(Self {
            level: level.transpose()?,
            after_cluster_time: fields.timestamp("afterClusterTime"),
            at_cluster_time: fields.timestamp("atClusterTime"),
        })
    }
}

impl Level {
    pub(crate) fn name(self) -> &'static str {
        let known = LEVELS.iter().find(|(_, level)| *level == self);
        known.map_or("local", |(name, _)| name)
    }
}

/// What a write asks before it is answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WriteConcern {
    pub(crate) w: Acknowledgement,
    /// Whether the write must be on disk, whatever the server's setting.
    pub(crate) journal: bool,
    pub(crate) timeout_ms: i64,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Acknowledgement {
    /// Not said.
    Default,
    /// By so many members. 0: the client wants no answer.
    Members(i64),
    Majority,
    /// A name or a set of tags that members of a replica set may have been given.
    Named(String),
}

const WRITE_CONCERN: &[Field] = &[
    optional("w", ANY),
    optional("j", BOOL_OR_NUMBER),
    optional("fsync", BOOL_OR_NUMBER),
    optional("wtimeout", ANY),
    optional("wOpTime", ANY),
    optional("wElectionId", ANY),
    optional("wOptime", ANY),
    optional("getLastError", ANY),
    optional("provenance", STRING),
];

/// As many members as a replica set can have.
const MOST_MEMBERS: i64 = 50;

impl WriteConcern {
    pub(crate) fn parse(document: &RawDocument) -> Result<Self> {
        let fields = Fields::of_document("writeConcern", document, WRITE_CONCERN)?;
        let journal = fields.bool("j").unwrap_or(false);
        let fsync = fields.bool("fsync").unwrap_or(false);
        if journal && fsync {
            return Err(failed_to_parse("fsync and j options cannot be used together").into());
        }
        let timeout_ms = fields.integer("wtimeout").unwrap_or(0);
        if timeout_ms > i32::MAX.into() {
            let message = "wtimeout must be less than or equal to 2147483647";
            return Err(failed_to_parse(message).into());
        }
        check_provenance("writeConcern", fields.str("provenance"))?;
        Ok(Self {
            w: acknowledgement(fields.get("w"))?,
            journal: journal || fsync,
            timeout_ms,
        })
    }
}

/// Where a concern came from, as members of a cluster tell each other.
fn check_provenance(concern: &str, provenance: Option<&str>) -> Result<()> {
    const KNOWN: &[&str] = &[
        "clientSupplied",
        "implicitDefault",
        "customDefault",
        "getLastErrorDefaults",
        "internalWriteDefault",
    ];
    match provenance {
        Some(name) if !KNOWN.contains(&name) => {
            let message = format!(
                "Enumeration value '{name}' for field '{concern}.provenance' is not a valid \
                 value."
            );
            Err(bad_value(message).into())
        }
        _ => Ok(()),
    }
}

/// A count of members, cut to a whole one.
fn members(value: RawBsonRef<'_>) -> Option<i64> {
    let number = float(value).filter(|number| number.is_finite())?;
    let members = exact(RawBsonRef::Double(number.trunc()))?;
    (0..=MOST_MEMBERS).contains(&members).then_some(members)
}

fn acknowledgement(value: Option<RawBsonRef<'_>>) -> Result<Acknowledgement> {
    match value {
        None => Ok(Acknowledgement::Default),
        // A name, and an empty one, as servers have it.
        Some(RawBsonRef::Null) => Ok(Acknowledgement::Named(String::new())),
        Some(RawBsonRef::String("majority")) => Ok(Acknowledgement::Majority),
        Some(RawBsonRef::String(name)) => Ok(Acknowledgement::Named(name.to_owned())),
        Some(RawBsonRef::Document(tags)) => {
            for tag in tags.iter_elements() {
                let tag = tag?;
                if float(tag.value()?).is_none() {
                    let message = "tags must be a single level document with only number values";
                    return Err(failed_to_parse(message).into());
                }
            }
            if tags.is_empty() {
                return Err(failed_to_parse("tagged write concern requires tags").into());
            }
            Ok(Acknowledgement::Named("tags".to_owned()))
        }
        Some(value) if float(value).is_none() => {
            Err(failed_to_parse("w has to be a number, string, or object").into())
        }
        Some(value) => match members(value) {
            Some(members) => Ok(Acknowledgement::Members(members)),
            None => {
                let message = "w has to be a non-negative number and not greater than 50";
                Err(failed_to_parse(message).into())
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};

    use super::*;

    #[test]
    fn levels_that_exist_are_taken() {
        let check = |document: RawDocumentBuf,
                     expected: std::result::Result<Option<Level>, i32>| {
            let parsed = ReadConcern::parse(&document);
            let found = parsed.map(|concern| concern.level);
            assert_eq!(found.map_err(|failure| failure.code().0), expected);
        };
        check(rawdoc! {}, Ok(None));
        check(rawdoc! { "level": "majority" }, Ok(Some(Level::Majority)));
        check(rawdoc! { "level": "" }, Err(2));
        check(rawdoc! { "level": 1 }, Err(14));
        check(rawdoc! { "level": "local", "x": 1 }, Err(40415));
    }

    #[test]
    fn acknowledgements_are_numbers_names_and_tags() {
        let check = |document: RawDocumentBuf, expected: Option<i32>| {
            let parsed = WriteConcern::parse(&document);
            assert_eq!(
                parsed.err().map(|failure| failure.code().0),
                expected,
                "{document:?}"
            );
        };
        check(rawdoc! {}, None);
        check(rawdoc! { "w": 0 }, None);
        check(rawdoc! { "w": 1.0, "j": true, "wtimeout": 5 }, None);
        check(rawdoc! { "w": "majority" }, None);
        check(rawdoc! { "w": -1 }, Some(9));
        check(rawdoc! { "w": 51 }, Some(9));
        check(rawdoc! { "w": true }, Some(9));
        check(rawdoc! { "w": [] }, Some(9));
        check(rawdoc! { "j": true, "fsync": true }, Some(9));
        check(rawdoc! { "j": "yes" }, Some(14));
        check(rawdoc! { "w": f64::NAN }, Some(9));
        check(rawdoc! { "w": {} }, Some(9));
        check(rawdoc! { "w": { "dc": "x" } }, Some(9));
        check(rawdoc! { "w": { "dc": 1 } }, None);
        check(rawdoc! { "wtimeout": "any" }, None);
        check(rawdoc! { "wtimeout": 1i64 << 31 }, Some(9));
        check(rawdoc! { "provenance": "other" }, Some(2));
        check(rawdoc! { "unknown": 1 }, Some(40415));
    }
}
