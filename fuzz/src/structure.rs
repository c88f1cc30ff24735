//! Changes JSON, so that what comes out is still JSON: values and names move, repeat and nest.

use serde_json::{Map, Value, json};

use super::dice::Dice;

/// Where values and names are taken from.
#[derive(Debug, Default)]
pub struct Pool {
    seeds: Vec<Value>,
    values: Vec<Value>,
    names: Vec<String>,
}

/// Nothing grows deeper or longer than this by one change.
const MOST_REPEATS: usize = 200;

impl Pool {
    /// What these texts hold, as far as they are JSON.
    pub fn new(texts: &[Vec<u8>]) -> Self {
        let mut pool = Self::default();
        for text in texts {
            if let Ok(value) = serde_json::from_slice::<Value>(text) {
                pool.collect(&value);
                pool.seeds.push(value);
            }
        }
        pool.names.sort();
        pool.names.dedup();
        pool
    }

    fn collect(&mut self, value: &Value) {
        self.values.push(value.clone());
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            Value::Object(members) => {
                for (name, value) in members {
                    self.names.push(name.clone());
                    self.collect(value);
                }
            }
            _ => {}
        }
    }

    /// One of the texts, changed in one to four ways.
    pub fn make(&self, dice: &mut Dice) -> Vec<u8> {
        let mut value = dice.pick(&self.seeds).cloned().unwrap_or(Value::Null);
        for _ in 0..=dice.below(4) {
            let count = count(&value);
            let mut place = dice.below(count);
            self.change_at(dice, &mut value, &mut place);
        }
        value.to_string().into_bytes()
    }

    /// Changes the value that stands at a place, counted from the outside.
    fn change_at(&self, dice: &mut Dice, value: &mut Value, place: &mut usize) -> bool {
        if *place == 0 {
            self.change(dice, value);
            return true;
        }
        *place -= 1;
        match value {
            Value::Array(items) => items.iter_mut().any(|it| self.change_at(dice, it, place)),
            Value::Object(members) => members
                .values_mut()
                .any(|it| self.change_at(dice, it, place)),
            _ => false,
        }
    }

    fn change(&self, dice: &mut Dice, value: &mut Value) {
        match (dice.below(9), &mut *value) {
            (0, Value::Object(members)) => self.rename(dice, members),
            (1, Value::Object(members)) => {
                let name = dice.pick(&self.names).cloned().unwrap_or_default();
                members.insert(name, self.any(dice));
            }
            (2, Value::Object(members)) => {
                let name = members.keys().nth(dice.below(members.len())).cloned();
                name.and_then(|name| members.remove(&name));
            }
            (3, Value::Array(items)) => {
                let item = dice.pick(items).cloned().unwrap_or(Value::Null);
                let more = 1 + dice.below(MOST_REPEATS);
                items.extend(std::iter::repeat_n(item, more));
            }
            (4, Value::Array(items)) => {
                let place = dice.below(items.len() + 1);
                items.insert(place, self.any(dice));
            }
            (5, _) => {
                let name = dice.pick(&self.names).cloned().unwrap_or_default();
                for _ in 0..=dice.below(12) {
                    let inner = value.take();
                    *value = match dice.once_in(3) {
                        true => json!([inner]),
                        false => json!({ name.as_str(): inner }),
                    };
                }
            }
            (6, _) => *value = edge(dice),
            _ => *value = self.any(dice),
        }
    }

    fn rename(&self, dice: &mut Dice, members: &mut Map<String, Value>) {
        let old = members.keys().nth(dice.below(members.len())).cloned();
        let new = dice.pick(&self.names).cloned().unwrap_or_default();
        let renamed = std::mem::take(members).into_iter().map(|(name, value)| {
            let name = match Some(&name) == old.as_ref() {
                true => new.clone(),
                false => name,
            };
            (name, value)
        });
        *members = renamed.collect();
    }

    fn any(&self, dice: &mut Dice) -> Value {
        dice.pick(&self.values).cloned().unwrap_or(Value::Null)
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum::<usize>(),
        _ => 0,
    }
}

fn edge(dice: &mut Dice) -> Value {
    let edges = [
        Value::Null,
        json!(true),
        json!(0),
        json!(-1),
        json!(2_147_483_648_i64),
        json!(i64::MIN),
        json!(1e308),
        json!(-0.0),
        json!(""),
        json!("$"),
        json!("$$ROOT"),
        json!("a.b.0"),
        json!("\u{0}"),
        json!("x".repeat(dice.below(3_000))),
        json!([]),
        json!({}),
        json!({ "$numberDecimal": "NaN" }),
        json!({ "$numberDecimal": "1E-6000" }),
        json!({ "$numberLong": "9223372036854775807" }),
        json!({ "$numberDouble": "-Infinity" }),
        json!({ "$date": { "$numberLong": "-9223372036854775808" } }),
        json!({ "$oid": "507f1f77bcf86cd799439011" }),
        json!({ "$minKey": 1 }),
        json!({ "$timestamp": { "t": 4_294_967_295_u32, "i": 1 } }),
        json!({ "$regularExpression": { "pattern": "(a*)*\\1$", "options": "sx" } }),
        json!({ "$binary": { "base64": "AAEC", "subType": "03" } }),
    ];
    dice.pick(&edges).cloned().unwrap_or(Value::Null)
}
