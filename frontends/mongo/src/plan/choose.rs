//! Choosing a plan: the index that bounds the search best, gives the sort order, or covers the
//! query.

use std::sync::Arc;

use bson::{Bson, Document};
use bytes::Bytes;
use tessera_core::Transaction;
use tessera_core::container::Container;
use tessera_core::definition::IndexState;
use tessera_core::key::IndexId;
use tessera_core::locator::Locator;
use tessera_core::reading::{IndexSpan, PageRequest, Span};
use tessera_mongo_language::collation::Collation;
use tessera_mongo_language::error::{Code, Error, bad_value};

use crate::collection::{Collection, core_id_index};
use crate::failure::{Failure, Result};
use crate::index::keys::MARKER;
use crate::index::{IndexSpec, Order, same_key};
use crate::plan::bounds::{self, FieldBound};
use crate::plan::clause::{Clause, Conditions};
use crate::plan::filters::IndexFilter;
use crate::plan::interval::Intervals;
use crate::plan::predicate;
use crate::plan::{Access, Hint, IndexAccess, Plan, PointAccess, RowAccess, ScanAccess};

/// What a plan is chosen for.
pub(crate) struct Wanted<'a> {
    pub(crate) clause: &'a Clause,
    /// The paths and directions of the order that is asked for.
    pub(crate) sort: &'a [(String, bool)],
    pub(crate) collation: &'a Collation,
    pub(crate) hint: &'a Hint,
    /// The only indexes that may be used.
    pub(crate) filter: Option<IndexFilter>,
    /// The lowest and the highest key of the hinted index.
    pub(crate) min: Option<&'a Document>,
    pub(crate) max: Option<&'a Document>,
    /// The fields that an answer needs, if they are known.
    pub(crate) needs: Option<&'a [String]>,
}

/// Looks for the best plan.
pub(crate) struct Planner<'a> {
    pub(crate) transaction: &'a mut Transaction,
    pub(crate) container: &'a Container,
    pub(crate) collection: &'a Collection,
    pub(crate) wanted: &'a Wanted<'a>,
}

/// One index that could serve.
pub(super) struct Candidate {
    pub(super) access: Access,
    is_sorted: bool,
    /// How many fields are bounded to single values, and whether one more is bounded at all.
    pub(super) points: usize,
    pub(super) is_bounded: bool,
    is_covered: bool,
    is_unique: bool,
    fields: usize,
}

impl Candidate {
    /// The larger, the better.
    pub(super) fn rank(&self) -> (bool, usize, bool, bool, bool, usize) {
        let exact = self.is_unique && self.points == self.fields;
        (
            exact,
            self.points,
            self.is_bounded,
            self.is_sorted,
            self.is_covered,
            usize::MAX - self.fields,
        )
    }
}

/// An index as the planner sees it.
#[derive(Clone)]
pub(super) struct Available {
    pub(super) spec: Arc<IndexSpec>,
    /// None for the order of the rows themselves.
    pub(super) id: Option<IndexId>,
}

