//! Logical sessions: what clients name in `lsid`, apart from the connections they come over.

use std::fmt;

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, RawBsonRef, RawDocument};
use tessera_mongo_language::error::{Code, Error};

use crate::failure::Result;
use crate::fields::{self, ANY, BINARY, Field, Fields, optional, required};

/// The number that a client gave to its session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SessionId(pub(crate) [u8; 16]);

const LSID: &[Field] = &[
    required("id", BINARY),
    optional("uid", BINARY),
    optional("txnNumber", ANY),
    optional("txnUUID", ANY),
];

impl SessionId {
    /// Reads `{ id: UUID }`.
    pub(crate) fn parse(document: &RawDocument) -> Result<Self> {
        let fields = Fields::of_document("lsid", document, LSID)?;
        let id = match fields.get("id") {
            Some(RawBsonRef::Binary(id)) => id,
            _ => return Err(not_a_uuid().into()),
        };
        if id.subtype != BinarySubtype::Uuid {
            let found = bson::spec::ElementType::Binary;
            return Err(fields::wrong_type("lsid", "id", found, &[]).into());
        }
        let id = id.bytes.try_into().map_err(|_| not_a_uuid())?;
        Ok(Self(id))
    }

    /// As clients write it.
    pub(crate) fn to_bson(self) -> Bson {
        Bson::Binary(Binary {
            subtype: BinarySubtype::Uuid,
            bytes: self.0.to_vec(),
        })
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn not_a_uuid() -> Error {
    Error::new(
        Code::INVALID_UUID,
        "uuid must be a 16-byte binary field with UUID (4) subtype",
    )
}
