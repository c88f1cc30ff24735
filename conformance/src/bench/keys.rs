//! Which item a request is about: uniform, by Zipf's law, the latest, or the next one.

use std::sync::atomic::{AtomicU64, Ordering};

/// How much more often the first item is asked for than the others: YCSB's own constant.
const SKEW: f64 = 0.99;
/// SplitMix64's step: a golden share of the ring.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Numbers in no visible order, the same in every run.
#[derive(Debug, Default)]
pub(crate) struct Random(AtomicU64);

impl Random {
    pub(crate) fn next(&self) -> u64 {
        mixed(self.0.fetch_add(STEP, Ordering::Relaxed))
    }

    /// One of the numbers below this.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        let wide = u128::from(self.next()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or_default()
    }

    /// A number from 0 up to and without 1.
    pub(crate) fn unit(&self) -> f64 {
        const RANGE: u32 = 1 << 31;
        let number = u32::try_from(self.below(u64::from(RANGE))).unwrap_or_default();
        f64::from(number) / f64::from(RANGE)
    }
}

/// SplitMix64's finish: every bit of the input moves every bit of the output.
fn mixed(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    state ^ (state >> 31)
}

/// Ranks by Zipf's law, by the method of Gray and others, "Quickly generating billion-record
/// synthetic databases", as YCSB draws them.
#[derive(Debug)]
pub(crate) struct Zipf {
    items: u32,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    pub(crate) fn new(items: u32) -> Self {
        let zeta =
            |count: u32| -> f64 { (1..=count).map(|rank| f64::from(rank).powf(-SKEW)).sum() };
        let all = zeta(items);
        let first_two = (2.0 / f64::from(items)).powf(1.0 - SKEW);
        Self {
            items,
            zeta: all,
            alpha: 1.0 / (1.0 - SKEW),
            eta: (1.0 - first_two) / (1.0 - zeta(2) / all),
        }
    }

    /// A rank, 0 most often.
    pub(crate) fn rank(&self, random: &Random) -> u64 {
        let unit = random.unit();
        let share = unit * self.zeta;
        if share < 1.0 {
            return 0;
        }
        if share < 1.0 + 0.5_f64.powf(SKEW) {
            return 1;
        }
        let rank = f64::from(self.items) * (self.eta * unit - self.eta + 1.0).powf(self.alpha);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float becomes the nearest number that there is"
        )]
        let rank = rank as u64;
        rank.min(u64::from(self.items) - 1)
    }

    /// An item: what is asked for most lies anywhere, not all at the beginning.
    pub(crate) fn item(&self, random: &Random) -> u64 {
        mixed(self.rank(random).wrapping_add(1)) % u64::from(self.items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_follows_its_law() {
        const DRAWN: u32 = 100_000;
        let (zipf, random) = (Zipf::new(1_000), Random::default());
        let mut counts = vec![0_u32; 1_000];
        for _ in 0..DRAWN {
            counts[usize::try_from(zipf.rank(&random)).unwrap()] += 1;
        }
        let share = |rank: usize| f64::from(counts[rank]) / f64::from(DRAWN);
        // The first has 1 / zeta(1000, 0.99) = 13 %, the second half of that.
        assert!((share(0) - 0.13).abs() < 0.01, "{}", share(0));
        assert!((share(1) - 0.065).abs() < 0.01, "{}", share(1));
        assert!(counts.iter().filter(|count| **count > 0).count() > 900);
    }

    #[test]
    fn numbers_stay_below_their_bound_and_reach_it() {
        let random = Random::default();
        let drawn: Vec<u64> = (0..1_000).map(|_| random.below(10)).collect();
        assert_eq!(drawn.iter().min(), Some(&0));
        assert_eq!(drawn.iter().max(), Some(&9));
        assert!((0..1_000).all(|_| (0.0..1.0).contains(&random.unit())));
    }
}
