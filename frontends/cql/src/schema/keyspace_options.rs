//! The options of a keyspace: where its data lies, and whether writes are logged.

use super::options::boolean;
use crate::error::{CqlError, Result};
use crate::statement::{Properties, PropertyValue};

use super::Keyspace;

const PACKAGE: &str = "org.apache.cassandra.locator.";
/// The only data center there is.
pub(crate) const DATA_CENTER: &str = "datacenter1";

/// A keyspace with these properties. `before` is what it was, if it is altered.
pub(crate) fn keyspace_options(
    name: &str,
    before: Option<&Keyspace>,
    properties: &Properties,
) -> Result<Keyspace> {
    let mut keyspace = before.cloned().unwrap_or_else(|| Keyspace {
        name: name.to_owned(),
        replication: Vec::new(),
        durable_writes: true,
    });
    for (property, value) in properties {
        match property.as_str() {
            "replication" => {
                keyspace.replication = replication(name, value, before.is_none())?;
            }
            "durable_writes" => keyspace.durable_writes = boolean(property, value)?,
            // The core is told of these.
            "cosmosdb_provisioned_throughput" | "cosmosdb_autoscale_max_throughput" => {}
            _ => return Err(CqlError::syntax(format!("Unknown property '{property}'"))),
        }
    }
    if keyspace.replication.is_empty() {
        return Err(CqlError::configuration(
            "Missing mandatory option 'replication'",
        ));
    }
    Ok(keyspace)
}

/// `is_new`: a keyspace may leave out how many replicas it has only when it is made.
fn replication(name: &str, value: &PropertyValue, is_new: bool) -> Result<Vec<(String, String)>> {
    let PropertyValue::Map(entries) = value else {
        let words = "Invalid value for property 'replication'. It should be a map.";
        return Err(CqlError::syntax(words));
    };
    let class = entries.iter().find(|(key, _)| key == "class");
    let Some((_, class)) = class else {
        return Err(CqlError::configuration(
            "Missing replication strategy class",
        ));
    };
    let class = class.strip_prefix(PACKAGE).unwrap_or(class);
    let mut options: Vec<(String, String)> = entries
        .iter()
        .filter(|(key, _)| key != "class")
        .cloned()
        .collect();
    options.sort();
    let is_empty = options.is_empty();
    match class {
        "SimpleStrategy" if is_empty && is_new => {
            options.push(("replication_factor".to_owned(), "1".to_owned()));
        }
        "NetworkTopologyStrategy" if is_empty && is_new => {
            options.push((DATA_CENTER.to_owned(), "1".to_owned()));
        }
        "NetworkTopologyStrategy" if is_empty => {
            return Err(CqlError::configuration(
                "Configuration for at least one datacenter must be present",
            ));
        }
        "SimpleStrategy" => check_simple(name, &options)?,
        "NetworkTopologyStrategy" => {
            for (key, factor) in &options {
                if key != "replication_factor" && key != DATA_CENTER {
                    return Err(CqlError::configuration(format!(
                        "Unrecognized strategy option {{{key}}} passed to NetworkTopologyStrategy \
                         for keyspace {name}"
                    )));
                }
                check_factor(key, factor)?;
            }
        }
        "LocalStrategy" => {
            return Err(CqlError::configuration(
                "Unable to use given strategy class: LocalStrategy is reserved for internal use.",
            ));
        }
        other => {
            return Err(CqlError::configuration(format!(
                "Unable to find replication strategy class '{PACKAGE}{other}'"
            )));
        }
    }
    let mut replication = vec![("class".to_owned(), class.to_owned())];
    replication.append(&mut options);
    Ok(replication)
}

fn check_simple(name: &str, options: &[(String, String)]) -> Result<()> {
    for (key, factor) in options {
        if key != "replication_factor" {
            return Err(CqlError::configuration(format!(
                "Unrecognized strategy option {{{key}}} passed to SimpleStrategy for keyspace \
                 {name}"
            )));
        }
        check_factor(key, factor)?;
    }
    if options.is_empty() {
        return Err(CqlError::configuration(
            "SimpleStrategy requires a replication_factor strategy option.",
        ));
    }
    Ok(())
}

fn check_factor(key: &str, factor: &str) -> Result<()> {
    match factor.parse::<i64>() {
        Ok(0..) => Ok(()),
        Ok(negative) => Err(CqlError::configuration(format!(
            "Replication factor must be non-negative; found {negative}"
        ))),
        Err(_) => Err(CqlError::configuration(format!(
            "Replication factor must be numeric; found {factor} for {key}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::testing::properties;

    #[test]
    fn replication_is_checked() {
        let keyspace = |text: &str| keyspace_options("ks", None, &properties(text));
        let simple = keyspace(
            "replication = {'replication_factor': 1, \
             'class': 'org.apache.cassandra.locator.SimpleStrategy'} AND durable_writes = false",
        )
        .unwrap();
        assert_eq!(simple.replication[0].1, "SimpleStrategy");
        assert_eq!(simple.replication[1].1, "1");
        assert!(!simple.durable_writes);
        for (text, words) in [
            (
                "durable_writes = true",
                "Missing mandatory option 'replication'",
            ),
            (
                "replication = {'dc': 1}",
                "Missing replication strategy class",
            ),
            (
                "replication = {'class': 'X'}",
                "Unable to find replication strategy class 'org.apache.cassandra.locator.X'",
            ),
            (
                "replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 'x'}",
                "Replication factor must be numeric; found x for datacenter1",
            ),
            (
                "replication = {'class': 'NetworkTopologyStrategy', 'dc': 1}",
                "Unrecognized strategy option {dc} passed to NetworkTopologyStrategy for keyspace \
                 ks",
            ),
            ("foo = 1", "Unknown property 'foo'"),
        ] {
            assert_eq!(keyspace(text).unwrap_err().message, words);
        }
        let usual = keyspace("replication = {'class': 'SimpleStrategy'}").unwrap();
        assert_eq!(usual.replication[1].1, "1");
        for class in ["SimpleStrategy", "NetworkTopologyStrategy"] {
            let text = format!("replication = {{'class': '{class}'}}");
            keyspace_options("ks", Some(&usual), &properties(&text)).unwrap_err();
        }
    }
}
