//! Runs many inputs on several threads, and looks that none takes for ever.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tessera_frontend::testing::Target;

use crate::dice::Dice;
use crate::structure::Pool;
use crate::targets::{Form, Fuzzed};
use crate::{corpus, finding, mutate};

/// No input may take more processor time.
pub const LIMIT: Duration = Duration::from_millis(if cfg!(debug_assertions) { 4_000 } else { 600 });

/// An input that has not ended after this time will not.
const FROZEN: Duration = Duration::from_secs(30);

/// How much is done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Tells the inputs from those of other runs.
    pub seed: u64,
    /// How many inputs in all.
    pub inputs: u64,
    /// When it ends in any case.
    pub until: Option<Instant>,
    /// How many threads.
    pub threads: usize,
    /// Where inputs are kept with which something is wrong.
    pub findings: PathBuf,
}

/// What came of a target.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// How many inputs were run.
    pub inputs: u64,
    /// What was wrong, and with which file.
    pub findings: Vec<String>,
}

/// Makes the inputs of a target.
pub struct Maker {
    fuzzed: Fuzzed,
    seeds: Vec<Vec<u8>>,
    pool: Pool,
}

impl Maker {
    /// One for this target.
    pub fn new(fuzzed: Fuzzed) -> Self {
        let seeds = corpus::read(fuzzed.corpus);
        let pool = match fuzzed.form {
            Form::Bytes => Pool::default(),
            Form::Json => Pool::new(&seeds),
        };
        Self {
            fuzzed,
            seeds,
            pool,
        }
    }

    /// The input of this number. The first ones are the corpus itself.
    pub fn make(&self, seed: u64, number: u64) -> Vec<u8> {
        let place = usize::try_from(number).unwrap_or(usize::MAX);
        if let Some(seed) = self.seeds.get(place) {
            return seed.clone();
        }
        let mut dice = Dice::new(seed, number);
        if self.fuzzed.form == Form::Json {
            let mut made = self.pool.make(&mut dice);
            if dice.once_in(10) {
                mutate::bytes(&mut dice, &mut made, &self.seeds);
            }
            made.truncate(mutate::LONGEST);
            return made;
        }
        let mut input = dice.pick(&self.seeds).cloned().unwrap_or_default();
        mutate::bytes(&mut dice, &mut input, &self.seeds);
        input
    }
}

/// What a thread is at, for who looks whether it goes on.
struct Progress {
    number: AtomicU64,
    since: Mutex<Instant>,
}

/// Runs so many inputs of a target that another crate has, on this thread's behalf.
pub fn bounded(target: Target, corpus: &'static str, inputs: u64) -> Outcome {
    let fuzzed = Fuzzed {
        target,
        corpus,
        form: Form::Bytes,
        weight: 1,
    };
    let plan = Plan {
        seed: 1,
        inputs,
        until: None,
        threads: 1,
        findings: std::env::temp_dir().join("tessera-findings"),
    };
    run(fuzzed, &plan)
}

/// Runs the inputs of one target.
pub fn run(fuzzed: Fuzzed, plan: &Plan) -> Outcome {
    let maker = Maker::new(fuzzed);
    let next = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    let outcome = Mutex::new(Outcome::default());
    let progress: Vec<Progress> = (0..plan.threads)
        .map(|_| Progress {
            number: AtomicU64::new(u64::MAX),
            since: Mutex::new(Instant::now()),
        })
        .collect();
    let work = |mine: &Progress| {
        let mut done = 0;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let is_late = plan.until.is_some_and(|until| Instant::now() >= until);
            if number >= plan.inputs || is_late {
                break;
            }
            mine.number.store(number, Ordering::Relaxed);
            if let Ok(mut since) = mine.since.lock() {
                *since = Instant::now();
            }
            let input = maker.make(plan.seed, number);
            done += 1;
            if let Some(wrong) = finding::check(fuzzed.target, &input, LIMIT) {
                note(&outcome, &plan.findings, (fuzzed, &input), &wrong);
            }
        }
        mine.number.store(u64::MAX, Ordering::Relaxed);
        if let Ok(mut outcome) = outcome.lock() {
            outcome.inputs += done;
        }
    };
    let work = &work;
    thread::scope(|scope| {
        let spawned = progress.iter().map(|mine| scope.spawn(move || work(mine)));
        let working: Vec<_> = spawned.collect();
        let watching = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                thread::park_timeout(Duration::from_secs(1));
                progress.iter().for_each(|mine| watch(mine, &maker, plan));
            }
        });
        for thread in working {
            // A panic of ours, and not of what is fuzzed: it was shown.
            let _panicked = thread.join().is_err();
        }
        is_over.store(true, Ordering::Relaxed);
        watching.thread().unpark();
    });
    outcome.into_inner().unwrap_or_default()
}

