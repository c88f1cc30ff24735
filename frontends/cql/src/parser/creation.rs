//! CREATE of everything but tables and roles.

use nom::Parser;

use super::access::{create_role, create_user};
use super::lexer::TokenKind;
use super::mistake::{Read, expected, no_choice};
use super::name::{
    data_type, defined_name, function_name, index_name, keyspace_name, name, table_name, type_name,
};
use super::property::properties;
use super::relation::relations;
use super::selector::selection;
use super::table::{create_table, primary_key, table_options};
use super::term::term;
use super::tokens::{
    Rule, Tokens, after_keyword, choose, has_keywords, if_not_exists, keyword, keywords, list,
    list_in_parentheses, string, symbol,
};
use crate::statement::{
    CreateAggregate, CreateFunction, CreateIndex, CreateKeyspace, CreateType, CreateView,
    IndexTarget, IndexTargetKind, Statement,
};

/// What CREATE creates.
const KINDS: &[(&str, Rule<Statement>)] = &[
    ("aggregate", |input| create_aggregate(input, false)),
    ("columnfamily", create_table),
    ("custom", create_custom_index),
    ("function", |input| create_function(input, false)),
    ("index", |input| create_index(input, false)),
    ("keyspace", create_keyspace),
    ("materialized", create_view),
    ("or", create_or_replace),
    ("role", create_role),
    ("schema", create_keyspace),
    ("table", create_table),
    ("trigger", create_trigger),
    ("type", create_type),
    ("user", create_user),
];

