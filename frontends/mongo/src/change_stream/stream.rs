//! A change stream between two batches: pages of the feed, made events, through the pipeline.

use std::collections::VecDeque;
use std::sync::Arc;

use bson::{Bson, Document, Timestamp};
use tessera_core::Transaction;
use tessera_core::deadline;
use tessera_core::engine::BoxFuture;
use tessera_core::feed::definition::FeedId;
use tessera_core::feed::position::Position;
use tessera_core::feed::reader::{Change, FeedItem, FeedPage, FeedRequest};
use tessera_core::feed::time::FeedClock;
use tessera_core::feed::waking::FeedAlarm;
use tessera_mongo_language::error::Code;
use tessera_mongo_language::pipeline::{self, Documents, Pipeline};
use tessera_mongo_language::size::document_size;
use tokio::time::Instant;

use crate::aggregate::environment::Handle;
use crate::batch::{Batch, encode};
use crate::change_stream::event::{self, Event, Events};
use crate::change_stream::lookup;
use crate::change_stream::options::{Begin, Options};
use crate::change_stream::split::{self, Told};
use crate::change_stream::token::{At, Token};
use crate::commands::cluster_parameters;
use crate::cursor::Rows;
use crate::data::Data;
use crate::failure::{Failure, Result};

/// The label of what drivers may resume a stream after.
const RESUMABLE: &str = "ResumableChangeStreamError";

/// The label of what drivers must not.
const NOT_RESUMABLE: &str = "NonResumableChangeStreamError";

/// Entries of the feed that are read at once.
const PAGE: usize = 512;

/// A stream that is open.
pub(crate) struct Stream {
    options: Options,
    feed: FeedId,
    /// Up to where the feed was read.
    position: Position,
    /// Events of the last page that have not been looked at.
    waiting: VecDeque<Waiting>,
    /// What is sent next: an event that had no room in the last batch, and fragments of one.
    ready: VecDeque<Ready>,
    /// The client was told of this entry, and of its parts up to this one.
    told_part: Option<(Position, u32)>,
    /// What follows `$changeStream`.
    pipeline: Pipeline,
    handle: Handle,
    /// Up to where the client was told, which it may resume behind.
    told: Token,
    /// What is earlier, by the time of the feed and by the clock, is left out; until there is
    /// something later.
    not_before: Option<Timestamp>,
    alarm: Option<FeedAlarm>,
    /// Why the stream ends behind what was told last.
    failed: Option<Failure>,
    is_pending: bool,
    has_more: bool,
    is_over: bool,
}

/// An event, and what it is of.
struct Waiting {
    event: Event,
    item: Arc<FeedItem>,
}

struct Ready {
    token: Token,
    encoded: Vec<u8>,
    is_end: bool,
}

impl Stream {
    pub(crate) fn new(
        options: Options,
        (feed, begin): (FeedId, Token),
        pipeline: Pipeline,
        handle: Handle,
    ) -> Self {
        let not_before = match options.begin {
            Begin::At(time) => Some(time),
            Begin::Now | Begin::After(_) => None,
        };
        let told_part = match begin.at {
            At::Part(number) => Some((begin.position, number)),
            At::Event | At::Invalidate | At::Mark => None,
        };
        Self {
            options,
            feed,
            not_before,
            position: match told_part {
                // Read again for the parts that follow.
                Some(_) => begin.position.before(),
                None => begin.position,
            },
            waiting: VecDeque::new(),
            ready: VecDeque::new(),
            told_part,
            pipeline,
            handle,
            told: begin,
            alarm: None,
            failed: None,
            is_pending: false,
            has_more: true,
            is_over: false,
        }
    }

    /// Adds the next events to a batch; answers whether the stream is over.
    pub(crate) async fn take(&mut self, batch: &mut Batch, max: usize) -> Result<bool> {
        let taken = self.take_some(batch, max).await;
        batch.resume_behind(&self.told.document())?;
        taken.map_err(resumable)
    }

    async fn take_some(&mut self, batch: &mut Batch, max: usize) -> Result<bool> {
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        loop {
            while batch.len() < max
                && let Some(ready) = self.next_for(batch).await?
            {
                if !batch.has_room(ready.encoded.len())? {
                    self.ready.push_front(ready);
                    return Ok(false);
                }
                batch.push_raw(&ready.encoded);
                self.told = ready.token;
                self.is_over |= ready.is_end;
                deadline::pause().await;
            }
            let has_more = !self.waiting.is_empty() || !self.ready.is_empty();
            if self.is_over || self.failed.is_some() || has_more {
                return Ok(self.is_over);
            }
            if self.told.position < self.position {
                self.told = Token::mark(self.position);
            }
            if batch.len() >= max || (batch.len() > 0 && !self.has_more) || !self.read().await? {
                return Ok(false);
            }
        }
    }

