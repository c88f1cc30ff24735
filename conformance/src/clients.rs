//! Clients in other languages: the programs under `clients/`, with the packages that they need.
//!
//! Packages are installed once for each version of their lock file, into the cache that
//! `scripts/environment` uses too, so that a second run starts at once.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use crate::Error;
use crate::process::Process;

/// Installing reaches out to the internet, and a walk shares its machine with others.
const PATIENCE: Duration = Duration::from_secs(600);

/// A program that uses the server as people do: it takes the address of the server and options,
/// prints a line for every case (`ok …`, `FAILED …`) and ends with success if all passed.
#[derive(Debug)]
pub struct Client {
    command: Command,
}

impl Client {
    /// `walk.py` of a folder, with the packages of its `requirements.txt`.
    pub fn python(folder: &str) -> Result<Self, Error> {
        Self::python_script(folder, "walk.py")
    }

    /// Another script of such a folder.
    pub fn python_script(folder: &str, script: &str) -> Result<Self, Error> {
        let folder = source(folder);
        let lock = folder.join("requirements.txt");
        // An environment belongs to the Python that made it.
        let version = run(Command::new("python3").arg("--version"))?;
        let packages = installed("python", &[&lock], &version, |target| {
            run(Command::new("python3").args(["-m", "venv"]).arg(target))?;
            let mut pip = Command::new(target.join("bin/python"));
            pip.args(["-m", "pip", "install", "--quiet", "--no-deps"]);
            pip.args(["--disable-pip-version-check", "--requirement"]);
            run(pip.arg(&lock))
        })?;
        // Not the scripts beside it: they remember the folder where they were made.
        let mut command = Command::new(packages.join("bin/python"));
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command.arg(folder.join(script));
        Ok(Self { command })
    }

    /// `walk.js` of a folder, with the packages of its `package-lock.json`.
    pub fn node(folder: &str) -> Result<Self, Error> {
        let packages = node_packages(folder)?;
        let mut command = Command::new("node");
        command.env("NODE_PATH", packages);
        command.arg(source(folder).join("walk.js"));
        Ok(Self { command })
    }

    /// A program of the package `clients/rust`, with the crates of its `Cargo.lock`.
    pub fn rust(program: &str) -> Result<Self, Error> {
        let folder = source("rust");
        let lock = folder.join("Cargo.lock");
        let version = run(Command::new("rustc").arg("--version"))?;
        let target = installed("rust", &[&lock], &version, |_| Ok(String::new()))?;
        let mut cargo = Command::new("cargo");
        cargo.args([
            "build",
            "--release",
            "--locked",
            "--quiet",
            "--bin",
            program,
        ]);
        // Settings of the build that started us are not for this one.
        cargo
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env_remove("RUSTFLAGS");
        cargo.arg("--manifest-path").arg(folder.join("Cargo.toml"));
        run(cargo.arg("--target-dir").arg(&target))?;
        Ok(Self {
            command: Command::new(target.join("release").join(program)),
        })
    }

    /// The script `walk` of a folder.
    pub fn script(folder: &str) -> Self {
        Self {
            command: Command::new(source(folder).join("walk")),
        }
    }

    /// The same program with more options.
    #[must_use]
    pub fn with(mut self, options: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(options);
        self
    }

    /// Starts it with the server at this address, for a test that does something meanwhile.
    pub fn start(mut self, endpoint: &str) -> Result<Process, Error> {
        Process::start(self.command.arg(endpoint))
    }

    /// Walks over the server at this address, trusting this certificate.
    pub fn walk(mut self, endpoint: &str, certificate: Option<&Path>) -> Result<(), Error> {
        self.command.arg(endpoint);
        if let Some(certificate) = certificate {
            self.command.arg("--ca").arg(certificate);
        }
        run(&mut self.command).map(drop)
    }

    /// Walks over the server at this address, and answers what was printed.
    pub fn report(mut self, endpoint: &str) -> Result<String, Error> {
        run(self.command.arg(endpoint))
    }
}

/// An issuer of bearer tokens, in a folder of its own.
pub struct Issuer {
    folder: tempfile::TempDir,
}

impl Issuer {
    /// How its tokens name it.
    pub const NAME: &str = "https://issuer.example";

    /// Makes one with the script `issuer` of a folder of clients.
    pub fn new(folder: &str) -> Result<Self, Error> {
        let target = tempfile::tempdir().map_err(Error::io("making a folder for an issuer"))?;
        let mut script = Command::new(source(folder).join("issuer"));
        run(script.arg(target.path()).arg(Self::NAME))?;
        Ok(Self { folder: target })
    }

    /// The file with its public keys, a JSON Web Key Set.
    pub fn keys(&self) -> PathBuf {
        self.folder.path().join("keys.json")
    }

