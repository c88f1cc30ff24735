//! Replacements and upserts, and what an update says of itself.

use bson::{Bson, DateTime, Document, Timestamp, bson, doc};

use super::{
    Manner, fields,
    tests::{assert_document, context, parse},
};
use crate::{
    compare::{identical_documents, tests::regex},
    error::{Code, Result},
    filter::Filter,
};

#[test]
fn replacements_keep_the_id() {
    let old = doc! { "_id": 1, "a": 1 };
    for (update, after) in [
        (doc! { "b": 2 }, doc! { "_id": 1, "b": 2 }),
        (doc! {}, doc! { "_id": 1 }),
        (doc! { "b": 2, "_id": 1 }, doc! { "_id": 1, "b": 2 }),
        (doc! { "a": 1 }, doc! { "_id": 1, "a": 1 }),
        (
            doc! { "a": { "$b": 1 } },
            doc! { "_id": 1, "a": { "$b": 1 } },
        ),
    ] {
        let update = parse(Bson::Document(update), &[]).unwrap();
        assert!(update.is_replacement());
        let applied = update.apply(old.clone(), None, false).unwrap();
        assert_document(&applied, &after, &format!("{update:?}"));
        assert_eq!(applied.modified, !identical_documents(&old, &after));
    }
}

#[test]
fn replacements_that_cannot_be_stored_are_refused() {
    for (update, code) in [
        (doc! { "_id": 2 }, 66),
        (doc! { "a": 1, "$set": { "b": 1 } }, 52),
        (doc! { "a": 1, "$ref": 1 }, 55),
        (doc! { "_id": { "$a": 1 } }, 52),
        (doc! { "_id": [1] }, 53),
    ] {
        let update = parse(Bson::Document(update), &[]).unwrap();
        let error = update.apply(doc! { "_id": 1 }, None, false).unwrap_err();
        assert_eq!(error.code, Code(code), "{update:?}");
    }
    let filter = doc! { "x": 1 };
    let error = parse(bson!({ "a": 1 }), &[filter]).unwrap_err();
    assert_eq!(error.code, Code::FAILED_TO_PARSE);
}

#[test]
fn empty_timestamps_of_replacements_become_the_current_one() {
    let empty = Bson::Timestamp(Timestamp {
        time: 0,
        increment: 0,
    });
    let update = bson!({ "a": empty.clone(), "b": [empty.clone()] });
    let update = parse(update, &[]).unwrap();
    let document = update.apply(doc! {}, None, true).unwrap().document;
    let current = Bson::Timestamp(fields::current_timestamp(&context()));
    assert_eq!(document, doc! { "a": current, "b": [empty] });
}

#[test]
fn operators_tell_at_which_paths_something_changed() {
    for (update, paths) in [
        (
            bson!({ "$set": { "a.b": 1, "c": 3, "d.e": 4 } }),
            vec!["c", "d.e"],
        ),
        (bson!({ "$rename": { "a": "x" } }), vec!["a", "x"]),
        (
            bson!({ "$push": { "l": { "$each": [2, 3] } } }),
            vec!["l.1", "l.2"],
        ),
    ] {
        let before = doc! { "a": { "b": 1 }, "c": 2, "l": [1] };
        let applied = parse(update, &[])
            .and_then(|update| update.apply(before, None, false))
            .unwrap();
        let paths = paths.into_iter().map(str::to_owned).collect();
        assert_eq!(applied.manner, Manner::Paths(paths));
    }
}

#[test]
fn pipelines_make_a_new_document() {
    let old = doc! { "_id": 1, "a": 1, "b": 2 };
    for (stages, after) in [
        (bson!([]), old.clone()),
        (
            bson!([{ "$set": { "c": { "$add": ["$a", "$b"] } } }]),
            doc! { "_id": 1, "a": 1, "b": 2, "c": 3 },
        ),
        (bson!([{ "$unset": ["a", "b"] }]), doc! { "_id": 1 }),
        (
            bson!([{ "$project": { "a": 1 } }]),
            doc! { "_id": 1, "a": 1 },
        ),
        (
            bson!([{ "$replaceWith": { "x": "$a" } }]),
            doc! { "_id": 1, "x": 1 },
        ),
        (bson!([{ "$set": { "a": 1 } }]), old.clone()),
    ] {
        let update = parse(stages, &[]).unwrap();
        assert!(update.is_pipeline());
        let applied = update.apply(old.clone(), None, false).unwrap();
        assert_document(&applied, &after, &format!("{update:?}"));
        assert_eq!(applied.modified, !identical_documents(&old, &after));
    }
    let other_id = parse(bson!([{ "$set": { "_id": 2 } }]), &[]).unwrap();
    let error = other_id.apply(old, None, false).unwrap_err();
    assert_eq!(error.code, Code::IMMUTABLE_FIELD);
}

