//! Where examples are run: a server, a folder, and clients under the names that people type.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use tessera_conformance::{Error, Server, binary, packages};

use crate::blocks::Block;

/// What the default ports are called in examples, with the API that has them.
const ADDRESSES: &[(&str, &str)] = &[
    ("127.0.0.1:27017", "mongo"),
    ("127.0.0.1:9042", "cql"),
    ("127.0.0.1:10002", "table"),
    ("127.0.0.1:8080", "console"),
];

/// How mongosh says that something it was given failed; it ends with success all the same.
const ERRORS: &[&str] = &[
    "MongoServerError",
    "SyntaxError",
    "ReferenceError",
    "TypeError",
];

pub(crate) struct Bench {
    server: Option<Server>,
    folder: TempDir,
}

type Outcome = Result<(), String>;

impl Bench {
    /// With an empty server.
    pub(crate) fn new() -> Result<Self, Error> {
        let bench = Self::without_server()?;
        let server = Some(Server::start(&["--memory"])?);
        let module = packages::node_packages("mongo/mongosh")?.join("mongosh/bin/mongosh.js");
        bench.program(
            "mongosh",
            &format!("exec node '{}' \"$@\"", module.display()),
        )?;
        let python = packages::python("cql/cqlsh")?;
        let cqlsh = format!("exec '{}' -m cqlshlib \"$@\"", python.display());
        bench.program("cqlsh", &cqlsh)?;
        Ok(Self { server, ..bench })
    }

    /// Only to parse commands.
    pub(crate) fn without_server() -> Result<Self, Error> {
        let folder = tempfile::tempdir().map_err(Error::io("making a folder for examples"))?;
        let bench = Self {
            server: None,
            folder,
        };
        let tessera = binary::path()?;
        bench.program("tessera", &format!("exec '{}' \"$@\"", tessera.display()))?;
        Ok(bench)
    }

    pub(crate) fn stop(self) -> Result<(), Error> {
        self.server.map_or(Ok(()), Server::stop)
    }

