//! Misfits: notes about items written during a relocation that do not fit its target.
//!
//! Such a write is legal, because the container is still where it was. So it is accepted and
//! leaves this note, and the relocation ends with the error that the note holds.

use bytes::Bytes;

use crate::error::Error;
use crate::key::{self, StorageId, system};

/// The key of the note for a storage being filled.
pub(crate) fn misfit_key(target: StorageId) -> Bytes {
    key::system_key(system::MISFIT, &target.to_be_bytes())
}

/// The reason why an item cannot be placed.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) enum Misfit {
    Rejected(String),
    DuplicateValue { index: String },
}

impl Misfit {
    /// The misfit in an error, if it is one; otherwise the error itself.
    pub(crate) fn of(error: Error) -> Result<Self, Error> {
        match error {
            Error::Rejected(cause) => Ok(Self::Rejected(cause)),
            Error::DuplicateValue { index } => Ok(Self::DuplicateValue { index }),
            other => Err(other),
        }
    }

    pub(crate) fn encode(&self) -> Result<Bytes, Error> {
        let encoded = serde_json::to_vec(self);
        let encoded = encoded.map_err(|error| Error::Internal(error.to_string()))?;
        Ok(encoded.into())
    }

    /// The error in a stored note.
    pub(crate) fn decode(stored: &[u8]) -> Error {
        match serde_json::from_slice(stored) {
            Ok(Self::Rejected(cause)) => Error::Rejected(cause),
            Ok(Self::DuplicateValue { index }) => Error::DuplicateValue { index },
            Err(error) => Error::Corrupt(format!("a note of a misfit: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misfits_read_back_as_the_error_they_were() {
        let index = "i".to_owned();
        for error in [
            Error::Rejected("why".into()),
            Error::DuplicateValue { index },
        ] {
            let note = Misfit::of(error.clone()).ok().unwrap().encode().unwrap();
            assert_eq!(Misfit::decode(&note), error);
        }
        assert_eq!(Misfit::of(Error::Conflict).err(), Some(Error::Conflict));
        assert!(matches!(Misfit::decode(b"?"), Error::Corrupt(_)));
    }
}
