//! What a pipeline touches besides the documents that it is given: the collections that its stages
//! read and write, and what they ask of the server. Whoever runs a pipeline asks this first, so
//! that what is allowed is decided by the very stages that run.

use super::Pipeline;
use super::environment::Namespace;
use super::stage::Stage;
use super::system::SystemStage;
use super::write::{Merge, WhenMatched, WhenNotMatched};

/// Something that a stage touches.
#[derive(Clone, Debug, PartialEq)]
pub enum Touch {
    /// The documents of a collection are read.
    Read(Namespace),
    /// All documents of a collection are replaced by others.
    Replace(Namespace),
    /// Documents are merged into a collection.
    Merge {
        /// The collection.
        into: Namespace,
        /// Whether documents may be added to it.
        inserts: bool,
        /// Whether documents that are there may change.
        updates: bool,
    },
    /// The server is asked something, about the collection that the command names if about any.
    Ask(SystemStage),
}

impl Pipeline {
    /// Everything that the stages touch, those of pipelines within them included.
    pub fn touches(&self) -> Vec<Touch> {
        self.stages.iter().flat_map(Stage::touches).collect()
    }
}

impl Stage {
    /// What this stage touches. There is no arm for the rest on purpose: a new stage has to say it.
    fn touches(&self) -> Vec<Touch> {
        match self {
            Self::Match(_)
            | Self::Project(_)
            | Self::AddFields(_)
            | Self::ReplaceRoot(_)
            | Self::Redact(_)
            | Self::Group(_)
            | Self::BucketAuto(_)
            | Self::Sort(_)
            | Self::Skip(_)
            | Self::Limit(_)
            | Self::Unwind(_)
            | Self::Count(_)
            | Self::SetWindowFields(_)
            | Self::Densify(_)
            | Self::Sample(_)
            | Self::Documents(_) => Vec::new(),
            Self::Facet(facets) => {
                let inner = facets.iter().flat_map(|(_, inner)| inner.touches());
                inner.collect()
            }
            Self::Lookup(lookup) => reads(lookup.namespace.as_ref(), lookup.touches().to_vec()),
            Self::GraphLookup(graph) => vec![Touch::Read(graph.namespace.clone())],
            Self::UnionWith(union) => reads(union.namespace.as_ref(), union.pipeline.touches()),
            Self::Out(out) => vec![Touch::Replace(out.namespace.clone())],
            Self::Merge(merge) => vec![merge.touch()],
            Self::System(stage) => vec![Touch::Ask(stage.clone())],
        }
    }
}

fn reads(namespace: Option<&Namespace>, more: Vec<Touch>) -> Vec<Touch> {
    let own = namespace.cloned().map(Touch::Read);
    own.into_iter().chain(more).collect()
}

impl Merge {
    fn touch(&self) -> Touch {
        let inserts = match self.when_not_matched {
            WhenNotMatched::Insert => true,
            WhenNotMatched::Discard | WhenNotMatched::Fail => false,
        };
        let updates = match self.when_matched {
            WhenMatched::Fail => false,
            WhenMatched::Replace
            | WhenMatched::KeepExisting
            | WhenMatched::Merge
            | WhenMatched::Pipeline(_) => true,
        };
        Touch::Merge {
            into: self.into.clone(),
            inserts,
            updates,
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Document, bson, doc};

    use super::*;
    use crate::expression::Context;

    fn touches(stages: Bson) -> Vec<Touch> {
        let Bson::Array(stages) = stages else {
            panic!("{stages}");
        };
        let context = Context::default();
        Pipeline::parse(&stages, &context).unwrap().touches()
    }

    fn read(collection: &str) -> Touch {
        Touch::Read(Namespace {
            database: None,
            collection: collection.to_owned(),
        })
    }

    /// A stage that has these stages within it.
    fn around(kind: &str, inner: Vec<Document>) -> Document {
        match kind {
            "lookup" => doc! { "$lookup": { "from": "l", "pipeline": inner, "as": "x" } },
            "union" => doc! { "$unionWith": { "coll": "u", "pipeline": inner } },
            _ => doc! { "$facet": { "f": inner } },
        }
    }

    #[test]
    fn every_collection_is_found_however_deep() {
        let leaves = [
            (doc! { "$unionWith": "a" }, read("a")),
            (doc! { "$unionWith": { "coll": "b" } }, read("b")),
            (
                doc! { "$lookup": { "from": "c", "localField": "x", "foreignField": "y",
                "as": "z" } },
                read("c"),
            ),
            (
                doc! { "$lookup": { "from": "d", "pipeline": [], "as": "z" } },
                read("d"),
            ),
            (
                doc! { "$graphLookup": {
                    "from": "e", "startWith": "$x", "connectFromField": "x",
                    "connectToField": "y", "as": "z",
                } },
                read("e"),
            ),
        ];
        let kinds = ["lookup", "union", "facet"];
        for (leaf, expected) in leaves {
            assert_eq!(touches(bson!([leaf.clone()])), vec![expected.clone()]);
            for outer in kinds {
                for inner in kinds {
                    if (outer, inner) == ("facet", "facet") {
                        continue;
                    }
                    let nested = around(inner, vec![doc! { "$match": {} }, leaf.clone()]);
                    let stages = bson!([doc! { "$limit": 1 }, around(outer, vec![nested])]);
                    let found = touches(stages.clone());
                    assert!(found.contains(&expected), "{stages}: {found:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_written_depends_on_what_may_happen() {
        for (matched, not_matched, expected) in [
            (bson!("merge"), "insert", (true, true)),
            (bson!("replace"), "insert", (true, true)),
            (bson!("keepExisting"), "insert", (true, true)),
            (bson!("fail"), "insert", (true, false)),
            (bson!("merge"), "discard", (false, true)),
            (bson!("replace"), "fail", (false, true)),
            (bson!([{ "$set": { "a": 1 } }]), "discard", (false, true)),
            (bson!([{ "$set": { "a": 1 } }]), "insert", (true, true)),
        ] {
            let merge = doc! {
                "into": { "db": "d", "coll": "c" },
                "whenMatched": matched, "whenNotMatched": not_matched,
            };
            let [
                Touch::Merge {
                    into,
                    inserts,
                    updates,
                },
            ] = &touches(bson!([{ "$merge": merge.clone() }]))[..]
            else {
                panic!("{merge}");
            };
            assert_eq!(into.database.as_deref(), Some("d"));
            assert_eq!((*inserts, *updates), expected, "{merge}");
        }
        let out = touches(bson!([{ "$out": { "db": "d", "coll": "c" } }]));
        assert!(matches!(&out[..], [Touch::Replace(into)] if into.collection == "c"));
    }

    #[test]
    fn stages_that_the_server_answers_are_told() {
        for name in ["$collStats", "$indexStats", "$planCacheStats", "$currentOp"] {
            let found = touches(bson!([{ name: {} }]));
            assert!(matches!(&found[..], [Touch::Ask(stage)] if stage.asked.name() == name));
        }
        let within = touches(bson!([
            { "$unionWith": { "coll": "u", "pipeline": [{ "$collStats": {} }] } },
        ]));
        assert!(matches!(&within[..], [Touch::Read(_), Touch::Ask(_)]));
    }
}
