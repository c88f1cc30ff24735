//! INSERT, UPDATE, DELETE and BATCH.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use nom::Parser;

use super::lexer::TokenKind;
use super::mistake::{Read, expected, no_choice, refuse};
use super::name::{is_function_call, is_name, name, table_name};
use super::relation::{comparator, contains, in_values, relations};
use super::term::{constant, integer_or_marker, marker, term};
use super::tokens::{
    Rule, Tokens, after_keyword, choose, conjunction, has_keywords, if_not_exists, keyword,
    keywords, list, string, symbol,
};
use crate::statement::{
    Assignment, Batch, BatchType, Condition, Constant, ConstantKind, Delete, Deletion, If, Insert,
    InsertJson, Operation, Place, QualifiedName, Statement, Term, Update, Using,
};

pub(super) fn insert(input: Tokens<'_>) -> Read<'_, Statement> {
    let (input, ()) = keyword("into").parse(input)?;
    let (input, table) = table_name(input)?;
    if input.is_keyword("json") {
        return insert_json(input.skip(1), table);
    }
    if !input.is_symbol("(") {
        return no_choice(input);
    }
    let (input, columns) = list(name)(input.skip(1))?;
    let (input, ()) = symbol(")").parse(input)?;
    let (input, ()) = keyword("values").parse(input)?;
    let (input, ()) = symbol("(").parse(input)?;
    let (input, values) = list(term)(input)?;
    let (input, ()) = symbol(")").parse(input)?;
    let (input, if_not_exists) = if_not_exists(input)?;
    let (input, using) = using(input)?;
    Ok((
        input,
        Statement::Insert(Insert {
            table,
            columns,
            values,
            if_not_exists,
            using,
        }),
    ))
}

fn insert_json(input: Tokens<'_>, table: QualifiedName) -> Read<'_, Statement> {
    let (input, json) = match marker(input) {
        Some(read) => {
            let (input, marker) = read?;
            (input, Term::Marker(marker))
        }
        None if input.is_kind(TokenKind::String) => {
            let (input, text) = string(input)?;
            (
                input,
                Term::Constant(Constant {
                    kind: ConstantKind::String,
                    text,
                }),
            )
        }
        None => return no_choice(input),
    };
    let (input, default_unset) = after_keyword(input, "default", |input| {
        let (rest, is_unset) = has_keywords(input, &["unset"])?;
        if is_unset {
            Ok((rest, true))
        } else {
            Ok((keyword("null").parse(input)?.0, false))
        }
    })?;
    let default_unset = default_unset.unwrap_or(false);
    let (input, if_not_exists) = if_not_exists(input)?;
    let (input, using) = using(input)?;
    let insert = InsertJson {
        table,
        json,
        default_unset,
        if_not_exists,
        using,
    };
    Ok((input, Statement::InsertJson(insert)))
}

/// `USING TTL … AND TIMESTAMP …`, if it is there. The last of a kind counts.
fn using(input: Tokens<'_>) -> Read<'_, Using> {
    let (input, objectives) = after_keyword(input, "using", conjunction(using_objective))?;
    let mut using = Using::default();
    for (is_timestamp, value) in objectives.unwrap_or_default() {
        if is_timestamp {
            using.timestamp = Some(value);
        } else {
            using.time_to_live = Some(value);
        }
    }
    Ok((input, using))
}

/// A value, and whether it is the timestamp.
fn using_objective(input: Tokens<'_>) -> Read<'_, (bool, Term)> {
    let is_timestamp = input.is_keyword("timestamp");
    if !is_timestamp && !input.is_keyword("ttl") {
        return no_choice(input);
    }
    let (input, value) = integer_or_marker(input.skip(1))?;
    Ok((input, (is_timestamp, value)))
}

pub(super) fn update(input: Tokens<'_>) -> Read<'_, Statement> {
    let (input, table) = table_name(input)?;
    let (input, using) = using(input)?;
    let (input, ()) = keyword("set").parse(input)?;
    let (input, assignments) = list(assignment)(input)?;
    refuse_conflicts(input, &assignments)?;
    let (input, ()) = keyword("where").parse(input)?;
    let (input, relations) = relations(input)?;
    let (input, condition) = condition(input)?;
    Ok((
        input,
        Statement::Update(Update {
            table,
            using,
            assignments,
            relations,
            condition,
        }),
    ))
}

/// The field that an operation sets, if it sets one.
fn field(operation: &Operation) -> Option<&str> {
    match operation {
        Operation::SetField(field, _) => Some(field),
        _ => None,
    }
}

/// A column may change in parts, and as a whole once.
fn refuse_conflicts<'t>(input: Tokens<'t>, assignments: &[Assignment]) -> Read<'t, ()> {
    let is_whole = |operation: &Operation| matches!(operation, Operation::Set(..));
    // Of each column: whether it is set as a whole, and the fields that are set.
    let mut seen: HashMap<&str, (bool, HashSet<&str>)> = HashMap::new();
    for assignment in assignments {
        let is_whole = is_whole(&assignment.operation);
        let conflict = match seen.entry(&assignment.column) {
            Entry::Vacant(entry) => {
                let (_, fields) = entry.insert((is_whole, HashSet::new()));
                fields.extend(field(&assignment.operation));
                false
            }
            Entry::Occupied(entry) => {
                let (was_whole, fields) = entry.into_mut();
                let is_again = field(&assignment.operation).is_some_and(|it| !fields.insert(it));
                is_whole || *was_whole || is_again
            }
        };
        if conflict {
            let column = crate::statement::quoted(&assignment.column);
            let words = format!("Multiple incompatible setting of column {column}");
            return refuse(input, words);
        }
    }
    Ok((input, ()))
}

fn assignment(input: Tokens<'_>) -> Read<'_, Assignment> {
    let (input, column) = name(input)?;
    let (input, operation) = operation(input, &column)?;
    Ok((input, Assignment { column, operation }))
}

fn operation<'t>(input: Tokens<'t>, column: &str) -> Read<'t, Operation> {
    if input.is_symbol("=") {
        return new_value(input.skip(1), column);
    }
    if input.is_symbol("+=") {
        let (input, value) = term(input.skip(1))?;
        return Ok((input, Operation::Add(value)));
    }
    if input.is_symbol("-=") {
        let (input, value) = term(input.skip(1))?;
        return Ok((input, Operation::Subtract(value)));
    }
    if input.is_symbol("[") {
        let (input, key) = term(input.skip(1))?;
        let (input, ()) = symbol("]").parse(input)?;
        let (input, ()) = symbol("=").parse(input)?;
        let (input, value) = term(input)?;
        return Ok((input, Operation::SetElement(key, value)));
    }
    if input.is_symbol(".") {
        let (input, field) = name(input.skip(1))?;
        let (input, ()) = symbol("=").parse(input)?;
        let (input, value) = term(input)?;
        return Ok((input, Operation::SetField(field, value)));
    }
    no_choice(input)
}

/// What follows `column =`: a term, the column and a term, or a term and the column.
fn new_value<'t>(input: Tokens<'t>, column: &str) -> Read<'t, Operation> {
    let is_column = is_name(input, 0) && !is_function_call(input);
    let same = |input: Tokens<'t>, form: &str| {
        let (rest, other) = name(input)?;
        if other == column {
            return Ok((rest, ()));
        }
        refuse(
            input,
            format!("Only expressions of the form {form} are supported."),
        )
    };
    if is_column && (input.is_symbol_ahead(1, "+") || input.is_symbol_ahead(1, "-")) {
        let is_sum = input.is_symbol_ahead(1, "+");
        let sign = if is_sum { '+' } else { '-' };
        let (input, ()) = same(input, &format!("X = X {sign}<value>"))?;
        let (input, value) = term(input.skip(1))?;
        let operation = if is_sum {
            Operation::Add
        } else {
            Operation::Subtract
        };
        return Ok((input, operation(value)));
    }
    // `x = x -3` has a number after the column, and no operator.
    if is_column
        && input
            .ahead(1)
            .is_some_and(|token| token.kind == TokenKind::Integer)
    {
        let is_negative = input
            .ahead(1)
            .is_some_and(|token| token.text.starts_with('-'));
        let sign = if is_negative { '-' } else { '+' };
        let (input, ()) = same(input, &format!("X = X {sign} <value>"))?;
        return match constant(input) {
            Some((input, number)) => Ok((input, Operation::Add(Term::Constant(number)))),
            None => no_choice(input),
        };
    }
    let (input, value) = term(input)?;
    if !input.is_symbol("+") {
        return Ok((input, Operation::Set(value)));
    }
    let (input, ()) = same(input.skip(1), "X = <value> + X")?;
    Ok((input, Operation::Prepend(value)))
}

