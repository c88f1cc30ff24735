//! Strict parsing of commands: the fields of a command and their types, declared as a table;
//! anything else gets MongoDB's own error.
//!
//! As in MongoDB, a null counts as a missing field, unless its type allows null or the field
//! refuses it.

use bson::spec::ElementType;
use bson::{RawArray, RawBsonRef, RawDocument, Timestamp};
use tessera_mongo_language::error::{Code, Error};

use crate::failure::Result;
use crate::request::Request;

/// The types that a field may have. Empty: any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind(pub(crate) &'static [ElementType]);

pub(crate) const ANY: Kind = Kind(&[]);
pub(crate) const BOOL: Kind = Kind(&[ElementType::Boolean]);
/// A boolean, or a number that is 0 or not.
pub(crate) const BOOL_OR_NUMBER: Kind = Kind(&[
    ElementType::Boolean,
    ElementType::Int64,
    ElementType::Int32,
    ElementType::Decimal128,
    ElementType::Double,
]);
pub(crate) const NUMBER: Kind = Kind(&[
    ElementType::Int64,
    ElementType::Int32,
    ElementType::Decimal128,
    ElementType::Double,
]);
pub(crate) const STRING: Kind = Kind(&[ElementType::String]);
pub(crate) const DOCUMENT: Kind = Kind(&[ElementType::EmbeddedDocument]);
pub(crate) const ARRAY: Kind = Kind(&[ElementType::Array]);
pub(crate) const STRING_OR_DOCUMENT: Kind =
    Kind(&[ElementType::String, ElementType::EmbeddedDocument]);
pub(crate) const BINARY: Kind = Kind(&[ElementType::Binary]);
pub(crate) const TIMESTAMP: Kind = Kind(&[ElementType::Timestamp]);

/// One field of a command or of a document in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    name: &'static str,
    kind: Kind,
    required: bool,
    /// Whether a null is refused like any other wrong type.
    refuses_null: bool,
    /// Why nothing but false is taken: it would be without effect.
    refusal: Option<(Code, &'static str)>,
}

impl Field {
    /// The same field, where a null is a value of a wrong type.
    pub(crate) const fn not_null(self) -> Self {
        Self {
            refuses_null: true,
            ..self
        }
    }

    /// The same field, which may only be false, 0 or left out.
    pub(crate) const fn refused(self, code: i32, message: &'static str) -> Self {
        Self {
            refusal: Some((Code(code), message)),
            ..self
        }
    }
}

/// A field that may be left out.
pub(crate) const fn optional(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        required: false,
        refuses_null: false,
        refusal: None,
    }
}

/// A field that must be there.
pub(crate) const fn required(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        required: true,
        refuses_null: false,
        refusal: None,
    }
}

/// The fields that were sent, by the table that declares them.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    table: &'static [Field],
    values: Vec<Option<RawBsonRef<'a>>>,
}

impl<'a> Fields<'a> {
    /// The fields of a command. Its name and what every command may have need no row.
    pub(crate) fn of(request: &Request<'a>, table: &'static [Field]) -> Result<Self> {
        let name = request.name();
        let mut fields = Self::none(table);
        for element in request.arguments() {
            if !fields.take(name, element.key, element.value)? && !element.is_generic {
                return Err(unknown(name, element.key).into());
            }
        }
        for sequence in &request.sequences {
            let position = table.iter().position(|field| field.name == sequence.name);
            match position.and_then(|position| fields.values.get(position)) {
                None => return Err(unknown(name, sequence.name).into()),
                Some(Some(_)) => return Err(duplicate(name, sequence.name).into()),
                Some(None) => {}
            }
        }
        let sent_as_sequence =
            |field: &Field| request.sequences.iter().any(|sent| sent.name == field.name);
        fields.check_required(name, sent_as_sequence)?;
        Ok(fields)
    }

    /// The fields of a document inside a command; `path` names it in errors.
    pub(crate) fn of_document(
        path: &str,
        document: &'a RawDocument,
        table: &'static [Field],
    ) -> Result<Self> {
        let mut fields = Self::none(table);
        for element in document.iter_elements() {
            let element = element?;
            let key = element.key().as_str();
            if !fields.take(path, key, element.value()?)? {
                return Err(unknown(path, key).into());
            }
        }
        fields.check_required(path, |_| false)?;
        Ok(fields)
    }

    fn none(table: &'static [Field]) -> Self {
        Self {
            table,
            values: vec![None; table.len()],
        }
    }

