//! ALTER of everything.

use nom::Parser;

use super::access::{alter_role, alter_user};
use super::creation::{one_or_list, renames};
use super::mistake::{Read, no_choice};
use super::name::{data_type, defined_name, integer, keyspace_name, name, table_name, type_name};
use super::property::properties;
use super::table::{column, mask};
use super::tokens::{
    Rule, Tokens, after_keyword, choose, if_exists, if_not_exists, keyword, keywords,
};
use crate::statement::{AlterTable, AlterTableAction, AlterType, AlterTypeAction, Statement};

/// What ALTER alters.
const KINDS: &[(&str, Rule<Statement>)] = &[
    ("columnfamily", alter_table),
    ("keyspace", alter_keyspace),
    ("materialized", alter_view),
    ("role", alter_role),
    ("schema", alter_keyspace),
    ("table", alter_table),
    ("type", alter_type),
    ("user", alter_user),
];

pub(super) fn alter(input: Tokens<'_>) -> Read<'_, Statement> {
    choose(KINDS)(input)
}

fn alter_keyspace(input: Tokens<'_>) -> Read<'_, Statement> {
    let (input, if_exists) = if_exists(input)?;
    let (input, name) = keyspace_name(input)?;
    let (input, ()) = keyword("with").parse(input)?;
    let (input, properties) = properties(input)?;
    Ok((
        input,
        Statement::AlterKeyspace {
            name,
            if_exists,
            properties,
        },
    ))
}

fn alter_view(input: Tokens<'_>) -> Read<'_, Statement> {
    let (input, ()) = keyword("view").parse(input)?;
    let (input, if_exists) = if_exists(input)?;
    let (input, name) = table_name(input)?;
    let (input, ()) = keyword("with").parse(input)?;
    let (input, properties) = properties(input)?;
    Ok((
        input,
        Statement::AlterView {
            name,
            if_exists,
            properties,
        },
    ))
}

fn alter_table(input: Tokens<'_>) -> Read<'_, Statement> {
    const ACTIONS: &[(&str, Rule<AlterTableAction>)] = &[
        ("add", add_columns),
        ("alter", alter_column),
        ("drop", drop_columns),
        ("rename", rename_columns),
        ("with", set_properties),
    ];
    let (input, if_exists) = if_exists(input)?;
    let (input, name) = table_name(input)?;
    let (input, action) = choose(ACTIONS)(input)?;
    Ok((
        input,
        Statement::AlterTable(AlterTable {
            name,
            if_exists,
            action,
        }),
    ))
}

fn add_columns(input: Tokens<'_>) -> Read<'_, AlterTableAction> {
    let (input, if_not_exists) = if_not_exists(input)?;
    let (input, columns) = one_or_list(input, column)?;
    Ok((
        input,
        AlterTableAction::Add {
            if_not_exists,
            columns,
        },
    ))
}

fn alter_column(input: Tokens<'_>) -> Read<'_, AlterTableAction> {
    let (input, if_exists) = if_exists(input)?;
    let (input, column) = name(input)?;
    if input.is_keyword("type") {
        let (input, data_type) = data_type(input.skip(1))?;
        return Ok((input, AlterTableAction::AlterType { column, data_type }));
    }
    if input.is_keyword("drop") {
        let (input, ()) = keywords(&["drop", "masked"])(input)?;
        return Ok((
            input,
            AlterTableAction::AlterMask {
                if_exists,
                column,
                mask: None,
            },
        ));
    }
    if !input.is_keyword("masked") {
        return no_choice(input);
    }
    let (input, mask) = mask(input)?;
    Ok((
        input,
        AlterTableAction::AlterMask {
            if_exists,
            column,
            mask: Some(mask),
        },
    ))
}

fn drop_columns(input: Tokens<'_>) -> Read<'_, AlterTableAction> {
    if input.is_keyword("compact") && input.is_keyword_ahead(1, "storage") {
        return Ok((input.skip(2), AlterTableAction::DropCompactStorage));
    }
    let (input, if_exists) = if_exists(input)?;
    let (input, columns) = one_or_list(input, name)?;
    let (input, timestamp) = after_keyword(input, "using", |input| {
        let (input, ()) = keyword("timestamp").parse(input)?;
        integer(input)
    })?;
    Ok((
        input,
        AlterTableAction::Drop {
            if_exists,
            columns,
            timestamp,
        },
    ))
}

fn rename_columns(input: Tokens<'_>) -> Read<'_, AlterTableAction> {
    let (input, if_exists) = if_exists(input)?;
    let (input, pairs) = renames(input)?;
    Ok((input, AlterTableAction::Rename { if_exists, pairs }))
}

fn set_properties(input: Tokens<'_>) -> Read<'_, AlterTableAction> {
    let (input, properties) = properties(input)?;
    Ok((input, AlterTableAction::With(properties)))
}

fn alter_type(input: Tokens<'_>) -> Read<'_, Statement> {
    const ACTIONS: &[(&str, Rule<AlterTypeAction>)] = &[
        ("add", add_field),
        ("alter", alter_field),
        ("rename", rename_fields),
    ];
    let (input, if_exists) = if_exists(input)?;
    let (input, name) = type_name(input)?;
    let (input, action) = choose(ACTIONS)(input)?;
    Ok((
        input,
        Statement::AlterType(AlterType {
            name,
            if_exists,
            action,
        }),
    ))
}

fn add_field(input: Tokens<'_>) -> Read<'_, AlterTypeAction> {
    let (input, if_not_exists) = if_not_exists(input)?;
    let (input, field) = defined_name(input)?;
    let (input, data_type) = data_type(input)?;
    Ok((
        input,
        AlterTypeAction::Add {
            if_not_exists,
            field,
            data_type,
        },
    ))
}

fn alter_field(input: Tokens<'_>) -> Read<'_, AlterTypeAction> {
    let (input, field) = name(input)?;
    let (input, ()) = keyword("type").parse(input)?;
    let (input, data_type) = data_type(input)?;
    Ok((input, AlterTypeAction::Alter { field, data_type }))
}

fn rename_fields(input: Tokens<'_>) -> Read<'_, AlterTypeAction> {
    let (input, if_exists) = if_exists(input)?;
    let (input, pairs) = renames(input)?;
    Ok((input, AlterTypeAction::Rename { if_exists, pairs }))
}