    /// The next event for a batch. What was told before a failure comes first, and the failure with
    /// the next batch.
    async fn next_for(&mut self, batch: &Batch) -> Result<Option<Ready>> {
        match self.next().await {
            Err(failure) if batch.len() > 0 => {
                self.failed = Some(failure);
                Ok(None)
            }
            next => next,
        }
    }

    /// The next event that the pipeline leaves in, of the page that was read.
    async fn next(&mut self) -> Result<Option<Ready>> {
        if let Some(ready) = self.ready.pop_front() {
            return Ok(Some(ready));
        }
        while let Some(Waiting { mut event, item }) = self.waiting.pop_front() {
            if event.looks_up {
                let current = lookup::current(&self.handle.0, &item).await?;
                event.document.insert("fullDocument", current);
            }
            let (token, is_end) = (event.token, event.is_end);
            let (missing, told_fragments) = (event.missing, event.told_fragments);
            if let Some(document) = self.through_pipeline(event).await? {
                // What the pipeline leaves out need not be whole.
                if let Some(missing) = missing {
                    return Err(missing.failure(&document));
                }
                self.ready = self.encoded((token, document), told_fragments, is_end)?;
                return Ok(self.ready.pop_front());
            }
            // The end is the stream's own, whatever the pipeline leaves out.
            self.is_over |= is_end;
            self.told = token;
            deadline::pause().await;
        }
        Ok(None)
    }

    /// Reads the next page; false if there is nothing more for now.
    async fn read(&mut self) -> Result<bool> {
        // Made before reading, so that nothing that comes in between is missed.
        let store = &self.handle.0.data.store;
        if self.alarm.is_none() {
            self.alarm = Some(store.feed_alarm(self.feed));
        }
        let mut request = FeedRequest::after(self.position);
        request.max_entries = PAGE;
        let page = store.read_feed(self.feed, &request).await?;
        self.handle.0.note(page.meter.clone());
        let images_since_ms = self.images_since_ms().await?;
        let clock = match (page.items.first(), page.items.last()) {
            (Some(first), Some(last)) => {
                let (first, last) = (first.position.stamp, last.position.stamp);
                store.feed_clock(first, last).await?
            }
            _ => FeedClock::default(),
        };
        self.position = page.position;
        if let Some(alarm) = &self.alarm {
            alarm.note("change stream", page.position);
        }
        self.is_pending = page.is_pending;
        self.has_more = page.has_more;
        self.accept(page, &clock, images_since_ms)?;
        Ok(self.has_more || !self.waiting.is_empty())
    }

    /// From when on kept documents are shown.
    async fn images_since_ms(&self) -> Result<u64> {
        let environment = &self.handle.0;
        if !self.options.images.are_kept() {
            return Ok(0);
        }
        let expiry = cluster_parameters::image_expiry_seconds(&environment.service).await?;
        let now_ms = environment.data.store.clock().now_ms();
        Ok(expiry.map_or(0, |seconds| {
            now_ms.saturating_sub(seconds.saturating_mul(1_000))
        }))
    }

    fn accept(&mut self, page: FeedPage, clock: &FeedClock, images_since_ms: u64) -> Result<()> {
        let events = Events {
            options: &self.options,
            clock,
            images_since_ms,
        };
        for item in page.items {
            if self
                .not_before
                .is_some_and(|time| is_before(&item, time, clock))
            {
                continue;
            }
            self.not_before = None;
            let item = Arc::new(item);
            let mut found = events.of(&item)?;
            if let Some((position, number)) = self.told_part {
                leave_out_told(&mut found, (&item, position, number))?;
                self.told_part = None;
            }
            for event in found {
                let is_end = event.is_end;
                let item = Arc::clone(&item);
                self.waiting.push_back(Waiting { event, item });
                if is_end {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// One event through the stages behind `$changeStream`; none if they leave it out.
    async fn through_pipeline(&self, event: Event) -> Result<Option<Document>> {
        let token = event.token;
        let document = match self.pipeline.stages().is_empty() {
            true => Some(event.document),
            false => {
                let shared: Arc<dyn pipeline::Environment> = Arc::new(self.handle.clone());
                let source = Box::new(Documents::new(vec![event.document]));
                let mut source = self.pipeline.clone().run(source, &shared);
                let mut shown = None;
                while let Some(documents) = source.next_batch().await? {
                    shown = documents.into_iter().next().or(shown);
                }
                shown
            }
        };
        let Some(document) = document else {
            return Ok(None);
        };
        check_id(token, &document)?;
        Ok(Some(document))
    }

    /// An event as it is sent: in fragments that were not told yet, if it is too large.
    fn encoded(
        &self,
        (token, document): Told,
        told_fragments: usize,
        is_end: bool,
    ) -> Result<VecDeque<Ready>> {
        if told_fragments > 0 && !self.options.splits {
            return Err(no_such_part());
        }
        let is_large = document_size(&document) > split::MAX_EVENT_BYTES;
        let parts = match (is_large, self.options.splits) {
            (false, _) => vec![(token, document)],
            (true, false) => return Err(split::unsplit(&document)),
            (true, true) => split::split(token, document, split::MAX_EVENT_BYTES)?,
        };
        if told_fragments >= parts.len() {
            return Err(no_such_part());
        }
        let parts = parts.into_iter().skip(told_fragments);
        let ready = parts.map(|(token, document)| {
            Ok(Ready {
                token,
                encoded: encode(&document)?,
                is_end,
            })
        });
        ready.collect()
    }
}

impl Rows for Stream {
    fn fill<'a>(
        &'a mut self,
        _data: &'a Data,
        _transaction: &'a mut Transaction,
        batch: &'a mut Batch,
        max: usize,
    ) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let done = self.take(batch, max).await;
            self.handle.0.forget_meters();
            done
        })
    }

