//! Records to measure `tessera advise` with: `advise_records COUNT > FILE` writes so many of them.
//!
//! The same every time: a unique `id`, a `tenant` of 5,000 even ones, a `user` of a million by
//! Zipf's law, a `day` that moves on with the file, an `address.city` of 200, and a text that makes
//! some documents longer.

use std::error::Error;
use std::io::{self, BufWriter, ErrorKind, Write};

const TENANTS: u64 = 5_000;
const USERS: f64 = 1_000_000.0;
const CITIES: u64 = 200;
const DAYS: u64 = 365;

fn main() -> Result<(), Box<dyn Error>> {
    let count: u64 = std::env::args()
        .nth(1)
        .ok_or("how many records?")?
        .parse()?;
    match write(count) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

fn write(count: u64) -> io::Result<()> {
    let mut output = BufWriter::with_capacity(1 << 20, io::stdout().lock());
    let mut random = Random(7);
    let filler = "lorem ipsum ".repeat(40);
    for number in 0..count {
        let id = Random(number).next();
        let tenant = random.below(TENANTS);
        let user = random.zipf();
        let city = random.below(CITIES);
        let (month, day) = month_and_day(number * DAYS / count.max(1));
        let amount = random.below(100_000);
        let note_length = usize::try_from(random.below(12)).unwrap_or(0).pow(2);
        let note = filler.get(..note_length).unwrap_or_default();
        writeln!(
            output,
            "{{\"id\":\"{id:016x}\",\"tenant\":\"tenant-{tenant}\",\"user\":{user},\
             \"day\":\"2026-{month:02}-{day:02}\",\"address\":{{\"city\":\"city-{city}\",\
             \"lines\":[\"x\",\"y\"]}},\"amount\":{amount}.25,\"note\":\"{note}\"}}"
        )?;
    }
    output.flush()
}

/// Months of equal length are near enough.
fn month_and_day(day: u64) -> (u64, u64) {
    ((day / 31).min(11) + 1, day % 31 + 1)
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A number from 1 to a million: twice the number, half as often.
    fn zipf(&mut self) -> u64 {
        let fraction = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 1 and a million"
        )]
        let user = USERS.powf(fraction) as u64;
        user
    }
}