    /// Takes a field that the table has; false if it has none of this name.
    fn take(&mut self, path: &str, key: &str, value: RawBsonRef<'a>) -> Result<bool> {
        let Some(position) = self.table.iter().position(|field| field.name == key) else {
            return Ok(false);
        };
        let (Some(field), Some(place)) = (self.table.get(position), self.values.get_mut(position))
        else {
            return Ok(false);
        };
        let Kind(types) = field.kind;
        if !types.is_empty() && !types.contains(&value.element_type()) {
            return match value {
                RawBsonRef::Null | RawBsonRef::Undefined if !field.refuses_null => Ok(true),
                _ => Err(wrong_type(path, key, value.element_type(), types).into()),
            };
        }
        if place.replace(value).is_some() {
            return Err(duplicate(path, key).into());
        }
        if let Some((code, message)) = field.refusal
            && truth(value) != Some(false)
        {
            return Err(Error::new(code, message).into());
        }
        Ok(true)
    }

    fn check_required(&self, path: &str, elsewhere: impl Fn(&Field) -> bool) -> Result<()> {
        let missing = |(field, value): (&Field, &Option<RawBsonRef<'_>>)| {
            (field.required && value.is_none() && !elsewhere(field)).then_some(field.name)
        };
        let mut rows = self.table.iter().zip(&self.values);
        match rows.find_map(missing) {
            None => Ok(()),
            Some(name) => Err(Error::new(
                Code::IDL_FAILED_TO_PARSE,
                format!("BSON field '{path}.{name}' is missing but a required field"),
            )
            .into()),
        }
    }

    /// A field as it was sent.
    pub(crate) fn get(&self, name: &str) -> Option<RawBsonRef<'a>> {
        let position = self.table.iter().position(|field| field.name == name);
        debug_assert!(position.is_some(), "the table has no field '{name}'");
        self.values.get(position?).copied().flatten()
    }

    /// A boolean, or whether a number is other than 0.
    pub(crate) fn bool(&self, name: &str) -> Option<bool> {
        truth(self.get(name)?)
    }

    /// A number cut to a whole one: NaN is 0, and what lies beyond is the nearest.
    pub(crate) fn integer(&self, name: &str) -> Option<i64> {
        whole(self.get(name)?)
    }

    pub(crate) fn str(&self, name: &str) -> Option<&'a str> {
        self.get(name)?.as_str()
    }

    pub(crate) fn document(&self, name: &str) -> Option<&'a RawDocument> {
        self.get(name)?.as_document()
    }

    pub(crate) fn array(&self, name: &str) -> Option<&'a RawArray> {
        self.get(name)?.as_array()
    }

    pub(crate) fn timestamp(&self, name: &str) -> Option<Timestamp> {
        self.get(name)?.as_timestamp()
    }
}

/// Whether a boolean or a number means yes.
pub(crate) fn truth(value: RawBsonRef<'_>) -> Option<bool> {
    match value {
        RawBsonRef::Boolean(value) => Some(value),
        number => float(number).map(|number| number != 0.0),
    }
}

/// A number cut to a whole one.
pub(crate) fn whole(value: RawBsonRef<'_>) -> Option<i64> {
    match value {
        RawBsonRef::Int32(value) => Some(value.into()),
        RawBsonRef::Int64(value) => Some(value),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "this cast saturates, which is what is wanted"
        )]
        other => float(other).map(|value| value as i64),
    }
}

/// A number that is whole; none if it has a fraction or does not fit.
pub(crate) fn exact(value: RawBsonRef<'_>) -> Option<i64> {
    match value {
        RawBsonRef::Int32(_) | RawBsonRef::Int64(_) => whole(value),
        other => {
            let number = float(other)?;
            let fits =
                (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number);
            (number.fract() == 0.0 && fits).then(|| whole(other))?
        }
    }
}

/// Any number as the nearest double.
pub(crate) fn float(value: RawBsonRef<'_>) -> Option<f64> {
    match value {
        RawBsonRef::Int32(value) => Some(value.into()),
        #[expect(clippy::cast_precision_loss, reason = "the nearest double is wanted")]
        RawBsonRef::Int64(value) => Some(value as f64),
        RawBsonRef::Double(value) => Some(value),
        RawBsonRef::Decimal128(value) => value.to_string().parse().ok(),
        _ => None,
    }
}

