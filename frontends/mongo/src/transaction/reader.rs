//! The transaction that a read uses: its own, or that of its session.

use std::ops::{Deref, DerefMut};

use tessera_core::Transaction;

/// The transaction that a read uses.
pub(crate) enum Reader<'a> {
    Own(Box<Transaction>),
    Shared(&'a mut Transaction),
}

impl Deref for Reader<'_> {
    type Target = Transaction;

    fn deref(&self) -> &Transaction {
        match self {
            Self::Own(transaction) => transaction,
            Self::Shared(transaction) => transaction,
        }
    }
}

impl DerefMut for Reader<'_> {
    fn deref_mut(&mut self) -> &mut Transaction {
        match self {
            Self::Own(transaction) => transaction,
            Self::Shared(transaction) => transaction,
        }
    }
}