    /// The file with a token of it.
    pub fn token(&self) -> PathBuf {
        self.folder.path().join("token")
    }
}

/// The folder `node_modules` of what the `package-lock.json` of a client's folder names.
pub fn node_packages(folder: &str) -> Result<PathBuf, Error> {
    let folder = source(folder);
    let manifests = ["package.json", "package-lock.json"].map(|name| folder.join(name));
    let [manifest, lock] = &manifests;
    let packages = installed("node", &[manifest, lock], "", |target| {
        for from in &manifests {
            let to = target.join(from.file_name().unwrap_or_default());
            fs::copy(from, to).map_err(Error::io(format!("copying {}", from.display())))?;
        }
        let mut npm = Command::new("npm");
        npm.args([
            "ci",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--prefix",
        ]);
        run(npm.arg(target))
    })?;
    Ok(packages.join("node_modules"))
}

/// A folder with the jars of what the `pom.xml` of a client's folder names. Needs Maven.
pub fn java_packages(folder: &str) -> Result<PathBuf, Error> {
    let manifest = source(folder).join("pom.xml");
    installed("java", &[&manifest], "", |target| {
        let mut maven = Command::new("mvn");
        maven.args(["-q", "-B", "dependency:copy-dependencies", "-f"]);
        maven.arg(&manifest);
        maven.arg(format!("-DoutputDirectory={}", target.display()));
        run(&mut maven)
    })
}

/// A folder of a client.
pub fn source(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("clients")
        .join(folder)
}

/// The folder with what these lock files name, made now if it is not there.
///
/// It is made under another name and renamed when it is complete: what is half there is never used,
/// and of two processes that make it at once one wins.
fn installed(
    kind: &str,
    locks: &[&PathBuf],
    version: &str,
    install: impl FnOnce(&Path) -> Result<String, Error>,
) -> Result<PathBuf, Error> {
    // Two tests of one process need not install the same twice.
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = INSTALLING
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());

    let mut hasher = DefaultHasher::new();
    version.hash(&mut hasher);
    for lock in locks {
        let text = fs::read(lock).map_err(Error::io(format!("reading {}", lock.display())))?;
        text.hash(&mut hasher);
    }
    let cache = cache().join("clients");
    let target = cache.join(format!("{kind}-{:016x}", hasher.finish()));
    if target.is_dir() {
        return Ok(target);
    }
    let making = || Error::io(format!("making {}", target.display()));
    fs::create_dir_all(&cache).map_err(making())?;
    let begun = tempfile::Builder::new()
        .prefix(".begun-")
        .tempdir_in(&cache)
        .map_err(making())?;
    install(begun.path())?;
    match fs::rename(begun.path(), &target) {
        // Nothing is left under the old name to remove.
        Ok(()) => drop(begun.keep()),
        Err(_) if target.is_dir() => {}
        Err(error) => return Err(making()(error)),
    }
    Ok(target)
}

/// Where `scripts/environment` keeps what is built.
fn cache() -> PathBuf {
    let named = |name| env::var_os(name).filter(|value| !value.is_empty());
    named("TESSERA_CACHE")
        .map(PathBuf::from)
        .or_else(|| named("XDG_CACHE_HOME").map(|cache| Path::new(&cache).join("tessera")))
        .or_else(|| named("HOME").map(|home| Path::new(&home).join(".cache/tessera")))
        .unwrap_or_else(|| env::temp_dir().join("tessera-cache"))
}

/// Runs a command to its end and returns what it printed; of a failure, all but the cases that
/// passed.
fn run(command: &mut Command) -> Result<String, Error> {
    let mut process = Process::start(command)?;
    let (status, output) = match process.ended_within(PATIENCE)? {
        Some(status) if status.success() => return Ok(process.output().last_words()),
        Some(status) => (status.to_string(), process.output().last_words()),
        None => (format!("no end in {PATIENCE:?}"), process.output().text()),
    };
    let telling: Vec<_> = output
        .lines()
        .filter(|line| !line.starts_with("ok "))
        .collect();
    Err(Error::Client {
        command: format!("{command:?}"),
        status,
        output: telling.join("\n"),
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::run;

    #[test]
    fn shows_what_failed_and_not_what_passed() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo ok one; echo FAILED two >&2; exit 3"]);
        let error = run(&mut command).unwrap_err().to_string();
        assert!(error.contains("FAILED two"), "{error}");
        assert!(error.contains('3'), "{error}");
        assert!(!error.lines().any(|line| line == "ok one"), "{error}");
    }

    #[test]
    fn returns_what_was_printed() {
        let mut command = Command::new("echo");
        assert_eq!(run(command.arg("Python 3")).unwrap(), "Python 3");
    }
}
