//! How many different keys there are, in 16 KB: HyperLogLog.
//!
//! With the estimator of Otmar Ertl ("New cardinality estimation algorithms for HyperLogLog
//! sketches", 2017), which needs no table of corrections.

/// Bits of a hash that choose the register.
const INDEX_BITS: u32 = 14;
const REGISTERS: usize = 1 << INDEX_BITS;
/// The highest rank that the other bits can have, and one for "all of them zero".
const MAX_RANK: usize = 64 - INDEX_BITS as usize + 1;

/// The standard error of the estimate: 1.04 / √registers.
pub(crate) const STANDARD_ERROR: f64 = 1.04 / 128.0;

/// Counts different hashes.
pub(crate) struct Cardinality {
    registers: Vec<u8>,
}

impl Cardinality {
    pub(crate) fn new() -> Self {
        Self {
            registers: vec![0; REGISTERS],
        }
    }

    /// Takes note of a hash of 64 good bits.
    pub(crate) fn insert(&mut self, hash: u64) {
        let register = usize::try_from(hash >> (64 - INDEX_BITS)).unwrap_or(0);
        let rest = hash << INDEX_BITS;
        let rank = (rest.leading_zeros() + 1).min(64 - INDEX_BITS + 1);
        if let Some(register) = self.registers.get_mut(register) {
            *register = (*register).max(u8::try_from(rank).unwrap_or(u8::MAX));
        }
    }

    /// About how many different hashes there were.
    pub(crate) fn estimate(&self) -> f64 {
        let mut counts = [0.0; MAX_RANK + 1];
        for &rank in &self.registers {
            if let Some(count) = counts.get_mut(usize::from(rank)) {
                *count += 1.0;
            }
        }
        let registers = REGISTERS as f64;
        let (Some((empty, others)), Some(full)) = (counts.split_first(), counts.last()) else {
            return 0.0;
        };
        let others = others.get(..others.len() - 1).unwrap_or_default();
        let highest = registers * tau(1.0 - full / registers);
        let sum = others
            .iter()
            .rev()
            .fold(highest, |sum, count| 0.5 * (sum + count));
        let sum = sum + registers * sigma(empty / registers);
        registers * registers / (2.0 * std::f64::consts::LN_2 * sum)
    }
}

/// Corrects for registers that are still empty.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut weight, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * weight;
        weight += weight;
        if sum == before {
            return sum;
        }
    }
}

/// Corrects for registers that cannot go higher.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut weight, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        weight *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * weight;
        if sum == before {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use tessera_core::hash::murmur3;

    use super::*;

    #[test]
    fn estimates_are_within_four_standard_errors() {
        let mut cardinality = Cardinality::new();
        assert_eq!(cardinality.estimate(), 0.0);
        let mut checked = 0;
        for number in 1..=2_000_000u64 {
            let hash = murmur3::token(&number.to_be_bytes()).cast_unsigned();
            cardinality.insert(hash);
            cardinality.insert(hash);
            if [
                10, 1_000, 30_000, 40_000, 60_000, 100_000, 500_000, 2_000_000,
            ]
            .contains(&number)
            {
                let error = cardinality.estimate() / number as f64 - 1.0;
                assert!(error.abs() < 4.0 * STANDARD_ERROR, "{number}: {error}");
                checked += 1;
            }
        }
        assert_eq!(checked, 8);
    }
}
