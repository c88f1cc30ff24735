//! The command line: one table of commands, flags made from the table of settings.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use clap_complete::Shell;

use crate::error::Error;
use crate::settings::{self, Kind, Setting, Settings, Sources};
use crate::{advise, backup, copy, health, output, private_files, program, serve};

/// One command. Adding one is its file and its row in [`COMMANDS`].
struct Command {
    name: &'static str,
    about: &'static str,
    /// The settings that it takes as flags.
    takes: fn(&Setting) -> bool,
    /// Its arguments besides settings.
    arguments: fn() -> Vec<Arg>,
    run: Run,
}

/// The action of a command.
#[derive(Clone, Copy)]
enum Run {
    /// Needs valid settings.
    With(fn(&Settings, &ArgMatches, Instant) -> Result<(), Error>),
    /// Runs without settings, even if they are invalid.
    Alone(fn(&ArgMatches) -> Result<(), Error>),
}

const COMMANDS: &[Command] = &[
    Command {
        name: "serve",
        about: "Run the server",
        takes: |_| true,
        arguments: Vec::new,
        run: Run::With(|settings, _, started| serve::run(settings, started)),
    },
    Command {
        name: "config",
        about: "Print the settings in force and where each came from, as TOML",
        takes: |_| true,
        arguments: Vec::new,
        run: Run::With(|settings, _, _| Ok(output::print(&settings.to_toml())?)),
    },
    Command {
        name: "health",
        about: "Check the health of the server with these settings; fails unless it is healthy",
        takes: |setting| {
            ["console", "data", "tls-cert", "tls-key", "tls-self-signed"].contains(&setting.name)
        },
        arguments: Vec::new,
        run: Run::With(|settings, _, _| health::command(settings)),
    },
    Command {
        name: "backup",
        about: "Copy the data to a new folder, also while a server runs on it",
        takes: |setting| setting.name == "data",
        arguments: || {
            vec![folder(
                "The folder to create; it must not exist or must be empty",
            )]
        },
        run: Run::With(
            |settings, matches, _| match matches.get_one::<PathBuf>(DIR) {
                Some(target) => backup::command(settings, target),
                None => Err(Error::Settings("backup needs a folder".to_owned())),
            },
        ),
    },
    Command {
        name: "advise",
        about: "Compare partition keys for the records of a file or of a container, also while a \
                server runs on it",
        takes: |setting| ["data", "engine", "console-admin-key"].contains(&setting.name),
        arguments: advise::arguments,
        run: Run::With(|settings, matches, _| advise::command(settings, matches)),
    },
    Command {
        name: "copy",
        about: "Copy all data from one engine to another, which must be empty; continues after an \
                interruption",
        takes: |setting| setting.name == "engine-connections",
        arguments: || {
            vec![
                engine(FROM, "A data folder, also while a server runs on it"),
                engine(TO, "A data folder that no server has open"),
            ]
        },
        run: Run::With(|settings, matches, _| {
            let given = |name| matches.get_one::<String>(name);
            match (given(FROM), given(TO)) {
                (Some(from), Some(to)) => copy::command(settings, from, to),
                _ => Err(Error::Settings("copy needs --from and --to".to_owned())),
            }
        }),
    },
    Command {
        name: "version",
        about: "Print the version, the commit and the target of the build",
        takes: |_| false,
        arguments: Vec::new,
        run: Run::Alone(|_| program::print_version()),
    },
    Command {
        name: "completions",
        about: "Print completions for a shell: tessera completions bash, zsh or fish",
        takes: |_| false,
        arguments: || vec![shell()],
        run: Run::Alone(|matches| match matches.get_one::<Shell>(SHELL) {
            Some(shell) => program::print_completions(&mut parser(), *shell),
            None => Err(Error::Settings("completions needs a shell".to_owned())),
        }),
    },
    Command {
        name: "man",
        about: "Write the manual pages to a folder",
        takes: |_| false,
        arguments: || vec![folder("The folder for the pages; created if it is missing")],
        run: Run::Alone(|matches| match matches.get_one::<PathBuf>(DIR) {
            Some(folder) => program::write_manual(parser(), folder),
            None => Err(Error::Settings("man needs a folder".to_owned())),
        }),
    },
];

/// Runs the command that the arguments of this process name.
pub(crate) fn run(started: Instant) -> ExitCode {
    let matches = match parser().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => {
            // Help and version come this way too, and go to standard output with code 0.
            let _printed = error.print().is_ok();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let Some((command, matches)) = matches.subcommand().and_then(|(name, matches)| {
        let command = COMMANDS.iter().find(|command| command.name == name)?;
        Some((command, matches))
    }) else {
        return ExitCode::from(2);
    };
    let outcome = match command.run {
        Run::Alone(run) => run(matches),
        Run::With(run) => {
            private_files::prepare();
            let sources = sources(matches).with_process_environment();
            Settings::resolve(&sources).and_then(|settings| run(&settings, matches, started))
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error);
            error.exit_code()
        }
    }
}

fn parser() -> clap::Command {
    let commands = COMMANDS.iter().map(|command| {
        let settings = settings::all().into_iter().filter(command.takes);
        let file = matches!(command.run, Run::With(_)).then(config_file);
        clap::Command::new(command.name)
            .about(command.about)
            .args((command.arguments)())
            .args(file)
            .args(settings.map(|setting| flag(&setting)))
    });
    clap::Command::new("tessera")
        .version(program::VERSION_AND_COMMIT)
        .about("A partitioned database server for MongoDB, Cassandra and Azure Tables clients")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(commands)
}

fn flag(setting: &Setting) -> Arg {
    let mut help = setting.help.to_owned();
    if let Some(default) = setting.default.filter(|_| setting.kind != Kind::Switch) {
        help.push_str(&format!(" [default: {default}]"));
    }
    help.push_str(&format!(" [env: {}]", setting.variable()));
    let flag = Arg::new(setting.name)
        .long(setting.name)
        .value_name(setting.placeholder)
        .help(help);
    match setting.kind {
        // `--memory` is enough, and `--memory=false` overrides a file that says otherwise.
        Kind::Switch => flag
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true"),
        Kind::Number | Kind::Text => flag.action(ArgAction::Set).allow_hyphen_values(true),
    }
}

fn config_file() -> Arg {
    Arg::new(CONFIG)
        .long(CONFIG)
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("Read settings from this TOML file; keys are named like flags [env: TESSERA_CONFIG]")
}

const CONFIG: &str = "config";

const FROM: &str = "from";
const TO: &str = "to";
const DIR: &str = "DIR";
const SHELL: &str = "SHELL";

fn engine(name: &'static str, folder: &str) -> Arg {
    Arg::new(name)
        .long(name)
        .required(true)
        .value_name("ENGINE")
        .help(format!(
            "{folder}, or postgres://USER:PASSWORD@HOST/DATABASE"
        ))
}

fn folder(help: &'static str) -> Arg {
    Arg::new(DIR)
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .help(help)
}

fn shell() -> Arg {
    Arg::new(SHELL)
        .required(true)
        .value_parser(value_parser!(Shell))
        .help("The shell to complete for")
}

fn sources(matches: &ArgMatches) -> Sources {
    let given = |setting: Setting| {
        // An error means that this command does not take the flag.
        let text = matches.try_get_one::<String>(setting.name).ok()??;
        Some((setting.name, text.clone()))
    };
    Sources {
        flags: settings::all().into_iter().filter_map(given).collect(),
        config_flag: matches.get_one::<PathBuf>(CONFIG).cloned(),
        ..Sources::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parser_is_well_formed() {
        parser().debug_assert();
    }
}
