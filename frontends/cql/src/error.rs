//! What the server answers when it refuses: every error of the protocol with its own fields.

use crate::wire::{Consistency, WriteType};

/// What statements return.
pub(crate) type Result<T> = std::result::Result<T, CqlError>;

/// A refusal: the kind, which is a code of the protocol with its fields, and its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CqlError {
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
}

impl CqlError {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind, message }
    }

    /// A statement that is not CQL.
    pub(crate) fn syntax(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Syntax, message)
    }

    /// A statement or a value that is CQL and cannot be right.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// A definition with options that cannot be right.
    pub(crate) fn configuration(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Configuration, message)
    }

    /// A message that the protocol does not allow.
    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Protocol, message)
    }
}

/// How many replicas were asked, and how many answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answers {
    pub(crate) consistency: Consistency,
    pub(crate) received: i32,
    pub(crate) required: i32,
}

/// The kinds of errors, each with the fields that the protocol gives it.
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the protocol has it, and nothing here says it")
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    Server,
    Protocol,
    BadCredentials,
    Unavailable {
        consistency: Consistency,
        required: i32,
        alive: i32,
    },
    Overloaded,
    IsBootstrapping,
    Truncate,
    WriteTimeout {
        answers: Answers,
        write_type: WriteType,
        contentions: u16,
    },
    ReadTimeout {
        answers: Answers,
        data_present: bool,
    },
    ReadFailure {
        answers: Answers,
        failures: Vec<Failure>,
        data_present: bool,
    },
    FunctionFailure {
        keyspace: String,
        function: String,
        argument_types: Vec<String>,
    },
    WriteFailure {
        answers: Answers,
        failures: Vec<Failure>,
        write_type: WriteType,
    },
    CdcWriteFailure,
    CasWriteUnknown {
        answers: Answers,
    },
    Syntax,
    Unauthorized,
    Invalid,
    Configuration,
    AlreadyExists {
        keyspace: String,
        /// Empty if the keyspace is what exists.
        table: String,
    },
    Unprepared {
        id: Vec<u8>,
    },
}

/// A replica that failed, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) address: std::net::IpAddr,
    pub(crate) reason: u16,
}

/// Refuses a statement that cannot be right, in these words.
pub(crate) fn refuse<T>(words: impl Into<String>) -> Result<T> {
    Err(CqlError::invalid(words))
}
