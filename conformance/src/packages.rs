//! What the programs under `clients/` need: packages of their languages, and what is built of them.
//!
//! It is installed once for each version of its lock file, into the cache that
//! `scripts/environment` uses too, so that a second run starts at once.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use crate::Error;
use crate::clients::run;

/// The Python of an environment with the packages of a folder's `requirements.txt`, which names all
/// of them.
pub fn python(folder: &str) -> Result<PathBuf, Error> {
    environment(&source(folder).join("requirements.txt"), &["--no-deps"])
}

/// The Python of an environment with the packages that this file names, and those that they need.
pub fn python_with(requirements: &Path) -> Result<PathBuf, Error> {
    environment(&requirements.to_owned(), &[])
}

fn environment(lock: &PathBuf, options: &[&str]) -> Result<PathBuf, Error> {
    // An environment belongs to the Python that made it.
    let version = run(Command::new("python3").arg("--version"))?;
    let packages = installed("python", &[lock], &version, |target| {
        run(Command::new("python3").args(["-m", "venv"]).arg(target))?;
        let mut pip = Command::new(target.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet"]).args(options);
        pip.args(["--disable-pip-version-check", "--requirement"]);
        run(pip.arg(lock))
    })?;
    // Not the scripts beside it: they remember the folder where they were made.
    Ok(packages.join("bin/python"))
}

/// A program of the package `clients/rust`, with the crates of its `Cargo.lock`.
pub(crate) fn rust(program: &str) -> Result<PathBuf, Error> {
    let folder = source("rust");
    let lock = folder.join("Cargo.lock");
    let version = run(Command::new("rustc").arg("--version"))?;
    let target = installed("rust", &[&lock], &version, |_| Ok(String::new()))?;
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--locked", "--quiet"]);
    cargo.args(["--bin", program]);
    // Settings of the build that started us are not for this one.
    cargo
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTFLAGS");
    cargo.arg("--manifest-path").arg(folder.join("Cargo.toml"));
    run(cargo.arg("--target-dir").arg(&target))?;
    Ok(target.join("release").join(program))
}

/// A program of the module `clients/go`. Go knows by itself what is built already.
pub(crate) fn go(program: &str) -> Result<PathBuf, Error> {
    let folder = source("go");
    let sum = folder.join("go.sum");
    let target = installed("go", &[&sum], "", |_| Ok(String::new()))?.join(program);
    let mut go = Command::new("go");
    go.arg("-C").arg(&folder).args(["build", "-o"]);
    run(go.arg(&target).arg(format!("./{program}")))?;
    Ok(target)
}

/// FerretDB, with the modules of `clients/ferretdb/go.sum`. Needs Go.
///
/// A release of it is built with a file that says which release it is, and its module lacks that
/// file: it is put beside a copy of the module.
pub(crate) fn ferretdb() -> Result<PathBuf, Error> {
    const MODULE: &str = "github.com/FerretDB/FerretDB";
    let files = ["go.mod", "go.sum", "peer.go"].map(|name| source("ferretdb").join(name));
    let all: Vec<&PathBuf> = files.iter().collect();
    let built = installed("ferretdb", &all, "", |target| {
        copied(&files, target)?;
        let go = |arguments: &[&str]| run(Command::new("go").arg("-C").arg(target).args(arguments));
        let version = go(&["list", "-m", "-f", "{{.Version}}", MODULE])?;
        go(&["mod", "vendor"])?;
        let vendored = target.join("vendor");
        let file = vendored.join(MODULE).join("build/version/version.txt");
        fs::write(&file, version).map_err(Error::io(format!("writing {}", file.display())))?;
        go(&["build", "-mod=vendor", &format!("{MODULE}/cmd/ferretdb")])?;
        fs::remove_dir_all(&vendored).map_err(Error::io("removing what was built"))?;
        Ok(String::new())
    })?;
    Ok(built.join("ferretdb"))
}

/// Copies files into a folder.
fn copied(files: &[PathBuf], target: &Path) -> Result<(), Error> {
    files.iter().try_for_each(|from| {
        let to = target.join(from.file_name().unwrap_or_default());
        let copied = fs::copy(from, to).map(drop);
        copied.map_err(Error::io(format!("copying {}", from.display())))
    })
}

/// The class path of the project `clients/java`: its packages and its own classes.
pub(crate) fn java() -> Result<String, Error> {
    let jars = java_packages("java")?;
    let sources = source("java").join("src/main/java/tessera");
    let names = ["Report", "CqlWalk", "MongoFollow", "MongoWalk"];
    let sources = names.map(|name| sources.join(name).with_extension("java"));
    let all: Vec<&PathBuf> = sources.iter().collect();
    let jars = format!("{}/*", jars.display());
    let classes = installed("java-classes", &all, &jars, |target| {
        let mut javac = Command::new("javac");
        javac.args(["-cp", &jars, "-d"]).arg(target);
        run(javac.args(&sources))
    })?;
    Ok(format!("{jars}:{}", classes.display()))
}

/// The folder `node_modules` of what the `package-lock.json` of a client's folder names.
pub fn node_packages(folder: &str) -> Result<PathBuf, Error> {
    node_with(&source(folder))
}

/// The same for a folder anywhere.
pub fn node_with(folder: &Path) -> Result<PathBuf, Error> {
    let manifests = ["package.json", "package-lock.json"].map(|name| folder.join(name));
    let [manifest, lock] = &manifests;
    let packages = installed("node", &[manifest, lock], "", |target| {
        copied(&manifests, target)?;
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
