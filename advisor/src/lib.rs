//! Comparison of partition keys for some records.
//!
//! A [`Survey`] sees each record once, from a file or through [`of_container`] from a container
//! that may be in use. Each candidate's `profile` counts in bounded memory what its keys do; a
//! [`Report`] is made of that, with a `verdict` in words, and shown as `text`, JSON and a
//! `picture`.

mod cardinality;
mod container;
mod frequent;
mod key;
mod layout;
mod picture;
mod profile;
mod proposal;
mod report;
mod sequence;
mod spread;
mod survey;
mod tally;
mod text;
mod units;
mod value;
mod verdict;

pub use container::{Question, Refusal, of_container};
pub use key::KeyPath;
pub use layout::Wish;
pub use proposal::Proposal;
pub use report::{Printed, Rejected, RejectedLine, Report};
pub use survey::{MAX_CANDIDATES, Survey};
pub use value::Scalar;
