//! The `tessera-conformance` program: client suites and benchmarks over this server, or any other.

mod arguments;
mod bench;
mod external;
mod fuzz;
mod kills;
mod run;

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;

use clap::{Arg, ArgMatches};

/// The server's allocator, for the bare servers that it is measured beside too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Why a command ends early. It is shown to somebody and nothing reacts to it.
type Failure = Box<dyn Error + Send + Sync>;

/// One command. Adding one is its file and its row in [`COMMANDS`].
struct Command {
    name: &'static str,
    about: &'static str,
    /// Whether it is for this program alone to start.
    hidden: bool,
    arguments: fn() -> Vec<Arg>,
    run: fn(&ArgMatches) -> Result<(), Failure>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "run",
        about: "Use a server with the real clients of a protocol, and compare with the ledgers",
        hidden: false,
        arguments: run::arguments,
        run: run::command,
    },
    Command {
        name: "external",
        about: "Run a public suite from a checkout of it, and count what passes by area",
        hidden: false,
        arguments: external::arguments,
        run: external::command,
    },
    Command {
        name: "bench",
        about: "Measure the server beside others, each figure beside its limit",
        hidden: false,
        arguments: bench::arguments,
        run: bench::command,
    },
    Command {
        name: "fuzz",
        about: "Send made-up requests to all ports of a server, beside canaries",
        hidden: false,
        arguments: fuzz::arguments,
        run: fuzz::command,
    },
    Command {
        name: "kills",
        about: "Kill the server again and again under three clients, and look for what is lost",
        hidden: false,
        arguments: kills::arguments,
        run: kills::command,
    },
    Command {
        name: "instructions",
        about: "Count the instructions of the requests that are sent most, beside those expected",
        hidden: false,
        arguments: bench::instructions::arguments,
        run: bench::instructions::command,
    },
    Command {
        name: "echo",
        about: "Answer every request with the same bytes",
        hidden: true,
        arguments: bench::echo::arguments,
        run: bench::echo::command,
    },
];

fn main() -> ExitCode {
    let matches = parser().get_matches();
    let found = matches.subcommand().and_then(|(name, matches)| {
        let command = COMMANDS.iter().find(|command| command.name == name)?;
        Some((command, matches))
    });
    let Some((command, matches)) = found else {
        return ExitCode::from(2);
    };
    match (command.run)(matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Without a standard error there is nobody to tell.
            let _told = writeln!(std::io::stderr(), "error: {failure}").is_ok();
            ExitCode::FAILURE
        }
    }
}

fn parser() -> clap::Command {
    let commands = COMMANDS.iter().map(|command| {
        clap::Command::new(command.name)
            .about(command.about)
            .hide(command.hidden)
            .args((command.arguments)())
    });
    clap::Command::new("tessera-conformance")
        .about("Looks at a database server from outside")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parser_is_well_formed() {
        parser().debug_assert();
    }
}
