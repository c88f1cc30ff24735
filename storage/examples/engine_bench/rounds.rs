//! One process of a workload: rounds that alternate between subjects, and what is typical of them.

use std::fmt;
use std::fs;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::Failure;
use crate::data::{key, mix, value};
use crate::subjects::{Subject, Subjects};

const ROUND: Duration = Duration::from_millis(500);
/// Of so many items one is read to have all in memory: a block holds more of them.
const WARM_STEP: usize = 4;
/// How long background work may take to come to rest, and when it has.
const LONGEST_REST: Duration = Duration::from_secs(20);
const RESTING: Duration = Duration::from_millis(60);
const RESTING_TICKS: u64 = 1;

#[derive(Clone, Copy)]
pub(crate) enum Workload {
    Put,
    Get,
}

impl Workload {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
        }
    }

    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::Put => "synced put, 32 tasks",
            Self::Get => "random get, 2 tasks ",
        }
    }

    fn tasks(self) -> u64 {
        match self {
            Self::Put => 32,
            Self::Get => 2,
        }
    }

    /// More for reads, which depend on where a process has its memory.
    pub(crate) fn processes(self) -> u64 {
        match self {
            Self::Put => 3,
            Self::Get => 9,
        }
    }

    /// More for writes: from one to the next the disk may take twice or half as long.
    pub(crate) fn rounds(self, rounds: u32) -> u32 {
        match self {
            Self::Put => 3 * rounds,
            Self::Get => rounds,
        }
    }
}

impl FromStr for Workload {
    type Err = Failure;

    fn from_str(name: &str) -> Result<Self, Failure> {
        let known = [Self::Put, Self::Get];
        let named = known.into_iter().find(|workload| workload.name() == name);
        named.ok_or_else(|| format!("unknown workload {name}").into())
    }
}

/// What is typical of a subject: operations per second, and in proportion to the first subject.
pub(crate) struct Typical {
    pub(crate) rate: f64,
    pub(crate) ratio: f64,
}

impl fmt::Display for Typical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.rate, self.ratio)
    }
}

impl FromStr for Typical {
    type Err = Failure;

    fn from_str(line: &str) -> Result<Self, Failure> {
        let (rate, ratio) = line.split_once(' ').ok_or("two numbers are missing")?;
        Ok(Self {
            rate: rate.parse()?,
            ratio: ratio.parse()?,
        })
    }
}

/// How much one process measures.
pub(crate) struct Rounds {
    pub(crate) items: u64,
    pub(crate) rounds: u32,
    /// Its number: processes write different items.
    pub(crate) process: u64,
}

impl Rounds {
    /// What is typical of each subject.
    pub(crate) async fn measure(
        &self,
        workload: Workload,
        subjects: &Subjects,
    ) -> Result<Vec<Typical>, Failure> {
        warm(subjects, self.items).await?;
        let mut rates: [Vec<f64>; Subjects::COUNT] = Default::default();
        for round in 0..self.rounds {
            for (subject, rates) in subjects.0.iter().zip(&mut rates) {
                rest()?;
                rates.push(self.run_round(subject, workload, round).await?);
            }
        }
        let [first, ..] = &rates;
        let typical = rates.iter().map(|own| {
            let ratios = own.iter().zip(first).map(|(own, first)| own / first);
            Typical {
                rate: median(own.iter().copied()),
                ratio: median(ratios),
            }
        });
        Ok(typical.collect())
    }

    /// Operations per second of one round.
    async fn run_round(
        &self,
        subject: &Arc<dyn Subject>,
        workload: Workload,
        round: u32,
    ) -> Result<f64, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        let done = Arc::new(AtomicU64::new(0));
        let start = Instant::now();
        let mut running = Vec::new();
        let (items, first) = (self.items, self.process << 56 | u64::from(round) << 48);
        for task in 0..workload.tasks() {
            let (subject, stop, done) = (Arc::clone(subject), Arc::clone(&stop), Arc::clone(&done));
            running.push(tokio::spawn(async move {
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    let number = mix(first | task << 40 | count);
                    match workload {
                        // New items, all over the key space.
                        Workload::Put => subject.put(key(!number), value(number)).await?,
                        Workload::Get => {
                            subject.get(key(number % items)).await?;
                        }
                    }
                    count += 1;
                }
                done.fetch_add(count, Ordering::Relaxed);
                Ok::<(), Failure>(())
            }));
        }
        // A thread of its own: readers that never wait would keep a timer from being served.
        tokio::task::spawn_blocking(|| std::thread::sleep(ROUND)).await?;
        stop.store(true, Ordering::Relaxed);
        for task in running {
            task.await??;
        }
        let count = u32::try_from(done.load(Ordering::Relaxed))?;
        Ok(f64::from(count) / start.elapsed().as_secs_f64())
    }
}

pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Reads all blocks, in their order, to have them in memory. One subject after another: what they
/// read would otherwise lie mixed up in memory.
async fn warm(subjects: &Subjects, items: u64) -> Result<(), Failure> {
    for subject in &subjects.0 {
        let subject = Arc::clone(subject);
        let reading = tokio::spawn(async move {
            let mut keys: Vec<_> = (0..items).map(key).collect();
            subject.sort(&mut keys);
            for key in keys.into_iter().step_by(WARM_STEP) {
                subject.get(key).await?;
            }
            Ok::<(), Failure>(())
        });
        reading.await??;
    }
    Ok(())
}

/// Waits until the process has nothing to do: nobody's round shall pay for the compactions that
/// another's writes have left.
fn rest() -> Result<(), Failure> {
    let start = Instant::now();
    let mut before = processor_ticks()?;
    while start.elapsed() < LONGEST_REST {
        std::thread::sleep(RESTING);
        let now = processor_ticks()?;
        if now - before <= RESTING_TICKS {
            break;
        }
        before = now;
    }
    Ok(())
}

/// Hundredths of a second that this process has kept processors busy.
fn processor_ticks() -> Result<u64, Failure> {
    let status = fs::read_to_string("/proc/self/stat")?;
    // Behind the name, which may hold anything, user and system time are the 12th and 13th.
    let (_, fields) = status.rsplit_once(") ").ok_or("no process status")?;
    let times = fields.split(' ').skip(11).take(2);
    let ticks: Result<Vec<u64>, _> = times.map(str::parse).collect();
    Ok(ticks?.iter().sum())
}
