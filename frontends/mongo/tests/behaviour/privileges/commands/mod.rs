//! What each command needs, from MongoDB's documentation: written down here apart from what the
//! front end declares, so that the two can be held against each other.
//!
//! Needs are `ACTION RESOURCE`, all of those between commas, one of those between `or`. Resources
//! are `cluster`, `any` for all databases, `db` for the one at hand, and collections as
//! `DATABASE.COLLECTION`. `anyone` needs no login, `user` needs nothing else.

mod collections;
mod data;
mod server;
mod users;

use bson::{Bson, Document, doc};

/// Where a command is sent to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum To {
    /// The database at hand.
    Database,
    /// `admin`; the database at hand is in its fields, if anywhere.
    Admin,
}

/// One command, or one case of it.
pub(super) struct Row {
    pub(super) name: &'static str,
    /// What is special about it.
    pub(super) case: &'static str,
    pub(super) to: To,
    pub(super) needs: &'static str,
    /// An example for a database.
    pub(super) example: fn(&str) -> Document,
}

type Example = fn(&str) -> Document;

const fn at(name: &'static str, case: &'static str, needs: &'static str, example: Example) -> Row {
    Row {
        name,
        case,
        to: To::Database,
        needs,
        example,
    }
}

const fn admin(
    name: &'static str,
    case: &'static str,
    needs: &'static str,
    example: Example,
) -> Row {
    Row {
        to: To::Admin,
        ..at(name, case, needs, example)
    }
}

fn ns(database: &str, name: &str) -> String {
    format!("{database}.{name}")
}

fn stages(stages: Vec<Document>) -> Document {
    doc! { "aggregate": "c", "pipeline": stages, "cursor": {} }
}

fn of_server(stage: Document) -> Document {
    doc! { "aggregate": 1, "pipeline": [stage], "cursor": {} }
}

fn on(database: &str, name: &str) -> Bson {
    let resource = doc! { "db": database, "collection": name };
    Bson::from(doc! { "resource": resource, "actions": ["find"] })
}

fn bulk(database: &str, operation: Document) -> Document {
    doc! { "bulkWrite": 1, "ops": [operation], "nsInfo": [{ "ns": ns(database, "c") }] }
}

/// All rows.
pub(super) fn rows() -> impl Iterator<Item = &'static Row> {
    let families = [data::ROWS, collections::ROWS, users::ROWS, server::ROWS];
    families.into_iter().flatten()
}
