//! From a filter's tree to the conditions that an index can use.

use bson::{Bson, Document};
use tessera_mongo_language::collation::Collation;
use tessera_mongo_language::filter::{Comparison, Filter, Members, Node, Test};
use tessera_mongo_language::path::Path;
use tessera_mongo_language::regex::Regex;

use crate::index::IndexSpec;
use crate::index::spec::Order;
use crate::index::wildcard::Wildcard;
use crate::plan::bounds::FieldBound;
use crate::plan::clause::{Clause, Conditions, PathClause, compared, equal_to, holds};
use crate::plan::interval::{Interval, Intervals};

/// What a filter says of single paths.
pub(crate) fn clause(filter: &Filter, collation: &Collation) -> Clause {
    of_node(filter.root(), collation)
}

fn of_node(node: &Node, collation: &Collation) -> Clause {
    let all = |nodes: &[Node]| nodes.iter().map(|node| of_node(node, collation)).collect();
    match node {
        Node::And(nodes) => Clause::And(all(nodes)),
        Node::Or(nodes) => Clause::Or(all(nodes)),
        Node::Nor(nodes) => {
            Clause::And(nodes.iter().map(|node| negation(node, collation)).collect())
        }
        Node::Not(node) => negation(node, collation),
        Node::Field { path, test } => of_test(path.as_str(), test, collation),
        Node::AlwaysFalse => Clause::Never,
        Node::Expression(_) | Node::Schema(_) | Node::Sample(_) | Node::AlwaysTrue => Clause::Other,
    }
}

fn of_test(path: &str, test: &Test, collation: &Collation) -> Clause {
    let intervals = match test {
        Test::Document(inner) => return of_elements(path, inner, collation),
        Test::Element(nodes) => of_element(nodes, collation),
        test => intervals(test, collation),
    };
    let mut clause = PathClause::within(path, intervals, collation);
    // A field that is not there has no type, no elements, and does not exist.
    clause.present |= !matches!(test, Test::Compare { .. } | Test::In(_));
    Clause::Path(clause)
}

/// Where the values lie that pass a test.
fn intervals(test: &Test, collation: &Collation) -> Intervals {
    match test {
        Test::Compare { op, value } => of_comparison(*op, value, collation),
        Test::In(members) => of_members(members, collation),
        Test::Regex(regex) => of_regex(regex, collation),
        Test::Modulo { .. } => {
            let numbers = super::interval::bracket(&Bson::Int32(0));
            numbers.map_or_else(Intervals::all, Intervals::one)
        }
        Test::Exists
        | Test::Type(_)
        | Test::Size(_)
        | Test::Document(_)
        | Test::Element(_)
        | Test::Bits { .. } => Intervals::all(),
    }
}

fn of_comparison(op: Comparison, value: &Bson, collation: &Collation) -> Intervals {
    match op {
        Comparison::Equal => equal_to(value, collation),
        Comparison::Less => compared(value, false, false, collation),
        Comparison::LessOrEqual => compared(value, false, true, collation),
        Comparison::Greater => compared(value, true, false, collation),
        Comparison::GreaterOrEqual => compared(value, true, true, collation),
    }
}

fn of_members(members: &Members, collation: &Collation) -> Intervals {
    let values = members
        .values()
        .iter()
        .map(|value| equal_to(value, collation));
    let regexes = members
        .regexes()
        .iter()
        .map(|regex| of_regex(regex, collation));
    let mut found = Vec::new();
    for intervals in values.chain(regexes) {
        found.extend(intervals.0);
    }
    Intervals::none().union(Intervals(found), collation)
}

/// The strings that a pattern may match, and the pattern as a value of its own.
fn of_regex(regex: &Regex, collation: &Collation) -> Intervals {
    let prefix = regex.literal_prefix().filter(|_| collation.is_simple());
    let strings = match prefix.filter(|prefix| !prefix.is_empty()) {
        Some(prefix) => match after_prefix(&prefix) {
            Some(end) => Interval::new(Bson::String(prefix), true, Bson::String(end), false),
            None => {
                let end = Bson::Document(Document::new());
                Interval::new(Bson::String(prefix), true, end, false)
            }
        },
        None => {
            let end = Bson::Document(Document::new());
            Interval::new(Bson::String(String::new()), true, end, false)
        }
    };
    let own = match (regex.pattern().try_into(), regex.options().try_into()) {
        (Ok(pattern), Ok(options)) => {
            let own = Bson::RegularExpression(bson::Regex { pattern, options });
            Intervals::one(Interval::point(own))
        }
        _ => Intervals::none(),
    };
    Intervals::one(strings).union(own, collation)
}

