//! Cursors over short lists that are known from the start: collections, indexes.

use std::collections::VecDeque;

use bson::{Document, RawDocument};
use tessera_core::Transaction;
use tessera_core::engine::BoxFuture;

use crate::batch::{Batch, Turn, encode};
use crate::commands::asked;
use crate::cursor::{Cursor, Rows};
use crate::data::Data;
use crate::failure::Result;
use crate::fields::{Field, Fields, NUMBER, optional};
use crate::reply::Reply;
use crate::request::Request;

/// The rest of a list.
pub(crate) struct ListRows {
    documents: VecDeque<Document>,
}

impl Rows for ListRows {
    fn fill<'a>(
        &'a mut self,
        _data: &'a Data,
        _transaction: &'a mut Transaction,
        batch: &'a mut Batch,
        max: usize,
    ) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move { self.take(batch, max) })
    }
}

impl ListRows {
    fn take(&mut self, batch: &mut Batch, max: usize) -> Result<bool> {
        while batch.len() < max
            && let Some(document) = self.documents.front()
        {
            let encoded = encode(document)?;
            if !batch.has_room(encoded.len())? {
                break;
            }
            batch.push_raw(&encoded);
            self.documents.pop_front();
        }
        Ok(self.documents.is_empty())
    }
}

/// The batch size that a `cursor: { batchSize }` asks for.
pub(crate) fn batch_size(cursor: Option<&RawDocument>) -> Result<Option<usize>> {
    const CURSOR: &[Field] = &[optional("batchSize", NUMBER)];
    let Some(cursor) = cursor else {
        return Ok(None);
    };
    let fields = Fields::of_document("cursor", cursor, CURSOR)?;
    let size = asked::not_negative(&fields, "batchSize")?;
    Ok(size.map(|size| usize::try_from(size).unwrap_or(usize::MAX)))
}

/// Answers a list through a cursor.
pub(crate) fn reply(
    data: &Data,
    request: &Request<'_>,
    (namespace, documents): (&str, Vec<Document>),
    size: Option<usize>,
) -> Result<Reply> {
    let mut rows = ListRows {
        documents: documents.into(),
    };
    let mut batch = Batch::new(Turn::First);
    let done = rows.take(&mut batch, size.unwrap_or(usize::MAX))?;
    let id = if done {
        0
    } else {
        data.cursors.keep(
            Cursor {
                namespace: namespace.to_owned(),
                rows: Box::new(rows),
                owner: request.generic.owner,
                // What is still to come was listed when that was allowed.
                needs: Vec::new(),
                session: request.session(),
                transaction: None,
                never_expires: false,
                tail: None,
                at: None,
            },
            request,
        )?
    };
    Ok(batch.reply(id, namespace)?.into())
}
