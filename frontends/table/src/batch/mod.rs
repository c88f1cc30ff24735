//! Entity group transactions on the wire: the multipart form of a batch and of its answer.

mod read;
mod write;

pub(crate) use read::{Part, read};
pub(crate) use write::{Ids, PartReply, write};
