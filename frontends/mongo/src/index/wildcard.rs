//! Wildcard indexes: one entry for each path and value below a field.

use bson::{Bson, Document};
use tessera_mongo_language::error::{Code, Error, Result, failed_to_parse};
use tessera_mongo_language::projection::{Projection, Use};

use crate::index::check::{cannot_create, wrong_type};
use crate::index::spec::{IndexSpec, Order};

const SUFFIX: &str = "$**";

/// The wildcard field of an index.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wildcard {
    /// Which field of the key it is.
    pub(crate) position: usize,
    /// The path below which all is indexed; empty for the whole document.
    pub(crate) prefix: String,
    paths: Paths,
}

/// Which paths the index holds.
#[derive(Clone, Debug, PartialEq)]
enum Paths {
    All,
    Only(Vec<String>),
    Not(Vec<String>),
}

/// The path before `$**`, if the field is a wildcard.
pub(crate) fn prefix(path: &str) -> Option<&str> {
    let before = path.strip_suffix(SUFFIX)?;
    if before.is_empty() {
        return Some("");
    }
    before.strip_suffix('.').filter(|prefix| !prefix.is_empty())
}

impl Wildcard {
    pub(super) fn read(position: usize, prefix: &str, asked: &Document) -> Result<Self> {
        let paths = match asked.get("wildcardProjection") {
            None if prefix.is_empty() => Paths::Not(vec!["_id".to_owned()]),
            None => Paths::All,
            Some(Bson::Document(projection)) => {
                if !prefix.is_empty() {
                    return Err(failed_to_parse(
                        "The field 'wildcardProjection' is only allowed when 'key' is {\"$**\": 1}",
                    ));
                }
                read_projection(projection)?
            }
            Some(other) => return Err(wrong_type("wildcardProjection", "object", other)),
        };
        Ok(Self {
            position,
            prefix: prefix.to_owned(),
            paths,
        })
    }

    /// Whether values at `path` are in the index.
    pub(crate) fn holds(&self, path: &str) -> bool {
        if !self.prefix.is_empty() && !is_at_or_below(path, &self.prefix) {
            return false;
        }
        match &self.paths {
            Paths::All => true,
            Paths::Only(paths) => paths.iter().any(|held| is_at_or_below(path, held)),
            Paths::Not(paths) => !paths.iter().any(|left_out| is_at_or_below(path, left_out)),
        }
    }

    /// Whether some path below this one may be in the index.
    fn may_hold_below(&self, path: &str) -> bool {
        let on_the_way = |held: &str| is_at_or_below(path, held) || is_at_or_below(held, path);
        if !self.prefix.is_empty() && !on_the_way(&self.prefix) {
            return false;
        }
        match &self.paths {
            Paths::All => true,
            Paths::Only(paths) => paths.iter().any(|held| on_the_way(held)),
            Paths::Not(paths) => !paths.iter().any(|left_out| is_at_or_below(path, left_out)),
        }
    }

    /// Every path and value of a document that the index holds, and the paths that lead through
    /// arrays.
    pub(crate) fn values<'a>(&self, document: &'a Document) -> Values<'a> {
        let mut values = Values::default();
        self.walk(document, "", false, &mut values);
        values
    }

    fn walk<'a>(&self, document: &'a Document, path: &str, multi: bool, values: &mut Values<'a>) {
        for (name, value) in document {
            let path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            if self.may_hold_below(&path) {
                self.walk_value(value, &path, multi, values);
            }
        }
    }

    fn walk_value<'a>(&self, value: &'a Bson, path: &str, multi: bool, values: &mut Values<'a>) {
        match value {
            Bson::Document(inner) if !inner.is_empty() => self.walk(inner, path, multi, values),
            Bson::Array(elements) if elements.is_empty() => {
                self.take(path, &Bson::Undefined, true, values);
            }
            Bson::Array(elements) => {
                for element in elements {
                    match element {
                        Bson::Document(inner) if !inner.is_empty() => {
                            self.walk(inner, path, true, values);
                        }
                        // An array within an array is a value of its own.
                        other => self.take(path, other, true, values),
                    }
                }
            }
            other => self.take(path, other, multi, values),
        }
    }

    fn take<'a>(&self, path: &str, value: &'a Bson, multi: bool, values: &mut Values<'a>) {
        if self.holds(path) {
            values.multikey |= multi;
            values.entries.push((path.to_owned(), value));
        }
    }
}

/// What a wildcard field makes of a document.
#[derive(Default)]
pub(crate) struct Values<'a> {
    pub(crate) entries: Vec<(String, &'a Bson)>,
    /// Whether any of them came out of an array.
    pub(crate) multikey: bool,
}

