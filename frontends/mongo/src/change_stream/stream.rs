//! A change stream between two batches: pages of the feed, made events, through the pipeline.

use std::collections::VecDeque;
use std::sync::Arc;

use bson::{Bson, Document, Timestamp};
use tessera_core::Transaction;
use tessera_core::deadline;
use tessera_core::engine::BoxFuture;
use tessera_core::feed::definition::FeedId;
use tessera_core::feed::policy::FeedScope;
use tessera_core::feed::position::Position;
use tessera_core::feed::reader::{Change, FeedItem, FeedPage, FeedRequest};
use tessera_core::feed::time::FeedClock;
use tessera_core::feed::waking::FeedAlarm;
use tessera_core::locator::Locator;
use tessera_mongo_language::error::Code;
use tessera_mongo_language::pipeline::{self, Documents, Pipeline};
use tokio::time::Instant;

use crate::aggregate::environment::Handle;
use crate::batch::{Batch, encode};
use crate::change_stream::event::{self, Event, Events};
use crate::change_stream::options::{Begin, Options};
use crate::change_stream::token::{At, Token};
use crate::cursor::Rows;
use crate::data::Data;
use crate::execute::decode;
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
    /// The next event as it is sent, which had no room in the last batch.
    ready: Option<Ready>,
    /// What follows `$changeStream`.
    pipeline: Pipeline,
    handle: Handle,
    /// Up to where the client was told, which it may resume behind.
    told: Token,
    /// What is earlier, by the time of the feed and by the clock, is left out; until there is
    /// something later.
    not_before: Option<Timestamp>,
    alarm: Option<FeedAlarm>,
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
        Self {
            options,
            feed,
            not_before,
            position: begin.position,
            waiting: VecDeque::new(),
            ready: None,
            pipeline,
            handle,
            told: begin,
            alarm: None,
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
        loop {
            while batch.len() < max
                && let Some(ready) = self.next().await?
            {
                if !batch.has_room(ready.encoded.len())? {
                    self.ready = Some(ready);
                    return Ok(false);
                }
                batch.push_raw(&ready.encoded);
                self.told = ready.token;
                self.is_over |= ready.is_end;
                deadline::pause().await;
            }
            if self.is_over || !self.waiting.is_empty() {
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

    /// The next event that the pipeline leaves in, of the page that was read.
    async fn next(&mut self) -> Result<Option<Ready>> {
        if let Some(ready) = self.ready.take() {
            return Ok(Some(ready));
        }
        while let Some(Waiting { mut event, item }) = self.waiting.pop_front() {
            if event.looks_up {
                let current = self.current(&item).await?;
                event.document.insert("fullDocument", current);
            }
            let (token, is_end) = (event.token, event.is_end);
            if let Some(ready) = self.through_pipeline(event).await? {
                return Ok(Some(ready));
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
        self.accept(page, &clock)?;
        Ok(self.has_more || !self.waiting.is_empty())
    }

    fn accept(&mut self, page: FeedPage, clock: &FeedClock) -> Result<()> {
        let events = Events {
            options: &self.options,
            clock,
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
            for event in events.of(&item)? {
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
    async fn through_pipeline(&self, event: Event) -> Result<Option<Ready>> {
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
        Ok(Some(Ready {
            token,
            encoded: encode(&document)?,
            is_end: event.is_end,
        }))
    }

    /// The document that a change concerns as it is now; null if it is not there any more.
    async fn current(&self, item: &FeedItem) -> Result<Bson> {
        let Change::Item(record) = &item.change else {
            return Ok(Bson::Null);
        };
        let body = self.read_current(item, &record.locator).await?;
        Ok(match body {
            Some(document) => Bson::Document(document),
            None => Bson::Null,
        })
    }

    async fn read_current(&self, item: &FeedItem, locator: &Locator) -> Result<Option<Document>> {
        let store = &self.handle.0.data.store;
        let scope = FeedScope::Container(item.term.name.clone());
        // Another collection of that name is not the one that changed.
        match store.feed_of(&scope).await {
            Ok(Some(feed)) if feed == item.feed => {}
            Ok(_) | Err(tessera_core::Error::NotFound(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let mut transaction = store.begin().await?;
        let container = match transaction.container(&item.term.name).await {
            Err(tessera_core::Error::NotFound(_)) => return Ok(None),
            container => container?,
        };
        let found = transaction.read(&container, locator).await?;
        self.handle.0.note(transaction.meter().clone());
        found.map(|item| decode(&item.body)).transpose()
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
    let wall_ms = match &item.change {
        Change::Item(record) => record.wall_ms,
        Change::Container(control) => control.wall_ms,
    };
    let told = event::timestamp(clock.time_of(item.position.stamp));
    let is_early = (told.time, told.increment) < (time.time, time.increment);
    is_early && wall_ms < u64::from(time.time) * 1_000
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
