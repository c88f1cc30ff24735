//! ERROR: a code, words, and the fields of the code.
//!
//! Codes that a version does not know are answered with the nearest one that it does.

use std::borrow::Cow;

use crate::error::{Answers, CqlError, ErrorKind, Failure};
use crate::wire::writer::{
    put_address, put_consistency, put_int, put_length, put_short, put_short_bytes, put_string,
    put_string_list,
};
use crate::wire::{Version, WriteType};

pub(super) fn put_error(out: &mut Vec<u8>, error: &CqlError, version: Version) {
    let kind = known_to(version, &error.kind);
    put_int(out, code(&kind));
    put_string(out, &error.message);
    put_fields(out, &kind, version);
}

/// The number of a kind.
fn code(kind: &ErrorKind) -> i32 {
    match kind {
        ErrorKind::Server => 0x0000,
        ErrorKind::Protocol => 0x000a,
        ErrorKind::BadCredentials => 0x0100,
        ErrorKind::Unavailable { .. } => 0x1000,
        ErrorKind::Overloaded => 0x1001,
        ErrorKind::IsBootstrapping => 0x1002,
        ErrorKind::Truncate => 0x1003,
        ErrorKind::WriteTimeout { .. } => 0x1100,
        ErrorKind::ReadTimeout { .. } => 0x1200,
        ErrorKind::ReadFailure { .. } => 0x1300,
        ErrorKind::FunctionFailure { .. } => 0x1400,
        ErrorKind::WriteFailure { .. } => 0x1500,
        ErrorKind::CdcWriteFailure => 0x1600,
        ErrorKind::CasWriteUnknown { .. } => 0x1700,
        ErrorKind::Syntax => 0x2000,
        ErrorKind::Unauthorized => 0x2100,
        ErrorKind::Invalid => 0x2200,
        ErrorKind::Configuration => 0x2300,
        ErrorKind::AlreadyExists { .. } => 0x2400,
        ErrorKind::Unprepared { .. } => 0x2500,
    }
}

/// The kind, or what stands for it in an older version.
fn known_to(version: Version, kind: &ErrorKind) -> Cow<'_, ErrorKind> {
    let older = match kind {
        ErrorKind::CasWriteUnknown { answers } if version < Version::V5 => {
            ErrorKind::WriteTimeout {
                answers: *answers,
                write_type: WriteType::Cas,
                contentions: 0,
            }
        }
        ErrorKind::ReadFailure {
            answers,
            data_present,
            ..
        } if version < Version::V4 => {
            let (answers, data_present) = (*answers, *data_present);
            ErrorKind::ReadTimeout {
                answers,
                data_present,
            }
        }
        ErrorKind::WriteFailure {
            answers,
            write_type,
            ..
        } if version < Version::V4 => {
            let (answers, write_type) = (*answers, *write_type);
            ErrorKind::WriteTimeout {
                answers,
                write_type,
                contentions: 0,
            }
        }
        ErrorKind::FunctionFailure { .. } | ErrorKind::CdcWriteFailure if version < Version::V4 => {
            ErrorKind::Invalid
        }
        kind => return Cow::Borrowed(kind),
    };
    Cow::Owned(older)
}

/// What follows the words.
fn put_fields(out: &mut Vec<u8>, kind: &ErrorKind, version: Version) {
    match kind {
        ErrorKind::Unavailable {
            consistency,
            required,
            alive,
        } => {
            put_consistency(out, *consistency);
            put_int(out, *required);
            put_int(out, *alive);
        }
        ErrorKind::FunctionFailure {
            keyspace,
            function,
            argument_types,
        } => {
            put_string(out, keyspace);
            put_string(out, function);
            put_string_list(out, argument_types);
        }
        ErrorKind::AlreadyExists { keyspace, table } => {
            put_string(out, keyspace);
            put_string(out, table);
        }
        ErrorKind::Unprepared { id } => put_short_bytes(out, id),
        ErrorKind::CasWriteUnknown { answers } => put_answers(out, answers),
        kind => put_answers_and_more(out, kind, version),
    }
}