fn note(outcome: &Mutex<Outcome>, folder: &Path, (fuzzed, input): (Fuzzed, &[u8]), wrong: &str) {
    const MOST: usize = 20;
    let Ok(mut outcome) = outcome.lock() else {
        return;
    };
    if outcome.findings.len() >= MOST {
        return;
    }
    let name = fuzzed.target.name;
    let kept = finding::keep(folder, name, input);
    let kept = kept.map_or_else(|error| error.to_string(), |path| path.display().to_string());
    outcome
        .findings
        .push(format!("{name}: {wrong}\n    kept as {kept}"));
}

/// Ends the process if a thread is at one input for too long: a thread cannot be ended alone.
fn watch(progress: &Progress, maker: &Maker, plan: &Plan) {
    let number = progress.number.load(Ordering::Relaxed);
    let since = progress.since.lock().map(|since| *since);
    let is_frozen = since.is_ok_and(|since| since.elapsed() > FROZEN);
    if number == u64::MAX || !is_frozen {
        return;
    }
    let input = maker.make(plan.seed, number);
    let kept = finding::keep(&plan.findings, maker.fuzzed.target.name, &input);
    tell(&format!(
        "{}: an input has not ended after {FROZEN:?}; kept as {kept:?}",
        maker.fuzzed.target.name
    ));
    std::process::exit(3);
}

fn tell(line: &str) {
    use std::io::Write as _;
    // Without a standard error there is nobody to tell.
    let _told = writeln!(std::io::stderr(), "{line}").is_ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            seed: 1,
            inputs: 300,
            until: None,
            threads: 2,
            findings: std::env::temp_dir().join(format!("tessera-fuzz-{}", std::process::id())),
        }
    }

    fn planted(run: fn(&[u8])) -> Fuzzed {
        Fuzzed {
            target: Target {
                name: "planted",
                run,
            },
            corpus: "good\nbad\n",
            form: Form::Bytes,
            weight: 1,
        }
    }

    #[test]
    fn planted_panics_and_slowness_are_found_and_kept() {
        let panics = planted(|input| assert_ne!(input, b"bad", "on purpose"));
        let slow = planted(|input| {
            let until = Instant::now() + LIMIT * 6;
            while input == b"bad" && Instant::now() < until {
                std::hint::spin_loop();
            }
        });
        for (fuzzed, expected) in [(panics, "on purpose"), (slow, "processor time")] {
            let outcome = run(fuzzed, &plan());
            assert_eq!(outcome.inputs, 300);
            let found = outcome.findings.first().map_or("", String::as_str);
            assert!(found.contains(expected), "{found}");
            let (_, path) = found.split_once("kept as ").unwrap();
            assert_eq!(std::fs::read(path).unwrap(), b"bad");
        }
        std::fs::remove_dir_all(plan().findings).unwrap();
    }

    #[test]
    fn no_target_has_anything_wrong_with_its_corpus_and_some_more() {
        for fuzzed in crate::targets::all() {
            let seeds = corpus::read(fuzzed.corpus).len();
            let more = if fuzzed.weight < 50 { 300 } else { 20 };
            let inputs = u64::try_from(seeds).unwrap() + more;
            let outcome = run(fuzzed, &Plan { inputs, ..plan() });
            assert_eq!(outcome.inputs, inputs);
            assert!(outcome.findings.is_empty(), "{:#?}", outcome.findings);
        }
    }
}
