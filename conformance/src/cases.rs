//! One case of a walk: what the programs under `clients/` print, a line of JSON for each.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

/// What came of one case.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The part of the protocol that it is about: `transactions`, `paging`.
    pub area: String,
    /// What it looks at. No other case of the same client and area has this name.
    pub name: String,
    /// Whether it was as it should be.
    pub passed: bool,
    /// From the end of the case before.
    pub time: Duration,
    /// What was expected and what came instead.
    pub message: String,
}

impl Case {
    /// Reads a line that a walk printed; nothing if it says something else.
    pub fn read(line: &str) -> Option<Self> {
        // The lines of a walk are its own, but a driver's may be anything.
        let fields: Value = serde_json::from_str(line.strip_prefix('{').map(|_| line)?).ok()?;
        let text = |name| fields.get(name)?.as_str().map(str::to_owned);
        let milliseconds = fields.get("ms")?.as_f64()?;
        Some(Self {
            area: text("area")?,
            name: text("case")?,
            passed: match text("outcome")?.as_str() {
                "passed" => true,
                "failed" => false,
                _ => return None,
            },
            time: Duration::try_from_secs_f64(milliseconds / 1_000.0).ok()?,
            message: text("message")?,
        })
    }

    /// A case that no walk printed: that the walk itself came to its end.
    pub fn broken_off(message: String) -> Self {
        Self {
            area: "walk".to_owned(),
            name: "it comes to its end".to_owned(),
            passed: false,
            time: Duration::ZERO,
            message,
        }
    }

    /// The form in which it was read.
    pub fn json(&self) -> Value {
        json!({
            "area": self.area,
            "case": self.name,
            "outcome": if self.passed { "passed" } else { "failed" },
            "ms": self.time.as_secs_f64() * 1_000.0,
            "message": self.message,
        })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.area, self.name)?;
        match self.message.as_str() {
            "" => Ok(()),
            message => write!(f, ": {message}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_walks_print_and_nothing_else() {
        let line = r#"{"area":"a","case":"b","outcome":"failed","ms":1.5,"message":"c"}"#;
        let case = Case::read(line).unwrap();
        assert_eq!(case.to_string(), "a: b: c");
        assert_eq!(case.time, Duration::from_micros(1500));
        assert_eq!(Case::read(&case.json().to_string()), Some(case));
        for other in [
            "",
            "warning: {}",
            "{}",
            r#"{"area":"a","case":"b","outcome":"failed","ms":-1,"message":"c"}"#,
            r#"{"area":"a","case":"b","outcome":"perhaps","ms":1,"message":"c"}"#,
            r#"{"area":"a","case":"b","outcome":"failed","ms":1}"#,
        ] {
            assert_eq!(Case::read(other), None, "{other}");
        }
    }
}
