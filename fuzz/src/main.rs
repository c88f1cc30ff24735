//! `tessera-fuzz`: feeds made-up inputs to every decoder, parser and front end of this workspace.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use clap::{Arg, ArgMatches, Command, value_parser};
use tessera_fuzz::finding;
use tessera_fuzz::run::{LIMIT, Outcome, Plan, run};
use tessera_fuzz::targets::{self, Fuzzed};

fn parser() -> Command {
    let number = |name: &'static str| Arg::new(name).long(name).value_parser(value_parser!(u64));
    Command::new("tessera-fuzz")
        .about("Feeds made-up inputs to every decoder, parser and front end")
        .arg(
            number("inputs")
                .default_value("1000000")
                .help("How many inputs in all"),
        )
        .arg(number("seconds").help("End after this time"))
        .arg(
            number("seed")
                .default_value("1")
                .help("Tells the inputs from those of other runs"),
        )
        .arg(number("threads").help("As many as there are cores, if not given"))
        .arg(Arg::new("target").long("target").help("Only this one"))
        .arg(
            Arg::new("replay")
                .long("replay")
                .requires("target")
                .value_parser(value_parser!(PathBuf))
                .help("Run the input in this file, and nothing else"),
        )
        .arg(
            Arg::new("findings")
                .long("findings")
                .default_value("fuzz/findings")
                .value_parser(value_parser!(PathBuf))
                .help("Where inputs are kept with which something is wrong"),
        )
}

fn main() -> ExitCode {
    let matches = parser().get_matches();
    match command(&matches) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            tell(&format!("error: {error}"));
            ExitCode::from(2)
        }
    }
}

/// Whether nothing was found.
fn command(matches: &ArgMatches) -> Result<bool, String> {
    let wanted = match matches.get_one::<String>("target") {
        None => targets::all(),
        Some(name) => vec![targets::find(name).ok_or("there is no such target")?],
    };
    if let (Some(path), Some(fuzzed)) = (matches.get_one::<PathBuf>("replay"), wanted.first()) {
        let input = std::fs::read(path).map_err(|error| error.to_string())?;
        let wrong = finding::check(fuzzed.target, &input, LIMIT);
        tell(wrong.as_deref().unwrap_or("nothing is wrong with it"));
        return Ok(wrong.is_none());
    }
    Ok(run_all(&wanted, matches))
}

fn run_all(wanted: &[Fuzzed], matches: &ArgMatches) -> bool {
    let number = |name: &str| matches.get_one::<u64>(name).copied();
    let cores = available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = number("threads").and_then(|threads| usize::try_from(threads).ok());
    let inputs = number("inputs").unwrap_or(0);
    // Quick targets get more of the inputs, each the same share of the time.
    let share = |fuzzed: &Fuzzed| 1.0 / fuzzed.weight.max(1).as_f64();
    let whole: f64 = wanted.iter().map(share).sum();
    let began = Instant::now();
    let mut sum = Outcome::default();
    for (place, fuzzed) in wanted.iter().enumerate() {
        let until = number("seconds").map(|seconds| {
            let part = (place + 1).as_f64() / wanted.len().as_f64();
            began + Duration::from_secs(seconds).mul_f64(part)
        });
        let plan = Plan {
            seed: number("seed").unwrap_or(1),
            inputs: rounded(inputs.as_f64() * share(fuzzed) / whole),
            until,
            threads: threads.unwrap_or(cores).max(1),
            findings: matches
                .get_one::<PathBuf>("findings")
                .cloned()
                .unwrap_or_default(),
        };
        let started = Instant::now();
        let outcome = run(*fuzzed, &plan);
        let seconds = started.elapsed().as_secs_f64();
        let name = fuzzed.target.name;
        tell(&format!(
            "{name:20} {:>10} inputs {seconds:>7.1} s",
            outcome.inputs
        ));
        outcome.findings.iter().for_each(|found| tell(found));
        sum.inputs += outcome.inputs;
        sum.findings.extend(outcome.findings);
    }
    tell(&format!(
        "{} inputs, {} findings",
        sum.inputs,
        sum.findings.len()
    ));
    sum.findings.is_empty()
}

/// Numbers of inputs, which are small beside what a float holds exactly.
trait AsFloat {
    fn as_f64(&self) -> f64;
}

impl AsFloat for u64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "a share of inputs need not be exact"
    )]
    fn as_f64(&self) -> f64 {
        *self as f64
    }
}

impl AsFloat for usize {
    #[expect(clippy::cast_precision_loss, reason = "there are few targets")]
    fn as_f64(&self) -> f64 {
        *self as f64
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a number of inputs"
)]
fn rounded(share: f64) -> u64 {
    share.ceil() as u64
}

fn tell(line: &str) {
    // Without a standard output there is nobody to tell.
    let _told = writeln!(std::io::stdout(), "{line}").is_ok();
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_parser_is_well_formed() {
        super::parser().debug_assert();
    }
}
