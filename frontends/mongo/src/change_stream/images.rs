//! Documents in events: as they were before a change, and after it.

use bson::{Bson, Document};
use tessera_core::feed::record::{ChangeKind, ChangeRecord};
use tessera_mongo_language::error::{Code, bad_value};

use crate::execute::decode;
use crate::failure::{Failure, Result};
use crate::fields::Fields;

/// The document before a change.
const BEFORE: &str = "fullDocumentBeforeChange";

/// The document after an update.
const AFTER: &str = "fullDocument";

/// What a stream does about a kept document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Image {
    /// It is not shown.
    Off,
    /// It is shown where it is kept; else null is.
    WhenAvailable,
    /// The stream fails where it is not kept.
    Required,
    /// The document is shown as it is when the event is read.
    LookedUp,
}

/// Which documents events show beside what changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Images {
    pub(crate) before: Image,
    pub(crate) after: Image,
}

impl Images {
    /// Reads the two options of a stream.
    pub(crate) fn parse(fields: &Fields<'_>) -> Result<Self> {
        let before = match fields.str(BEFORE) {
            None | Some("off") => Image::Off,
            Some("whenAvailable") => Image::WhenAvailable,
            Some("required") => Image::Required,
            Some(other) => return Err(unknown(BEFORE, other)),
        };
        let after = match fields.str(AFTER) {
            None | Some("default") => Image::Off,
            Some("updateLookup") => Image::LookedUp,
            Some("whenAvailable") => Image::WhenAvailable,
            Some("required") => Image::Required,
            Some(other) => return Err(unknown(AFTER, other)),
        };
        Ok(Self { before, after })
    }

    /// Whether any are taken from what is kept.
    pub(crate) fn are_kept(self) -> bool {
        let kept = [Image::WhenAvailable, Image::Required];
        kept.contains(&self.before) || kept.contains(&self.after)
    }

    /// Adds what an event of this change shows of what is kept since `since_ms`. Answers what is
    /// missing, if the stream fails without it.
    pub(crate) fn add_to(
        self,
        event: &mut Document,
        record: &ChangeRecord,
        since_ms: u64,
    ) -> Result<Option<Missing>> {
        let is_kept = record.wall_ms >= since_ms;
        let mut missing = None;
        let after = record.after.as_ref().filter(|_| is_kept);
        if record.kind == ChangeKind::Update
            && self.after.show(event, AFTER, after.map(|it| &it[..]))?
        {
            missing = Some(Missing::After);
        }
        let before = record.before.as_ref().filter(|_| is_kept);
        if record.kind != ChangeKind::Insert
            && self.before.show(event, BEFORE, before.map(|it| &it[..]))?
        {
            missing = Some(Missing::Before);
        }
        Ok(missing)
    }
}

impl Image {
    /// Adds a kept document to an event; answers whether it is missing and has to be there.
    fn show(self, event: &mut Document, name: &str, kept: Option<&[u8]>) -> Result<bool> {
        match (self, kept) {
            (Self::Off | Self::LookedUp, _) => {}
            (Self::WhenAvailable | Self::Required, Some(kept)) => {
                event.insert(name, decode(kept)?);
            }
            (Self::WhenAvailable, None) => {
                event.insert(name, Bson::Null);
            }
            (Self::Required, None) => return Ok(true),
        }
        Ok(false)
    }
}

/// A document that a stream cannot go on without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    Before,
    After,
}

impl Missing {
    /// The failure of the stream at this event.
    pub(crate) fn failure(self, event: &Document) -> Failure {
        let (image, changes) = match self {
            Self::Before => ("pre-image", "update, delete and replace"),
            Self::After => ("post-image", "update"),
        };
        let shown = event.get("_id").cloned().unwrap_or(Bson::Null);
        let message = format!(
            "Change stream was configured to require a {image} for all {changes} events, but the \
             {image} was not found for event: {{_id: {shown}}}"
        );
        Failure::new(Code::NO_MATCHING_DOCUMENT, message)
    }
}

fn unknown(name: &str, value: &str) -> Failure {
    let message = format!(
        "Enumeration value '{value}' for field '$changeStream.{name}' is not a valid value."
    );
    bad_value(message).into()
}
