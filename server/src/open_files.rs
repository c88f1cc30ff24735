//! The process's limit of open files, which connections and the engine share.

use rustix::process::{Resource, getrlimit, setrlimit};
use tracing::{debug, warn};

/// Files that the engine and the rest of the process may need besides connections.
const RESERVE: u64 = 512;

/// Raises the soft limit as far as allowed, because shells commonly start with 1,024, and warns if
/// that is still not enough for `connections`.
pub(crate) fn prepare(connections: usize) {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            debug!(%error, "cannot raise the limit of open files");
        }
    }
    let wanted = u64::try_from(connections)
        .unwrap_or(u64::MAX)
        .saturating_add(RESERVE);
    // No limit is more than enough.
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if allowed < wanted {
        warn!(
            allowed,
            wanted, "too few open files for max-connections: raise ulimit -n or lower it"
        );
    }
}
