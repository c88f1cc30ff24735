//! The table of stages: the name of each, where it is allowed, and its parser.

use std::sync::Arc;

use bson::{Bson, Document};

use super::bucket::{self, BucketAuto, Bucketing};
use super::densify::{self, Densify, Densifying};
use super::environment::Source;
use super::facet::{self, Faceting};
use super::fill;
use super::graph::{self, GraphLookup, Search, Searching};
use super::group::{self, Group, Grouping};
use super::kept::Kept;
use super::lookup::{self, LookingUp, Lookup};
use super::sort::{self, Sort, Sorting};
use super::step::Running;
use super::streaming::{
    self, Change, Changing, Counting, Limiting, Matching, OwnDocuments, Redacting, Sampling,
    Skipping, Unwind,
};
use super::system::{self, Asked, Asking, SystemStage};
use super::transform::{self, Transform};
use super::union::{self, Union, Uniting};
use super::window::{self, SetWindowFields, Windowing};
use super::write::{self, Merge, Out, Target, Writing};
use super::{Pipeline, Runtime, StageContext};
use crate::error::Result;
use crate::expression::{Expression, Variables, fail};
use crate::filter::{self, Filter};

/// One stage of a pipeline.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// Lets some documents through.
    Match(Filter),
    /// Keeps, drops and computes fields.
    Project(Transform),
    /// Computes fields.
    AddFields(Transform),
    /// Puts what an expression gives in place of the document.
    ReplaceRoot(Expression),
    /// Leaves out parts of documents, by what they say themselves.
    Redact(Expression),
    /// Groups documents.
    Group(Group),
    /// Groups documents by ranges of about the same size.
    BucketAuto(BucketAuto),
    /// Sorts documents.
    Sort(Sort),
    /// Passes over the first so many.
    Skip(u64),
    /// Ends after so many.
    Limit(u64),
    /// Makes one document for each element of an array.
    Unwind(Unwind),
    /// Counts, and answers with the count in a field of this name.
    Count(String),
    /// Computes fields over neighbouring documents.
    SetWindowFields(Box<SetWindowFields>),
    /// Makes documents for the steps of a range that no document has.
    Densify(Box<Densify>),
    /// Takes so many documents by chance.
    Sample(usize),
    /// Runs several pipelines over the same documents.
    Facet(Vec<(String, Pipeline)>),
    /// Looks up documents of another collection.
    Lookup(Lookup),
    /// Looks up documents, and those they lead to.
    GraphLookup(Box<GraphLookup>),
    /// Goes on with the documents of another collection.
    UnionWith(Union),
    /// Begins with documents that are written out.
    Documents(Expression),
    /// Replaces a collection.
    Out(Out),
    /// Merges into a collection.
    Merge(Box<Merge>),
    /// Begins with what only the server knows.
    System(SystemStage),
}

/// Where a pipeline stands, which decides what stages it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// An aggregation.
    Command,
    /// An update.
    Update,
    /// Within `$facet`.
    Facet,
    /// Within `$lookup`.
    Lookup,
    /// Within `$unionWith`.
    Union,
}

impl Place {
    pub(super) fn of_filter(self) -> filter::Place {
        filter::Place::Query
    }
}

/// Where in a pipeline a stage may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Anywhere,
    First,
    Last,
}

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    name: &'static str,
    position: Position,
    /// Whether an update may have it.
    in_update: bool,
    pub(super) parse: fn(&Bson, &StageContext<'_>) -> Result<Vec<Stage>>,
}

