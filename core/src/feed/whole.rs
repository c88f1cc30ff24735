//! Pages of a feed that end between commits: whoever applies one has each transaction whole or not
//! at all.
//!
//! A page of the reader ends where its bounds say. What it has of a commit that goes on is put off
//! to the next page; a commit that is larger than a page is read to its end, and is as large as a
//! transaction may be.

use super::definition::FeedId;
use super::position::Position;
use super::reader::{FeedItem, FeedPage, FeedRequest};
use super::stamp::Stamp;
use crate::error::Result;
use crate::store::Store;

impl Store {
    /// One page of a feed, as [`Store::read_feed`], with whole commits.
    pub async fn read_feed_whole(&self, feed: FeedId, request: &FeedRequest) -> Result<FeedPage> {
        let mut page = self.read_feed(feed, request).await?;
        while let Some(commit) = unfinished(&page) {
            let begins = page.items.iter().position(|item| is_of(item, commit));
            if let Some(before) = begins.and_then(|at| at.checked_sub(1)) {
                page.items.truncate(before + 1);
                page.position = page.items.last().map_or(request.after, |it| it.position);
                return Ok(page);
            }
            let rest = FeedRequest {
                after: page.position,
                ..*request
            };
            let next = self.read_feed(feed, &rest).await?;
            append(&mut page, next, commit);
        }
        Ok(page)
    }
}

/// The commit of the last entry, if more of it may follow.
fn unfinished(page: &FeedPage) -> Option<Stamp> {
    let last = page.items.last().filter(|_| page.has_more)?;
    let end = last.position.stamp.end_of_commit();
    (page.position.stamp < end).then_some(end)
}

fn is_of(item: &FeedItem, commit: Stamp) -> bool {
    item.position.stamp.end_of_commit() == commit
}

/// Adds what the next page has of a commit. Where that is all of it, the page ends there.
fn append(page: &mut FeedPage, next: FeedPage, commit: Stamp) {
    let count = next.items.len();
    let of_commit = next.items.into_iter().take_while(|it| is_of(it, commit));
    let before = page.items.len();
    page.items.extend(of_commit);
    page.meter.absorb(&next.meter);
    page.is_pending = next.is_pending;
    if page.items.len() - before < count {
        page.position = Position::at(commit);
        return;
    }
    page.position = next.position;
    page.has_more = next.has_more;
}
