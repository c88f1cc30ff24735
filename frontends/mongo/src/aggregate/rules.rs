//! Where a stage may stand in a command: with or without a collection, in which database, with
//! which read concern, and whether the stable API has it.

use bson::{Bson, Document};
use tessera_mongo_language::error::Code;

use crate::collection::Namespace;
use crate::concern::Level;
use crate::failure::{Failure, Result};
use crate::fields::Fields;
use crate::request::Request;

/// What a stage that begins a pipeline reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// Documents that the command holds itself, or what the server tells of itself.
    NoCollection,
    /// The server, through its database `admin`.
    Admin,
    /// A collection.
    Collection,
    /// Either.
    Either,
}

/// A stage that is not for every command.
struct Rule {
    name: &'static str,
    reads: Reads,
    /// Whether the stable API has it.
    stable: bool,
    /// Whether it reads what is no data, so that no read concern but the usual one fits.
    local: bool,
}

const fn rule(name: &'static str, reads: Reads) -> Rule {
    Rule {
        name,
        reads,
        stable: false,
        local: false,
    }
}

const fn local(name: &'static str, reads: Reads) -> Rule {
    Rule {
        local: true,
        ..rule(name, reads)
    }
}

const RULES: &[Rule] = &[
    Rule {
        stable: true,
        ..rule("$changeStream", Reads::Either)
    },
    Rule {
        stable: true,
        ..rule("$collStats", Reads::Collection)
    },
    local("$currentOp", Reads::Admin),
    Rule {
        stable: true,
        ..rule("$documents", Reads::NoCollection)
    },
    rule("$indexStats", Reads::Collection),
    rule("$listCatalog", Reads::Either),
    rule("$listClusterCatalog", Reads::NoCollection),
    local("$listLocalSessions", Reads::NoCollection),
    rule("$listSampledQueries", Reads::Admin),
    rule("$listSearchIndexes", Reads::Collection),
    rule("$listSessions", Reads::Either),
    local("$planCacheStats", Reads::Collection),
    rule("$querySettings", Reads::Admin),
    rule("$queryStats", Reads::Admin),
    rule("$search", Reads::Collection),
    rule("$searchMeta", Reads::Collection),
    rule("$shardedDataDistribution", Reads::NoCollection),
    rule("$vectorSearch", Reads::Collection),
];

/// Refuses a pipeline that its command cannot have.
pub(crate) fn check(
    request: &Request<'_>,
    fields: &Fields<'_>,
    (namespace, stages): (Option<&Namespace>, &[Bson]),
) -> Result<()> {
    let first = stages.first().and_then(Bson::as_document);
    let name = first.and_then(|stage| stage.keys().next());
    let name = name.map_or("", String::as_str);
    let rule = RULES.iter().find(|rule| rule.name == name);
    check_namespace((name, rule), request.database, namespace)?;
    check_level(rule, request, stages)?;
    if request.in_transaction() {
        check_transaction(rule, stages)?;
    }
    if request.generic.api.strict == Some(true) {
        check_stable(rule, fields, first)?;
    }
    Ok(())
}

/// Refuses a view whose pipeline does not begin with a collection.
pub(crate) fn check_view(stages: &[Bson]) -> Result<()> {
    let first = stages.first().and_then(Bson::as_document);
    let name = first.and_then(|stage| stage.keys().next());
    let rule = name.and_then(|name| RULES.iter().find(|rule| rule.name == name.as_str()));
    match rule {
        Some(rule) if rule.reads != Reads::Collection => {
            let message = format!("{} cannot be in the pipeline of a view", rule.name);
            Err(Failure::new(Code::INVALID_NAMESPACE, message))
        }
        _ => Ok(()),
    }
}

fn check_namespace(
    (name, rule): (&str, Option<&Rule>),
    database: &str,
    namespace: Option<&Namespace>,
) -> Result<()> {
    let refuse = |message: String| Err(Failure::new(Code::INVALID_NAMESPACE, message));
    let reads = rule.map_or(Reads::Collection, |rule| rule.reads);
    match (reads, namespace) {
        (Reads::Collection, None) => refuse(format!(
            "{{aggregate: 1}} is not valid for '{name}'; a collection is required."
        )),
        (Reads::NoCollection | Reads::Admin, Some(namespace)) => refuse(format!(
            "{name} cannot be run on the collection {namespace}; it needs {{aggregate: 1}}"
        )),
        (Reads::Admin, None) if database != "admin" => refuse(format!(
            "{name} must be run against the 'admin' database with {{aggregate: 1}}"
        )),
        _ => Ok(()),
    }
}

/// Refuses what is not read at one moment.
fn check_transaction(rule: Option<&Rule>, stages: &[Bson]) -> Result<()> {
    let united = stages
        .iter()
        .filter_map(Bson::as_document)
        .any(|stage| stage.contains_key("$unionWith"));
    let first = rule
        .map(|rule| rule.name)
        .filter(|name| *name != "$documents");
    match first.or(united.then_some("$unionWith")) {
        None => Ok(()),
        Some(name) => {
            let message =
                format!("Stage not supported inside of a multi-document transaction: {name}");
            let code = Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION;
            Err(Failure::new(code, message))
        }
    }
}

