//! One command as it was sent: its document, its document sequences, and what every command may
//! carry. It borrows the bytes of the message.

use std::time::Duration;

use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocument, Timestamp};
use tessera_mongo_language::error::{Code, Error, bad_value, failed_to_parse, type_mismatch};

use crate::concern::{Level, ReadConcern, WriteConcern};
use crate::failure::{Failure, Result};
use crate::fields::{self, type_name};
use crate::logical::{Owner, SessionId, SessionKey};
use crate::wire::document::elements;

/// A command.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// The database it was sent to.
    pub(crate) database: &'a str,
    /// All of it but the sequences.
    pub(crate) body: &'a RawDocument,
    /// Arrays of documents that were sent beside the body.
    pub(crate) sequences: Vec<Sequence<'a>>,
    /// What every command may carry.
    pub(crate) generic: Generic<'a>,
    /// The fields of the body, so that it is walked once: the command's own first.
    elements: Vec<Element<'a>>,
}

/// One field of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element<'a> {
    pub(crate) key: &'a str,
    pub(crate) value: RawBsonRef<'a>,
    /// Whether every command may have it.
    pub(crate) is_generic: bool,
}

/// Room for the fields of most commands.
const USUAL_FIELDS: usize = 12;
/// More fields than any command has: a body full of the shortest ones must not cost memory.
const MAX_FIELDS: usize = 1_000;

/// One array of documents that was sent beside the body.
#[derive(Debug)]
pub(crate) struct Sequence<'a> {
    pub(crate) name: &'a str,
    pub(crate) documents: Vec<&'a RawDocument>,
}

/// What every command may carry.
#[derive(Debug, Default)]
pub(crate) struct Generic<'a> {
    session: Option<SessionId>,
    /// Who sends it: sessions, cursors and transactions are theirs alone.
    pub(crate) owner: Owner,
    pub(crate) transaction_number: Option<i64>,
    pub(crate) autocommit: Option<bool>,
    pub(crate) start_transaction: Option<bool>,
    pub(crate) read_concern: Option<ReadConcern>,
    pub(crate) write_concern: Option<WriteConcern>,
    pub(crate) max_time: Option<Duration>,
    pub(crate) comment: Option<RawBsonRef<'a>>,
    pub(crate) read_preference: Option<&'a RawDocument>,
    pub(crate) api: Api<'a>,
}

/// What the client says of the stable API.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Api<'a> {
    pub(crate) version: Option<&'a str>,
    pub(crate) strict: Option<bool>,
    pub(crate) deprecation_errors: Option<bool>,
}

impl<'a> Request<'a> {
    /// The command in a body whose bytes were checked. `database` is where it goes if the body does
    /// not say.
    pub(crate) fn parse(
        body: &'a RawDocument,
        sequences: Vec<Sequence<'a>>,
        database: Option<&'a str>,
    ) -> Result<Self> {
        let mut request = Self {
            database: database.unwrap_or_default(),
            body,
            sequences,
            generic: Generic::default(),
            elements: Vec::with_capacity(USUAL_FIELDS),
        };
        let mut has_database = database.is_some();
        for (key, value) in elements(body) {
            // A command may be named as such a field is.
            let is_generic = !request.elements.is_empty() && is_generic(key);
            if is_generic && key == "$db" {
                request.database = database_name(value)?;
                has_database = true;
            } else if is_generic {
                request.generic.take(key, value)?;
            }
            if request.elements.len() == MAX_FIELDS {
                let message = format!("a command has more than {MAX_FIELDS} fields");
                return Err(failed_to_parse(message).into());
            }
            request.elements.push(Element {
                key,
                value,
                is_generic,
            });
        }
        if !has_database {
            let message = "OP_MSG requests require a $db argument";
            return Err(Failure::new(Code::IDL_FAILED_TO_PARSE, message));
        }
        Ok(request)
    }

