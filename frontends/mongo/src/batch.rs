//! One batch of a cursor, written as BSON as it grows: documents are copied once, from where they
//! are stored to the reply.

use bson::spec::ElementType;
use bson::{Document, RawDocumentBuf, Timestamp};
use tessera_core::deadline::{self, Interruption};
use tessera_core::memory_budget::{Grant, Purpose};
use tessera_mongo_language::error::{Code, Error, Result};
use tessera_mongo_language::size::document_size;

use crate::session::GUARANTEED_REPLY;
use crate::snapshot::At;

/// The most bytes of documents in one batch; the first document always fits.
pub(crate) const MAX_BATCH_BYTES: usize = 16 * 1024 * 1024;
/// How many documents the first batch has if the client does not say.
pub(crate) const FIRST_BATCH: usize = 101;

/// The type and the name of an element of an array, at most.
const ELEMENT_BYTES: usize = 24;
/// What a reply has before its documents.
const HEAD_BYTES: usize = 32;
/// What a reply has besides documents, what completes it and the longest name of a collection
/// included.
const FRAME_BYTES: usize = 640;

/// A reply is there twice while it is put into its message.
pub(crate) const REPLY_COPIES: usize = 2;

/// The reply of a cursor that is being written: `{ cursor: { firstBatch: […], id, ns } }`.
#[derive(Debug)]
pub(crate) struct Batch {
    frame: Frame,
    /// Where the parts that are open begin.
    cursor: usize,
    documents: usize,
    count: usize,
    bytes: usize,
    /// The time of the moment that was read, if the client may read it again.
    at: Option<Timestamp>,
    /// What the reply takes, as it is made and as it is sent.
    grant: Grant,
    /// Of a change stream: what it may be resumed behind.
    resume_behind: Option<Vec<u8>>,
}

/// Whether it is the first reply of a cursor or a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    First,
    Next,
}

impl Batch {
    pub(crate) fn new(turn: Turn) -> Self {
        Self::with_room(turn, 0)
    }

    /// With room for documents of so many bytes.
    pub(crate) fn with_room(turn: Turn, bytes: usize) -> Self {
        let name: &[u8] = match turn {
            Turn::First => b"firstBatch\0",
            Turn::Next => b"nextBatch\0",
        };
        let mut frame = Frame::begin(HEAD_BYTES + bytes + ELEMENT_BYTES + FRAME_BYTES);
        frame.element(ElementType::EmbeddedDocument, b"cursor\0");
        let cursor = frame.open();
        frame.element(ElementType::Array, name);
        let documents = frame.open();
        Self {
            frame,
            cursor,
            documents,
            count: 0,
            bytes: 0,
            at: None,
            grant: Grant::new(Purpose::Replies, GUARANTEED_REPLY),
            resume_behind: None,
        }
    }

    /// Tells the client behind which token a change stream may be resumed.
    pub(crate) fn resume_behind(&mut self, token: &Document) -> Result<()> {
        self.resume_behind = Some(encode(token)?);
        Ok(())
    }

    /// Tells the client which moment was read.
    pub(crate) fn read_at(mut self, at: Option<&At>) -> Self {
        self.at = at.map(|at| at.time);
        self
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Whether a document of so many bytes may still be added. Where memory is short, batches are.
    pub(crate) fn has_room(&mut self, bytes: usize) -> Result<bool> {
        let total = self.bytes + bytes;
        if self.count > 0 && total > MAX_BATCH_BYTES {
            return Ok(false);
        }
        match deadline::cover(&mut self.grant, REPLY_COPIES * (total + FRAME_BYTES)) {
            Ok(()) => Ok(true),
            Err(_) if self.count > 0 => Ok(false),
            Err(refused) => Err(Interruption::Memory(refused).into()),
        }
    }

    /// Makes room for so many documents of so many bytes, so that what is there already need not
    /// move time and again while they are added.
    pub(crate) fn expect(&mut self, documents: usize, bytes: usize) {
        let bytes = bytes.min(MAX_BATCH_BYTES.saturating_sub(self.bytes));
        let elements = documents.saturating_mul(ELEMENT_BYTES);
        self.frame.bytes.reserve(bytes + elements + FRAME_BYTES);
    }

    /// Adds a document that is BSON already.
    pub(crate) fn push_raw(&mut self, document: &[u8]) {
        let out = &mut self.frame.bytes;
        // Room for the end too, so that all of it need not move for that.
        out.reserve(document.len() + ELEMENT_BYTES + FRAME_BYTES);
        out.push(ElementType::EmbeddedDocument as u8);
        push_decimal(out, self.count);
        out.push(0);
        out.extend_from_slice(document);
        self.count += 1;
        self.bytes += document.len();
    }

    /// The whole reply.
    pub(crate) fn reply(self, id: i64, namespace: &str) -> Result<RawDocumentBuf> {
        let mut frame = self.frame;
        if self.grant.covered() > GUARANTEED_REPLY as usize {
            deadline::leave_to_answer(self.grant);
        }
        frame.close(self.documents)?;
        frame.element(ElementType::Int64, b"id\0");
        frame.bytes.extend_from_slice(&id.to_le_bytes());
        frame.element(ElementType::String, b"ns\0");
        let length = length(namespace.len() + 1)?;
        frame.bytes.extend_from_slice(&length.to_le_bytes());
        frame.bytes.extend_from_slice(namespace.as_bytes());
        frame.bytes.push(0);
        if let Some(token) = self.resume_behind {
            frame.element(ElementType::EmbeddedDocument, b"postBatchResumeToken\0");
            frame.bytes.extend_from_slice(&token);
        }
        if let Some(at) = self.at {
            frame.element(ElementType::Timestamp, b"atClusterTime\0");
            frame.bytes.extend_from_slice(&at.increment.to_le_bytes());
            frame.bytes.extend_from_slice(&at.time.to_le_bytes());
        }
        frame.close(self.cursor)?;
        frame.finish()
    }
}

/// A document's bytes.
pub(crate) fn encode(document: &Document) -> Result<Vec<u8>> {
    let encoded = deadline::apart(document_size(document), || document.to_vec());
    encoded.map_err(|error| Error::new(Code::BAD_VALUE, error.to_string()))
}

/// A BSON document under construction; lengths are filled in when a part is closed.
#[derive(Debug)]
struct Frame {
    bytes: Vec<u8>,
}

impl Frame {
    fn begin(capacity: usize) -> Self {
        let mut bytes = Vec::with_capacity(capacity);
        bytes.extend_from_slice(&[0; 4]);
        Self { bytes }
    }