type Parse = fn(&Bson, &StageContext<'_>) -> Result<Vec<Stage>>;

const fn row(name: &'static str, parse: Parse) -> Row {
    Row {
        name,
        position: Position::Anywhere,
        in_update: false,
        parse,
    }
}

const fn updating(name: &'static str, parse: Parse) -> Row {
    Row {
        in_update: true,
        ..row(name, parse)
    }
}

const fn first(name: &'static str, parse: Parse) -> Row {
    Row {
        position: Position::First,
        ..row(name, parse)
    }
}

const fn last(name: &'static str, parse: Parse) -> Row {
    Row {
        position: Position::Last,
        ..row(name, parse)
    }
}

const ROWS: &[Row] = &[
    updating("$addFields", transform::parse_add_fields),
    row("$bucket", bucket::parse_bucket),
    row("$bucketAuto", bucket::parse_bucket_auto),
    first("$changeStream", |argument, _| {
        system::parse(Asked::ChangeStream, argument)
    }),
    row("$changeStreamSplitLargeEvent", |argument, _| {
        system::parse(Asked::ChangeStreamSplit, argument)
    }),
    first("$collStats", |argument, _| {
        system::parse(Asked::CollStats, argument)
    }),
    row("$count", streaming::parse_count),
    first("$currentOp", |argument, _| {
        system::parse(Asked::CurrentOp, argument)
    }),
    row("$densify", densify::parse),
    first("$documents", streaming::parse_documents),
    row("$facet", facet::parse),
    row("$fill", fill::parse),
    first("$geoNear", |argument, _| {
        system::parse(Asked::GeoNear, argument)
    }),
    row("$graphLookup", graph::parse),
    row("$group", group::parse),
    first("$indexStats", |argument, _| {
        system::parse(Asked::IndexStats, argument)
    }),
    row("$limit", streaming::parse_limit),
    first("$listCatalog", |argument, _| {
        system::parse(Asked::ListCatalog, argument)
    }),
    first("$listClusterCatalog", |argument, _| {
        system::parse(Asked::ListClusterCatalog, argument)
    }),
    first("$listLocalSessions", |argument, _| {
        system::parse(Asked::ListLocalSessions, argument)
    }),
    first("$listSampledQueries", |argument, _| {
        system::parse(Asked::ListSampledQueries, argument)
    }),
    first("$listSearchIndexes", |argument, _| {
        system::parse(Asked::ListSearchIndexes, argument)
    }),
    first("$listSessions", |argument, _| {
        system::parse(Asked::ListSessions, argument)
    }),
    row("$lookup", lookup::parse),
    row("$match", streaming::parse_match),
    last("$merge", write::parse_merge),
    last("$out", write::parse_out),
    first("$planCacheStats", |argument, _| {
        system::parse(Asked::PlanCacheStats, argument)
    }),
    updating("$project", transform::parse_project),
    first("$querySettings", |argument, _| {
        system::parse(Asked::QuerySettings, argument)
    }),
    first("$queryStats", |argument, _| {
        system::parse(Asked::QueryStats, argument)
    }),
    row("$redact", streaming::parse_redact),
    updating("$replaceRoot", streaming::parse_replace_root),
    updating("$replaceWith", streaming::parse_replace_with),
    row("$sample", streaming::parse_sample),
    first("$search", |argument, _| {
        system::parse(Asked::Search, argument)
    }),
    first("$searchMeta", |argument, _| {
        system::parse(Asked::SearchMeta, argument)
    }),
    updating("$set", transform::parse_add_fields),
    row("$setWindowFields", window::parse),
    first("$shardedDataDistribution", |argument, _| {
        system::parse(Asked::ShardedDataDistribution, argument)
    }),
    row("$skip", streaming::parse_skip),
    row("$sort", sort::parse),
    row("$sortByCount", group::parse_sort_by_count),
    row("$unionWith", union::parse),
    updating("$unset", transform::parse_unset),
    row("$unwind", streaming::parse_unwind),
    first("$vectorSearch", |argument, _| {
        system::parse(Asked::VectorSearch, argument)
    }),
];

/// The names of all stages.
pub fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.name)
}

/// The row of a stage as it is written, and its argument.
pub(super) fn read(stage: &Bson) -> Result<(&'static Row, &Bson)> {
    let Bson::Document(stage) = stage else {
        return fail(14, "Each element of the 'pipeline' array must be an object");
    };
    let mut fields = stage.iter();
    let (Some((name, argument)), None) = (fields.next(), fields.next()) else {
        return fail(
            40323,
            "A pipeline stage specification object must contain exactly one field.",
        );
    };
    match ROWS.iter().find(|row| row.name == name) {
        Some(row) => Ok((row, argument)),
        None => fail(40324, format!("Unrecognized pipeline stage name: '{name}'")),
    }
}

/// Stages that tell of the server as a whole, so that no collection can be before them.
const OF_SERVER: &[&str] = &[
    "$currentOp",
    "$listClusterCatalog",
    "$listLocalSessions",
    "$listSampledQueries",
    "$listSessions",
    "$querySettings",
    "$queryStats",
    "$shardedDataDistribution",
];

impl Row {
    /// Refuses a stage where it may not stand.
    pub(super) fn check(
        &self,
        position: usize,
        is_last: bool,
        at: &StageContext<'_>,
    ) -> Result<()> {
        let name = self.name;
        let writes = self.position == Position::Last;
        let is_source = self.position == Position::First && name != "$documents";
        let of_server = OF_SERVER.contains(&name);
        match at.place {
            Place::Update if !self.in_update => {
                return fail(
                    72,
                    format!("{name} is not allowed to be used within an update"),
                );
            }
            Place::Lookup if writes => {
                return fail(
                    51047,
                    format!("{name} is not allowed within a $lookup's sub-pipeline"),
                );
            }
            Place::Union if writes => {
                let message = "is not allowed within a $unionWith's sub-pipeline";
                return fail(31441, format!("{name} {message}"));
            }
            Place::Lookup | Place::Union if name == "$changeStream" => {
                return fail(
                    40573,
                    "$changeStream is only valid at the start of a pipeline",
                );
            }
            Place::Lookup | Place::Union | Place::Facet if of_server && name != "$currentOp" => {
                return fail(73, format!("{name} cannot be run against a collection"));
            }
            Place::Lookup | Place::Union if of_server => {
                return fail(
                    73,
                    format!("{name} must be run against the 'admin' database"),
                );
            }
            Place::Facet if writes || self.position == Position::First || name == "$facet" => {
                return fail(
                    40600,
                    format!("{name} is not allowed within a $facet stage"),
                );
            }
            _ if at.in_facet && (is_source || name == "$facet") => {
                return fail(
                    40600,
                    format!("{name} is not allowed within a $facet stage"),
                );
            }
            _ => {}
        }
        match self.position {
            Position::First if position > 0 => fail(
                40602,
                format!("{name} is only valid as the first stage in a pipeline"),
            ),
            Position::Last if !is_last => fail(
                40601,
                format!("{name} can only be the final stage in the pipeline"),
            ),
            _ => Ok(()),
        }
    }
}