    /// The command's name as it was written.
    pub(crate) fn name(&self) -> &'a str {
        self.elements.first().map_or("", |element| element.key)
    }

    /// The value of the command's own field.
    pub(crate) fn argument(&self) -> RawBsonRef<'a> {
        let first = self.elements.first();
        first.map_or(RawBsonRef::Null, |element| element.value)
    }

    /// The fields behind the command's own.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = &Element<'a>> {
        self.elements.iter().skip(1)
    }

    /// The value of a field of the body.
    pub(crate) fn field(&self, name: &str) -> Option<RawBsonRef<'a>> {
        let found = self.elements.iter().find(|element| element.key == name)?;
        Some(found.value)
    }

    /// The collection that the command names as its own field.
    pub(crate) fn collection(&self) -> Result<&'a str> {
        let name = match self.argument() {
            RawBsonRef::String(name) => name,
            other => {
                let found = type_name(other.element_type());
                let message = format!("collection name has invalid type {found}");
                return Err(Failure::new(Code::INVALID_NAMESPACE, message));
            }
        };
        if name.is_empty() || name.contains('\0') {
            let message = format!("Invalid namespace specified '{}.{name}'", self.database);
            return Err(Failure::new(Code::INVALID_NAMESPACE, message));
        }
        Ok(name)
    }

    /// The documents of a field that may come in the body or beside it. None: it came in neither.
    pub(crate) fn documents(&self, field: &str) -> Result<Option<Vec<&'a RawDocument>>> {
        if let Some(sequence) = self.sequences.iter().find(|sent| sent.name == field) {
            return Ok(Some(sequence.documents.clone()));
        }
        let array = match self.field(field) {
            None | Some(RawBsonRef::Null) => return Ok(None),
            Some(RawBsonRef::Array(array)) => array,
            Some(other) => {
                let expected = &[ElementType::Array];
                let found = other.element_type();
                return Err(fields::wrong_type(self.name(), field, found, expected).into());
            }
        };
        let mut documents = Vec::new();
        for (position, value) in array.into_iter().enumerate() {
            let value = value?;
            documents.push(value.as_document().ok_or_else(|| {
                let path = format!("{field}.{position}");
                let expected = &[ElementType::EmbeddedDocument];
                fields::wrong_type(self.name(), &path, value.element_type(), expected)
            })?);
        }
        Ok(Some(documents))
    }

    /// The session that it belongs to.
    pub(crate) fn session(&self) -> Option<SessionKey> {
        self.generic.session()
    }

    /// Whether an option is switched on: anything but false, 0 and null, so that a check that asks
    /// this errs on the side of refusing. Which values are proper is for the command to say.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        let mut sent = self.arguments().filter(|element| element.key == name);
        sent.any(|element| is_on(element.value))
    }

    /// Whether this is a statement of a transaction of several.
    pub(crate) fn in_transaction(&self) -> bool {
        self.generic.autocommit == Some(false)
    }

    /// Whether this reads one moment outside of transactions, and the time of it if the client
    /// says.
    pub(crate) fn snapshot(&self) -> Option<Option<Timestamp>> {
        let concern = self.generic.read_concern.as_ref()?;
        let reads_snapshot = concern.level == Some(Level::Snapshot) && !self.in_transaction();
        reads_snapshot.then_some(concern.at_cluster_time)
    }

    /// Whether this is a write that the client may send again.
    pub(crate) fn is_retryable_write(&self) -> bool {
        self.generic.transaction_number.is_some() && !self.in_transaction()
    }
}

/// Whether the value of an option switches it on.
pub(crate) fn is_on(value: RawBsonRef<'_>) -> bool {
    let is_off = matches!(value, RawBsonRef::Null | RawBsonRef::Undefined);
    !is_off && fields::truth(value) != Some(false)
}

/// Fields that every command may have.
fn is_generic(name: &str) -> bool {
    const GENERIC: &[&str] = &[
        "lsid",
        "txnNumber",
        "autocommit",
        "startTransaction",
        "startOrContinueTransaction",
        "coordinator",
        "readConcern",
        "writeConcern",
        "maxTimeMS",
        "maxTimeMSOpOnly",
        "comment",
        "apiVersion",
        "apiStrict",
        "apiDeprecationErrors",
        "rawData",
        "databaseVersion",
        "shardVersion",
        "help",
        "allowImplicitCollectionCreation",
        "requestGossipRoutingCache",
        "expectPrefix",
        "mayBypassWriteBlocking",
        "tracking_info",
        "versionContext",
    ];
    name.starts_with('$') || GENERIC.contains(&name)
}

