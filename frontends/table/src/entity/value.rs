//! One value of a property, of one of the eight types of the data model.

use std::borrow::Cow;

use uuid::Uuid;

/// A typed value. Borrows from stored bytes where it can.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    String(Cow<'a, str>),
    Int32(i32),
    Int64(i64),
    Double(f64),
    Boolean(bool),
    DateTime(DateTime),
    Guid(Uuid),
    Binary(Cow<'a, [u8]>),
}

/// A moment in steps of 100 ns since 1970, negative before. The service knows 1601 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DateTime {
    pub(crate) ticks: i64,
}
