//! DROP of everything.

use nom::Parser;

use super::access::{drop_identity, drop_role, drop_user};
use super::mistake::Read;
use super::name::{
    data_type, function_name, keyspace_name, name, qualified_index_name, table_name, type_name,
};
use super::tokens::{Rule, Tokens, choose, if_exists, keyword, list_in_parentheses};
use crate::statement::{Drop, DropKind, FunctionSignature, Statement};

/// What DROP drops.
const KINDS: &[(&str, Rule<Statement>)] = &[
    ("aggregate", |input| with_existence(input, aggregate)),
    ("columnfamily", |input| with_existence(input, table)),
    ("function", |input| with_existence(input, function)),
    ("identity", drop_identity),
    ("index", |input| with_existence(input, index)),
    ("keyspace", |input| with_existence(input, keyspace)),
    ("materialized", view),
    ("role", drop_role),
    ("schema", |input| with_existence(input, keyspace)),
    ("table", |input| with_existence(input, table)),
    ("trigger", |input| with_existence(input, trigger)),
    ("type", |input| with_existence(input, user_type)),
    ("user", drop_user),
];

pub(super) fn drop(input: Tokens<'_>) -> Read<'_, Statement> {
    choose(KINDS)(input)
}

fn with_existence(input: Tokens<'_>, rule: Rule<DropKind>) -> Read<'_, Statement> {
    let (input, if_exists) = if_exists(input)?;
    let (input, kind) = rule(input)?;
    Ok((input, Statement::Drop(Drop { if_exists, kind })))
}

fn keyspace(input: Tokens<'_>) -> Read<'_, DropKind> {
    keyspace_name(input).map(|(input, name)| (input, DropKind::Keyspace(name)))
}

fn table(input: Tokens<'_>) -> Read<'_, DropKind> {
    table_name(input).map(|(input, name)| (input, DropKind::Table(name)))
}

fn user_type(input: Tokens<'_>) -> Read<'_, DropKind> {
    type_name(input).map(|(input, name)| (input, DropKind::Type(name)))
}

fn index(input: Tokens<'_>) -> Read<'_, DropKind> {
    qualified_index_name(input).map(|(input, name)| (input, DropKind::Index(name)))
}

fn view(input: Tokens<'_>) -> Read<'_, Statement> {
    let (input, ()) = keyword("view").parse(input)?;
    with_existence(input, |input| {
        table_name(input).map(|(input, name)| (input, DropKind::View(name)))
    })
}

fn trigger(input: Tokens<'_>) -> Read<'_, DropKind> {
    let (input, trigger) = name(input)?;
    let (input, ()) = keyword("on").parse(input)?;
    let (input, table) = table_name(input)?;
    Ok((input, DropKind::Trigger(trigger, table)))
}

fn function(input: Tokens<'_>) -> Read<'_, DropKind> {
    signature(input).map(|(input, signature)| (input, DropKind::Function(signature)))
}

fn aggregate(input: Tokens<'_>) -> Read<'_, DropKind> {
    signature(input).map(|(input, signature)| (input, DropKind::Aggregate(signature)))
}

/// A function, perhaps with the types of its arguments.
pub(super) fn signature(input: Tokens<'_>) -> Read<'_, FunctionSignature> {
    let (input, name) = function_name(input)?;
    if !input.is_symbol("(") {
        return Ok((
            input,
            FunctionSignature {
                name,
                arguments: None,
            },
        ));
    }
    let (input, arguments) = list_in_parentheses(data_type)(input)?;
    Ok((
        input,
        FunctionSignature {
            name,
            arguments: Some(arguments),
        },
    ))
}
