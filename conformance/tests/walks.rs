//! All clients over all variants of the server, held against the ledgers.
//!
//! There is no harness around it: each case is a test, and the walks print them themselves. An
//! argument picks the walks that have it in their name, such as `cql` or "table curl tls".

#![expect(
    clippy::print_stdout,
    reason = "as the harness of tests does, it tells its results there"
)]

use std::process::ExitCode;

use tessera_conformance::check::{Options, check};
use tessera_conformance::suites::{SUITES, Walk};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Those that ask what tests there are do not ask for this one.
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let wanted = arguments.iter().find(|argument| !argument.starts_with('-'));
    let walks: Vec<Walk> = Walk::all()
        .filter(|walk| walk.walker.is_everywhere())
        .filter(|walk| wanted.is_none_or(|text| walk.to_string().contains(text.as_str())))
        .collect();
    let checked = match check(&walks, &Options::default()) {
        Ok(checked) => checked,
        Err(error) => {
            println!("{error}\n\ntest result: FAILED. 0 passed; 1 failed");
            return ExitCode::FAILURE;
        }
    };
    println!("\n{}", checked.text());
    let mut wrong = checked.unexplained().count();
    let passed = checked.results.iter().flat_map(|walked| &walked.cases);
    let passed = passed.filter(|case| case.passed).count();
    for suite in SUITES.iter().filter(|_| wanted.is_none()) {
        let of_suite = checked.results.iter();
        let of_suite = of_suite.filter(|walked| walked.walk.suite.name == suite.name);
        let cases: usize = of_suite.map(|walked| walked.cases.len()).sum();
        if cases < suite.least {
            println!("{} has {cases} cases, at least {}", suite.name, suite.least);
            wrong += 1;
        }
    }
    let verdict = if wrong == 0 { "ok" } else { "FAILED" };
    println!("test result: {verdict}. {passed} passed; {wrong} failed");
    match wrong {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
