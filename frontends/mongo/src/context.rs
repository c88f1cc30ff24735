//! The language's context of a command: its collation, its clock and its variables.

use bson::{DateTime, Document, Timestamp};
use tessera_mongo_language::collation::Collation;
use tessera_mongo_language::error::Result;
use tessera_mongo_language::expression::{Context, Variables};

/// The context of what is stored, as validators and the filters of partial indexes.
pub(crate) fn constant(collation: &Collation) -> Context {
    Context {
        collation: collation.clone(),
        variables: Variables::default(),
    }
}

/// The context of a command that begins at `now_ms`.
pub(crate) fn of_command(
    now_ms: u64,
    collation: Collation,
    definitions: Option<&Document>,
) -> Result<Context> {
    let now = DateTime::from_millis(i64::try_from(now_ms).unwrap_or(i64::MAX));
    let cluster_time = Timestamp {
        time: u32::try_from(now_ms / 1_000).unwrap_or(u32::MAX),
        increment: 1,
    };
    let mut variables = Variables::system(now, Some(cluster_time), Vec::new());
    if let Some(definitions) = definitions {
        variables = variables.with_let(definitions, &collation)?;
    }
    Ok(Context {
        collation,
        variables,
    })
}