/// The first string behind all that begin with `prefix`.
fn after_prefix(prefix: &str) -> Option<String> {
    let mut characters: Vec<char> = prefix.chars().collect();
    while let Some(last) = characters.pop() {
        let next = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
        if let Some(next) = next {
            characters.push(next);
            return Some(characters.into_iter().collect());
        }
    }
    None
}

/// One element of an array that passes all of some tests.
fn of_element(nodes: &[Node], collation: &Collation) -> Intervals {
    nodes
        .iter()
        .fold(Intervals::all(), |found, node| match node {
            Node::Field { test, .. } => found.intersection(&intervals(test, collation), collation),
            Node::And(nodes) => found.intersection(&of_element(nodes, collation), collation),
            _ => found,
        })
}

/// One document of an array that meets all of some conditions: its fields are reached through the
/// array.
fn of_elements(path: &str, inner: &Node, collation: &Collation) -> Clause {
    let conditions = inner.conjuncts().iter().map(|node| match node {
        Node::Field { path: below, test } if !has_position(below) => {
            of_test(&format!("{path}.{}", below.as_str()), test, collation)
        }
        _ => Clause::Other,
    });
    let mut conditions: Vec<Clause> = conditions.collect();
    conditions.push(Clause::Path(PathClause {
        path: path.to_owned(),
        intervals: Intervals::all(),
        present: true,
    }));
    Clause::And(conditions)
}

fn has_position(path: &Path) -> bool {
    path.components()
        .iter()
        .any(|component| component.index().is_some())
}

/// What the contrary of a condition leaves, where that can be told.
fn negation(node: &Node, collation: &Collation) -> Clause {
    let Node::Field { path, test } = node else {
        return Clause::Other;
    };
    let left = match test {
        Test::Exists => Intervals::one(Interval::point(Bson::Null)),
        Test::Compare {
            value: Bson::Array(_),
            ..
        } => return Clause::Other,
        Test::Compare { op, value } => of_comparison(*op, value, collation).complement(),
        Test::In(members) => {
            let has_arrays = members
                .values()
                .iter()
                .any(|value| matches!(value, Bson::Array(_)));
            if has_arrays || !members.regexes().is_empty() {
                return Clause::Other;
            }
            of_members(members, collation).complement()
        }
        _ => return Clause::Other,
    };
    Clause::Path(PathClause::within(path.as_str(), left, collation))
}

/// The paths that a filter looks at; none if it may look at others.
pub(crate) fn paths(filter: &Filter) -> Option<Vec<String>> {
    let mut found = Vec::new();
    collect(filter.root(), &mut found).then_some(found)
}

fn collect(node: &Node, found: &mut Vec<String>) -> bool {
    match node {
        Node::And(nodes) | Node::Or(nodes) | Node::Nor(nodes) => {
            nodes.iter().all(|node| collect(node, found))
        }
        Node::Not(node) => collect(node, found),
        Node::Field { path, .. } => {
            found.push(path.as_str().to_owned());
            true
        }
        Node::AlwaysTrue | Node::AlwaysFalse | Node::Sample(_) => true,
        Node::Expression(_) | Node::Schema(_) => false,
    }
}

/// Whether a condition compares strings, which depends on the collation.
pub(crate) fn has_strings(clause: &Clause) -> bool {
    match clause {
        Clause::And(clauses) | Clause::Or(clauses) => clauses.iter().any(has_strings),
        Clause::Path(clause) => clause.intervals.depend_on_collation(),
        Clause::Never | Clause::Other => false,
    }
}

/// Whether an index of hashes finds what lies in these intervals: single values alone.
pub(crate) fn can_be_hashed(intervals: &Intervals) -> bool {
    let simple = Collation::default();
    let is_array = |interval: &Interval| matches!(interval.low, Bson::Array(_));
    intervals.are_points(&simple) && !intervals.0.iter().any(is_array)
}

/// The bounds of a wildcard index: the path of one condition, and its values.
pub(crate) fn wildcard_bounds(
    spec: &IndexSpec,
    wildcard: &Wildcard,
    conditions: &Conditions<'_>,
    collation: &Collation,
) -> Option<Vec<FieldBound>> {
    let usable = |path: &&str| {
        let intervals = conditions.intervals(path, true, collation);
        let found = !intervals.is_all()
            && !holds(&intervals, &Bson::Null, collation)
            && !intervals.0.iter().any(spans_documents)
            && (spec.collation == *collation || !intervals.depend_on_collation());
        found && wildcard.holds(path) && !has_position(&Path::parse(path))
    };
    let path = conditions.paths().find(usable)?;
    let paths = Intervals::one(Interval::point(Bson::String(path.to_owned())));
    let values = conditions.intervals(path, true, collation);
    let found = (path, paths, values);
    let from = (conditions, collation);
    Some(with_wildcard(spec, wildcard, from, found))
}

