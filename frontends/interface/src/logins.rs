//! Failed logins are counted, logged, and delay further attempts.
//!
//! They are counted by address and by name, separately for each protocol. The first ones cause no
//! delay; then each doubles the delay of the next, up to a bound, and a minute without failures
//! resets the count. If many logins already wait at one address, further ones are refused without a
//! check, so that many connections guess hardly faster than one. A name is never refused, and its
//! delay is short: guesses from elsewhere delay its owner by that and no more. A success resets the
//! failures of the same name from the same address, but not those of other names there; for a while
//! that name is no longer delayed by failures of others at the address, such as a program with an
//! old password.
//!
//! Delays are timers: no thread blocks, and no lock is held.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::warn;

use crate::Activity;

/// Failures are reset after this time without one.
const MEMORY: Duration = Duration::from_secs(60);
/// The first wait.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The longest delay because of a name.
const LONGEST_FOR_NAME: Duration = Duration::from_secs(2);
/// The most logins of one address that may wait at once.
const MAX_WAITING: u32 = 16;
/// The most addresses and names that are remembered.
const MAX_TRACKED: usize = 30_000;
/// The most failures that are logged one by one in [`MEMORY`]; the rest is logged as a number.
const MAX_LOGGED: u32 = 20;
/// The most characters of a name that are logged.
const MAX_NAME_CHARACTERS: usize = 64;

/// The kind of secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guessing {
    /// A password, which may be weak.
    Password,
    /// A key that cannot be guessed: only the log is to be bounded.
    Key,
}

impl Guessing {
    /// The number of failures without a delay.
    fn free(self) -> u32 {
        match self {
            Self::Password => 10,
            Self::Key => 100,
        }
    }

    fn longest_wait(self) -> Duration {
        match self {
            Self::Password => Duration::from_secs(5),
            Self::Key => Duration::from_secs(1),
        }
    }

    /// The delay of a login after this many failures.
    fn wait_after(self, failures: u32) -> Duration {
        let Some(doublings) = failures.checked_sub(self.free()) else {
            return Duration::ZERO;
        };
        let factor = 1_u32.checked_shl(doublings.min(16)).unwrap_or(u32::MAX);
        FIRST_WAIT.saturating_mul(factor).min(self.longest_wait())
    }
}

/// The failed logins of the whole process.
#[derive(Debug, Default)]
pub struct Logins {
    table: Mutex<Table>,
    /// The number of records, so that the lock is not needed while there are none.
    tracked: AtomicUsize,
}

#[derive(Debug, Default)]
struct Table {
    hasher: RandomState,
    entries: HashMap<u64, Entry>,
    log: Log,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    failures: u32,
    waiting: u32,
    /// For a name at an address: it logged in there while others failed.
    trusted: bool,
    last: Instant,
}

impl Entry {
    /// The number of logins that count against the next one. Those in progress count only where too
    /// many failed.
    fn ahead(self, guessing: Guessing) -> u32 {
        if self.failures < guessing.free() {
            return self.failures;
        }
        self.failures.saturating_add(self.waiting)
    }

    fn is_crowded(self, guessing: Guessing) -> bool {
        self.failures >= guessing.free() && self.waiting >= MAX_WAITING
    }
}

#[derive(Debug, Default)]
struct Log {
    since: Option<Instant>,
    logged: u32,
    missed: u64,
}

/// The counters of one login.
#[derive(Clone, Copy, Debug)]
struct Keys {
    address: u64,
    name: u64,
    both: u64,
}

impl Table {
    fn keys(&self, gate: &LoginGate, name: &str) -> Keys {
        let (protocol, address) = (gate.protocol, network(gate.peer));
        let hash = |kind: u8, address: Option<IpAddr>, name: Option<&str>| {
            self.hasher.hash_one((kind, protocol, address, name))
        };
        Keys {
            address: hash(0, Some(address), None),
            name: hash(1, None, Some(name)),
            both: hash(2, Some(address), Some(name)),
        }
    }

    fn entry(&self, key: u64) -> Entry {
        let now = Instant::now();
        let found = self.entries.get(&key).copied();
        let mut entry = found.unwrap_or(Entry {
            failures: 0,
            waiting: 0,
            trusted: false,
            last: now,
        });
        if now.duration_since(entry.last) >= MEMORY {
            entry.failures = 0;
            entry.trusted = false;
        }
        entry
    }

    fn change(&mut self, key: u64, change: impl FnOnce(&mut Entry)) {
        let mut entry = self.entry(key);
        change(&mut entry);
        if entry.failures == 0 && entry.waiting == 0 && !entry.trusted {
            self.entries.remove(&key);
            return;
        }
        if self.entries.len() >= MAX_TRACKED && !self.entries.contains_key(&key) {
            self.make_room();
        }
        self.entries.insert(key, entry);
    }

    /// Removes expired records, and, if that is not enough, the older half.
    fn make_room(&mut self) {
        let now = Instant::now();
        let lasts = |entry: &Entry| entry.waiting > 0 || now.duration_since(entry.last) < MEMORY;
        self.entries.retain(|_, entry| lasts(entry));
        if self.entries.len() < MAX_TRACKED {
            return;
        }
        let mut ages: Vec<Instant> = self.entries.values().map(|entry| entry.last).collect();
        let middle = ages.len() / 2;
        let (_, median, _) = ages.select_nth_unstable(middle);
        let median = *median;
        self.entries.retain(|_, entry| entry.last > median);
    }
}

