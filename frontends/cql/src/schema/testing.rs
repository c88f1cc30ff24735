//! Definitions from statements, for tests.

use super::{Table, Types, View, create_table, create_type, create_view};
use crate::error::Result;
use crate::parser::parse;
use crate::statement::{Properties, Statement};

/// What WITH of a keyspace would say.
pub(super) fn properties(text: &str) -> Properties {
    match parse(&format!("ALTER KEYSPACE k WITH {text}"))
        .unwrap()
        .statement
    {
        Statement::AlterKeyspace { properties, .. } => properties,
        other => panic!("{other:?}"),
    }
}

/// The user types of a keyspace in which one is defined, and those that these statements define.
pub(super) fn types(statements: &[&str]) -> Result<Types> {
    let mut types = Types::new();
    for text in ["CREATE TYPE u (a int, \"B\" text)"]
        .iter()
        .chain(statements)
    {
        let Statement::CreateType(create) = parse(text)?.statement else {
            panic!("{text}")
        };
        let made = create_type(&create, "ks", &types)?;
        types.insert(made.name.clone(), made);
    }
    Ok(types)
}

pub(super) fn keyspace_types() -> Types {
    types(&[]).unwrap()
}

pub(super) fn table(text: &str) -> Result<Table> {
    let Statement::CreateTable(create) = parse(text)?.statement else {
        panic!("{text}")
    };
    create_table(&create, "ks", &keyspace_types(), [7; 16])
}

/// A table with a column of each native type, named `c_` and its type.
pub(crate) fn table_of_all_types() -> Table {
    let natives = crate::types::Native::ALL.iter();
    let natives = natives.filter(|native| native.name() != "counter");
    let columns: Vec<String> = natives
        .map(|native| format!("c_{name} {name}", name = native.name()))
        .collect();
    table(&format!(
        "CREATE TABLE t (k int PRIMARY KEY, {})",
        columns.join(", ")
    ))
    .unwrap()
}

/// A view of a table with columns a to e, of which a and b are the key.
pub(super) fn view(text: &str) -> Result<View> {
    let base = table("CREATE TABLE t (a int, b int, c int, d int, e int, PRIMARY KEY (a, b))")?;
    let Statement::CreateView(create) = parse(text)?.statement else {
        panic!("{text}")
    };
    create_view(&create, &base, [8; 16])
}