pub(super) fn create(input: Tokens<'_>) -> Read<'_, Statement> {
    choose(KINDS)(input)
}

fn create_or_replace(input: Tokens<'_>) -> Read<'_, Statement> {
    let (input, ()) = keyword("replace").parse(input)?;
    if input.is_keyword("function") {
        return create_function(input.skip(1), true);
    }
    if input.is_keyword("aggregate") {
        return create_aggregate(input.skip(1), true);
    }
    no_choice(input)
}

fn create_keyspace(input: Tokens<'_>) -> Read<'_, Statement> {
    let (input, if_not_exists) = if_not_exists(input)?;
    let (input, name) = keyspace_name(input)?;
    let (input, ()) = keyword("with").parse(input)?;
    let (input, properties) = properties(input)?;
    let create = CreateKeyspace {
        name,
        if_not_exists,
        properties,
    };
    Ok((input, Statement::CreateKeyspace(create)))
}

fn create_type(input: Tokens<'_>) -> Read<'_, Statement> {
    let (input, if_not_exists) = if_not_exists(input)?;
    let (input, name) = type_name(input)?;
    let (input, ()) = symbol("(").parse(input)?;
    let field = |input| {
        let (input, name) = defined_name(input)?;
        let (input, data_type) = data_type(input)?;
        Ok((input, (name, data_type)))
    };
    let (mut input, first) = field(input)?;
    let mut fields = vec![first];
    while input.is_symbol(",") {
        input = input.skip(1);
        if !input.is_symbol(",") && !input.is_symbol(")") {
            let (rest, next) = field(input)?;
            fields.push(next);
            input = rest;
        }
    }
    let (input, ()) = symbol(")").parse(input)?;
    Ok((
        input,
        Statement::CreateType(CreateType {
            name,
            if_not_exists,
            fields,
        }),
    ))
}

fn create_custom_index(input: Tokens<'_>) -> Read<'_, Statement> {
    let (input, ()) = keyword("index").parse(input)?;
    create_index(input, true)
}

fn create_index(input: Tokens<'_>, is_custom: bool) -> Read<'_, Statement> {
    let (input, if_not_exists) = if_not_exists(input)?;
    let (input, name) = if input.is_keyword("on") {
        (input, None)
    } else {
        index_name(input).map(|(input, name)| (input, Some(name)))?
    };
    let (input, ()) = keyword("on").parse(input)?;
    let (input, table) = table_name(input)?;
    let (input, targets) = list_in_parentheses(index_target)(input)?;
    let (input, class) = after_keyword(input, "using", string)?;
    let (input, properties) = after_keyword(input, "with", properties)?;
    let create = CreateIndex {
        name,
        is_custom,
        if_not_exists,
        table,
        targets,
        class,
        properties: properties.unwrap_or_default(),
    };
    Ok((input, Statement::CreateIndex(create)))
}

const TARGETS: [(&str, IndexTargetKind); 4] = [
    ("values", IndexTargetKind::Values),
    ("keys", IndexTargetKind::Keys),
    ("entries", IndexTargetKind::Entries),
    ("full", IndexTargetKind::Full),
];

fn index_target(input: Tokens<'_>) -> Read<'_, IndexTarget> {
    let found = TARGETS.iter().find(|(word, _)| input.is_keyword(word));
    match found {
        Some((_, kind)) if input.is_symbol_ahead(1, "(") => {
            let (input, column) = name(input.skip(2))?;
            let (input, ()) = symbol(")").parse(input)?;
            Ok((
                input,
                IndexTarget {
                    column,
                    kind: *kind,
                },
            ))
        }
        _ => {
            let (input, column) = name(input)?;
            Ok((
                input,
                IndexTarget {
                    column,
                    kind: IndexTargetKind::Simple,
                },
            ))
        }
    }
}

fn create_view(input: Tokens<'_>) -> Read<'_, Statement> {
    let (input, ()) = keyword("view").parse(input)?;
    let (input, if_not_exists) = if_not_exists(input)?;
    let (input, name) = table_name(input)?;
    let (input, ()) = keywords(&["as", "select"])(input)?;
    let (input, selection) = selection(input)?;
    let (input, ()) = keyword("from").parse(input)?;
    let (input, table) = table_name(input)?;
    let (input, relations) = after_keyword(input, "where", relations)?;
    let (input, primary_key) = primary_key(input)?;
    let (input, options) = table_options(input)?;
    let create = CreateView {
        name,
        if_not_exists,
        selection,
        table,
        relations: relations.unwrap_or_default(),
        primary_key,
        clustering_order: options.clustering_order,
        is_compact: options.is_compact,
        properties: options.properties,
    };
    Ok((input, Statement::CreateView(create)))
}

fn create_function(input: Tokens<'_>, or_replace: bool) -> Read<'_, Statement> {
    let (input, if_not_exists) = if_not_exists(input)?;
    let (input, function) = function_name(input)?;
    let argument = |input| {
        let (input, name) = name(input)?;
        let (input, data_type) = data_type(input)?;
        Ok((input, (name, data_type)))
    };
    let (input, arguments) = list_in_parentheses(argument)(input)?;
    let (input, is_called_on_null) = has_keywords(input, &["called"])?;
    let (input, ()) = if is_called_on_null {
        (input, ())
    } else {
        keywords(&["returns", "null"])(input)?
    };
    let (input, ()) = keywords(&["on", "null", "input", "returns"])(input)?;
    let (input, returns) = data_type(input)?;
    let (input, ()) = keyword("language").parse(input)?;
    if !input.is_kind(TokenKind::Word) {
        return expected(input, "IDENT");
    }
    let (input, language) = name(input)?;
    let (input, ()) = keyword("as").parse(input)?;
    let (input, body) = string(input)?;
    let create = CreateFunction {
        name: function,
        or_replace,
        if_not_exists,
        arguments,
        is_called_on_null,
        returns,
        language,
        body,
    };
    Ok((input, Statement::CreateFunction(create)))
}

fn create_aggregate(input: Tokens<'_>, or_replace: bool) -> Read<'_, Statement> {
    let (input, if_not_exists) = if_not_exists(input)?;
    let (input, function) = function_name(input)?;
    let (input, arguments) = list_in_parentheses(data_type)(input)?;
    let (input, ()) = keyword("sfunc").parse(input)?;
    let (input, state_function) = name(input)?;
    let (input, ()) = keyword("stype").parse(input)?;
    let (input, state_type) = data_type(input)?;
    let (input, final_function) = after_keyword(input, "finalfunc", name)?;
    let (input, initial) = after_keyword(input, "initcond", term)?;
    let create = CreateAggregate {
        name: function,
        or_replace,
        if_not_exists,
        arguments,
        state_function,
        state_type,
        final_function,
        initial,
    };
    Ok((input, Statement::CreateAggregate(create)))
}

fn create_trigger(input: Tokens<'_>) -> Read<'_, Statement> {
    let (input, if_not_exists) = if_not_exists(input)?;
    let (input, name) = name(input)?;
    let (input, ()) = keyword("on").parse(input)?;
    let (input, table) = table_name(input)?;
    let (input, ()) = keyword("using").parse(input)?;
    let (input, class) = string(input)?;
    Ok((
        input,
        Statement::CreateTrigger {
            name,
            table,
            class,
            if_not_exists,
        },
    ))
}

/// Pairs of names with TO between them, joined by AND.
pub(super) fn renames(input: Tokens<'_>) -> Read<'_, Vec<(String, String)>> {
    super::tokens::conjunction(|input| {
        let (input, from) = name(input)?;
        let (input, ()) = keyword("to").parse(input)?;
        let (input, to) = defined_name(input)?;
        Ok((input, (from, to)))
    })(input)
}

/// One, or several in parentheses.
pub(super) fn one_or_list<'t, T>(
    input: Tokens<'t>,
    rule: impl Fn(Tokens<'t>) -> Read<'t, T>,
) -> Read<'t, Vec<T>> {
    if !input.is_symbol("(") {
        let (input, one) = rule(input)?;
        return Ok((input, vec![one]));
    }
    let (input, items) = list(rule)(input.skip(1))?;
    let (input, ()) = symbol(")").parse(input)?;
    Ok((input, items))
}