impl<'a> Generic<'a> {
    /// The session that the command belongs to.
    pub(crate) fn session(&self) -> Option<SessionKey> {
        let (id, owner) = (self.session?, self.owner);
        Some(SessionKey { id, owner })
    }

    fn take(&mut self, key: &str, value: RawBsonRef<'a>) -> Result<()> {
        if matches!(value, RawBsonRef::Null) && key != "comment" {
            return Ok(());
        }
        let expect = |kind: ElementType| expect(key, value, kind);
        match key {
            "lsid" => self.session = Some(SessionId::parse(expect_document("lsid", value)?)?),
            "txnNumber" => {
                expect(ElementType::Int64)?;
                self.transaction_number = value.as_i64();
            }
            "autocommit" => {
                expect(ElementType::Boolean)?;
                self.autocommit = value.as_bool();
            }
            "startTransaction" => {
                expect(ElementType::Boolean)?;
                self.start_transaction = value.as_bool();
            }
            "readConcern" => {
                let document = expect_document(key, value)?;
                self.read_concern = Some(ReadConcern::parse(document)?);
            }
            "writeConcern" => {
                let document = expect_document(key, value)?;
                self.write_concern = Some(WriteConcern::parse(document)?);
            }
            "maxTimeMS" | "maxTimeMSOpOnly" => self.max_time = max_time(key, value)?,
            "comment" => self.comment = Some(value),
            "$readPreference" => self.read_preference = Some(expect_document(key, value)?),
            "$clusterTime" => {
                expect_document(key, value)?;
            }
            "apiVersion" => {
                expect(ElementType::String)?;
                self.api.version = value.as_str();
            }
            "apiStrict" => {
                expect(ElementType::Boolean)?;
                self.api.strict = value.as_bool();
            }
            "apiDeprecationErrors" => {
                expect(ElementType::Boolean)?;
                self.api.deprecation_errors = value.as_bool();
            }
            // Known to routers and shards of a cluster, and of no consequence here.
            _ => {}
        }
        Ok(())
    }
}

fn expect(key: &str, value: RawBsonRef<'_>, kind: ElementType) -> Result<()> {
    if value.element_type() == kind {
        return Ok(());
    }
    let (found, expected) = (type_name(value.element_type()), type_name(kind));
    let message =
        format!("BSON field '{key}' is the wrong type '{found}', expected type '{expected}'");
    Err(type_mismatch(message).into())
}

fn expect_document<'a>(key: &str, value: RawBsonRef<'a>) -> Result<&'a RawDocument> {
    expect(key, value, ElementType::EmbeddedDocument)?;
    value
        .as_document()
        .ok_or_else(|| type_mismatch(format!("{key} must be a document")).into())
}

/// How long a command may run. 0 is no limit.
fn max_time(key: &str, value: RawBsonRef<'_>) -> Result<Option<Duration>> {
    if fields::float(value).is_none() {
        let found = type_name(value.element_type());
        let message = format!("BSON field '{key}' is the wrong type '{found}', expected a number");
        return Err(type_mismatch(message).into());
    }
    let millis = fields::exact(value)
        .ok_or_else(|| failed_to_parse(format!("{key} has non-integral value")))?;
    if !(0..=i64::from(i32::MAX)).contains(&millis) {
        let message = format!("{millis} value for {key} is out of range [0, {}]", i32::MAX);
        return Err(bad_value(message).into());
    }
    let millis = u64::try_from(millis).unwrap_or_default();
    Ok((millis > 0).then(|| Duration::from_millis(millis)))
}

