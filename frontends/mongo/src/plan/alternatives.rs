//! Plans that are more than one index with its bounds: a union of several, and the range between
//! two keys.

use tessera_mongo_language::error::{Code, Error};

use crate::failure::Result;
use crate::plan::bounds::{self, FieldBound};
use crate::plan::choose::{Available, Candidate, Planner};
use crate::plan::clause::{Clause, Conditions};
use crate::plan::interval::Intervals;
use crate::plan::{Access, IndexAccess, Plan, RowAccess};

impl Planner<'_> {
    /// A plan for each of some alternatives, if an index bounds every one of them.
    pub(super) async fn union(&mut self, conditions: &Conditions<'_>) -> Result<Option<Access>> {
        for alternatives in conditions.alternatives.iter().copied() {
            let mut found = Vec::with_capacity(alternatives.len());
            for clause in alternatives {
                let Some(access) = self.alternative(clause).await? else {
                    found.clear();
                    break;
                };
                found.push(access);
            }
            if !found.is_empty() {
                return Ok(Some(Access::Union(found)));
            }
        }
        Ok(None)
    }

    async fn alternative(&mut self, clause: &Clause) -> Result<Option<Access>> {
        let conditions = Conditions::of(clause);
        if conditions.never {
            return Ok(Some(Access::Nothing));
        }
        if let Some(access @ Access::Point(_)) = self.by_keys(&conditions) {
            return Ok(Some(access));
        }
        let mut best: Option<Candidate> = None;
        for index in self.available() {
            let candidate = self.candidate(&index, &conditions, false).await?;
            let Some(candidate) = candidate.filter(|c| c.points > 0 || c.is_bounded) else {
                continue;
            };
            if best
                .as_ref()
                .is_none_or(|best| candidate.rank() > best.rank())
            {
                best = Some(candidate);
            }
        }
        Ok(best.map(|best| match best.access {
            Access::Index(index) => Access::Index(IndexAccess {
                covered: false,
                ..index
            }),
            other => other,
        }))
    }

    /// The range between two keys of the hinted index.
    pub(super) async fn between_keys(&mut self, hinted: Option<Available>) -> Result<Plan> {
        let Some(index) = hinted else {
            return Err(Error::new(
                Code(51_173),
                "When using min()/max() a hint of which index to use must be provided",
            )
            .into());
        };
        for key in [self.wanted.min, self.wanted.max].into_iter().flatten() {
            let same = index.spec.fields.len() == key.len()
                && index
                    .spec
                    .fields
                    .iter()
                    .zip(key.keys())
                    .all(|(field, path)| field.path == *path);
            if !same {
                return Err(Error::new(
                    Code(51_174),
                    "The index chosen is not compatible with min/max",
                )
                .into());
            }
        }
        let multikey = self.multikey(&index).await?;
        let range = bounds::between_keys(&index.spec, self.wanted.min, self.wanted.max);
        let fields: Vec<FieldBound> = index
            .spec
            .fields
            .iter()
            .map(|field| FieldBound {
                path: field.path.clone(),
                order: field.order,
                collation: index.spec.collation.clone(),
                intervals: Intervals::all(),
            })
            .collect();
        let order = self.order(&index.spec, &fields, &multikey);
        let reverse = order.unwrap_or(false);
        let spec = index.spec;
        let access = match index.id {
            Some(id) => Access::Index(IndexAccess {
                index: id,
                spec,
                ranges: vec![range],
                bounds: fields,
                reverse,
                multikey,
                covered: false,
            }),
            None => {
                let ranges = vec![bounds::without_mark(&range)];
                let bounds = fields;
                Access::Rows(RowAccess {
                    spec,
                    ranges,
                    bounds,
                    reverse,
                })
            }
        };
        Ok(Plan::of(access, order.is_some()))
    }
}
