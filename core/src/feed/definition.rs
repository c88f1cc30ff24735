//! What a container's definition says of its feed.

use serde::{Deserialize, Serialize};

use crate::definition::UnknownFields;

/// Number of a feed: taken from those of storages, never reused. It outlives truncating, renaming
/// and relocating the container.
pub type FeedId = u64;

/// Which bodies the entries of a feed carry beside what changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Images {
    /// The item before each change.
    pub before: bool,
    /// The item after it.
    pub after: bool,
}

impl Images {
    /// Both.
    pub const BOTH: Self = Self {
        before: true,
        after: true,
    };

    /// Whether nobody asks for any.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::default()
    }

    /// What either asks for.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            before: self.before || other.before,
            after: self.after || other.after,
        }
    }
}

/// The feed of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedDefinition {
    /// Its number.
    pub number: FeedId,
    /// Grows when its entries begin to mean something else: see [`super::control`].
    pub term: u32,
    /// Which bodies those who follow it want its entries to carry.
    #[serde(default)]
    pub images: Images,
    /// Which bodies the container's schema wants them to carry.
    #[serde(default)]
    pub schema_images: Images,
    /// For how long it is kept; as long as the server keeps feeds, if none.
    #[serde(default)]
    pub retention_ms: Option<u64>,
    /// Whether a definition asked for it, so that it stays on although nobody follows.
    #[serde(default)]
    pub is_kept: bool,
    /// The scopes that follow it, which are told of each of its commits.
    #[serde(default)]
    pub scopes: Vec<FeedId>,
    #[serde(flatten)]
    pub(crate) unknown: UnknownFields,
}

impl FeedDefinition {
    pub(crate) fn new(number: FeedId) -> Self {
        Self {
            number,
            term: 0,
            images: Images::default(),
            schema_images: Images::default(),
            retention_ms: None,
            is_kept: false,
            scopes: Vec::new(),
            unknown: UnknownFields::default(),
        }
    }

    /// Which bodies its entries carry.
    pub fn recorded(&self) -> Images {
        self.images.or(self.schema_images)
    }

    /// Whether it stays on though nobody follows.
    pub(crate) fn is_needed(&self) -> bool {
        self.is_kept || !self.schema_images.is_none() || !self.scopes.is_empty()
    }
}
