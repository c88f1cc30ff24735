//! The same requests to several servers by turns, and what they come to beside each other.

use std::io::Write as _;
use std::sync::Arc;

use crate::Failure;
use crate::bench::Scale;
use crate::bench::figures::{Figure, Limit, Measured, Report, Section};
use crate::bench::load::{Operation, Pace, Steps};
use crate::bench::target::{Items, Target};

/// What is asked, and what it must come to.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) operation: Operation,
    /// Of our processor time beside the bare server's, and of our throughput beside its.
    pub(crate) echo: [Option<Limit>; 2],
    /// Of our throughput beside the peer's.
    pub(crate) peer: Option<Limit>,
}

impl Row {
    fn steps(&self) -> impl Fn(&Items) -> Result<Arc<Steps>, Failure> {
        let operation = self.operation;
        move |items| Ok(items.steps(operation))
    }
}

/// Each row as fast as answers come, beside a bare server and the peer; the first one then at a
/// fixed rate too.
pub(crate) async fn points(
    report: &mut Report,
    suite: &'static str,
    (ours, peer): (&Target, Option<&Target>),
    rows: &[Row],
    scale: &Scale,
) -> Result<(), Failure> {
    let mut at_fixed_rate = scale.wants(FIXED_RATE);
    for row in rows {
        if !scale.wants(row.name) && !at_fixed_rate {
            continue;
        }
        let echoes = ours.echoes(row.operation).await?;
        let (echo, batched) = echoes.split_at_checked(1).unwrap_or_default();
        let peer = peer.filter(|peer| peer.takes(row.operation));
        let targets = [ours].into_iter().chain(echo).chain(peer);
        let mut targets: Vec<&Target> = targets.chain(batched).collect();
        let closed = by_turns(&targets, Pace::Answers, row.steps()).await?;
        report.add(Section {
            suite,
            name: row.name.to_owned(),
            figures: figures(&closed, row, peer),
            measured: closed.clone(),
        })?;
        if std::mem::take(&mut at_fixed_rate) {
            targets.truncate(targets.len() - batched.len());
            report.add(open(suite, &targets, row, &closed).await?)?;
        }
    }
    Ok(())
}

const FIXED_RATE: &str = "at a fixed rate";

/// At the rate of a server that is so many times slower than ours, nobody would be busy.
const MUCH_SLOWER: f64 = 50.0;

/// At half of what the slowest can do: all servers do the same work in the same time, so that none
/// is cheaper because it is busier.
async fn open(
    suite: &'static str,
    targets: &[&Target],
    row: &Row,
    closed: &[Measured],
) -> Result<Section, Failure> {
    let ours = closed.first().map_or(0.0, |ours| ours.per_second);
    let all = targets.iter().copied().zip(closed.iter().cloned());
    let (targets, closed): (Vec<_>, Vec<_>) = all
        .filter(|(_, measured)| measured.per_second * MUCH_SLOWER >= ours)
        .unzip();
    let slowest = closed.iter().map(|measured| measured.per_second);
    let rate = slowest.fold(f64::INFINITY, f64::min) / 2.0;
    let measured = by_turns(&targets, Pace::PerSecond(rate), row.steps()).await?;
    let mut figures = Vec::new();
    for (name, measured) in [
        ("processor per request", measured.as_slice()),
        ("  as fast as it can", closed.as_slice()),
    ] {
        if let [ours, others @ ..] = measured {
            let shown = others.iter().take(targets.len() - 1);
            figures.extend(shown.map(|other| Figure {
                name,
                ..processor(ours, other, None)
            }));
        }
    }
    Ok(Section {
        suite,
        name: format!("{}, {FIXED_RATE} of {rate:.0}/s", row.name),
        measured,
        figures,
    })
}

/// The same steps on each of the servers in turn, several times: what is typical of each. A shared
/// machine is slower at times, and so it is for all of them.
pub(crate) async fn by_turns(
    targets: &[&Target],
    pace: Pace,
    steps: impl Fn(&Items) -> Result<Arc<Steps>, Failure>,
) -> Result<Vec<Measured>, Failure> {
    let most = targets.iter().map(|target| target.rounds.count).max();
    let mut measured = vec![Vec::new(); targets.len()];
    for round in 0..most.unwrap_or_default() {
        for (target, measured) in targets.iter().zip(&mut measured) {
            if round < target.rounds.count {
                measured.push(target.round(pace, &steps).await?);
            }
        }
    }
    Ok(measured
        .iter()
        .filter_map(|rounds| Measured::typical(rounds))
        .collect())
}

/// Ours, which are first, beside the bare server's, which are second, and all others.
fn figures(measured: &[Measured], row: &Row, peer: Option<&Target>) -> Vec<Figure> {
    let [ours, others @ ..] = measured else {
        return Vec::new();
    };
    let mut figures = Vec::new();
    for (place, other) in others.iter().enumerate() {
        let is_peer = peer.is_some_and(|peer| peer.name == other.subject);
        let [processor_limit, throughput_limit] = match (place, is_peer) {
            (0, _) => row.echo,
            (_, true) => [None, row.peer],
            (_, false) => [None, None],
        };
        figures.push(processor(ours, other, processor_limit));
        figures.push(throughput(ours, other, throughput_limit));
    }
    figures
}

/// The peer if it can be had; the others are measured without it.
pub(crate) fn if_there(
    suite: &str,
    name: &str,
    peer: Result<Target, Failure>,
) -> Result<Option<Target>, Failure> {
    match peer {
        Ok(peer) => Ok(Some(peer)),
        Err(why) => {
            writeln!(
                std::io::stdout(),
                "{suite}: without {name} beside it: {why}"
            )?;
            Ok(None)
        }
    }
}

pub(crate) fn processor(ours: &Measured, other: &Measured, limit: Option<Limit>) -> Figure {
    Figure {
        name: "processor per request",
        value: format!("{:.1} µs", ours.processor_us),
        beside: format!("{}'s {:.1} µs", other.subject, other.processor_us),
        ratio: ours.processor_us / other.processor_us,
        limit,
    }
}

pub(crate) fn throughput(ours: &Measured, other: &Measured, limit: Option<Limit>) -> Figure {
    Figure {
        name: "throughput",
        value: format!("{:.0}/s", ours.per_second),
        beside: format!("{}'s {:.0}/s", other.subject, other.per_second),
        ratio: ours.per_second / other.per_second,
        limit,
    }
}
