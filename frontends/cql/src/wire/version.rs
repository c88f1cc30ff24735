//! The versions of the protocol that are spoken, and what differs between them.

use super::WireError;

/// The versions as the answer to OPTIONS and the refusal of others list them.
pub(crate) const LIST: &str = "3/v3, 4/v4, 5/v5";

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    V3 = 3,
    V4 = 4,
    V5 = 5,
}

impl Version {
    /// The version in which unknown ones are refused: clients then try lower ones.
    pub(crate) const CURRENT: Self = Self::V5;

    pub(crate) fn from_number(number: u8) -> Result<Self, WireError> {
        match number {
            3 => Ok(Self::V3),
            4 => Ok(Self::V4),
            5 => Ok(Self::V5),
            other => Err(WireError::UnsupportedVersion(other)),
        }
    }

    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    /// Flags of parameters are four bytes instead of one; prepared statements have result metadata
    /// ids; segments carry the envelopes.
    pub(crate) fn is_framed(self) -> bool {
        self >= Self::V5
    }

    /// Warnings, custom payloads, unset values and the indexes of the partition key exist.
    pub(crate) fn has_extras(self) -> bool {
        self >= Self::V4
    }
}
