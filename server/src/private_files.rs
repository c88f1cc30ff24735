//! Restricts new files to the user who runs the process.

use rustix::fs::Mode;

/// Sets the umask so that only the owner can access new files: RocksDB opens its files itself,
/// without a mode.
pub(crate) fn prepare() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}
