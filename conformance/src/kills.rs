//! `kills`: a server that is killed again and again while real clients of all three APIs write.
//!
//! After each kill it is started again on the same data, and the clients read everything back: what
//! was acknowledged is there, what was not may be, and indexes, views, counters and sums are exact.
//! On PostgreSQL the primary is killed as well, every few times together with the server.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use clap::{Arg, ArgMatches, value_parser};
use serde_json::Value;
use tessera_conformance::{Postgres, Server, packages};

use crate::Failure;

/// The folder whose packages are those of all three drivers.
const PACKAGES: &str = "partitions";

/// On PostgreSQL, every so many kills are of the primary too.
const KILLS_OF_A_PRIMARY: u64 = 2;

pub(crate) fn arguments() -> Vec<Arg> {
    let option = |name, value, help| Arg::new(name).long(name).value_name(value).help(help);
    vec![
        option("count", "NUMBER", "How often")
            .default_value("100")
            .value_parser(value_parser!(u64)),
        option("engine", "ENGINE", "Where the data lies")
            .default_value("rocks")
            .value_parser(["rocks", "postgres"]),
        option("longest", "MS", "The longest time of writing before a kill")
            .default_value("800")
            .value_parser(value_parser!(u64).range(1..)),
        option("seed", "NUMBER", "For other moments").default_value("1"),
    ]
}

/// Fails if anything is missing or wrong after a kill.
pub(crate) fn command(matches: &ArgMatches) -> Result<(), Failure> {
    let number = |name| matches.get_one::<u64>(name).copied().unwrap_or(1);
    let seed = matches
        .get_one::<String>("seed")
        .map_or("1", String::as_str);
    let on_postgres = matches
        .get_one::<String>("engine")
        .is_some_and(|it| it == "postgres");
    let mut place = Place::new(on_postgres)?;
    let mut moments = Moments {
        state: seed.parse()?,
        longest_ms: number("longest"),
    };
    let mut clients = Clients::start()?;
    let mut server = place.start()?;
    clients.ask("set-up", &server)?;
    let mut sum = Sum::default();
    for kill in 1..=number("count") {
        clients.ask("load", &server)?;
        std::thread::sleep(moments.next());
        place.kill_primary(kill)?;
        drop(server);
        place.start_primary()?;
        let began = Instant::now();
        server = place.start()?;
        let started = began.elapsed();
        let found: Value = serde_json::from_str(&clients.ask("check", &server)?)?;
        sum.add(&found, started);
        writeln!(io::stdout(), "{kill}: started in {started:.2?}, {found}")?;
    }
    server.stop()?;
    writeln!(io::stdout(), "{}", sum.text())?;
    match sum.faults {
        0 => Ok(()),
        faults => Err(format!("{faults} faults").into()),
    }
}

/// Where the data lies from one start to the next.
struct Place {
    folder: tempfile::TempDir,
    postgres: Option<(Postgres, String)>,
    primary_is_dead: bool,
}

impl Place {
    fn new(on_postgres: bool) -> Result<Self, Failure> {
        let postgres = match on_postgres {
            true => {
                let postgres = Postgres::start()?;
                let url = postgres.place("kills")?;
                Some((postgres, url))
            }
            false => None,
        };
        Ok(Self {
            folder: tempfile::tempdir()?,
            postgres,
            primary_is_dead: false,
        })
    }

    fn start(&self) -> Result<Server, Failure> {
        let engine: &[&str] = match &self.postgres {
            Some((_, url)) => &["--engine", url],
            None => &[],
        };
        Ok(Server::start_on(self.folder.path(), engine)?)
    }

    /// Kills the primary if it is its turn, half of these times a moment before the server, so that
    /// it answers clients without one.
    fn kill_primary(&mut self, kill: u64) -> Result<(), Failure> {
        if let Some((postgres, _)) = &mut self.postgres
            && kill.is_multiple_of(KILLS_OF_A_PRIMARY)
        {
            postgres.kill_primary()?;
            self.primary_is_dead = true;
            if kill.is_multiple_of(2 * KILLS_OF_A_PRIMARY) {
                std::thread::sleep(Duration::from_millis(300));
            }
        }
        Ok(())
    }