/// `IF EXISTS`, or conditions with AND between them.
fn condition(input: Tokens<'_>) -> Read<'_, If> {
    if !input.is_keyword("if") {
        return Ok((input, If::Always));
    }
    let input = input.skip(1);
    // A column may have this name.
    let is_exists = input.is_keyword("exists") && !input.is_kind_ahead(1, TokenKind::Symbol)
        || input.is_keyword("exists") && input.is_symbol_ahead(1, ";");
    if is_exists && !input.is_keyword_ahead(1, "in") && !input.is_keyword_ahead(1, "contains") {
        return Ok((input.skip(1), If::Exists));
    }
    let (input, conditions) = conjunction(column_condition)(input)?;
    Ok((input, If::All(conditions)))
}

fn column_condition(input: Tokens<'_>) -> Read<'_, Condition> {
    let (input, column) = name(input)?;
    if input.is_keyword("contains") {
        let (input, is_key) = contains(input)?;
        let (input, value) = term(input)?;
        return Ok((
            input,
            Condition::Contains {
                column,
                is_key,
                value,
            },
        ));
    }
    let (input, place) = if input.is_symbol("[") {
        let (input, key) = term(input.skip(1))?;
        let (input, ()) = symbol("]").parse(input)?;
        (input, Place::Element(column, key))
    } else if input.is_symbol(".") {
        let (input, field) = name(input.skip(1))?;
        (input, Place::Field(column, field))
    } else {
        (input, Place::Column(column))
    };
    if input.is_keyword("in") {
        let (input, values) = in_values(input.skip(1))?;
        return Ok((input, Condition::In { place, values }));
    }
    let (input, comparator) = comparator(input)?;
    let (input, value) = term(input)?;
    Ok((
        input,
        Condition::Compare {
            place,
            comparator,
            value,
        },
    ))
}

pub(super) fn delete(input: Tokens<'_>) -> Read<'_, Statement> {
    let (input, deletions) = if input.is_keyword("from") {
        (input, Vec::new())
    } else {
        list(deletion)(input)?
    };
    let (input, ()) = keyword("from").parse(input)?;
    let (input, table) = table_name(input)?;
    let (input, timestamp) = after_keyword(input, "using", |input| {
        let (input, ()) = keyword("timestamp").parse(input)?;
        integer_or_marker(input)
    })?;
    let (input, ()) = keyword("where").parse(input)?;
    let (input, relations) = relations(input)?;
    let (input, condition) = condition(input)?;
    Ok((
        input,
        Statement::Delete(Delete {
            table,
            deletions,
            timestamp,
            relations,
            condition,
        }),
    ))
}

fn deletion(input: Tokens<'_>) -> Read<'_, Deletion> {
    let (input, column) = name(input)?;
    if input.is_symbol("[") {
        let (input, key) = term(input.skip(1))?;
        let (input, ()) = symbol("]").parse(input)?;
        return Ok((input, Deletion::Element(column, key)));
    }
    if input.is_symbol(".") {
        let (input, field) = name(input.skip(1))?;
        return Ok((input, Deletion::Field(column, field)));
    }
    Ok((input, Deletion::Column(column)))
}

/// What a batch may hold.
const IN_BATCH: &[(&str, Rule<Statement>)] =
    &[("delete", delete), ("insert", insert), ("update", update)];

pub(super) fn batch(input: Tokens<'_>) -> Read<'_, Statement> {
    let (input, is_unlogged) = has_keywords(input, &["unlogged"])?;
    let (input, is_counter) = has_keywords(input, &["counter"])?;
    let kind = match (is_unlogged, is_counter) {
        (true, true) => return expected(input, "K_BATCH"),
        (true, false) => BatchType::Unlogged,
        (false, true) => BatchType::Counter,
        (false, false) => BatchType::Logged,
    };
    let (input, ()) = keyword("batch").parse(input)?;
    let (mut input, using) = using(input)?;
    let mut statements = Vec::new();
    while !input.is_keyword("apply") {
        let (rest, statement) = choose(IN_BATCH)(input)?;
        statements.push(statement);
        input = rest.skip(usize::from(rest.is_symbol(";")));
    }
    let (input, ()) = keywords(&["apply", "batch"])(input)?;
    Ok((
        input,
        Statement::Batch(Batch {
            kind,
            using,
            statements,
        }),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::parse;

    fn parsed(text: &str) -> Statement {
        match parse(text) {
            Ok(parsed) => parsed.statement,
            Err(error) => panic!("{text}: {}", error.message),
        }
    }

    #[test]
    fn inserts_are_read() {
        let Statement::Insert(insert) = parsed(
            "INSERT INTO ks.t (a, \"B\") VALUES (1, ?) IF NOT EXISTS USING TTL 5 AND TIMESTAMP ?",
        ) else {
            panic!()
        };
        assert_eq!(insert.columns, ["a", "B"]);
        assert!(insert.if_not_exists);
        assert!(insert.using.time_to_live.is_some() && insert.using.timestamp.is_some());
        let Statement::InsertJson(json) =
            parsed("INSERT INTO t JSON '{\"a\": 1}' DEFAULT UNSET USING TTL 3")
        else {
            panic!()
        };
        assert!(json.default_unset && !json.if_not_exists);
        let Statement::InsertJson(json) = parsed("INSERT INTO t JSON ? DEFAULT NULL") else {
            panic!()
        };
        assert!(!json.default_unset);
    }

    #[test]
    fn assignments_of_every_kind_are_read() {
        for (text, expected) in [
            ("a = 1", "Set"),
            ("a = a + 1", "Add"),
            ("a = a - 1", "Subtract"),
            (
                "a = a -1",
                "Add(Constant(Constant { kind: Integer, text: \"-1\"",
            ),
            ("a += [1]", "Add"),
            ("a -= {1}", "Subtract"),
            ("a = [1] + a", "Prepend"),
            ("a = [1] + \"a\"", "Prepend"),
            ("a['k'] = 2", "SetElement"),
            ("a.f = 2", "SetField"),
            ("a = now()", "Set"),
            ("a = 1 + 2", "Set"),
            ("a = ?", "Set"),
            ("a = :a", "Set"),
            ("a = null", "Set"),
        ] {
            let Statement::Update(update) = parsed(&format!("UPDATE t SET {text} WHERE k = 1"))
            else {
                panic!()
            };
            let operation = format!("{:?}", update.assignments[0].operation);
            assert!(operation.starts_with(expected), "{text}: {operation}");
        }
    }

    #[test]
    fn conditions_of_every_kind_are_read() {
        for (text, expected) in [
            ("EXISTS", "Exists"),
            ("a = 1", "All([Compare"),
            ("a != null AND b > 2", "All([Compare"),
            ("a IN (1, 2)", "All([In"),
            ("a IN ?", "All([In"),
            ("m['k'] = 1", "All([Compare { place: Element"),
            ("u.f IN (1)", "All([In { place: Field"),
            ("m CONTAINS KEY 1", "All([Contains"),
            ("exists = 1", "All([Compare"),
        ] {
            let Statement::Update(update) = parsed(&format!(
                "UPDATE t USING TTL 1 SET a = 1 WHERE k = 1 IF {text};"
            )) else {
                panic!()
            };
            let condition = format!("{:?}", update.condition);
            assert!(condition.starts_with(expected), "{text}: {condition}");
        }
    }

    #[test]
    fn deletes_are_read() {
        let Statement::Delete(delete) = parsed(
            "DELETE a, b['k'], c.f FROM t USING TIMESTAMP 5 WHERE k = 1 AND c > 2 IF EXISTS",
        ) else {
            panic!()
        };
        assert_eq!(delete.deletions.len(), 3);
        assert!(delete.timestamp.is_some());
        assert_eq!(delete.condition, If::Exists);
        let Statement::Delete(delete) = parsed("DELETE FROM t WHERE k = 1") else {
            panic!()
        };
        assert!(delete.deletions.is_empty());
    }

    #[test]
    fn batches_are_read() {
        for (text, kind, count) in [
            ("BEGIN BATCH APPLY BATCH", BatchType::Logged, 0),
            (
                "BEGIN UNLOGGED BATCH USING TIMESTAMP 1 INSERT INTO t (a) VALUES (1); \
                 UPDATE t SET a = 1 WHERE k = 1 DELETE FROM t WHERE k = 1; APPLY BATCH;",
                BatchType::Unlogged,
                3,
            ),
            (
                "BEGIN COUNTER BATCH UPDATE t SET c = c + 1 WHERE k = 1 APPLY BATCH",
                BatchType::Counter,
                1,
            ),
        ] {
            let Statement::Batch(batch) = parsed(text) else {
                panic!()
            };
            assert_eq!((batch.kind, batch.statements.len()), (kind, count));
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, message) in [
            (
                "UPDATE t SET a = b + 1 WHERE k = 1",
                "Only expressions of the form X = X +<value> are supported.",
            ),
            (
                "UPDATE t SET a = 1 + b WHERE k = 1",
                "Only expressions of the form X = <value> + X are supported.",
            ),
            (
                "UPDATE t SET a = b -1 WHERE k = 1",
                "Only expressions of the form X = X - <value> are supported.",
            ),
            (
                "UPDATE t SET a = 1, a = 2 WHERE k = 1",
                "Multiple incompatible setting of column a",
            ),
            (
                "INSERT INTO t (a, b) VALUES (15, P)",
                "line 1:34 no viable alternative at input ')' (...b) VALUES (15, P[)])",
            ),
            (
                "BEGIN BATCH SELECT * FROM t APPLY BATCH",
                "line 1:12 no viable alternative at input 'SELECT' (BEGIN BATCH [SELECT]...)",
            ),
            (
                "DELETE FROM t",
                "line 0:-1 mismatched input '<EOF>' expecting K_WHERE",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err().message, message, "{text}");
        }
        assert!(parse("UPDATE t SET a.x = 1, a.y = 2 WHERE k = 1").is_ok());
        assert!(parse("UPDATE t SET a['x'] = 1, a['y'] = 2 WHERE k = 1").is_ok());
    }
}
