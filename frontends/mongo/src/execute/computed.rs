//! Queries on collections that are computed and not stored, such as those of the database `config`:
//! all documents are in memory and are scanned.

use bson::Document;
use tessera_core::deadline;

use crate::execute::query::Query;
use crate::failure::Result;

/// What a query answers of these documents.
pub(crate) fn answer(query: &Query, documents: Vec<Document>) -> Result<Vec<Document>> {
    let mut found = Vec::new();
    for document in documents {
        if let Some(position) = query.filter.matches_with_position(&document)? {
            found.push((document, position));
        }
    }
    if let Some(sort) = &query.sort {
        let keyed = found.into_iter().map(|row| Ok((sort.key(&row.0)?, row)));
        let mut keyed: Vec<_> = keyed.collect::<Result<_>>()?;
        deadline::sort_by(&mut keyed, |(a, _), (b, _)| sort.compare_keys(a, b))?;
        found = keyed.into_iter().map(|(_, row)| row).collect();
    }
    let skip = usize::try_from(query.skip).unwrap_or(usize::MAX);
    let limit = query.limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    let wanted = found.into_iter().skip(skip).take(limit);
    let projected = wanted.map(|(document, position)| match &query.projection {
        Some(projection) => Ok(projection.apply(document, position)?),
        None => Ok(document),
    });
    projected.collect()
}
