//! What is wrong with an input, and where it is kept.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once};
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tessera_frontend::testing::Target;

thread_local! {
    /// Whether an input is being run on this thread, and what the last panic there said.
    static RUNS: Cell<bool> = const { Cell::new(false) };
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// What the last panic on a thread of a runtime said: there a panic costs one answer, which nobody
/// here reads.
static ELSEWHERE: Mutex<Option<String>> = Mutex::new(None);

/// How the threads of runtimes are called.
const RUNTIME_THREADS: &str = "tokio";

fn listen() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        let shown = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            let name = thread::current().name().map(str::to_owned);
            let is_runtime = name.is_some_and(|name| name.starts_with(RUNTIME_THREADS));
            if RUNS.get() {
                SAID.with(|place| *place.borrow_mut() = what.to_string());
            } else if is_runtime {
                if let Ok(mut elsewhere) = ELSEWHERE.lock() {
                    *elsewhere = Some(what.to_string());
                }
            } else {
                shown(what);
            }
        }));
    });
}

/// The processor time of this thread.
fn used() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Runs an input; what is wrong with it, if anything is.
pub fn check(target: Target, input: &[u8], limit: Duration) -> Option<String> {
    listen();
    let began = used();
    RUNS.set(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    RUNS.set(false);
    let took = used().saturating_sub(began);
    let elsewhere = ELSEWHERE.lock().ok().and_then(|mut said| said.take());
    if outcome.is_err() {
        return Some(SAID.with(|said| said.take()));
    }
    if let Some(said) = elsewhere {
        return Some(said);
    }
    (took > limit).then(|| format!("it took {took:?} of processor time"))
}

/// Keeps an input where it can be run again from.
pub fn keep(folder: &Path, name: &str, input: &[u8]) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let hash = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let path = folder.join(format!("{name}-{hash:016x}"));
    fs::write(&path, input)?;
    Ok(path)
}
