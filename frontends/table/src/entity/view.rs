//! An entity as it is sent: its keys, its time, its stored properties, and which of them a client
//! selected.

use std::borrow::Cow;

use super::{DateTime, Stored, Value};
use crate::error::{Code, Result};

/// As many as an entity can have, its keys and its time among them.
const SELECTED_MAX: usize = 255;

pub(crate) const PARTITION_KEY: &str = "PartitionKey";
pub(crate) const ROW_KEY: &str = "RowKey";
pub(super) const TIMESTAMP: &str = "Timestamp";

/// An entity to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntityView<'a> {
    pub(crate) partition_key: &'a str,
    pub(crate) row_key: &'a str,
    pub(crate) timestamp: DateTime,
    pub(crate) properties: Stored<'a>,
}

/// One field of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Field<'a> {
    /// The time of the last write.
    Timestamp(DateTime),
    /// A key or a property.
    Value(Value<'a>),
    /// Selected, but not in this entity.
    Missing,
}

impl<'a> EntityView<'a> {
    /// The approximate number of bytes in an answer.
    pub(crate) fn room(&self) -> usize {
        const SYSTEM_FIELDS: usize = 128;
        let properties = self.properties.byte_size();
        SYSTEM_FIELDS + self.partition_key.len() + self.row_key.len() + properties * 5 / 4
    }

    /// Visits every field in the order of the answer: the system's first, or as selected.
    pub(super) fn for_each(&self, select: Option<&Select>, mut visit: impl FnMut(&str, Field<'a>)) {
        if let Some(select) = select {
            for name in &select.names {
                visit(name, self.field(name));
            }
            return;
        }
        for name in [PARTITION_KEY, ROW_KEY, TIMESTAMP] {
            visit(name, self.field(name));
        }
        for (name, value) in self.properties.iter() {
            visit(name, Field::Value(value));
        }
    }

    fn field(&self, name: &str) -> Field<'a> {
        match name {
            PARTITION_KEY => Field::Value(Value::String(Cow::Borrowed(self.partition_key))),
            ROW_KEY => Field::Value(Value::String(Cow::Borrowed(self.row_key))),
            TIMESTAMP => Field::Timestamp(self.timestamp),
            name => match self.properties.get(name) {
                Some(value) => Field::Value(value),
                None => Field::Missing,
            },
        }
    }
}

/// The names of `$select`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Select {
    names: Vec<String>,
}

impl Select {
    /// Reads names with commas between them; none if they select everything.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>> {
        let mut names: Vec<String> = Vec::new();
        for name in text.split(',').map(str::trim) {
            if name == "*" {
                return Ok(None);
            }
            if name.is_empty() || names.iter().any(|known| known == name) {
                continue;
            }
            if names.len() == SELECTED_MAX {
                return Err(Code::InvalidInput.into());
            }
            names.push(name.to_owned());
        }
        Ok((!names.is_empty()).then_some(Self { names }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::encode;

    fn check(select: &str, expected: &[&str]) {
        let bytes = encode(&[
            ("a".to_owned(), Value::Int32(1)),
            ("b".to_owned(), Value::Int32(2)),
        ]);
        let view = EntityView {
            partition_key: "p",
            row_key: "r",
            timestamp: DateTime { ticks: 0 },
            properties: Stored::new(&bytes).unwrap(),
        };
        let mut found = Vec::new();
        view.for_each(Select::parse(select).unwrap().as_ref(), |name, field| {
            found.push(match field {
                Field::Missing => format!("no {name}"),
                _ => name.to_owned(),
            });
        });
        assert_eq!(found, expected, "{select}");
    }

    #[test]
    fn everything_unless_selected() {
        let everything = ["PartitionKey", "RowKey", "Timestamp", "a", "b"];
        for select in ["", "*", "b,*", " , "] {
            check(select, &everything);
        }
        check("b", &["b"]);
        check("b, RowKey,b,x,A", &["b", "RowKey", "no x", "no A"]);
        check("Timestamp,PartitionKey", &["Timestamp", "PartitionKey"]);
    }

    #[test]
    fn as_many_names_as_an_entity_can_have() {
        let names = |count: usize| {
            (0..count)
                .map(|name| format!("n{name},"))
                .collect::<String>()
        };
        assert!(Select::parse(&names(255)).is_ok());
        assert_eq!(Select::parse(&names(256)), Err(Code::InvalidInput.into()));
    }
}