    fn element(&mut self, kind: ElementType, name: &[u8]) {
        self.bytes.push(kind as u8);
        self.bytes.extend_from_slice(name);
    }

    fn open(&mut self) -> usize {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        start
    }

    fn close(&mut self, start: usize) -> Result<()> {
        self.bytes.push(0);
        let total = length(self.bytes.len() - start)?;
        if let Some(place) = self.bytes.get_mut(start..start + 4) {
            place.copy_from_slice(&total.to_le_bytes());
        }
        Ok(())
    }

    fn finish(mut self) -> Result<RawDocumentBuf> {
        self.close(0)?;
        let whole = RawDocumentBuf::from_bytes(self.bytes);
        whole.map_err(|error| Error::new(Code::INTERNAL_ERROR, error.to_string()))
    }
}

fn length(length: usize) -> Result<i32> {
    let too_large = |_| Error::new(Code::BSON_OBJECT_TOO_LARGE, "the reply is too large");
    i32::try_from(length).map_err(too_large)
}

/// The digits of a number, without the detour over a formatted string.
fn push_decimal(out: &mut Vec<u8>, number: usize) {
    if number >= 10 {
        push_decimal(out, number / 10);
    }
    out.push(b'0' + u8::try_from(number % 10).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use bson::doc;
    use tessera_core::deadline::Deadline;
    use tessera_core::memory_budget::MemoryBudget;

    use super::*;

    #[test]
    fn replies_read_back() {
        let mut batch = Batch::new(Turn::Next);
        for number in 0..12 {
            batch.push_raw(&encode(&doc! { "n": number }).unwrap());
        }
        let reply = batch.reply(7, "db.c").unwrap();
        let reply = Document::try_from(reply.as_ref()).unwrap();
        let cursor = reply.get_document("cursor").unwrap();
        assert_eq!(cursor.get_i64("id").ok(), Some(7));
        assert_eq!(cursor.get_str("ns").ok(), Some("db.c"));
        let documents = cursor.get_array("nextBatch").unwrap();
        assert_eq!(documents.len(), 12);
        assert_eq!(documents[11], doc! { "n": 11 }.into());
    }

    #[test]
    fn a_batch_is_bounded_but_never_empty() {
        let mut batch = Batch::new(Turn::First);
        assert!(batch.has_room(MAX_BATCH_BYTES + 1).unwrap());
        batch.push_raw(&vec![0; MAX_BATCH_BYTES]);
        assert!(!batch.has_room(1).unwrap());
    }

    #[tokio::test]
    async fn batches_are_shorter_where_memory_is_short() {
        let budget = MemoryBudget::new(16 << 20, 0);
        let made = Deadline::new(None, None).within(budget.clone());
        let made = made.run_for_answer(async {
            let mut batch = Batch::new(Turn::First);
            while batch.has_room(1 << 20)? {
                batch.push_raw(&vec![0; 1 << 20]);
            }
            let count = batch.len();
            batch.reply(0, "d.c")?;
            Ok::<_, Error>(count)
        });
        let (count, grant) = made.await;
        assert!((3..=6).contains(&count.unwrap()));
        let guaranteed = usize::try_from(GUARANTEED_REPLY).unwrap();
        assert!(grant.unwrap().covered() <= budget.used() + guaranteed);
        assert_eq!(budget.used(), 0);
    }
}
