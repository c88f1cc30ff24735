//! Updates as a whole: documents before and after, and the codes of what is refused.

use bson::{Bson, DateTime, Document, Timestamp, bson, doc};

use super::{Applied, Update};
use crate::{
    compare::identical_documents,
    error::{Code, Result},
    expression::variables::{Context, Variables},
};

pub(super) fn context() -> Context {
    Context {
        variables: Variables::system(
            DateTime::from_millis(5000),
            Some(Timestamp {
                time: 5,
                increment: 7,
            }),
            Vec::new(),
        ),
        ..Context::default()
    }
}

pub(super) fn parse(update: Bson, filters: &[Document]) -> Result<Update> {
    Update::parse(&update, filters, &context())
}

pub(super) fn run(before: &Document, update: Document) -> Result<Applied> {
    parse(Bson::Document(update), &[])?.apply(before.clone(), None, false)
}

pub(super) fn assert_document(applied: &Applied, expected: &Document, label: &str) {
    let document = &applied.document;
    assert!(
        identical_documents(document, expected),
        "{label}: {document}"
    );
}

/// Each row: the document, the update, and the document after it. A document that is the same was
/// not modified.
pub(super) fn check(rows: impl IntoIterator<Item = (Document, Document, Document)>) {
    for (before, update, after) in rows {
        let label = format!("{update} on {before}");
        let applied = run(&before, update).unwrap_or_else(|error| panic!("{label}: {error}"));
        assert_document(&applied, &after, &label);
        assert_eq!(
            applied.modified,
            !identical_documents(&before, &after),
            "{label}"
        );
    }
}

/// Each row: the document, the update, and the code of the error.
pub(super) fn refused(rows: impl IntoIterator<Item = (Document, Document, i32)>) {
    for (before, update, code) in rows {
        let label = format!("{update} on {before}");
        let error = run(&before, update).expect_err(&label);
        assert_eq!(error.code, Code(code), "{label}: {error}");
    }
}

/// Stands for a field that is not there.
pub(super) const MISSING: Bson = Bson::Undefined;

fn with_field(value: Bson) -> Document {
    if value == MISSING {
        return Document::new();
    }
    doc! { "a": value }
}

/// As [`check`], of one operator: the value of a field, the operand, and the value after.
pub(super) fn check_field(operator: &str, rows: impl IntoIterator<Item = (Bson, Bson, Bson)>) {
    check(rows.into_iter().map(|(before, operand, after)| {
        let update = doc! { operator: { "a": operand } };
        (with_field(before), update, with_field(after))
    }));
}

/// As [`refused`], of one operator.
pub(super) fn refuse_field(operator: &str, rows: impl IntoIterator<Item = (Bson, Bson, i32)>) {
    refused(rows.into_iter().map(|(before, operand, code)| {
        let update = doc! { operator: { "a": operand } };
        (with_field(before), update, code)
    }));
}

#[test]
fn new_fields_come_in_the_order_of_their_paths() {
    check([
        (
            doc! {},
            doc! { "$set": { "c": 1, "a": 2 }, "$inc": { "b": 3 } },
            doc! { "a": 2, "b": 3, "c": 1 },
        ),
        (
            doc! { "a": {} },
            doc! { "$set": { "a.10": 1, "a.9": 2, "a.x": 3 } },
            doc! { "a": { "9": 2, "10": 1, "x": 3 } },
        ),
        (
            doc! { "z": 1 },
            doc! { "$rename": { "z": "b" }, "$set": { "c": 1, "a": 1 } },
            doc! { "a": 1, "b": 1, "c": 1 },
        ),
    ]);
}

#[test]
fn wrong_updates_are_refused() {
    refused([
        (doc! {}, doc! { "$badop": { "a": 1 } }, 9),
        (doc! {}, doc! { "$set": { "a": 1 }, "b": 1 }, 9),
        (doc! {}, doc! { "$set": 1 }, 9),
        (doc! {}, doc! { "$rename": 1 }, 9),
        (doc! {}, doc! { "$set": { "": 1 } }, 56),
        (doc! {}, doc! { "$set": { "a..b": 1 } }, 56),
        (doc! {}, doc! { "$set": { ".a": 1 } }, 56),
        (doc! {}, doc! { "$set": { "a.": 1 } }, 56),
        (doc! {}, doc! { "$set": { "$a": 1 } }, 52),
        (doc! {}, doc! { "$inc": { "$a.b": 1 } }, 52),
        (doc! {}, doc! { "$set": { "$id": 1 } }, 55),
        (doc! {}, doc! { "$set": { "$": 1 } }, 2),
        (doc! {}, doc! { "$set": { "$[]": 1 } }, 2),
        (doc! {}, doc! { "$set": { "a.$.b.$": 1 } }, 2),
        (doc! { "a": 1 }, doc! { "$set": { "a.b": 1 } }, 28),
        (doc! { "a": null }, doc! { "$set": { "a.b": 1 } }, 28),
        (doc! { "a": [1] }, doc! { "$set": { "a.b": 1 } }, 28),
        (doc! { "a": [1] }, doc! { "$set": { "a.1500002": 1 } }, 34),
        (doc! {}, doc! { "$set": { "a": 1, "a.b": 1 } }, 40),
        (
            doc! {},
            doc! { "$set": { "a.b": 1 }, "$unset": { "a": 1 } },
            40,
        ),
        (doc! {}, doc! { "$set": { "a.$[]": 1, "a.0": 1 } }, 40),
        (doc! { "_id": 1 }, doc! { "$set": { "_id": 2 } }, 66),
        (doc! { "_id": 1 }, doc! { "$unset": { "_id": 2 } }, 66),
        (doc! { "_id": 1 }, doc! { "$mul": { "_id": 2 } }, 66),
        (
            doc! { "_id": { "a": 1 } },
            doc! { "$set": { "_id.b": 2 } },
            66,
        ),
        (
            doc! {},
            doc! { "$set": { (vec!["a"; 181].join(".")): 1 } },
            15,
        ),
    ]);
    for update in [bson!("x"), bson!(1), Bson::Null] {
        assert_eq!(parse(update, &[]).unwrap_err().code, Code::FAILED_TO_PARSE);
    }
    check([(
        doc! { "_id": 1 },
        doc! { "$set": { "_id": 1 } },
        doc! { "_id": 1 },
    )]);
}