#[test]
fn wrong_pipelines_are_refused() {
    let lookup = doc! { "from": "x", "localField": "a", "foreignField": "b", "as": "c" };
    for (stages, filters, code) in [
        (bson!([{ "$lookup": lookup }]), vec![], 72),
        (bson!([{ "$match": {} }]), vec![], 72),
        (bson!([{ "$bad": {} }]), vec![], 40324),
        (bson!([]), vec![doc! { "x": 1 }], 9),
    ] {
        let error = parse(stages, &filters).unwrap_err();
        assert_eq!(error.code, Code(code), "{error}");
    }
}

fn upsert(filter: &Document, update: Bson) -> Result<Document> {
    let update = parse(update, &[])?;
    let seed = update.upsert_seed(&Filter::parse(filter, &context())?)?;
    Ok(update.apply(seed, None, true)?.document)
}

#[test]
fn upserts_begin_with_what_the_query_demands() {
    for (filter, expected) in [
        (
            doc! { "b": 1, "_id": 7, "a": { "$eq": 2 } },
            doc! { "_id": 7, "a": 2, "b": 1, "z": 1 },
        ),
        (doc! { "a.b": 5 }, doc! { "a": { "b": 5 }, "z": 1 }),
        (doc! { "a": { "$gt": 5 } }, doc! { "z": 1 }),
        (doc! { "a": { "$in": [5] } }, doc! { "a": 5, "z": 1 }),
        (doc! { "a": { "$in": [5, 6] } }, doc! { "z": 1 }),
        (doc! { "a": regex("x", "") }, doc! { "z": 1 }),
        (
            doc! { "$and": [{ "a": 1 }, { "b": 2 }] },
            doc! { "a": 1, "b": 2, "z": 1 },
        ),
        (doc! { "$or": [{ "a": 1 }] }, doc! { "a": 1, "z": 1 }),
        (doc! { "$or": [{ "a": 1 }, { "b": 2 }] }, doc! { "z": 1 }),
    ] {
        let document = upsert(&filter, bson!({ "$set": { "z": 1 } })).unwrap();
        let same = identical_documents(&document, &expected);
        assert!(same, "{filter}: {document}");
    }
    let replaced = upsert(&doc! { "_id": 1, "a": 2 }, bson!({ "x": 3 })).unwrap();
    assert_eq!(replaced, doc! { "_id": 1, "x": 3 });
    let own_id = bson!({ "$setOnInsert": { "b": 2, "_id": 3 } });
    let inserted = upsert(&doc! { "a": 1 }, own_id).unwrap();
    let expected = doc! { "_id": 3, "a": 1, "b": 2 };
    assert!(identical_documents(&inserted, &expected), "{inserted}");
}

#[test]
fn upserts_that_contradict_the_query_are_refused() {
    let twice = doc! { "$and": [{ "a": 1 }, { "a": 2 }] };
    let set = |value: Bson| bson!({ "$setOnInsert": value });
    for (filter, update, code) in [
        (doc! { "_id": 1 }, set(bson!({ "_id": 2 })), 66),
        (doc! { "_id.a": 1 }, set(bson!({ "_id.b": 2 })), 66),
        (doc! { "_id.a": 1 }, set(bson!({ "_id": "x" })), 66),
        (twice, set(bson!({ "x": 1 })), 54),
        (doc! { "a": 1, "a.b": 2 }, set(bson!({ "x": 1 })), 54),
        (doc! { "_id.a": 1 }, bson!({ "x": 1 }), 111),
        (doc! {}, set(bson!({ "_id": [1] })), 53),
        (doc! {}, bson!({ "_id": regex("x", "") }), 53),
    ] {
        let error = upsert(&filter, update).unwrap_err();
        assert_eq!(error.code, Code(code), "{filter}: {error}");
    }
}

#[test]
fn fields_for_inserts_leave_other_documents_alone() {
    let update = bson!({ "$setOnInsert": { "a": 1, "b.c": 1 } });
    let before = doc! { "_id": 1, "b": DateTime::from_millis(1) };
    let applied = parse(update, &[])
        .and_then(|update| update.apply(before.clone(), None, false))
        .unwrap();
    assert!(!applied.modified);
    assert_eq!(applied.document, before);
}