/// What a wildcard index may be and have.
pub(super) fn check(spec: &IndexSpec, wildcard: &Wildcard, asked: &Document) -> Result<()> {
    let kind = if spec.fields.len() > 1 {
        "compound wildcard"
    } else {
        "wildcard"
    };
    let refused = |what: &str| Err(cannot_create(format!("{kind} indexes do not allow {what}")));
    if spec.unique {
        return refused("the unique option");
    }
    if spec.sparse {
        return refused("sparse");
    }
    if spec.expire_after_seconds.is_some() {
        return refused("expireAfterSeconds");
    }
    if spec.fields.iter().any(|field| field.order == Order::Hashed) {
        return refused("hashed fields");
    }
    if spec.fields.len() > 1 {
        check_compound(spec, wildcard, asked)?;
    }
    Ok(())
}

/// The other fields of a compound wildcard index may not be among those of the wildcard.
fn check_compound(spec: &IndexSpec, wildcard: &Wildcard, asked: &Document) -> Result<()> {
    let others = spec.fields.iter().enumerate();
    let others = others.filter(|(position, _)| *position != wildcard.position);
    for (_, field) in others {
        if wildcard.prefix.is_empty() && !asked.contains_key("wildcardProjection") {
            return Err(cannot_create(
                "compound wildcard indexes over all fields need a wildcardProjection that leaves \
                 the other fields out",
            ));
        }
        if wildcard.may_hold_below(&field.path) {
            return Err(Error::new(
                Code(7_246_209),
                format!(
                    "the wildcard of the index includes its other field '{}'",
                    field.path
                ),
            ));
        }
    }
    Ok(())
}

fn read_projection(projection: &Document) -> Result<Paths> {
    if projection.is_empty() {
        return Err(failed_to_parse(
            "The 'wildcardProjection' field can't be an empty object",
        ));
    }
    // The projection's own rules come first: what may not be mixed, and what collides.
    Projection::parse_for(projection, &Default::default(), Use::Wildcard)?;
    let mut flat = Vec::new();
    flatten(projection, "", &mut flat);
    let keeps = |(_, keep): &(String, bool)| *keep;
    let others = || flat.iter().filter(|(path, _)| path != "_id");
    let inclusion = if others().next().is_some() {
        others().all(keeps)
    } else {
        flat.iter().all(keeps)
    };
    let id = flat
        .iter()
        .find(|(path, _)| path == "_id")
        .map(|(_, keep)| *keep);
    let mut paths: Vec<String> = others().map(|(path, _)| path.clone()).collect();
    // Unlike other projections, these leave `_id` out unless they name it.
    if id.unwrap_or(false) == inclusion {
        paths.push("_id".to_owned());
    }
    Ok(if inclusion {
        Paths::Only(paths)
    } else {
        Paths::Not(paths)
    })
}

fn flatten(projection: &Document, before: &str, flat: &mut Vec<(String, bool)>) {
    for (name, value) in projection {
        let path = if before.is_empty() {
            name.clone()
        } else {
            format!("{before}.{name}")
        };
        match value {
            Bson::Document(inner) => flatten(inner, &path, flat),
            Bson::Boolean(keep) => flat.push((path, *keep)),
            other => {
                let keep = super::check::number(other).is_none_or(|number| number != 0.0);
                flat.push((path, keep));
            }
        }
    }
}

fn is_at_or_below(path: &str, ancestor: &str) -> bool {
    path.strip_prefix(ancestor)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn wildcard(path: &str, asked: Document) -> Wildcard {
        Wildcard::read(0, prefix(path).unwrap(), &asked).unwrap()
    }

    #[test]
    fn each_leaf_is_an_entry() {
        let document = doc! { "_id": 1, "a": { "b": [1, { "c": 2 }], "d": {} }, "e": [] };
        let found = wildcard("$**", doc! {}).values(&document);
        let entries: Vec<String> = found
            .entries
            .iter()
            .map(|(p, v)| format!("{p}={v}"))
            .collect();
        assert_eq!(entries, ["a.b=1", "a.b.c=2", "a.d={}", "e=undefined"]);
        assert!(found.multikey);
    }

    #[test]
    fn prefixes_and_projections_choose_paths() {
        let rows = [
            ("a.$**", doc! {}, "a.b", true),
            ("a.$**", doc! {}, "ab", false),
            ("$**", doc! {}, "_id", false),
            (
                "$**",
                doc! { "wildcardProjection": { "a": 1 } },
                "a.b",
                true,
            ),
            ("$**", doc! { "wildcardProjection": { "a": 1 } }, "b", false),
            (
                "$**",
                doc! { "wildcardProjection": { "a": 0 } },
                "a.b",
                false,
            ),
            ("$**", doc! { "wildcardProjection": { "a": 0 } }, "b", true),
            (
                "$**",
                doc! { "wildcardProjection": { "a": 0, "_id": 1 } },
                "_id",
                true,
            ),
            (
                "$**",
                doc! { "wildcardProjection": { "a": 1, "_id": 1 } },
                "_id",
                true,
            ),
        ];
        for (path, asked, asked_path, held) in rows {
            let wildcard = wildcard(path, asked.clone());
            assert_eq!(
                wildcard.holds(asked_path),
                held,
                "{path} {asked} {asked_path}"
            );
        }
    }
}