/// What follows the words of timeouts and failures; nothing for the other kinds.
fn put_answers_and_more(out: &mut Vec<u8>, kind: &ErrorKind, version: Version) {
    match kind {
        ErrorKind::WriteTimeout {
            answers,
            write_type,
            contentions,
        } => {
            put_answers(out, answers);
            put_string(out, write_type.name());
            if version.is_framed() && *write_type == WriteType::Cas {
                put_short(out, *contentions);
            }
        }
        ErrorKind::ReadTimeout {
            answers,
            data_present,
        } => {
            put_answers(out, answers);
            out.push(u8::from(*data_present));
        }
        ErrorKind::ReadFailure {
            answers,
            failures,
            data_present,
        } => {
            put_answers(out, answers);
            put_failures(out, failures, version);
            out.push(u8::from(*data_present));
        }
        ErrorKind::WriteFailure {
            answers,
            failures,
            write_type,
        } => {
            put_answers(out, answers);
            put_failures(out, failures, version);
            put_string(out, write_type.name());
        }
        _ => {}
    }
}

fn put_answers(out: &mut Vec<u8>, answers: &Answers) {
    put_consistency(out, answers.consistency);
    put_int(out, answers.received);
    put_int(out, answers.required);
}

/// How many failed; from version 5, which and why.
fn put_failures(out: &mut Vec<u8>, failures: &[Failure], version: Version) {
    put_length(out, failures.len());
    if version.is_framed() {
        for failure in failures {
            put_address(out, failure.address);
            put_short(out, failure.reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Consistency;
    use crate::wire::testing::hex;

    fn encoded(kind: ErrorKind, version: Version) -> Vec<u8> {
        let mut out = Vec::new();
        put_error(&mut out, &CqlError::new(kind, "m"), version);
        out
    }

    fn answers() -> Answers {
        Answers {
            consistency: Consistency::Quorum,
            received: 1,
            required: 2,
        }
    }

    #[test]
    fn newer_codes_become_older_ones() {
        let failures = vec![Failure {
            address: [127, 0, 0, 1].into(),
            reason: 3,
        }];
        let read = ErrorKind::ReadFailure {
            answers: answers(),
            failures,
            data_present: true,
        };
        let counts = "0004 00000001 00000002";
        for (version, rest) in [
            (Version::V3, format!("00001200 00016d {counts} 01")),
            (Version::V4, format!("00001300 00016d {counts} 00000001 01")),
            (
                Version::V5,
                format!("00001300 00016d {counts} 00000001 04 7f000001 0003 01"),
            ),
        ] {
            assert_eq!(encoded(read.clone(), version), hex(&rest), "{version:?}");
        }
        let unknown = ErrorKind::CasWriteUnknown { answers: answers() };
        let old = encoded(unknown.clone(), Version::V4);
        assert_eq!(old, hex(&format!("00001100 00016d {counts} 0003 434153")));
        let new = encoded(unknown, Version::V5);
        assert_eq!(new, hex(&format!("00001700 00016d {counts}")));
        assert_eq!(
            encoded(ErrorKind::CdcWriteFailure, Version::V3),
            hex("00002200 00016d")
        );
    }

    #[test]
    fn contentions_are_told_to_version_5_only() {
        let timeout = |write_type| ErrorKind::WriteTimeout {
            answers: answers(),
            write_type,
            contentions: 9,
        };
        assert!(encoded(timeout(WriteType::Cas), Version::V5).ends_with(&[0, 9]));
        assert!(encoded(timeout(WriteType::Cas), Version::V4).ends_with(b"CAS"));
        assert!(encoded(timeout(WriteType::Simple), Version::V5).ends_with(b"SIMPLE"));
    }
}