impl Planner<'_> {
    pub(crate) async fn choose(&mut self) -> Result<Plan> {
        let conditions = Conditions::of(self.wanted.clause);
        if conditions.never {
            return Ok(Plan::of(Access::Nothing, true));
        }
        let hinted = self.hinted()?;
        if let Hint::Natural { reverse } = self.wanted.hint {
            return Ok(self.natural(*reverse));
        }
        if self.wanted.min.is_some() || self.wanted.max.is_some() {
            return self.between_keys(hinted).await;
        }
        if hinted.is_none()
            && let Some(access) = self.by_keys(&conditions)
        {
            let one = matches!(access, Access::Point(_));
            return Ok(Plan::of(access, one || self.wanted.sort.is_empty()));
        }
        if let Some(index) = hinted {
            let found = self.candidate(&index, &conditions, true).await?;
            return match found {
                Some(candidate) => Ok(Plan::of(candidate.access, candidate.is_sorted)),
                None => {
                    let message = "error processing query: planner returned error: the index \
                                   that is hinted at cannot serve this query";
                    Err(Failure::new(Code::NO_QUERY_EXECUTION_PLANS, message))
                }
            };
        }
        self.best(&conditions).await
    }

    async fn best(&mut self, conditions: &Conditions<'_>) -> Result<Plan> {
        let mut candidates = Vec::new();
        for index in self.available() {
            if let Some(candidate) = self.candidate(&index, conditions, false).await? {
                candidates.push(candidate);
            }
        }
        candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.rank()));
        let mut candidates = candidates.into_iter();
        let best = candidates.next();
        let is_useful = |best: &Candidate| best.points > 0 || best.is_bounded;
        if !best.as_ref().is_some_and(is_useful)
            && let Some(union) = self.union(conditions).await?
        {
            return Ok(Plan::of(union, self.wanted.sort.is_empty()));
        }
        match best {
            Some(best) => Ok(Plan {
                access: best.access,
                is_sorted: best.is_sorted,
                rejected: candidates
                    .map(|candidate| Plan::of(candidate.access, candidate.is_sorted))
                    .collect(),
            }),
            None => Ok(self.natural(false)),
        }
    }

    /// All documents as they lie. In the order of `_id`, where that is how they lie.
    fn natural(&self, reverse: bool) -> Plan {
        let access = Access::Scan(ScanAccess {
            span: Span::All,
            reverse,
        });
        Plan::of(access, self.wanted.sort.is_empty())
    }

    /// The point or the logical partition that the filter names.
    pub(super) fn by_keys(&self, conditions: &Conditions<'_>) -> Option<Access> {
        let collection = self.collection;
        let usable = |value: &Bson| {
            let text = matches!(value, Bson::String(_) | Bson::Document(_) | Bson::Array(_));
            !text || *self.wanted.collation == collection.collation
        };
        let id = conditions.equality("_id", self.wanted.collation);
        let id = id.filter(usable);
        if let Some(shard_key) = &collection.shard_key {
            // Documents are placed by what they are, not by what collates alike.
            let is_placed = |value: &Bson| match value {
                Bson::Array(_) => false,
                Bson::String(_) | Bson::Document(_) => self.wanted.collation.is_simple(),
                _ => true,
            };
            let values = shard_key.paths.iter().map(|path| {
                let value = conditions.equality(path, self.wanted.collation)?;
                is_placed(&value).then_some(value)
            });
            let values: Vec<Bson> = values.collect::<Option<_>>()?;
            let (token, partition_key) = shard_key.place_values(&values);
            return Some(match id {
                Some(id) => {
                    let row = collection.row_key(&id);
                    self.point(Locator::row(token, partition_key, row))
                }
                None => Access::Scan(ScanAccess {
                    span: Span::Partition {
                        token,
                        partition_key,
                    },
                    reverse: false,
                }),
            });
        }
        let id = id.filter(|_| collection.is_ordered_by_id())?;
        Some(self.point(collection.locate_id(&id)))
    }

    fn point(&self, locator: Locator) -> Access {
        Access::Point(PointAccess {
            spec: Arc::clone(&self.collection.id_index),
            locator,
        })
    }

    pub(super) fn available(&self) -> Vec<Available> {
        let mut found = Vec::new();
        let id = core_id_index(self.container);
        if id.is_some() || self.collection.is_ordered_by_id() {
            found.push(Available {
                spec: Arc::clone(&self.collection.id_index),
                id,
            });
        }
        let live = self.collection.live_indexes(&self.container.definition);
        for (spec, id, state) in live {
            if state == IndexState::Ready && !spec.hidden {
                found.push(Available {
                    spec: Arc::clone(spec),
                    id: Some(id),
                });
            }
        }
        if let Some(filter) = &self.wanted.filter {
            found.retain(|index| filter.allows(&index.spec));
        }
        found
    }

    /// The index that the hint names.
    fn hinted(&self) -> Result<Option<Available>> {
        let found = match self.wanted.hint {
            // An index filter wins over a hint.
            _ if self.wanted.filter.is_some() => return Ok(None),
            Hint::None | Hint::Natural { .. } => return Ok(None),
            Hint::Name(name) => self.available().into_iter().find(|i| i.spec.name == *name),
            Hint::Key(key) => {
                let mut matching = self.available();
                matching.retain(|index| same_key(&index.spec.key, key));
                matching.into_iter().next()
            }
        };
        match found {
            Some(index) => Ok(Some(index)),
            None => Err(bad_hint("hint provided does not correspond to an existing index").into()),
        }
    }

    /// What an index could do for the query; none if it is of no use, or lacks documents.
    pub(super) async fn candidate(
        &mut self,
        index: &Available,
        conditions: &Conditions<'_>,
        hinted: bool,
    ) -> Result<Option<Candidate>> {
        let spec = &index.spec;
        if !hinted && !self.holds_all_answers(spec, conditions) {
            return Ok(None);
        }
        let mentioned = spec
            .fields
            .first()
            .is_some_and(|field| conditions.mentions(&field.path));
        let may_sort = !self.wanted.sort.is_empty();
        if !hinted && !mentioned && !may_sort && spec.wildcard.is_none() {
            return Ok(None);
        }
        let multikey = self.multikey(index).await?;
        let fields = self.field_bounds(spec, conditions, &multikey);
        let present = || match &spec.wildcard {
            Some(wildcard) if hinted => {
                let from = (conditions, self.wanted.collation);
                predicate::wildcard_presence(spec, wildcard, from)
            }
            _ => None,
        };
        let Some(fields) = fields.or_else(present) else {
            return Ok(None);
        };
        let (ranges, used) = bounds::ranges(&fields);
        let points = points(&fields, used);
        let order = self.order(spec, &fields, &multikey);
        if !hinted && used == 0 && order.is_none() && !mentioned {
            return Ok(None);
        }
        let reverse = order.unwrap_or(false);
        let is_covered = multikey.is_empty() && index.id.is_some() && self.covers(spec);
        let access = match index.id {
            None => {
                let ranges = self.row_ranges(&fields);
                let (spec, bounds) = (Arc::clone(spec), fields);
                Access::Rows(RowAccess {
                    spec,
                    ranges,
                    bounds,
                    reverse,
                })
            }
            Some(id) => Access::Index(IndexAccess {
                index: id,
                spec: Arc::clone(spec),
                ranges,
                bounds: fields,
                reverse,
                multikey,
                covered: is_covered,
            }),
        };
        Ok(Some(Candidate {
            access,
            is_sorted: order.is_some(),
            points,
            is_bounded: used > points,
            is_covered,
            is_unique: spec.unique,
            fields: spec.fields.len(),
        }))
    }

    /// The intervals of each field; none if the index cannot serve what is asked.
    fn field_bounds(
        &self,
        spec: &IndexSpec,
        conditions: &Conditions<'_>,
        multikey: &[u8],
    ) -> Option<Vec<FieldBound>> {
        if let Some(wildcard) = &spec.wildcard {
            return predicate::wildcard_bounds(spec, wildcard, conditions, self.wanted.collation);
        }
        let is_multikey = |position: usize| multikey.iter().any(|m| usize::from(*m) == position);
        let mut bounded_multikey = false;
        let mut found = Vec::with_capacity(spec.fields.len());
        for (position, field) in spec.fields.iter().enumerate() {
            let multikey = is_multikey(position);
            let mut intervals = if multikey && bounded_multikey {
                // Two conditions on one array may be met by different elements.
                Intervals::all()
            } else {
                conditions.intervals(&field.path, multikey, self.wanted.collation)
            };
            if intervals.depend_on_collation() && spec.collation != *self.wanted.collation {
                intervals = Intervals::all();
            }
            if field.order == Order::Hashed && !predicate::can_be_hashed(&intervals) {
                intervals = Intervals::all();
            }
            bounded_multikey |= multikey && !intervals.is_all();
            found.push(FieldBound {
                path: field.path.clone(),
                order: field.order,
                collation: spec.collation.clone(),
                intervals,
            });
        }
        Some(found)
    }

    fn row_ranges(&self, fields: &[FieldBound]) -> Vec<bounds::ByteRange> {
        let intervals = fields
            .first()
            .map_or_else(Intervals::all, |field| field.intervals.clone());
        bounds::plain_ranges(&intervals, &self.collection.collation)
    }

    /// Whether every document that matches has an entry.
    fn holds_all_answers(&self, spec: &IndexSpec, conditions: &Conditions<'_>) -> bool {
        if spec.sparse
            && !spec
                .fields
                .iter()
                .any(|field| conditions.requires(&field.path))
        {
            return false;
        }
        match &spec.partial {
            None => true,
            Some(partial) => {
                let needed = predicate::clause(&partial.filter, &spec.collation);
                let same_collation = spec.collation == *self.wanted.collation;
                (same_collation || !predicate::has_strings(&needed))
                    && conditions.imply(&needed, &spec.collation)
            }
        }
    }

    /// Whether the index gives the order that is asked for: read forwards (false) or backwards.
    pub(super) fn order(
        &self,
        spec: &IndexSpec,
        fields: &[FieldBound],
        multikey: &[u8],
    ) -> Option<bool> {
        if self.wanted.sort.is_empty() {
            return Some(false);
        }
        if spec.collation != *self.wanted.collation || spec.wildcard.is_some() {
            return None;
        }
        let mut sort = self.wanted.sort.iter().peekable();
        let mut reverse = None;
        for (position, field) in fields.iter().enumerate() {
            let single = matches!(field.intervals.0.as_slice(),
                [only] if only.is_point(&field.collation));
            let Some((path, descending)) = sort.peek() else {
                break;
            };
            if *path != field.path {
                if single {
                    continue;
                }
                return None;
            }
            let is_multikey = multikey.iter().any(|m| usize::from(*m) == position);
            if field.order == Order::Hashed || (is_multikey && !field.intervals.is_all()) {
                return None;
            }
            let backwards = field.order.is_descending() != *descending;
            if *reverse.get_or_insert(backwards) != backwards && !single {
                return None;
            }
            sort.next();
        }
        match sort.peek() {
            None => reverse,
            Some(_) => None,
        }
    }

    fn covers(&self, spec: &IndexSpec) -> bool {
        let plain = |path: &str| !path.contains('.');
        let keeps = |path: &String| spec.fields.iter().any(|field| field.path == *path);
        self.wanted.needs.is_some_and(|needs| {
            spec.wildcard.is_none()
                && !spec.is_hashed()
                && needs.iter().all(|n| keeps(n) && plain(n))
        })
    }

    /// Positions of the fields of an index that lead through arrays in some document.
    pub(super) async fn multikey(&mut self, index: &Available) -> Result<Vec<u8>> {
        let mut found = Vec::new();
        let Some(id) = index.id.filter(|_| !index.spec.is_id_index()) else {
            return Ok(found);
        };
        let page = PageRequest {
            max_items: 1,
            ..PageRequest::default()
        };
        let mut from = Bytes::from_static(&[MARKER]);
        loop {
            let span = IndexSpan {
                index: id,
                from: std::ops::Bound::Included(from),
                to: std::ops::Bound::Excluded(Bytes::from_static(&[MARKER + 1])),
            };
            let markers = self
                .transaction
                .scan_index(self.container, &span, &page)
                .await?;
            let position = markers
                .hits
                .first()
                .and_then(|hit| hit.value.get(1).copied());
            match position {
                Some(position) if position < u8::MAX => {
                    found.push(position);
                    from = Bytes::copy_from_slice(&[MARKER, position + 1]);
                }
                _ => return Ok(found),
            }
        }
    }
}

impl Plan {
    pub(crate) fn of(access: Access, is_sorted: bool) -> Self {
        Self {
            access,
            is_sorted,
            rejected: Vec::new(),
        }
    }
}

fn points(fields: &[FieldBound], used: usize) -> usize {
    let bounded = fields.iter().take(used);
    bounded
        .take_while(|field| field.intervals.are_points(&field.collation))
        .count()
}

fn bad_hint(why: &str) -> Error {
    bad_value(format!(
        "error processing query: planner returned error: {why}"
    ))
}
