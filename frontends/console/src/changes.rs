//! `GET …/changes`: the changes of a container of any API, as lines of JSON or server-sent events.
//!
//! The first page is read before the answer begins, so that what cannot be read is refused with
//! a status. Then a [`Reader`] makes part after part. Between two of them it keeps a token and no
//! more; at the end of the feed it waits, and says now and then where it stands.

use std::time::Duration;

use hyper::body::Bytes;
use hyper::{Method, StatusCode};
use tessera_core::feed::changes::{ChangesPage, PageBounds};
use tessera_core::feed::changes_token::ChangesToken;
use tessera_core::feed::waking::FeedAlarm;
use tessera_core::memory_budget::{Grant, Purpose};
use tessera_core::name::ContainerName;
use tessera_core::throughput::Charge;
use tessera_core::{Error, Result, Store};
use tokio::time::{Instant, sleep, sleep_until};

use crate::changes_query::{Begin, Wish};
use crate::changes_text::{Text, token_of};
use crate::containers;
use crate::flow::Flow;
use crate::reply::Reply;
use crate::routes::{Call, Route};

pub(crate) const ROUTES: &[Route] = &[Route {
    method: Method::GET,
    path: "/api/containers/{api}/{database}/{container}/changes",
    is_public: false,
    run: |call| Box::pin(changes(call)),
}];

/// The most changes of one part, and about the most bytes of what is stored of them: a slow client
/// holds no more.
const PART: PageBounds = PageBounds {
    max_changes: 500,
    max_bytes: 256 << 10,
};

/// After what is missing for the moment, the reader of an open answer looks again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

async fn changes(call: &Call<'_>) -> Reply {
    let name = match containers::name(call) {
        Ok(name) => name,
        Err(refusal) => return refusal,
    };
    let wish = match Wish::read(call.query, call.headers) {
        Ok(wish) => wish,
        Err(refusal) => return Reply::error(StatusCode::BAD_REQUEST, &refusal),
    };
    match answer(call, &name, wish).await {
        Ok(reply) => reply,
        Err(error) => containers::failure(&error),
    }
}

async fn answer(call: &Call<'_>, name: &ContainerName, wish: Wish) -> Result<Reply> {
    let store = &call.console.store;
    let token = begin(store, name, &wish.begin).await?;
    let form = wish.form;
    let mut reader = Box::new(Reader::new(store.clone(), token, wish));
    let mut first = Vec::new();
    let page = reader.read().await?;
    let charge = page.charge;
    reader.put(page, &mut first)?;
    let first = (!first.is_empty()).then(|| Bytes::from(first));
    let flow = Flow::new(first, reader, call.shutdown.clone());
    Ok(Reply::flow(form.content_type(), flow).charged(charge))
}

async fn begin(store: &Store, name: &ContainerName, begin: &Begin) -> Result<ChangesToken> {
    let (token, range) = match begin {
        Begin::At(start, mode, range) => {
            return store.begin_changes(name, *mode, *start, *range).await;
        }
        Begin::Behind(token, range) => (token_of(token)?, range),
    };
    let own = store.container_of_changes(&token).await?;
    if own != *name {
        return Err(Error::Rejected(format!(
            "the token is of container '{own}', not of '{name}'"
        )));
    }
    match range {
        None => Ok(token),
        Some(range) => token.narrowed(*range).ok_or_else(|| {
            let (first, last) = token.range();
            Error::Rejected(format!(
                "the token reads the range {first}..{last}; feed-range may only narrow that"
            ))
        }),
    }
}

/// Somebody who reads changes.
pub(crate) struct Reader {
    store: Store,
    token: ChangesToken,
    wish: Wish,
    /// How many changes may still be told.
    left: usize,
    /// Of the last part, which the client may be taking.
    grant: Grant,
    alarm: Option<FeedAlarm>,
    is_pending: bool,
    has_more: bool,
    is_over: bool,
    /// What the answer cost.
    charge: Charge,
}

impl Reader {
    fn new(store: Store, token: ChangesToken, wish: Wish) -> Self {
        let left = wish.limit.unwrap_or(usize::MAX);
        Self {
            store,
            token,
            wish,
            left,
            grant: Grant::new(Purpose::Replies, 0),
            alarm: None,
            is_pending: false,
            has_more: true,
            is_over: false,
            charge: Charge::default(),
        }
    }

    /// The next part of the answer; none at its end.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        let mut part = Vec::new();
        let told_by = Instant::now() + self.wish.heartbeat;
        while part.is_empty() && !self.is_over {
            // The part before went out.
            self.grant = Grant::new(Purpose::Replies, 0);
            let is_quiet = !self.has_more && self.wait(told_by).await;
            if is_quiet || Instant::now() >= told_by {
                self.mark(&mut part);
                break;
            }
            let done = match self.read().await {
                Ok(page) => self.put(page, &mut part),
                Err(error) => Err(error),
            };
            if let Err(error) = done
                && !self.is_survived(&error).await
            {
                self.is_over = true;
                Text::new(self.wish.form, &mut part).failure(&error);
            }
        }
        (!part.is_empty()).then(|| part.into())
    }

    /// Whether the answer goes on although a page could not be read: after a while, for as long as
    /// somebody follows.
    async fn is_survived(&self, error: &Error) -> bool {
        let pause = match error {
            Error::Throttled { retry_after, .. } => *retry_after,
            Error::OutOfMemory(_) | Error::Unavailable(_) => LOOK_AGAIN,
            _ => return false,
        };
        if self.wish.follows {
            sleep(pause).await;
        }
        self.wish.follows
    }

    async fn read(&mut self) -> Result<ChangesPage> {
        self.grant.cover(self.store.memory(), PART.max_bytes)?;
        // Made before reading, so that nothing that comes in between is missed.
        if self.wish.follows && self.alarm.is_none() {
            self.alarm = Some(self.store.feed_alarm(self.token.feed()));
        }
        let bounds = PageBounds {
            max_changes: PART.max_changes.min(self.left),
            ..PART
        };
        self.store.read_changes(&self.token, bounds).await
    }

    /// Writes what a page tells, and where the answer ends if it does.
    fn put(&mut self, page: ChangesPage, part: &mut Vec<u8>) -> Result<()> {
        let mut text = Text::new(self.wish.form, part);
        for change in &page.changes {
            if let Err(error) = text.change(&self.store, change) {
                text.finish();
                return Err(error);
            }
        }
        self.left = self.left.saturating_sub(page.changes.len());
        self.charge += page.charge;
        self.token = page.token;
        (self.has_more, self.is_pending) = (page.has_more, page.is_pending);
        if let Some(alarm) = &self.alarm {
            alarm.note("HTTP", self.token.position());
        }
        let is_done = !self.wish.follows && !self.has_more;
        self.is_over = page.is_over || self.left == 0 || is_done;
        match self.is_over {
            true => text.mark(&self.token, self.has_more, self.charge),
            false => text.finish(),
        }
        self.grant.cover(self.store.memory(), part.len())?;
        Ok(())
    }

    fn mark(&self, part: &mut Vec<u8>) {
        Text::new(self.wish.form, part).mark(&self.token, self.has_more, self.charge);
    }

    /// Waits for changes; answers whether it is time to say something without any.
    async fn wait(&mut self, told_by: Instant) -> bool {
        match &mut self.alarm {
            Some(alarm) => !alarm.wait(self.is_pending, told_by).await,
            None => {
                sleep_until(told_by).await;
                true
            }
        }
    }
}