    fn wait(&mut self, until: Instant) -> Option<BoxFuture<'_, ()>> {
        let is_pending = self.is_pending;
        let alarm = self.alarm.as_mut()?;
        Some(Box::pin(async move {
            alarm.wait(is_pending, until).await;
        }))
    }
}

/// Whether a change is earlier than a time, both by the time of its feed and by the clock.
fn is_before(item: &FeedItem, time: Timestamp, clock: &FeedClock) -> bool {
    let told = event::timestamp(clock.time_of(item.position.stamp));
    let is_early = (told.time, told.increment) < (time.time, time.increment);
    is_early && item.change.wall_ms() < u64::from(time.time) * 1_000
}

/// Leaves out parts of the first entry of a resumed stream that the client was told of.
fn leave_out_told(
    events: &mut Vec<Event>,
    (item, position, number): (&FeedItem, Position, u32),
) -> Result<()> {
    if item.position != position {
        return Err(no_such_part());
    }
    match (&item.change, events.as_mut_slice()) {
        (Change::Item(_), [event]) => {
            let number = usize::try_from(number).unwrap_or(usize::MAX);
            event.told_fragments = number.saturating_add(1);
        }
        (Change::Item(_), _) => return Err(no_such_part()),
        (Change::Container(_), _) => {
            events.retain(|event| !matches!(event.token.at, At::Part(told) if told <= number));
        }
    }
    Ok(())
}

fn no_such_part() -> Failure {
    let message = "cannot resume stream; the resume token was not found: it is of a part of an \
                   event that these options of the stream do not bring, as fragments of large \
                   events without $changeStreamSplitLargeEvent";
    Failure::new(Code::CHANGE_STREAM_FATAL_ERROR, message)
}

/// A stream is resumed by the `_id` of its events, so they must keep it.
fn check_id(token: Token, document: &Document) -> Result<()> {
    let expected = Bson::Document(token.document());
    let found = document.get("_id");
    if found == Some(&expected) {
        return Ok(());
    }
    let found = found.map_or_else(|| "nothing".to_owned(), ToString::to_string);
    let message = format!(
        "Encountered an event whose _id field, which contains the resume token, was modified by \
         the pipeline. Modifying the _id field of an event makes it impossible to resume the \
         stream from that point. Only transformations that retain the unmodified _id field are \
         allowed. Expected: {expected} but found: {found}"
    );
    Err(Failure::new(Code::CHANGE_STREAM_FATAL_ERROR, message))
}

/// Failures after which a driver may resume by itself have a label that says so, and those that it
/// would only meet again.
pub(crate) fn resumable(failure: Failure) -> Failure {
    const CODES: &[i32] = &[
        6, 7, 63, 89, 91, 133, 150, 189, 234, 262, 9001, 10107, 11600, 11602, 13388, 13435, 13436,
    ];
    match failure.code() {
        Code::CHANGE_STREAM_FATAL_ERROR | Code::CHANGE_STREAM_HISTORY_LOST => {
            failure.labelled(NOT_RESUMABLE)
        }
        code if CODES.contains(&code.0) => failure.labelled(RESUMABLE),
        _ => failure,
    }
}

/// Whether a token is that of the end of a stream, behind which another one begins.
pub(crate) fn is_end(token: Token) -> bool {
    token.at == At::Invalidate
}
