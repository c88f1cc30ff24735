//! MongoDB's language: what was parsed is applied to a document, and must end when its time does.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use bson::{Bson, Document};
use tessera_core::deadline::Deadline;
use tessera_mongo_language::collation::Collation;
use tessera_mongo_language::compare::compare;
use tessera_mongo_language::expression::Expression;
use tessera_mongo_language::expression::variables::{Context, ParseContext, Variables};
use tessera_mongo_language::filter::{Filter, Validator};
use tessera_mongo_language::key;
use tessera_mongo_language::pipeline::Pipeline;
use tessera_mongo_language::projection::Projection;
use tessera_mongo_language::sort::SortPattern;
use tessera_mongo_language::update::Update;
use tokio::runtime::{Builder, Runtime};

use crate::extended_json::document;

/// How long an input may compute, and how much later than that it may end: what counts no steps
/// takes no longer.
const ALLOWED: Duration = Duration::from_millis(20);
const LATE: Duration = Duration::from_millis(500);

thread_local! {
    static RUNTIME: LazyLock<Option<Runtime>> =
        LazyLock::new(|| Builder::new_current_thread().enable_time().build().ok());
}

/// Runs within a deadline, as commands do.
fn within(operation: impl FnOnce()) {
    let began = Instant::now();
    RUNTIME.with(|runtime| {
        if let Some(runtime) = &**runtime {
            runtime.block_on(Deadline::new(Some(ALLOWED), None).run(async { operation() }));
        }
    });
    let took = began.elapsed();
    assert!(
        took < ALLOWED + LATE,
        "steps are not counted: it took {took:?}"
    );
}

/// What an input is about: `on` is the document.
fn input(bytes: &[u8]) -> Option<(Document, Document, Context)> {
    let mut input = document(bytes)?;
    let on = match input.remove("on") {
        Some(Bson::Document(on)) => on,
        _ => Document::new(),
    };
    let collation = match input.remove("collation") {
        Some(Bson::Document(collation)) => Collation::parse(&collation).unwrap_or_default(),
        _ => Collation::default(),
    };
    let variables = Variables::system(bson::DateTime::from_millis(1_700_000_000_000), None, vec![]);
    let context = Context {
        collation,
        variables,
    };
    Some((input, on, context))
}

/// Whether an input may ask for something random.
fn is_random(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    ["$sampleRate", "$rand"]
        .iter()
        .any(|name| text.contains(name))
}

pub(crate) fn filter(bytes: &[u8]) {
    let Some((input, on, context)) = input(bytes) else {
        return;
    };
    within(|| {
        if let Ok(filter) = Filter::parse(&input, &context) {
            let first = filter.matches(&on);
            let second = filter.matches(&on);
            if let (Ok(first), Ok(second), false) = (first, second, is_random(bytes)) {
                assert_eq!(first, second);
            }
        }
        let _refused = Validator::parse(&input, &context).is_err();
    });
}

pub(crate) fn update(bytes: &[u8]) {
    let Some((input, on, context)) = input(bytes) else {
        return;
    };
    let update = input.get("u").cloned().unwrap_or(Bson::Null);
    let filters = match input.get("arrayFilters") {
        Some(Bson::Array(filters)) => {
            let filters = filters.iter().filter_map(Bson::as_document);
            filters.cloned().collect()
        }
        _ => Vec::new(),
    };
    within(|| {
        if let Ok(update) = Update::parse(&update, &filters, &context) {
            for is_insert in [false, true] {
                let _refused = update.apply(on.clone(), Some(0), is_insert).is_err();
            }
        }
    });
}

pub(crate) fn expression(bytes: &[u8]) {
    let Some((input, on, context)) = input(bytes) else {
        return;
    };
    let value = input.get("e").cloned().unwrap_or(Bson::Document(input));
    within(|| {
        if let Ok(expression) = Expression::parse(&value, &ParseContext::from(&context))
            && let Ok(Some(value)) = expression.evaluate(&on, &context.variables)
        {
            let _order = compare(&value, &value, &context.collation);
            let _key = key::encode(&value, &context.collation);
        }
    });
}

pub(crate) fn pipeline(bytes: &[u8]) {
    let Some((input, on, context)) = input(bytes) else {
        return;
    };
    let Some(Bson::Array(stages)) = input.get("pipeline") else {
        return;
    };
    within(|| {
        let _refused = Pipeline::parse(stages, &context).is_err();
        if let Ok(update) = Pipeline::parse_update(stages, &context) {
            let _refused = update.update(on.clone(), &context.variables).is_err();
        }
    });
}

pub(crate) fn projection(bytes: &[u8]) {
    let Some((input, on, context)) = input(bytes) else {
        return;
    };
    within(|| {
        if let Ok(projection) = Projection::parse(&input, &context) {
            let _refused = projection.apply(on.clone(), Some(0)).is_err();
        }
        if let Ok(sort) = SortPattern::parse(&input, &context.collation) {
            let sorted = sort.sort(vec![on.clone(), Document::new(), on.clone()]);
            assert!(sorted.is_err() || sorted.is_ok_and(|sorted| sorted.len() == 3));
        }
    });
}

/// Keys stand in the order of the values.
pub(crate) fn order(bytes: &[u8]) {
    let Some((input, _, context)) = input(bytes) else {
        return;
    };
    let values: Vec<&Bson> = input.values().collect();
    within(|| {
        for (place, left) in values.iter().enumerate().take(12) {
            for right in values.iter().skip(place).take(12) {
                let order = compare(left, right, &context.collation);
                assert_eq!(order, compare(right, left, &context.collation).reverse());
                let keys = [left, right].map(|value| key::encode(value, &context.collation));
                if let [left_key, right_key] = &keys
                    && order.is_ne()
                {
                    assert_eq!(left_key.cmp(right_key), order, "{left} and {right}");
                }
            }
        }
    });
}
