//! A query as a client asked it: filter, order, projection and limits, parsed.

use bson::{Bson, Document};
use tessera_core::Transaction;
use tessera_core::container::Container;
use tessera_mongo_language::collation::Collation;
use tessera_mongo_language::error::{Result as LanguageResult, bad_value};
use tessera_mongo_language::expression::Context;
use tessera_mongo_language::filter::Filter;
use tessera_mongo_language::number::Number;
use tessera_mongo_language::projection::Projection;
use tessera_mongo_language::sort::SortPattern;

use crate::collection::Collection;
use crate::execute::partial::Looked;
use crate::failure::Result;
use crate::plan::choose::{Planner, Wanted};
use crate::plan::{Hint, Plan, predicate};

/// What to look for, and what to answer of it.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) filter: Filter,
    pub(crate) filter_document: Document,
    /// What of a document that filter looks at.
    pub(crate) filter_looks_at: Looked,
    pub(crate) sort: Option<SortPattern>,
    pub(crate) sort_document: Document,
    pub(crate) projection: Option<Projection>,
    pub(crate) projection_document: Document,
    pub(crate) skip: u64,
    pub(crate) limit: Option<u64>,
    pub(crate) hint: Hint,
    pub(crate) min: Option<Document>,
    pub(crate) max: Option<Document>,
    pub(crate) return_key: bool,
    pub(crate) show_record_id: bool,
    /// The fields that are to hold the key of the index that was used.
    pub(crate) index_key_fields: Vec<String>,
    /// Whether an order may be made beyond the memory that one query should take.
    pub(crate) allow_disk_use: bool,
    /// Whether the place in an array where the filter matched is needed.
    pub(crate) needs_position: bool,
    pub(crate) context: Context,
}

impl Query {
    /// A query by a filter alone.
    pub(crate) fn by_filter(filter: Document, context: Context) -> LanguageResult<Self> {
        let parsed = Filter::parse(&filter, &context)?;
        Ok(Self {
            filter_looks_at: Looked::by_filter(&parsed),
            filter: parsed,
            filter_document: filter,
            sort: None,
            sort_document: Document::new(),
            projection: None,
            projection_document: Document::new(),
            skip: 0,
            limit: None,
            hint: Hint::None,
            min: None,
            max: None,
            return_key: false,
            show_record_id: false,
            index_key_fields: Vec::new(),
            allow_disk_use: true,
            needs_position: false,
            context,
        })
    }

    /// The same query by another filter.
    pub(crate) fn with_filter(self, filter: Filter) -> Self {
        Self {
            filter_looks_at: Looked::by_filter(&filter),
            filter_document: filter.to_document(),
            filter,
            ..self
        }
    }

    /// The same query in this order. `{ $natural: ±1 }` is the order of reading.
    pub(crate) fn sorted(mut self, sort: Document) -> LanguageResult<Self> {
        if let Some(reverse) = natural(&sort)? {
            if self.hint == Hint::None {
                self.hint = Hint::Natural { reverse };
            }
            self.sort_document = sort;
            return Ok(self);
        }
        if !sort.is_empty() {
            self.sort = Some(SortPattern::parse(&sort, self.collation())?);
        }
        self.sort_document = sort;
        Ok(self)
    }

    /// The same query with answers of this form.
    pub(crate) fn projected(mut self, projection: Document) -> LanguageResult<Self> {
        if !projection.is_empty() {
            let filter = &self.filter_document;
            let parsed = Projection::parse_with_filter(&projection, filter, &self.context)?;
            self.needs_position |= parsed.is_positional();
            self.projection = Some(parsed);
            let wants_key = |value: &Bson| *value == bson::bson!({ "$meta": "indexKey" });
            let fields = projection.iter().filter(|(_, value)| wants_key(value));
            self.index_key_fields = fields.map(|(name, _)| name.clone()).collect();
        }
        self.projection_document = projection;
        Ok(self)
    }

    pub(crate) fn collation(&self) -> &Collation {
        &self.context.collation
    }

    /// Whether every document matches.
    pub(crate) fn matches_all(&self) -> bool {
        self.filter_document.is_empty()
    }

    /// How its documents are best found.
    pub(crate) async fn plan(
        &self,
        transaction: &mut Transaction,
        container: &Container,
        collection: &Collection,
    ) -> Result<Plan> {
        let clause = predicate::clause(&self.filter, self.collation());
        let sort = self.sort_paths();
        let needs = self.needs();
        let wanted = Wanted {
            clause: &clause,
            sort: &sort,
            collation: self.collation(),
            hint: &self.hint,
            filter: collection.index_filters.of(self),
            min: self.min.as_ref(),
            max: self.max.as_ref(),
            needs: needs.as_deref(),
        };
        let mut planner = Planner {
            transaction,
            container,
            collection,
            wanted: &wanted,
        };
        planner.choose().await
    }

    fn sort_paths(&self) -> Vec<(String, bool)> {
        let Some(sort) = &self.sort else {
            return Vec::new();
        };
        // An order at random is given by no index: a path that none has says so.
        let none = || vec![(String::new(), false)];
        let fields = sort.fields().map(|fields| {
            let owned = fields.into_iter();
            owned
                .map(|(path, descending)| (path.as_str().to_owned(), descending))
                .collect()
        });
        fields.unwrap_or_else(none)
    }

    /// The fields that an answer is made from: none if that is not known.
    fn needs(&self) -> Option<Vec<String>> {
        let beyond = !self.index_key_fields.is_empty() || self.show_record_id;
        if beyond || self.needs_position || self.return_key {
            return None;
        }
        let mut needs = self.projection.as_ref()?.included_paths()?;
        needs.extend(predicate::paths(&self.filter)?);
        needs.extend(self.sort_document.keys().cloned());
        Some(needs)
    }
}

/// The direction of `{ $natural: ±1 }`: whether it goes backwards.
pub(crate) fn natural(order: &Document) -> LanguageResult<Option<bool>> {
    match order.get("$natural") {
        None => Ok(None),
        Some(_) if order.len() > 1 => Err(bad_value("Cannot include '$natural' in compound sort")),
        Some(direction) => match Number::from_bson(direction).and_then(Number::as_i64_exact) {
            Some(1) => Ok(Some(false)),
            Some(-1) => Ok(Some(true)),
            _ => Err(bad_value(format!(
                "$natural sort cannot be set to {direction}"
            ))),
        },
    }
}
