//! An entity as a client sent it: members of a body, converted to their types.

use std::borrow::Cow;
use std::fmt::Display;

use super::view::{PARTITION_KEY, ROW_KEY, TIMESTAMP};
use super::{EdmType, Value};
use crate::error::{Code, Result, ServiceError};

/// Far more members than an entity can have, and few enough to compare every name with every other.
const MEMBERS_MAX: usize = 1024;

/// An entity of a request, before limits are checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Incoming {
    pub(crate) partition_key: Option<String>,
    pub(crate) row_key: Option<String>,
    /// In the order of the request.
    pub(crate) properties: Vec<(String, Value<'static>)>,
}

impl Incoming {
    /// The name in the body of a request to create a table.
    pub(crate) fn into_table_name(self) -> Option<String> {
        let mut properties = self.properties.into_iter();
        match properties.find(|property| property.0 == "TableName")?.1 {
            Value::String(name) => Some(name.into_owned()),
            _ => None,
        }
    }
}

/// A value as the format has it, before its type is known.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Raw<'a> {
    Null,
    Boolean(bool),
    Integer(i128),
    Number(f64),
    Text(Cow<'a, str>),
    /// An array or an object.
    Nested,
}

/// The members of a body, in their order. The type of one may come before or after its value.
#[derive(Default)]
pub(super) struct Members<'a> {
    list: Vec<Member<'a>>,
    refusal: Option<ServiceError>,
}

struct Member<'a> {
    name: Cow<'a, str>,
    value: Option<Raw<'a>>,
    edm: Option<EdmType>,
}

impl<'a> Members<'a> {
    /// Whether the body is already refused, so that the rest of it is not kept.
    pub(super) fn refused(&self) -> bool {
        self.refusal.is_some()
    }

    /// Takes the value of a member.
    pub(super) fn value(&mut self, name: Cow<'a, str>, value: Raw<'a>) {
        self.with(name, |member| member.value.replace(value).is_some());
    }

    /// Takes the type of a member; none is an unknown type.
    pub(super) fn edm(&mut self, name: Cow<'a, str>, edm: Option<EdmType>) {
        let Some(edm) = edm else {
            let name = name.escape_debug();
            self.refusal = Some(unreadable(format_args!(
                "the type of '{name}' is none of EDM"
            )));
            return;
        };
        self.with(name, |member| member.edm.replace(edm).is_some());
    }

    /// Converts the values to their types.
    pub(super) fn finish(self) -> Result<Incoming> {
        if let Some(refusal) = self.refusal {
            return Err(refusal);
        }
        let mut incoming = Incoming::default();
        for Member { name, value, edm } in self.list {
            let Some(value) = value else { continue };
            match &*name {
                PARTITION_KEY => incoming.partition_key = key(&name, edm, value)?,
                ROW_KEY => incoming.row_key = key(&name, edm, value)?,
                TIMESTAMP => {}
                _ => {
                    if let Some(value) = typed(&name, edm, value)? {
                        let property = (name.into_owned(), value.into_owned());
                        incoming.properties.push(property);
                    }
                }
            }
        }
        Ok(incoming)
    }

    /// Changes the member of a name, which may be new. The change says whether it was made before.
    fn with(&mut self, name: Cow<'a, str>, change: impl FnOnce(&mut Member<'a>) -> bool) {
        // A type stands beside its value: from the end, the member is found at once.
        let known = self.list.iter_mut().rev().find(|known| known.name == name);
        if let Some(known) = known {
            if change(known) {
                let why = format!("it is '{}'", name.escape_debug());
                self.refusal = Some(Code::DuplicatePropertiesSpecified.because(why));
            }
            return;
        }
        if self.list.len() == MEMBERS_MAX {
            self.refusal = Some(Code::TooManyProperties.into());
            return;
        }
        let mut member = Member {
            name,
            value: None,
            edm: None,
        };
        change(&mut member);
        self.list.push(member);
    }
}

