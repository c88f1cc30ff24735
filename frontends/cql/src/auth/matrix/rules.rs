//! What Cassandra 5.0 asks for each statement, written down apart from the code that asks.
//!
//! A line is a statement and what it needs, of which each part may also be had on what is above:
//! see [`above`]. `docs/cassandra-permissions.md` is printed from here.

/// Who asks is `eve`. In `ks` are the table `t` with the view `mv` and the index `t_v`, the table
/// `u` and the type `y`; `boss` is a superuser, `target` and `another` are roles without grants.
pub(super) const RULES: &str = include_str!("rules.txt");

/// What is said in words around the table of statements.
pub(super) const BEFORE: &str = include_str!("before.txt");

pub(super) const AFTER: &str = include_str!("after.txt");

/// Where else a permission counts, nearest first.
pub(super) fn above(place: &str) -> Vec<String> {
    let mut places = vec![place.to_owned()];
    let keyspace = |places: &mut Vec<String>, keyspace: &str| {
        places.extend([format!("KEYSPACE {keyspace}"), "ALL KEYSPACES".to_owned()]);
    };
    let words: Vec<&str> = place.split(' ').collect();
    match words.as_slice() {
        ["TABLE", table] => {
            let (name, _) = table.split_once('.').unwrap();
            places.push(format!("ALL TABLES IN KEYSPACE {name}"));
            keyspace(&mut places, name);
        }
        ["ALL", "TABLES", "IN", "KEYSPACE", name] => keyspace(&mut places, name),
        ["KEYSPACE", _] => places.push("ALL KEYSPACES".to_owned()),
        ["ROLE", _] => places.push("ALL ROLES".to_owned()),
        ["ALL", "FUNCTIONS", "IN", "KEYSPACE", _] => places.push("ALL FUNCTIONS".to_owned()),
        ["ALL", "KEYSPACES" | "ROLES" | "FUNCTIONS"] => {}
        other => panic!("{other:?}"),
    }
    places
}
