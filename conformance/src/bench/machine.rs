//! What was measured on, and when: a figure is worth nothing without it.

use std::borrow::Cow;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::bench::OUTPUTS;

/// The machine, the day and the command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Machine {
    date: String,
    processors: usize,
    processor: String,
    memory_gib: f64,
    kernel: String,
    pub(crate) command: String,
}

impl Machine {
    /// The one that this program runs on.
    pub(crate) fn here() -> Self {
        let read = |file| fs::read_to_string(file).unwrap_or_default();
        Self {
            date: today(),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            processor: field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
            memory_gib: memory_gib(&read("/proc/meminfo")).unwrap_or_default(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            command: command(std::env::args().skip(1)),
        }
    }

    /// The day and the machine, for people.
    pub(crate) fn described(&self) -> String {
        format!(
            "{}, {} processors ({}), {:.1} GiB, Linux {}",
            self.date, self.processors, self.processor, self.memory_gib, self.kernel
        )
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "date": self.date,
            "processors": self.processors,
            "processor": self.processor,
            "memory_gib": self.memory_gib,
            "kernel": self.kernel,
            "command": self.command,
        })
    }
}

/// The command that measures the same again: where this one wrote its figures is left out.
fn command(mut arguments: impl Iterator<Item = String>) -> String {
    let is_output = |argument: &str| {
        let option = argument.strip_prefix("--");
        option.is_some_and(|option| OUTPUTS.iter().any(|(output, _)| option == *output))
    };
    let mut command = "tessera-conformance".to_owned();
    while let Some(argument) = arguments.next() {
        match argument.split_once('=') {
            Some((option, _)) if is_output(option) => {}
            None if is_output(&argument) => {
                // The file comes next.
                arguments.next();
            }
            _ => {
                command.push(' ');
                command.push_str(&quoted(&argument));
            }
        }
    }
    command
}

/// An argument as a shell takes it.
fn quoted(argument: &str) -> Cow<'_, str> {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_=./:,@%+".contains(char);
    match !argument.is_empty() && argument.chars().all(is_plain) {
        true => argument.into(),
        false => format!("'{}'", argument.replace('\'', r"'\''")).into(),
    }
}

/// The value of the first line with this name, as the files of `/proc` have them.
fn field(text: &str, name: &str) -> Option<String> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(found, _)| found.trim() == name)?;
    Some(value.trim().to_owned())
}

fn memory_gib(text: &str) -> Option<f64> {
    let total = field(text, "MemTotal")?;
    let kibibytes: f64 = total.strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes / (1_024.0 * 1_024.0))
}

/// The day in UTC.
fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    date(since.map_or(0, |since| since.as_secs() / 86_400))
}

/// The date that is so many days after the first of 1970.
fn date(mut days: u64) -> String {
    let is_leap = |year: u64| {
        year.is_multiple_of(400) || (year.is_multiple_of(4) && !year.is_multiple_of(100))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_names_no_files_that_it_writes() {
        for (given, expected) in [
            ("bench", "bench"),
            (
                "bench cql --quick --only scan",
                "bench cql --quick --only scan",
            ),
            ("bench --json a --svg b cql --markdown c", "bench cql"),
            (
                "bench --json=a --only=svg --markdown=c=d all",
                "bench --only=svg all",
            ),
        ] {
            let arguments = given.split(' ').map(str::to_owned);
            assert_eq!(
                command(arguments),
                format!("tessera-conformance {expected}")
            );
        }
    }

    #[test]
    fn the_command_can_be_pasted_into_a_shell() {
        let arguments = ["bench", "--only", "a page of 'one'", ""].map(str::to_owned);
        assert_eq!(
            command(arguments.into_iter()),
            r"tessera-conformance bench --only 'a page of '\''one'\''' ''"
        );
    }

    #[test]
    fn days_have_dates() {
        for (days, expected) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (789, "1972-02-29"),
            (11_016, "2000-02-29"),
            (20_773, "2026-11-16"),
            (20_818, "2026-12-31"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ] {
            assert_eq!(date(days), expected);
        }
    }

    #[test]
    fn a_machine_is_described_by_what_its_kernel_says() {
        let text = "MemFree: 1 kB\nMemTotal:    2097152 kB\nmodel name\t: A: B\n";
        assert_eq!(memory_gib(text), Some(2.0));
        assert_eq!(field(text, "model name").as_deref(), Some("A: B"));
        assert_eq!(field(text, "flags"), None);
        let shown = Machine {
            date: date(0),
            processors: 2,
            processor: "A".to_owned(),
            memory_gib: 2.0,
            kernel: "6.1".to_owned(),
            command: "bench".to_owned(),
        };
        assert_eq!(
            shown.described(),
            "1970-01-01, 2 processors (A), 2.0 GiB, Linux 6.1"
        );
    }
}
