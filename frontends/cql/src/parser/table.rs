//! CREATE TABLE and what views share with it, and TRUNCATE.

use nom::Parser;

use super::mistake::{Read, no_choice};
use super::name::{data_type, defined_name, function_name, name, table_name};
use super::property::{property, refuse_repeated};
use super::term::term;
use super::tokens::{
    Tokens, after_keyword, conjunction, has_keywords, if_not_exists, keyword, keywords, list,
    list_in_parentheses, symbol,
};
use crate::statement::{
    ColumnDefinition, CreateTable, Direction, Mask, PrimaryKey, Properties, PropertyValue,
    QualifiedName, Statement,
};

/// `TRUNCATE [TABLE] name`.
pub(super) fn truncate(input: Tokens<'_>) -> Read<'_, Statement> {
    let is_table = input.is_keyword("table") || input.is_keyword("columnfamily");
    let (input, table) = table_name(input.skip(usize::from(is_table)))?;
    Ok((input, Statement::Truncate(table)))
}

pub(super) fn create_table(input: Tokens<'_>) -> Read<'_, Statement> {
    let (input, if_not_exists) = if_not_exists(input)?;
    let (input, name) = table_name(input)?;
    let (mut input, ()) = symbol("(").parse(input)?;
    let (mut columns, mut primary_keys) = (Vec::new(), Vec::new());
    input = member(input, &mut columns, &mut primary_keys)?.0;
    while input.is_symbol(",") {
        input = input.skip(1);
        // A comma may follow the last one.
        if !input.is_symbol(",") && !input.is_symbol(")") {
            input = member(input, &mut columns, &mut primary_keys)?.0;
        }
    }
    let (input, ()) = symbol(")").parse(input)?;
    let (input, options) = table_options(input)?;
    let create = CreateTable {
        name,
        if_not_exists,
        columns,
        primary_keys,
        clustering_order: options.clustering_order,
        is_compact: options.is_compact,
        properties: options.properties,
    };
    Ok((input, Statement::CreateTable(create)))
}

/// A column, or PRIMARY KEY.
fn member<'t>(
    input: Tokens<'t>,
    columns: &mut Vec<ColumnDefinition>,
    primary_keys: &mut Vec<PrimaryKey>,
) -> Read<'t, ()> {
    if input.is_keyword("primary") {
        let (input, key) = primary_key(input)?;
        primary_keys.push(key);
        return Ok((input, ()));
    }
    let (input, column) = column(input)?;
    let (input, is_key) = has_keywords(input, &["primary", "key"])?;
    if is_key {
        let partition = vec![column.name.clone()];
        primary_keys.push(PrimaryKey {
            partition,
            clustering: Vec::new(),
        });
    }
    columns.push(column);
    Ok((input, ()))
}

/// `name type [STATIC] [MASKED WITH …]`.
pub(super) fn column(input: Tokens<'_>) -> Read<'_, ColumnDefinition> {
    let (input, name) = defined_name(input)?;
    let (input, data_type) = data_type(input)?;
    let (input, is_static) = has_keywords(input, &["static"])?;
    let (input, mask) = if input.is_keyword("masked") {
        mask(input).map(|(input, mask)| (input, Some(mask)))?
    } else {
        (input, None)
    };
    Ok((
        input,
        ColumnDefinition {
            name,
            data_type,
            is_static,
            mask,
        },
    ))
}

pub(super) fn mask(input: Tokens<'_>) -> Read<'_, Mask> {
    let (input, ()) = keywords(&["masked", "with"])(input)?;
    if input.is_keyword("default") {
        let function = QualifiedName {
            keyspace: None,
            name: "mask_default".to_owned(),
        };
        return Ok((
            input.skip(1),
            Mask {
                function,
                arguments: Vec::new(),
            },
        ));
    }
    let (input, function) = function_name(input)?;
    let (input, arguments) = list_in_parentheses(term)(input)?;
    Ok((
        input,
        Mask {
            function,
            arguments,
        },
    ))
}

/// `PRIMARY KEY (partition, clustering …)`.
pub(super) fn primary_key(input: Tokens<'_>) -> Read<'_, PrimaryKey> {
    let (input, ()) = keywords(&["primary", "key"])(input)?;
    let (input, ()) = symbol("(").parse(input)?;
    let (mut input, partition) = if input.is_symbol("(") {
        let (input, columns) = list(name)(input.skip(1))?;
        let (input, ()) = symbol(")").parse(input)?;
        (input, columns)
    } else {
        name(input).map(|(input, column)| (input, vec![column]))?
    };
    let mut clustering = Vec::new();
    if input.is_symbol(",") {
        (input, clustering) = list(name)(input.skip(1))?;
    }
    let (input, ()) = symbol(")").parse(input)?;
    Ok((
        input,
        PrimaryKey {
            partition,
            clustering,
        },
    ))
}

/// What WITH says of a table or a view.
#[derive(Default)]
pub(super) struct TableOptions {
    pub(super) properties: Properties,
    pub(super) clustering_order: Vec<(String, Direction)>,
    pub(super) is_compact: bool,
}

enum TableOption {
    Property((String, PropertyValue)),
    Order(Vec<(String, Direction)>),
    Compact,
}

pub(super) fn table_options(input: Tokens<'_>) -> Read<'_, TableOptions> {
    let (rest, found) = after_keyword(input, "with", conjunction(table_option))?;
    let mut options = TableOptions::default();
    for option in found.unwrap_or_default() {
        match option {
            TableOption::Property(property) => options.properties.push(property),
            TableOption::Order(order) => options.clustering_order.extend(order),
            TableOption::Compact => options.is_compact = true,
        }
    }
    refuse_repeated(input, &options.properties)?;
    Ok((rest, options))
}

fn table_option(input: Tokens<'_>) -> Read<'_, TableOption> {
    if input.is_keyword("compact") && input.is_keyword_ahead(1, "storage") {
        return Ok((input.skip(2), TableOption::Compact));
    }
    if input.is_keyword("clustering") && input.is_keyword_ahead(1, "order") {
        let (input, ()) = keywords(&["clustering", "order", "by"])(input)?;
        let (input, ()) = symbol("(").parse(input)?;
        let (input, order) = list(column_order)(input)?;
        let (input, ()) = symbol(")").parse(input)?;
        return Ok((input, TableOption::Order(order)));
    }
    property(input).map(|(input, property)| (input, TableOption::Property(property)))
}

fn column_order(input: Tokens<'_>) -> Read<'_, (String, Direction)> {
    let (input, column) = name(input)?;
    if input.is_keyword("desc") {
        return Ok((input.skip(1), (column, Direction::Descending)));
    }
    if !input.is_keyword("asc") {
        return no_choice(input);
    }
    let (input, ()) = keyword("asc").parse(input)?;
    Ok((input, (column, Direction::Ascending)))
}