impl Log {
    /// Logs a failure, unless there were too many.
    fn note(&mut self, gate: &LoginGate, name: &str) {
        if self.since.is_none_or(|since| since.elapsed() >= MEMORY) {
            self.since = Some(Instant::now());
            self.logged = 0;
        }
        if self.logged >= MAX_LOGGED {
            self.missed += 1;
            return;
        }
        self.logged += 1;
        let user: String = name.chars().take(MAX_NAME_CHARACTERS).collect();
        let missed = std::mem::take(&mut self.missed);
        let (protocol, peer) = (gate.protocol, gate.peer);
        if missed == 0 {
            warn!(protocol, ?user, %peer, "login failed");
        } else {
            warn!(protocol, ?user, %peer, missed, "login failed; further failures were not logged");
        }
    }
}

/// The network of an address: with IPv6, a client usually has 2^64 addresses.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let prefix = address.to_bits() >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from_bits(prefix))
        }
    }
}

/// Where the front end of one connection reports logins and their outcome.
#[derive(Clone, Debug)]
pub struct LoginGate {
    logins: Arc<Logins>,
    protocol: &'static str,
    peer: IpAddr,
    activity: Activity,
}

impl LoginGate {
    /// The gate of a connection from `peer` that speaks `protocol`.
    pub fn new(
        logins: Arc<Logins>,
        protocol: &'static str,
        peer: IpAddr,
        activity: Activity,
    ) -> Self {
        Self {
            logins,
            protocol,
            peer: peer.to_canonical(),
            activity,
        }
    }

    /// Waits until `name` may try to log in. None if too many wait already: then the credentials
    /// are refused without a check.
    pub async fn admit(&self, guessing: Guessing, name: &str) -> Option<Attempt<'_>> {
        let (attempt, wait) = self.enter(guessing, name)?;
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        Some(attempt)
    }

    /// A login and its delay.
    fn enter(&self, guessing: Guessing, name: &str) -> Option<(Attempt<'_>, Duration)> {
        let mut table = self.logins.lock();
        let keys = table.keys(self, name);
        let (address, both) = (table.entry(keys.address), table.entry(keys.both));
        let here = if both.trusted { both } else { address };
        if here.is_crowded(guessing) {
            table.log.note(self, name);
            return None;
        }
        let for_name = guessing.wait_after(table.entry(keys.name).failures);
        let wait = guessing.wait_after(here.ahead(guessing));
        let wait = wait.max(for_name.min(LONGEST_FOR_NAME));
        for key in [keys.address, keys.both] {
            table.change(key, |entry| entry.waiting = entry.waiting.saturating_add(1));
        }
        self.logins.counted(&table);
        drop(table);
        let attempt = Attempt {
            gate: self,
            name: name.to_owned(),
            guessing,
            keys,
        };
        Some((attempt, wait))
    }

    /// Records that credentials which are cheap to check were wrong, and waits before the answer.
    pub async fn refused(&self, guessing: Guessing, name: &str) {
        if let Some(attempt) = self.admit(guessing, name).await {
            attempt.failed();
        }
    }

    /// Records that credentials were right.
    pub fn accepted(&self, guessing: Guessing, name: &str) {
        self.activity.identify();
        if self.logins.tracked.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut table = self.logins.lock();
        let keys = table.keys(self, name);
        let own = table.entry(keys.both).failures;
        let others_failed = table.entry(keys.address).failures >= guessing.free();
        table.change(keys.address, |entry| {
            entry.failures = entry.failures.saturating_sub(own);
        });
        table.change(keys.both, |entry| {
            entry.failures = 0;
            entry.trusted |= others_failed;
            entry.last = Instant::now();
        });
        table.change(keys.name, |entry| entry.failures = 0);
        self.logins.counted(&table);
    }
}

impl Logins {
    fn lock(&self) -> MutexGuard<'_, Table> {
        // Each change is complete on its own.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counted(&self, table: &Table) {
        self.tracked.store(table.entries.len(), Ordering::Relaxed);
    }
}

/// A login attempt. One that is dropped without an outcome, as when the client disconnects, does
/// not count.
#[derive(Debug)]
pub struct Attempt<'a> {
    gate: &'a LoginGate,
    name: String,
    guessing: Guessing,
    keys: Keys,
}

impl Attempt<'_> {
    /// The credentials were right.
    pub fn succeeded(self) {
        self.gate.accepted(self.guessing, &self.name);
    }

    /// The credentials were wrong.
    pub fn failed(self) {
        let mut table = self.gate.logins.lock();
        let Keys {
            address,
            name,
            both,
        } = self.keys;
        for key in [address, name, both] {
            table.change(key, |entry| {
                entry.failures = entry.failures.saturating_add(1);
                entry.last = Instant::now();
            });
        }
        table.log.note(self.gate, &self.name);
        self.gate.logins.counted(&table);
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let mut table = self.gate.logins.lock();
        for key in [self.keys.address, self.keys.both] {
            table.change(key, |entry| entry.waiting = entry.waiting.saturating_sub(1));
        }
        self.gate.logins.counted(&table);
    }
}

#[cfg(test)]
mod tests;