/// How the server names a type, as `$type` does.
pub(crate) fn type_name(kind: ElementType) -> &'static str {
    match kind {
        ElementType::Double => "double",
        ElementType::String => "string",
        ElementType::EmbeddedDocument => "object",
        ElementType::Array => "array",
        ElementType::Binary => "binData",
        ElementType::Undefined => "undefined",
        ElementType::ObjectId => "objectId",
        ElementType::Boolean => "bool",
        ElementType::DateTime => "date",
        ElementType::Null => "null",
        ElementType::RegularExpression => "regex",
        ElementType::DbPointer => "dbPointer",
        ElementType::JavaScriptCode => "javascript",
        ElementType::Symbol => "symbol",
        ElementType::JavaScriptCodeWithScope => "javascriptWithScope",
        ElementType::Int32 => "int",
        ElementType::Timestamp => "timestamp",
        ElementType::Int64 => "long",
        ElementType::Decimal128 => "decimal",
        ElementType::MaxKey => "maxKey",
        ElementType::MinKey => "minKey",
    }
}

/// The error for a field of another type than `expected`.
pub(crate) fn wrong_type(
    path: &str,
    key: &str,
    found: ElementType,
    expected: &[ElementType],
) -> Error {
    let names: Vec<&str> = expected.iter().map(|kind| type_name(*kind)).collect();
    let expected = match names.as_slice() {
        [one] => format!("type '{one}'"),
        several => format!("types '[{}]'", several.join(", ")),
    };
    let found = type_name(found);
    Error::new(
        Code::TYPE_MISMATCH,
        format!("BSON field '{path}.{key}' is the wrong type '{found}', expected {expected}"),
    )
}

fn unknown(path: &str, key: &str) -> Error {
    Error::new(
        Code::IDL_UNKNOWN_FIELD,
        format!("BSON field '{path}.{key}' is an unknown field."),
    )
}

/// The error for a field that is there twice.
pub(crate) fn duplicate(path: &str, key: &str) -> Error {
    Error::new(
        Code::IDL_DUPLICATE_FIELD,
        format!("BSON field '{path}.{key}' is a duplicate field"),
    )
}

#[cfg(test)]
mod tests {
    use bson::{Decimal128, RawDocumentBuf, rawdoc};

    use super::*;

    const TABLE: &[Field] = &[
        required("needed", STRING),
        optional("flag", BOOL_OR_NUMBER),
        optional("count", NUMBER),
        optional("rest", ANY),
    ];

    fn check(document: &RawDocumentBuf, expected: Option<i32>) {
        let code = Fields::of_document("x", document, TABLE)
            .err()
            .map(|failure| failure.code().0);
        assert_eq!(code, expected, "{document:?}");
    }

    #[test]
    fn each_mistake_has_its_code() {
        check(&rawdoc! { "needed": "a" }, None);
        check(
            &rawdoc! { "needed": "a", "count": bson::RawBson::Null },
            None,
        );
        check(&rawdoc! { "needed": bson::RawBson::Null }, Some(40414));
        check(&rawdoc! { "flag": true }, Some(40414));
        check(&rawdoc! { "needed": 1 }, Some(14));
        check(&rawdoc! { "needed": "a", "flag": "yes" }, Some(14));
        check(&rawdoc! { "needed": "a", "other": 1 }, Some(40415));
        check(
            &rawdoc! { "needed": "a", "rest": 1, "rest": 2 },
            Some(40413),
        );
    }

    #[test]
    fn messages_name_the_field_and_the_types() {
        let document = rawdoc! { "needed": "a", "count": "1" };
        let error = Fields::of_document("find", &document, TABLE).unwrap_err();
        assert_eq!(
            error.error.message,
            "BSON field 'find.count' is the wrong type 'string', \
             expected types '[long, int, decimal, double]'"
        );
    }

    #[test]
    fn numbers_are_cut_and_kept_in_range() {
        let whole_of = |value: bson::RawBson| whole(value.as_raw_bson_ref());
        assert_eq!(whole_of(2.9.into()), Some(2));
        assert_eq!(whole_of(f64::NAN.into()), Some(0));
        assert_eq!(whole_of(1e300.into()), Some(i64::MAX));
        let decimal: Decimal128 = "7.5".parse().unwrap();
        assert_eq!(whole_of(decimal.into()), Some(7));
        assert_eq!(whole_of("7".into()), None);
        let exact_of = |value: bson::RawBson| exact(value.as_raw_bson_ref());
        assert_eq!(exact_of(2.0.into()), Some(2));
        assert_eq!(exact_of(2.5.into()), None);
        assert_eq!(exact_of(f64::NAN.into()), None);
        assert_eq!(exact_of(9_223_372_036_854_775_808.0.into()), None);
    }
}