fn check_level(rule: Option<&Rule>, request: &Request<'_>, stages: &[Bson]) -> Result<()> {
    let concern = request.generic.read_concern.as_ref();
    let Some(level) = concern.and_then(|concern| concern.level) else {
        return Ok(());
    };
    let refuse = |name: &str| {
        let level = level.name();
        let message = format!("Aggregation stage {name} cannot run with a readConcern of {level}");
        Err(Failure::new(Code::INVALID_OPTIONS, message))
    };
    if let Some(rule) = rule.filter(|rule| rule.local && level != Level::Local) {
        return refuse(rule.name);
    }
    let writes = |stage: &Document| {
        let name = stage.keys().next()?;
        ["$out", "$merge"]
            .into_iter()
            .find(|writes| *writes == name.as_str())
    };
    let last = stages.last().and_then(Bson::as_document);
    match last.and_then(writes) {
        Some(name) if level == Level::Linearizable => refuse(name),
        _ => Ok(()),
    }
}

fn check_stable(rule: Option<&Rule>, fields: &Fields<'_>, first: Option<&Document>) -> Result<()> {
    let refuse = |what: &str| {
        let message = format!("{what} is not allowed with 'apiStrict: true' in API Version 1");
        Err(Failure::new(Code::API_STRICT_ERROR, message))
    };
    if fields.get("explain").is_some() {
        return refuse("the field 'explain'");
    }
    let Some(rule) = rule else {
        return Ok(());
    };
    if !rule.stable {
        return refuse(rule.name);
    }
    // Of the sizes of a collection only the count is promised.
    let options = first.and_then(|stage| stage.get_document("$collStats").ok());
    let unstable = options.and_then(|options| options.keys().find(|name| *name != "count"));
    match unstable {
        Some(name) => refuse(&format!("$collStats.{name}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, bson, doc};

    use super::*;
    use crate::commands::aggregate;

    fn code(database: &str, command: Document) -> i32 {
        let mut body = command;
        body.insert("$db", database);
        let body = RawDocumentBuf::try_from(&body).unwrap();
        let request = Request::parse(&body, Vec::new(), None).unwrap();
        let fields = Fields::of(&request, aggregate::FIELDS).unwrap();
        let stages = crate::commands::asked::stages(fields.array("pipeline")).unwrap();
        let namespace = request.argument().as_str();
        let namespace = namespace.map(|name| Namespace::new(database, name).unwrap());
        check(&request, &fields, (namespace.as_ref(), &stages))
            .map_or_else(|failure| failure.code().0, |()| 0)
    }

    #[test]
    fn stages_stand_where_they_can_read() {
        for (database, target, stage, expected) in [
            ("test", bson!("c"), "$match", 0),
            ("test", bson!(1), "$match", 73),
            ("test", bson!("c"), "$documents", 73),
            ("test", bson!(1), "$documents", 0),
            ("test", bson!(1), "$currentOp", 73),
            ("admin", bson!(1), "$currentOp", 0),
            ("admin", bson!("c"), "$currentOp", 73),
            ("test", bson!(1), "$listLocalSessions", 0),
        ] {
            let command = doc! { "aggregate": target, "pipeline": [{ stage: {} }] };
            assert_eq!(code(database, command.clone()), expected, "{command}");
        }
    }

    #[test]
    fn levels_and_the_stable_api_refuse_stages() {
        for (stage, more, expected) in [
            (
                "$planCacheStats",
                doc! { "readConcern": { "level": "majority" } },
                72,
            ),
            (
                "$planCacheStats",
                doc! { "readConcern": { "level": "local" } },
                0,
            ),
            (
                "$out",
                doc! { "readConcern": { "level": "linearizable" } },
                72,
            ),
            (
                "$match",
                doc! { "readConcern": { "level": "linearizable" } },
                0,
            ),
            (
                "$indexStats",
                doc! { "apiVersion": "1", "apiStrict": true },
                323,
            ),
            (
                "$match",
                doc! { "apiVersion": "1", "apiStrict": true, "explain": true },
                323,
            ),
            ("$match", doc! { "apiVersion": "1", "apiStrict": true }, 0),
        ] {
            let mut command = doc! { "aggregate": "c", "pipeline": [{ stage: {} }] };
            command.extend(more);
            assert_eq!(code("test", command.clone()), expected, "{command}");
        }
        for (option, expected) in [("count", 0), ("storageStats", 323)] {
            let command = doc! {
                "aggregate": "c", "pipeline": [{ "$collStats": { option: {} } }],
                "apiVersion": "1", "apiStrict": true,
            };
            assert_eq!(code("test", command), expected, "{option}");
        }
    }
}