fn database_name(value: RawBsonRef<'_>) -> std::result::Result<&str, Error> {
    const FORBIDDEN: &[char] = &['/', '\\', '.', ' ', '"', '$', '\0'];
    const LONGEST: usize = 63;
    let RawBsonRef::String(name) = value else {
        let found = type_name(value.element_type());
        let message =
            format!("BSON field '$db' is the wrong type '{found}', expected type 'string'");
        return Err(type_mismatch(message));
    };
    let allowed = !name.is_empty() && name.len() <= LONGEST && !name.contains(FORBIDDEN);
    // The one database whose name has a character that others must not have.
    if allowed || name == "$external" {
        return Ok(name);
    }
    let message = format!("Invalid namespace specified '{name}'");
    Err(Error::new(Code::INVALID_NAMESPACE, message))
}

#[cfg(test)]
mod tests {
    use bson::{RawBson, RawDocumentBuf, rawdoc};

    use super::*;

    fn code(body: &RawDocumentBuf) -> Option<i32> {
        let parsed = Request::parse(body, Vec::new(), None);
        parsed.err().map(|failure| failure.code().0)
    }

    #[test]
    fn generic_fields_are_read_and_checked() {
        let of = |key: &str, value: RawBson| {
            let mut body = rawdoc! { "ping": 1, "$db": "test" };
            body.append(bson::raw::CString::try_from(key).unwrap(), value);
            code(&body)
        };
        for (key, value, expected) in [
            ("maxTimeMS", RawBson::Int32(5), None),
            ("maxTimeMS", RawBson::Double(5.0), None),
            ("maxTimeMS", RawBson::Null, None),
            ("maxTimeMS", RawBson::Double(0.5), Some(9)),
            ("maxTimeMS", RawBson::Double(f64::NAN), Some(9)),
            ("maxTimeMS", RawBson::Int32(-1), Some(2)),
            ("maxTimeMS", RawBson::Int64(1 << 31), Some(2)),
            ("maxTimeMS", RawBson::String("5".into()), Some(14)),
            ("maxTimeMS", RawBson::Boolean(true), Some(14)),
            ("txnNumber", RawBson::Int32(1), Some(14)),
            ("autocommit", RawBson::Int32(1), Some(14)),
            ("writeConcern", RawBson::Int32(1), Some(14)),
            ("readConcern", RawBson::Int32(1), Some(14)),
            ("apiVersion", RawBson::Int32(1), Some(14)),
            ("lsid", RawBson::Int32(1), Some(14)),
            ("lsid", RawBson::Document(rawdoc! {}), Some(40414)),
        ] {
            assert_eq!(of(key, value.clone()), expected, "{key}: {value:?}");
        }
    }

    #[test]
    fn a_database_must_be_named_and_nameable() {
        assert_eq!(code(&rawdoc! { "ping": 1 }), Some(40414));
        for (name, expected) in [
            ("a", None),
            ("", Some(73)),
            ("a.b", Some(73)),
            ("$x", Some(73)),
        ] {
            assert_eq!(
                code(&rawdoc! { "ping": 1, "$db": name }),
                expected,
                "{name}"
            );
        }
        assert_eq!(code(&rawdoc! { "ping": 1, "$db": 1 }), Some(14));
    }

    #[test]
    fn documents_come_in_the_body_or_beside_it() {
        let body = rawdoc! { "insert": "c", "$db": "d", "documents": [ { "a": 1 } ] };
        let request = Request::parse(&body, Vec::new(), None).unwrap();
        assert_eq!(request.documents("documents").unwrap().unwrap().len(), 1);
        assert!(request.documents("updates").unwrap().is_none());

        let body = rawdoc! { "insert": "c", "$db": "d", "documents": [ 1 ] };
        let request = Request::parse(&body, Vec::new(), None).unwrap();
        let error = request.documents("documents").unwrap_err();
        assert_eq!(error.code(), Code::TYPE_MISMATCH);

        let beside = rawdoc! { "a": 1 };
        let body = rawdoc! { "insert": "c", "$db": "d" };
        let sequence = Sequence {
            name: "documents",
            documents: vec![&beside, &beside],
        };
        let request = Request::parse(&body, vec![sequence], None).unwrap();
        assert_eq!(request.documents("documents").unwrap().unwrap().len(), 2);
    }
}
