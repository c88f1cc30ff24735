//! Typing takes time in proportion to what is typed, however calls and literals nest.

use super::typing::{Planner, Receiver};
use crate::parser::parse;
use crate::schema::Types;
use crate::schema::testing::table_of_all_types;
use crate::statement::{QualifiedName, Selection, Selector, Statement};
use crate::types::{DataType, Native};

fn selector(text: &str) -> Selector {
    let parsed = parse(&format!("SELECT {text} FROM t")).unwrap();
    let Statement::Select(select) = parsed.statement else {
        panic!("{text}");
    };
    match select.selection {
        Selection::Some(mut selectors) => selectors.remove(0).0,
        Selection::All => panic!("{text}"),
    }
}

/// How much is looked at to type a selector, and whether it has a type.
fn steps(what: &Selector, wants_text: bool) -> (usize, bool) {
    let table = table_of_all_types();
    let types = Types::new();
    let mut planner = Planner::new(&table, &types, &[]);
    planner.has_rows = true;
    let data_type = &DataType::Native(Native::Text);
    let want = wants_text.then_some(Receiver {
        name: "x",
        data_type,
    });
    let typed = planner.typed(what, want);
    (planner.steps, typed.is_ok())
}

fn call(name: &str, arguments: Vec<Selector>) -> Selector {
    let name = QualifiedName {
        keyspace: None,
        name: name.to_owned(),
    };
    Selector::Function { name, arguments }
}

type Level = fn(Selector) -> Selector;

/// Selectors that hold another one, each in its own way.
const LEVELS: &[(&str, Level)] = &[
    ("tojson", |inner| call("to_json", vec![inner])),
    ("legacy", |inner| call("tojson", vec![inner])),
    ("blob", |inner| {
        call("blob_as_text", vec![call("text_as_blob", vec![inner])])
    }),
    ("list", |inner| {
        call("to_json", vec![Selector::List(vec![inner])])
    }),
    ("set", |inner| {
        call("to_json", vec![Selector::Set(vec![inner])])
    }),
    ("map", |inner| {
        let key = Selector::Column("c_int".to_owned());
        call("to_json", vec![Selector::MapOrUserType(vec![(key, inner)])])
    }),
    ("key", |inner| {
        let value = Selector::Column("c_int".to_owned());
        call(
            "to_json",
            vec![Selector::MapOrUserType(vec![(inner, value)])],
        )
    }),
    ("tuple", |inner| {
        let other = Selector::Column("c_int".to_owned());
        call("to_json", vec![Selector::Tuple(vec![inner, other])])
    }),
    ("single", |inner| {
        call("to_json", vec![Selector::Tuple(vec![inner])])
    }),
    ("cast", |inner| {
        call(
            "to_json",
            vec![Selector::Cast(Box::new(inner), Native::Text)],
        )
    }),
    ("hint", |inner| {
        let raw = crate::parser::parse_type("text").unwrap();
        call("to_json", vec![Selector::TypeHint(raw, Box::new(inner))])
    }),
    ("mask", |inner| {
        call("mask_inner", vec![inner, Selector::Null, Selector::Null])
    }),
    ("lists", |inner| {
        let list = Selector::List(vec![Selector::List(vec![inner])]);
        call("to_json", vec![list])
    }),
];

/// Deeper than the parser would let a statement be, which needs more of a stack.
fn deep(test: fn()) {
    let thread = std::thread::Builder::new().stack_size(256 << 20);
    thread.spawn(test).unwrap().join().unwrap();
}

#[test]
fn nested_calls_and_literals_are_typed_in_proportion() {
    deep(nested_levels);
}

/// Each kind of level within each other one, and arithmetic between them.
#[test]
fn mixed_levels_are_typed_in_proportion() {
    deep(mixed_levels);
}

fn nested_levels() {
    for (name, level) in LEVELS {
        for leaf in [
            Selector::Column("c_text".to_owned()),
            Selector::Null,
            selector("nope(1)"),
        ] {
            let nested = |depth: usize| (0..depth).fold(leaf.clone(), |inner, _| level(inner));
            for wants_text in [false, true] {
                let (small, _) = steps(&nested(10), wants_text);
                let (large, _) = steps(&nested(200), wants_text);
                assert!(
                    large <= 40 * small.max(50),
                    "{name} {leaf}: {small}, {large}"
                );
                assert!(large <= 60 * 200, "{name} {leaf}: {large}");
            }
        }
        let (_, is_typed) = steps(&level(Selector::Column("c_text".to_owned())), false);
        assert!(is_typed, "{name}");
    }
}

fn mixed_levels() {
    for (outer_name, outer) in LEVELS {
        for (inner_name, inner) in LEVELS {
            let leaf = Selector::Column("c_text".to_owned());
            let nested = (0..40).fold(leaf, |what, _| outer(inner(what)));
            let (count, _) = steps(&nested, true);
            assert!(count < 20_000, "{outer_name} {inner_name}: {count}");
        }
    }
    let mut numbers = Selector::Column("c_int".to_owned());
    for _ in 0..40 {
        let sum = Selector::Operation {
            operator: crate::statement::Arithmetic::Add,
            left: Box::new(call("abs", vec![numbers])),
            right: Box::new(selector("1")),
        };
        numbers = Selector::Negation(Box::new(sum));
    }
    let (count, is_typed) = steps(&numbers, false);
    assert!(is_typed && count < 2_000, "{count}");
}

/// What is found out ahead is what is found out without looking ahead.
#[test]
fn what_is_known_is_of_the_right_selector() {
    let table = table_of_all_types();
    let types = Types::new();
    for (text, expected) in [
        ("to_json([abs(c_int), abs(c_int)])", "text"),
        ("[to_json(c_int), to_json(c_text)]", "frozen<list<text>>"),
        (
            "(abs(c_int), to_json([abs(c_bigint)]))",
            "frozen<tuple<int, text>>",
        ),
        (
            "{abs(c_int): [abs(c_bigint)]}",
            "frozen<map<int, frozen<list<bigint>>>>",
        ),
        ("abs(c_int) + abs(c_bigint)", "bigint"),
        ("[abs(c_int), abs(c_int) + 1, 5]", "frozen<list<int>>"),
    ] {
        let mut planner = Planner::new(&table, &types, &[]);
        planner.has_rows = true;
        for _ in 0..2 {
            let typed = planner.typed(&selector(text), None).unwrap();
            assert_eq!(typed.data_type.to_string(), expected, "{text}");
        }
    }
}