/// The service's error for a body that it cannot read, with the reason.
pub(super) fn unreadable(why: impl Display) -> ServiceError {
    let words = "An error occurred while processing this request.";
    ServiceError::new(Code::InvalidInput, words).with_detail(why)
}

fn key(name: &str, edm: Option<EdmType>, value: Raw<'_>) -> Result<Option<String>> {
    match (edm.unwrap_or(EdmType::String), value) {
        (_, Raw::Null) => Ok(None),
        (EdmType::String, Raw::Text(text)) => Ok(Some(text.into_owned())),
        _ => Err(Code::InvalidInput.because(format!("{name} is not a text"))),
    }
}

/// None if the property is not to be stored.
fn typed<'a>(name: &str, edm: Option<EdmType>, value: Raw<'a>) -> Result<Option<Value<'a>>> {
    let nested = matches!(value, Raw::Nested);
    let value = match (edm, value) {
        // JavaScript writes an infinite number and an invalid date as null. The type distinguishes
        // them from an intended null, so that no value is lost silently.
        (Some(EdmType::Double | EdmType::DateTime), Raw::Null) => None,
        (_, Raw::Null) => return Ok(None),
        (None, Raw::Text(text)) => Some(Value::String(text)),
        (Some(edm), Raw::Text(text)) => Value::parse(edm, text),
        (None | Some(EdmType::Int32), Raw::Integer(value)) => {
            i32::try_from(value).ok().map(Value::Int32)
        }
        (Some(EdmType::Double), Raw::Integer(value)) => Some(Value::Double(value as f64)),
        (None | Some(EdmType::Double), Raw::Number(value)) => Some(Value::Double(value)),
        (None | Some(EdmType::Boolean), Raw::Boolean(value)) => Some(Value::Boolean(value)),
        (_, Raw::Boolean(_) | Raw::Integer(_) | Raw::Number(_) | Raw::Nested) => None,
    };
    value.map(Some).ok_or_else(|| {
        let name = name.escape_debug();
        match edm {
            _ if nested => unreadable(format_args!("'{name}' is an array or an object")),
            Some(edm) => unreadable(format_args!("the value of '{name}' is no {}", edm.name())),
            None => unreadable(format_args!(
                "the number '{name}' is beyond Edm.Int32; an Edm.Int64 is a text, with its type in \
                 '{name}@odata.type'"
            )),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(values: &[(&'static str, Raw<'static>)]) -> Result<Incoming> {
        let mut members = Members::default();
        for (name, value) in values {
            members.value(Cow::Borrowed(*name), value.clone());
        }
        members.finish()
    }

    #[test]
    fn keys_and_time_are_no_properties() {
        let incoming = collect(&[
            ("PartitionKey", Raw::Text("p".into())),
            ("RowKey", Raw::Null),
            ("Timestamp", Raw::Nested),
            ("TableName", Raw::Text("t".into())),
        ])
        .unwrap();
        assert_eq!(incoming.partition_key.as_deref(), Some("p"));
        assert_eq!(incoming.row_key, None);
        assert_eq!(incoming.properties.len(), 1);
        assert_eq!(incoming.into_table_name().as_deref(), Some("t"));
    }

    #[test]
    fn a_name_stands_once() {
        let twice = [("a", Raw::Null), ("a", Raw::Boolean(true))];
        let refusal = collect(&twice).unwrap_err();
        assert_eq!(refusal.code, Code::DuplicatePropertiesSpecified);
    }

    #[test]
    fn members_are_bounded() {
        let mut members = Members::default();
        for number in 0..=MEMBERS_MAX {
            assert!(!members.refused());
            members.value(Cow::Owned(format!("n{number}")), Raw::Null);
        }
        assert!(members.refused());
        assert_eq!(members.finish(), Err(Code::TooManyProperties.into()));
    }
}