    fn start_primary(&mut self) -> Result<(), Failure> {
        if let (Some((postgres, _)), true) = (&mut self.postgres, self.primary_is_dead) {
            postgres.start_primary()?;
            self.primary_is_dead = false;
        }
        Ok(())
    }
}

/// When the next kill is: the same for the same seed.
struct Moments {
    state: u64,
    longest_ms: u64,
}

impl Moments {
    fn next(&mut self) -> Duration {
        // The constants are Knuth's; the upper half has the better numbers.
        const FACTOR: u64 = 6_364_136_223_846_793_005;
        const ADDEND: u64 = 1_442_695_040_888_963_407;
        self.state = self.state.wrapping_mul(FACTOR).wrapping_add(ADDEND);
        Duration::from_millis((self.state >> 32) % self.longest_ms)
    }
}

/// The program that writes and reads back.
struct Clients {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Clients {
    fn start() -> Result<Self, Failure> {
        let mut child = Command::new(packages::python(PACKAGES)?)
            .arg(packages::source("kills").join("load.py"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (commands, answers) = (child.stdin.take(), child.stdout.take());
        Ok(Self {
            child,
            commands: commands.ok_or("no standard input")?,
            answers: BufReader::new(answers.ok_or("no standard output")?),
        })
    }

    /// Tells the clients what to do with a server; answers what they say when it is done.
    fn ask(&mut self, command: &str, server: &Server) -> Result<String, Failure> {
        let address = |name| server.address(name).ok_or("a front end does not listen");
        let (mongo, cql, table) = (address("mongo")?, address("cql")?, address("table")?);
        writeln!(self.commands, "{command} {mongo} {cql} {table}")?;
        let mut line = String::new();
        match self.answers.read_line(&mut line)? {
            0 => Err(format!("the clients ended while asked to {command}").into()),
            _ => Ok(line),
        }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What came of all kills.
#[derive(Default)]
struct Sum {
    kills: u64,
    acknowledged: u64,
    unknown: u64,
    faults: usize,
    longest_start: Duration,
}

impl Sum {
    fn add(&mut self, found: &Value, started: Duration) {
        // The clients count from their beginning.
        let number = |name| found.get(name).and_then(Value::as_u64).unwrap_or(0);
        let faults = found.get("faults").and_then(Value::as_array);
        self.kills += 1;
        self.acknowledged = number("acknowledged");
        self.unknown = number("unknown");
        // An answer that says nothing about faults is one.
        self.faults += faults.map_or(1, Vec::len);
        self.longest_start = self.longest_start.max(started);
    }

    fn text(&self) -> String {
        format!(
            "{} kills, {} writes acknowledged, {} without an answer, {} faults, \
             started in {:.2?} at most",
            self.kills, self.acknowledged, self.unknown, self.faults, self.longest_start
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_without_a_word_about_faults_is_one() {
        let mut sum = Sum::default();
        sum.add(
            &json!({"acknowledged": 5, "unknown": 1, "faults": []}),
            Duration::ZERO,
        );
        assert_eq!((sum.acknowledged, sum.faults), (5, 0));
        sum.add(
            &json!({"acknowledged": 7, "faults": ["a", "b"]}),
            Duration::ZERO,
        );
        sum.add(&json!({}), Duration::ZERO);
        assert_eq!((sum.kills, sum.faults), (3, 3));
    }

    #[test]
    fn moments_are_spread_and_the_same_for_the_same_seed() {
        let moments = |state| {
            let mut moments = Moments {
                state,
                longest_ms: 800,
            };
            (0..200).map(|_| moments.next()).collect::<Vec<_>>()
        };
        assert_eq!(moments(1), moments(1));
        assert_ne!(moments(1), moments(2));
        let early = moments(3).iter().filter(|it| it.as_millis() < 400).count();
        assert!((60..140).contains(&early), "{early}");
    }
}
