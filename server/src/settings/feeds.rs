//! The settings of change feeds: which containers have one, and how long it is kept.

use tessera_core::feed::retention::FeedOptions;

use super::partitions::SIZES;
use super::value;
use super::{Apply, Kind, Setting};

/// The parsed settings.
pub(crate) type FeedSettings = FeedOptions;

pub(crate) const OPTIONS: &[Setting] = &[
    Setting {
        name: "change-feed",
        kind: Kind::Text,
        placeholder: "WHEN",
        secret: false,
        default: Some("on-demand"),
        help: "Which containers record their changes: those that a client follows (on-demand), or \
              all (always), so that a client can start in the past without an earlier one",
        allowed: "on-demand or always",
        apply: Apply::Field(|config, text| {
            config.feeds.always = match text {
                "always" => true,
                "on-demand" => false,
                _ => return None,
            };
            Some(())
        }),
    },
    Setting {
        name: "change-feed-retention",
        kind: Kind::Text,
        placeholder: "TIME",
        secret: false,
        default: Some("24h"),
        help: "How long changes are kept; a feed that no client follows for this time is turned \
              off",
        allowed: "a time such as 30m, 24h or 7d",
        apply: Apply::Field(|config, text| {
            config.feeds.retention = value::duration(text)?;
            Some(())
        }),
    },
    Setting {
        name: "change-feed-size",
        kind: Kind::Text,
        placeholder: "SIZE",
        secret: false,
        default: Some("64GB"),
        help: "Size limit of the change feed of one container; the oldest changes are removed \
              first",
        allowed: SIZES,
        apply: Apply::Field(|config, text| {
            let size = value::size(text).filter(|size| *size > 0)?;
            config.feeds.max_bytes = u64::try_from(size).ok()?;
            Some(())
        }),
    },
];