impl Stage {
    /// What the stage makes of one document, for those that updates may have.
    pub(super) fn apply(&self, document: Document, variables: &Variables) -> Result<Document> {
        match self {
            Self::Project(transform) | Self::AddFields(transform) => {
                transform.apply(document, variables)
            }
            Self::ReplaceRoot(expression) => {
                streaming::replace_root(expression, &document, variables)
            }
            _ => Ok(document),
        }
    }

    /// The stage over its input.
    pub(super) fn start(&self, input: Box<dyn Source>, runtime: &Runtime<'_>) -> Box<dyn Source> {
        let variables = runtime.variables.clone();
        let collation = runtime.context.collation.clone();
        let memory = runtime.environment.memory_limit();
        match self.clone() {
            Self::Match(filter) => Running::over(input, Matching(filter)),
            Self::Project(transform) | Self::AddFields(transform) => Running::over(
                input,
                Changing {
                    change: Change::Fields(transform),
                    variables,
                },
            ),
            Self::ReplaceRoot(expression) => Running::over(
                input,
                Changing {
                    change: Change::Root(expression),
                    variables,
                },
            ),
            Self::Redact(expression) => Running::over(
                input,
                Redacting {
                    expression,
                    variables,
                },
            ),
            Self::Group(group) => {
                Running::over(input, Grouping::new(group, variables, collation, memory))
            }
            Self::BucketAuto(stage) => {
                Running::over(input, Bucketing::new(stage, variables, collation, memory))
            }
            Self::Densify(stage) => Running::over(input, Densifying::new(*stage, memory)),
            Self::SetWindowFields(stage) => {
                Running::over(input, Windowing::new(*stage, variables, collation, memory))
            }
            Self::Sort(sort) => Running::over(
                input,
                Sorting::new(sort.order, collation, runtime.limit, memory),
            ),
            Self::Skip(count) => Running::over(input, Skipping(count)),
            Self::Limit(count) => Running::over(input, Limiting(count)),
            Self::Unwind(unwind) => Running::over(input, unwind),
            Self::Count(name) => Running::over(input, Counting { name, count: 0 }),
            Self::Sample(size) => Running::over(
                input,
                Sampling {
                    size,
                    seen: 0,
                    kept: Vec::new(),
                    memory: Kept::new(memory),
                },
            ),
            other => other.open(input, runtime),
        }
    }

    /// Stages that need more than the documents before them.
    fn open(self, input: Box<dyn Source>, runtime: &Runtime<'_>) -> Box<dyn Source> {
        let environment = Arc::clone(runtime.environment);
        let context = runtime.context.clone();
        match self {
            Self::Facet(facets) => Box::new(Faceting {
                input,
                facets,
                kept: Kept::new(environment.memory_limit()),
                environment,
                done: false,
            }),
            Self::Lookup(lookup) => Box::new(LookingUp {
                input,
                lookup,
                context,
                kept: Kept::new(usize::MAX),
                environment,
                cached: None,
            }),
            Self::GraphLookup(stage) => {
                let search = Search {
                    stage: *stage,
                    context,
                    environment,
                };
                let kept = Kept::new(search.environment.memory_limit());
                Box::new(Searching {
                    input,
                    search,
                    kept,
                })
            }
            Self::UnionWith(union) => Box::new(Uniting {
                input,
                union: Some(union),
                environment,
            }),
            Self::Documents(expression) => Box::new(OwnDocuments {
                expression: Some((expression, context.variables)),
                documents: Vec::new().into_iter(),
            }),
            Self::Out(out) => {
                let target = Target::Out(out);
                Box::new(Writing {
                    input: Some(input),
                    target,
                    environment,
                })
            }
            Self::Merge(merge) => {
                let target = Target::Merge(merge);
                Box::new(Writing {
                    input: Some(input),
                    target,
                    environment,
                })
            }
            Self::System(stage) => Box::new(Asking::new(stage, environment)),
            _ => input,
        }
    }
}
