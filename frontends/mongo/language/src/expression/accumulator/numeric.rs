//! Sums, averages and deviations.

use bson::Bson;

use super::Accumulate;
use crate::error::Result;
use crate::number::{Decimal, Number};

/// A sum of doubles that keeps what each addition rounds off.
#[derive(Clone, Copy, Debug, Default)]
struct Precise {
    sum: f64,
    rest: f64,
    /// The plain sum, which is what counts once it is infinite or not a number.
    plain: f64,
}

impl Precise {
    fn add(&mut self, value: f64) {
        self.plain += value;
        let sum = self.sum + value;
        let (large, small) = if self.sum.abs() >= value.abs() {
            (self.sum, value)
        } else {
            (value, self.sum)
        };
        self.rest += (large - sum) + small;
        self.sum = sum;
    }

    fn value(self) -> f64 {
        let value = self.sum + self.rest;
        if value.is_finite() { value } else { self.plain }
    }
}

/// The sum of numbers; what is none is left out.
#[derive(Debug, Default)]
pub(super) struct Sum {
    whole: i128,
    doubles: Precise,
    decimals: Option<Decimal>,
    has_double: bool,
    has_int64: bool,
    count: i64,
}

impl Sum {
    fn take(&mut self, number: Number) {
        self.count += 1;
        match number {
            Number::Int32(value) => self.whole += i128::from(value),
            Number::Int64(value) => {
                self.whole += i128::from(value);
                self.has_int64 = true;
            }
            Number::Double(value) => {
                self.doubles.add(value);
                self.has_double = true;
            }
            Number::Decimal(value) => {
                let sum = self.decimals.unwrap_or(Decimal::ZERO);
                self.decimals = Some(sum.plus(value));
            }
        }
    }

    fn whole_as_double(&self) -> f64 {
        i64::try_from(self.whole).map_or_else(
            |_| self.whole.to_string().parse().unwrap_or(f64::NAN),
            |whole| Number::Int64(whole).to_f64(),
        )
    }

    fn double(&self) -> f64 {
        let mut total = self.doubles;
        // In two parts, so that 64 bits lose nothing to the 53 of a double.
        let high = self.whole_as_double();
        total.add(high);
        if let (Ok(whole), Some(rounded)) = (
            i64::try_from(self.whole),
            Number::Double(high).as_i64_exact(),
        ) {
            total.add(Number::Int64(whole.wrapping_sub(rounded)).to_f64());
        }
        total.value()
    }

    fn decimal(&self, decimals: Decimal) -> Decimal {
        let mut total = decimals;
        // Added even where it is zero, which leaves its exponent to the sum.
        total = total.plus(Decimal::parse(&self.whole.to_string()).unwrap_or(Decimal::NAN));
        if self.has_double {
            total = total.plus(Decimal::from_f64_nearest(self.doubles.sum));
            if self.doubles.sum.is_finite() {
                total = total.plus(Decimal::from_f64_nearest(self.doubles.rest));
            }
        }
        total
    }

    fn number(&self) -> Number {
        if let Some(decimals) = self.decimals {
            return Number::Decimal(self.decimal(decimals));
        }
        if self.has_double {
            return Number::Double(self.double());
        }
        match (i32::try_from(self.whole), i64::try_from(self.whole)) {
            (Ok(whole), _) if !self.has_int64 => Number::Int32(whole),
            (_, Ok(whole)) => Number::Int64(whole),
            _ => Number::Double(self.whole_as_double()),
        }
    }
}

impl Accumulate for Sum {
    fn add(&mut self, value: Option<Bson>) -> Result<()> {
        if let Some(number) = value.as_ref().and_then(Number::from_bson) {
            self.take(number);
        }
        Ok(())
    }

    fn value(&self) -> Bson {
        self.number().into_bson()
    }
}

/// The average of numbers; null if there are none. Integers count as doubles from the start.
#[derive(Debug, Default)]
pub(super) struct Average {
    sum: Sum,
}

impl Accumulate for Average {
    fn add(&mut self, value: Option<Bson>) -> Result<()> {
        match value.as_ref().and_then(Number::from_bson) {
            Some(decimal @ Number::Decimal(_)) => self.sum.take(decimal),
            Some(number) => self.sum.take(Number::Double(number.to_f64())),
            None => {}
        }
        Ok(())
    }

    fn value(&self) -> Bson {
        if self.sum.count == 0 {
            return Bson::Null;
        }
        match self.sum.decimals {
            Some(decimals) => {
                let total = self.sum.decimal(decimals);
                Bson::Decimal128(total.over(Decimal::from(self.sum.count)).to_bson())
            }
            None => Bson::Double(self.sum.double() / Number::Int64(self.sum.count).to_f64()),
        }
    }
}

/// The standard deviation of a whole population or of a sample.
#[derive(Debug)]
pub(super) struct Deviation {
    sample: bool,
    count: i64,
    mean: f64,
    squares: f64,
}

impl Deviation {
    pub(super) fn new(sample: bool) -> Self {
        Self {
            sample,
            count: 0,
            mean: 0.0,
            squares: 0.0,
        }
    }
}

impl Accumulate for Deviation {
    fn add(&mut self, value: Option<Bson>) -> Result<()> {
        if let Some(number) = value.as_ref().and_then(Number::from_bson) {
            // Each value moves the mean; what it adds to the squares is by the means before and
            // after.
            let value = number.to_f64();
            self.count += 1;
            let delta = value - self.mean;
            self.mean += delta / Number::Int64(self.count).to_f64();
            self.squares += delta * (value - self.mean);
        }
        Ok(())
    }

    fn value(&self) -> Bson {
        let divisor = self.count - i64::from(self.sample);
        if divisor <= 0 {
            return Bson::Null;
        }
        Bson::Double((self.squares / Number::Int64(divisor).to_f64()).sqrt())
    }
}
