//! Restricts new files to the user who runs the process.

use rustix::fs::Mode;

/// Lets nobody else read or write what is made from here on, whatever the shell had set: RocksDB
/// opens its files itself, and asks for no mode.
pub(crate) fn prepare() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}
