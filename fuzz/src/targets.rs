//! Everything that is fuzzed, with what its inputs are made from. Adding one is a row here and a
//! file of its name in `corpus/`.

use tessera_core::continuation::Continuation;
use tessera_frontend::testing::Target;

use crate::{language, whole};

/// How inputs are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// By changing bytes.
    Bytes,
    /// By changing JSON, and now and then its bytes.
    Json,
}

/// A target and its corpus.
#[derive(Clone, Copy, Debug)]
pub struct Fuzzed {
    /// What is called.
    pub target: Target,
    /// What its inputs are made from.
    pub corpus: &'static str,
    /// How they are made from that.
    pub form: Form,
    /// How much longer an input takes than one of a decoder: so many fewer there are.
    pub weight: u64,
}

macro_rules! corpus {
    ($name:literal) => {
        include_str!(concat!("../corpus/", $name, ".txt"))
    };
}

/// The corpora of the front ends' own targets.
const CORPORA: &[(&str, &str)] = &[
    ("mongo-packet", corpus!("mongo-packet")),
    ("mongo-document", corpus!("mongo-document")),
    ("cql-frames", corpus!("cql-frames")),
    ("cql-statement", corpus!("cql-statement")),
    ("cql-type", corpus!("cql-type")),
    ("cql-value", corpus!("cql-value")),
    ("cql-text", corpus!("cql-text")),
    ("cql-stored", corpus!("cql-stored")),
    ("table-filter", corpus!("table-filter")),
    ("table-address", corpus!("table-address")),
    ("table-json", corpus!("table-json")),
    ("table-atom", corpus!("table-atom")),
    ("table-batch", corpus!("table-batch")),
    ("table-xml", corpus!("table-xml")),
    ("table-stored", corpus!("table-stored")),
];

/// What is put together here.
const OWN: &[Fuzzed] = &[
    row(
        "core-continuation",
        continuation,
        corpus!("core-continuation"),
        Form::Bytes,
        1,
    ),
    row(
        "mongo-filter",
        language::filter,
        corpus!("mongo-filter"),
        Form::Json,
        2,
    ),
    row(
        "mongo-update",
        language::update,
        corpus!("mongo-update"),
        Form::Json,
        2,
    ),
    row(
        "mongo-expression",
        language::expression,
        corpus!("mongo-expression"),
        Form::Json,
        2,
    ),
    row(
        "mongo-pipeline",
        language::pipeline,
        corpus!("mongo-pipeline"),
        Form::Json,
        2,
    ),
    row(
        "mongo-projection",
        language::projection,
        corpus!("mongo-projection"),
        Form::Json,
        2,
    ),
    row(
        "mongo-order",
        language::order,
        corpus!("mongo-order"),
        Form::Json,
        2,
    ),
    row(
        "mongo-server",
        whole::mongo,
        corpus!("mongo-server"),
        Form::Json,
        100,
    ),
    row(
        "mongo-wire",
        whole::mongo,
        corpus!("mongo-packet"),
        Form::Bytes,
        400,
    ),
    row(
        "cql-server",
        whole::cql,
        corpus!("cql-statement"),
        Form::Bytes,
        200,
    ),
    row(
        "cql-wire",
        whole::cql,
        corpus!("cql-wire"),
        Form::Bytes,
        400,
    ),
    row(
        "table-server",
        whole::table,
        corpus!("table-server"),
        Form::Bytes,
        200,
    ),
    row(
        "console-server",
        whole::console,
        corpus!("console-server"),
        Form::Bytes,
        200,
    ),
];

const fn row(
    name: &'static str,
    run: fn(&[u8]),
    corpus: &'static str,
    form: Form,
    weight: u64,
) -> Fuzzed {
    Fuzzed {
        target: Target { name, run },
        corpus,
        form,
        weight,
    }
}

/// All targets.
pub fn all() -> Vec<Fuzzed> {
    let front_ends = [
        tessera_mongo::fuzzing::TARGETS,
        tessera_cql::fuzzing::TARGETS,
        tessera_table::fuzzing::TARGETS,
    ];
    let decoders = front_ends.into_iter().flatten().map(|target| {
        let corpus = CORPORA.iter().find(|(name, _)| *name == target.name);
        Fuzzed {
            target: *target,
            corpus: corpus.map_or("", |(_, text)| text),
            form: Form::Bytes,
            weight: 1,
        }
    });
    decoders.chain(OWN.iter().copied()).collect()
}

/// The target of this name.
pub fn find(name: &str) -> Option<Fuzzed> {
    all().into_iter().find(|fuzzed| fuzzed.target.name == name)
}

fn continuation(bytes: &[u8]) {
    if let Ok(read) = Continuation::decode(bytes) {
        assert!(Continuation::decode(&read.encode()).is_ok_and(|again| again == read));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus;

    #[test]
    fn every_target_has_a_corpus_and_a_name_of_its_own() {
        let all = all();
        for fuzzed in &all {
            assert!(
                corpus::read(fuzzed.corpus).len() > 2,
                "{}",
                fuzzed.target.name
            );
        }
        let mut names: Vec<&str> = all.iter().map(|fuzzed| fuzzed.target.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
    }
}