/// The bounds that a wildcard index has for a filter which asks for something at a path, whatever
/// it is: all that is there or below. Only of use to who wants this index.
pub(crate) fn wildcard_presence(
    spec: &IndexSpec,
    wildcard: &Wildcard,
    (conditions, collation): (&Conditions<'_>, &Collation),
) -> Option<Vec<FieldBound>> {
    let required = |path: &&str| conditions.requires(path);
    let path = conditions.paths().filter(required).map(before_positions);
    let path = path.into_iter().find(|path| wildcard.holds(path))?;
    // Behind the dot come all names below.
    let below = |end: char| Bson::String(format!("{path}{end}"));
    let paths = vec![
        Interval::point(Bson::String(path.clone())),
        Interval::new(below('.'), true, below('/'), false),
    ];
    let found = (path.as_str(), Intervals(paths), Intervals::all());
    let from = (conditions, collation);
    Some(with_wildcard(spec, wildcard, from, found))
}

/// A path without what may be a position in an array and what follows it.
fn before_positions(path: &str) -> String {
    let is_name = |part: &&str| part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit());
    let names: Vec<&str> = path.split('.').take_while(is_name).collect();
    names.join(".")
}

/// The bounds of all fields: those of the wildcard are its paths and their values.
fn with_wildcard(
    spec: &IndexSpec,
    wildcard: &Wildcard,
    (conditions, collation): (&Conditions<'_>, &Collation),
    (path, paths, values): (&str, Intervals, Intervals),
) -> Vec<FieldBound> {
    let mut bounds = Vec::with_capacity(spec.fields.len() + 1);
    for (position, field) in spec.fields.iter().enumerate() {
        if position == wildcard.position {
            bounds.push(FieldBound {
                path: "$_path".to_owned(),
                order: Order::Ascending,
                collation: Collation::default(),
                intervals: paths.clone(),
            });
        }
        let (name, intervals) = if position == wildcard.position {
            (path, values.clone())
        } else {
            let own = conditions.intervals(&field.path, false, collation);
            (field.path.as_str(), own)
        };
        bounds.push(FieldBound {
            path: name.to_owned(),
            order: field.order,
            collation: spec.collation.clone(),
            intervals,
        });
    }
    bounds
}

/// Whether whole documents or arrays lie in an interval: a wildcard index has their fields instead.
fn spans_documents(interval: &Interval) -> bool {
    let compound = |value: &Bson| matches!(value, Bson::Document(_) | Bson::Array(_));
    let string_bracket = matches!(interval.low, Bson::String(_)) && !interval.with_high;
    (compound(&interval.low) || compound(&interval.high)) && !string_bracket
        || matches!(interval.low, Bson::MinKey)
        || matches!(interval.high, Bson::MaxKey)
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn bounds(filter: Document, path: &str) -> String {
        let context = crate::context::constant(&Collation::default());
        let filter = Filter::parse(&filter, &context).unwrap();
        let clause = clause(&filter, &Collation::default());
        let conditions = Conditions::of(&clause);
        let intervals = conditions.intervals(path, false, &Collation::default());
        let shown = intervals.shown(false);
        let texts = shown.iter().map(|text| text.as_str().unwrap().to_owned());
        texts.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn operators_bound_their_paths() {
        for (filter, expected) in [
            (doc! { "a": 5 }, "[5, 5]"),
            (doc! { "a": { "$gt": 5, "$lte": 8 } }, "(5, 8]"),
            (doc! { "a": { "$gte": "x" } }, "[\"x\", {})"),
            (doc! { "a": { "$in": [3, 1] } }, "[1, 1] [3, 3]"),
            (doc! { "a": { "$ne": 3 } }, "[MinKey, 3) (3, MaxKey]"),
            (doc! { "a": { "$exists": false } }, "[null, null]"),
            (
                doc! { "a": { "$regex": "^ab" } },
                "[\"ab\", \"ac\") [/^ab/, /^ab/]",
            ),
            (
                doc! { "a": { "$elemMatch": { "$gt": 1, "$lt": 4 } } },
                "(1, 4)",
            ),
            (
                doc! { "$and": [{ "a": { "$gt": 1 } }, { "a": { "$lt": 4 } }] },
                "(1, 4)",
            ),
            (doc! { "$or": [{ "a": 1 }, { "b": 1 }] }, "[MinKey, MaxKey]"),
            (doc! { "b": 1 }, "[MinKey, MaxKey]"),
            (doc! { "a": [] }, "[undefined, undefined] [[  ], [  ]]"),
        ] {
            assert_eq!(bounds(filter.clone(), "a"), expected, "{filter}");
        }
        let nested = doc! { "a": { "$elemMatch": { "b": 1 } } };
        assert_eq!(bounds(nested, "a.b"), "[1, 1]");
    }
}