    /// Puts a program on the path of examples.
    fn program(&self, name: &str, script: &str) -> Result<(), Error> {
        let doing = || Error::io(format!("making a program {name}"));
        let bin = self.folder.path().join("bin");
        fs::create_dir_all(&bin).map_err(doing())?;
        let file = bin.join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).map_err(doing())?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).map_err(doing())
    }

    /// Runs a block, and compares what it prints.
    pub(crate) fn run(&self, block: &Block) -> Outcome {
        let text = self.here(&block.text);
        let printed = match block.language() {
            "sh" => self.printed(
                Command::new("bash").args(["-euo", "pipefail", "-c", &text]),
                "",
            ),
            "js" => self.mongosh(&text),
            "cql" => self.cqlsh(&text),
            "python" => self.python(block.client(), &text),
            other => Err(format!("nothing runs a block of '{other}'")),
        }?;
        let expected = block.output.as_deref().unwrap_or_default();
        let missing = expected.lines().find(|line| !prints(&printed, line));
        match missing {
            None => Ok(()),
            Some(line) => Err(format!("prints no '{line}' but\n{printed}")),
        }
    }

    /// A text with the addresses of this server in place of the default ones.
    fn here(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (named, api) in ADDRESSES {
            let server = self.server.as_ref();
            let Some(address) = server.and_then(|server| server.address(api)) else {
                continue;
            };
            let (_, port) = named.split_once(':').unwrap_or_default();
            let here = address.port().to_string();
            text = text.replace(named, &address.to_string());
            for form in ["127.0.0.1 {}", "port={}"] {
                text = text.replace(&form.replace("{}", port), &form.replace("{}", &here));
            }
        }
        text
    }

    fn mongosh(&self, text: &str) -> Result<String, String> {
        let address = self.here("mongodb://127.0.0.1:27017/");
        let printed = self.printed(Command::new("mongosh").args([&address, "--quiet"]), text)?;
        match ERRORS.iter().find(|error| printed.contains(*error)) {
            None => Ok(printed),
            Some(error) => Err(format!("{error}:\n{printed}")),
        }
    }

    fn cqlsh(&self, text: &str) -> Result<String, String> {
        let file = self.write("example.cql", text)?;
        let address = self.here("127.0.0.1 9042");
        let mut cqlsh = Command::new("cqlsh");
        cqlsh.args(address.split(' ')).args(["--no-color", "-f"]);
        self.printed(cqlsh.arg(file), "")
    }

    fn python(&self, client: &str, text: &str) -> Result<String, String> {
        let folder = format!("{client}/python");
        let python = packages::python(&folder).map_err(|error| error.to_string())?;
        let file = self.write("example.py", text)?;
        self.printed(Command::new(python).arg(file), "")
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let file = self.folder.path().join(name);
        let written = fs::write(&file, text);
        written.map(|()| file).map_err(|error| error.to_string())
    }

    /// What a program prints that must end well.
    fn printed(&self, command: &Command, typed: &str) -> Result<String, String> {
        let failed = |error: std::io::Error| format!("{command:?}: {error}");
        let input = self.folder.path().join("typed");
        fs::write(&input, typed).map_err(failed)?;
        let input = fs::File::open(&input).map_err(failed)?;
        let folder = self.folder.path();
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", folder.join("bin").display());
        // The program is looked for on the path of this process, not on the one that it gets.
        let program = folder.join("bin").join(command.get_program());
        let program = match program.is_file() {
            true => program,
            false => Path::new(command.get_program()).to_owned(),
        };
        let output = Command::new(program)
            .args(command.get_args())
            .current_dir(folder)
            .env("PATH", path)
            .env("HOME", folder)
            .stdin(Stdio::from(input))
            .output();
        let output = output.map_err(|error| format!("{command:?}: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(text);
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        Err(format!("{}:\n{text}{errors}", output.status))
    }

    /// Whether the folder has this file.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.folder.path().join(name).exists()
    }

    /// Whether a command is understood, if it is one of ours. It is not run.
    pub(crate) fn parse(&self, command: &str) -> Option<Outcome> {
        // What its output is sent to is not ours to run.
        let ends = [" | ", " && ", " > ", "; ", " # "];
        let end = ends.iter().filter_map(|end| command.find(end)).min();
        let command = end.and_then(|end| command.get(..end)).unwrap_or(command);
        let is_setting = |word: &&str| word.starts_with("TESSERA_") && word.contains('=');
        let program = command.split_whitespace().find(|word| !is_setting(word))?;
        let conformance = "-p tessera-conformance -- ";
        let script = match program {
            // `config` takes every flag of `serve`, and ends.
            "tessera" => command.replacen("tessera ", "tessera_parsed ", 1),
            "scripts/run" => command.replacen("scripts/run", "tessera config", 1),
            "cargo" => {
                let arguments = command.split_once(conformance)?.1;
                let own = env!("CARGO_BIN_EXE_tessera-conformance");
                format!("'{own}' {arguments} --help")
            }
            _ => return None,
        };
        let functions = "tessera_parsed() { case \"$1\" in \
             serve) shift; tessera config \"$@\";; config) tessera \"$@\";; \
             *) tessera \"$@\" --help;; esac; }; ";
        let script = format!("{functions}{script}");
        let printed = self.printed(Command::new("bash").args(["-c", &script]), "");
        Some(printed.map(drop))
    }
}

/// Whether a text has a line with this in it; `…` stands for anything.
fn prints(text: &str, line: &str) -> bool {
    text.lines().any(|printed| {
        let mut rest = printed;
        line.trim()
            .split('…')
            .all(|part| match rest.split_once(part) {
                Some((_, after)) => {
                    rest = after;
                    true
                }
                None => false,
            })
    })
}

#[test]
fn an_ellipsis_stands_for_anything() {
    assert!(prints("a\n b 12 c\n", "b … c"));
    assert!(!prints("a\nb 12 c\n", "c … b"));
    assert!(!prints("a\n", "b"));
}
