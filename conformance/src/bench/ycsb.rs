//! The shapes of the Yahoo! Cloud Serving Benchmark, A to F: ten fields of 100 bytes, keys by
//! Zipf's law.

use std::sync::Arc;

use crate::Failure;
use crate::bench::Scale;
use crate::bench::figures::{Report, Section};
use crate::bench::keys::{Random, Zipf};
use crate::bench::load::{Operation, Pace, Step, Steps};
use crate::bench::target::{Items, RANGE, STORED, Target};
use crate::bench::workload::{by_turns, processor, throughput};

/// What a shape asks for, in percent.
struct Shape {
    name: &'static str,
    read: u64,
    update: u64,
    insert: u64,
    range: u64,
    /// A read and then an update of the same item.
    modify: u64,
    /// Whether it asks most for what was inserted last.
    latest: bool,
}

const NOTHING: Shape = Shape {
    name: "",
    read: 0,
    update: 0,
    insert: 0,
    range: 0,
    modify: 0,
    latest: false,
};

const SHAPES: &[Shape] = &[
    Shape {
        name: "A, half updates",
        read: 50,
        update: 50,
        ..NOTHING
    },
    Shape {
        name: "B, few updates",
        read: 95,
        update: 5,
        ..NOTHING
    },
    Shape {
        name: "C, reads only",
        read: 100,
        ..NOTHING
    },
    Shape {
        name: "D, reads of the latest",
        read: 95,
        insert: 5,
        latest: true,
        ..NOTHING
    },
    Shape {
        name: "E, ranges",
        range: 95,
        insert: 5,
        ..NOTHING
    },
    Shape {
        name: "F, read and then written",
        read: 50,
        modify: 50,
        ..NOTHING
    },
];

impl Shape {
    /// Which operation a number below 100 stands for, and the one behind it.
    fn operation(&self, percent: u64) -> (Operation, Option<Operation>) {
        let shares = [
            (self.read, (Operation::Read, None)),
            (self.update, (Operation::Update, None)),
            (self.insert, (Operation::Insert, None)),
            (self.range, (Operation::Range, None)),
            (self.modify, (Operation::Read, Some(Operation::Update))),
        ];
        let mut below = 0;
        for (share, operation) in shares {
            below += share;
            if percent < below {
                return operation;
            }
        }
        (Operation::Read, None)
    }

    fn steps(&'static self, items: &Items) -> Result<Arc<Steps>, Failure> {
        let (zipf, random) = (Zipf::new(u32::try_from(STORED)?), Random::default());
        let items = items.clone();
        Ok(Arc::new(move || {
            let (operation, then) = self.operation(random.below(100));
            let item = match operation {
                Operation::Insert => items.insert(),
                Operation::Range => zipf.item(&random).min(STORED - RANGE),
                // What was inserted just now may not be answered yet, so a little is left out.
                _ if self.latest => {
                    let newest = items.count().saturating_sub(UNANSWERED);
                    newest.saturating_sub(zipf.rank(&random))
                }
                _ => zipf.item(&random),
            };
            Some(Step {
                operation,
                item,
                then,
            })
        }))
    }
}

/// More inserts than may wait for their answers at once.
const UNANSWERED: u64 = 1_000;

/// All shapes on our server and the peer.
pub(crate) async fn shapes(
    report: &mut Report,
    suite: &'static str,
    (ours, peer): (&Target, Option<&Target>),
    scale: &Scale,
) -> Result<(), Failure> {
    for shape in SHAPES {
        let name = format!("YCSB {}", shape.name);
        if !scale.wants(&name) {
            continue;
        }
        let has_ranges = shape.range > 0;
        let peer = peer.filter(|peer| !has_ranges || peer.takes(Operation::Range));
        let targets: Vec<&Target> = [ours].into_iter().chain(peer).collect();
        let steps = |items: &Items| shape.steps(items);
        let measured = by_turns(&targets, Pace::Answers, steps).await?;
        let figures = match measured.as_slice() {
            [ours, peer] => vec![processor(ours, peer, None), throughput(ours, peer, None)],
            _ => Vec::new(),
        };
        report.add(Section {
            suite,
            name,
            measured,
            figures,
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_is_whole_and_does_what_it_says() {
        for shape in SHAPES {
            let sum = shape.read + shape.update + shape.insert + shape.range + shape.modify;
            assert_eq!(sum, 100, "{}", shape.name);
            let count = |wanted| {
                let all = (0..100).map(|percent| shape.operation(percent));
                all.filter(|operation| *operation == wanted).count() as u64
            };
            assert_eq!(count((Operation::Read, None)), shape.read);
            assert_eq!(count((Operation::Update, None)), shape.update);
            assert_eq!(count((Operation::Insert, None)), shape.insert);
            assert_eq!(count((Operation::Range, None)), shape.range);
            assert_eq!(
                count((Operation::Read, Some(Operation::Update))),
                shape.modify
            );
        }
    }
}
