//! Builds a part completely or not at all, in one process at a time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use sha2::{Digest, Sha256};

use super::child::run;
use super::parts::source;

/// The way to build a part.
#[derive(Debug)]
pub enum Make {
    /// `go install package@v<version>`. The program is renamed to the name of the part.
    GoInstall { package: &'static str, program: &'static str },
    /// `go build` of a module below `tests/` with one program.
    GoModule { module: &'static str, tags: &'static str },
    /// `go build` of the programs that a module below `tests/` lists as tools.
    GoTools {
        module: &'static str,
        tags: &'static str,
        /// A `-X package.name=value` linker flag with the version that releases contain.
        variable: Option<&'static str>,
    },
    /// `cargo build` of a package below `tests/` whose program has the name of the part.
    Cargo(&'static str),
    /// `pip install` of the Python packages that a file below `tests/` lists, with their versions.
    Pip(&'static str),
    /// A function that fills the given directory.
    Function(fn(&Path)),
}

/// The parts that this process has tried to build. A failed build is not repeated for each test
/// that needs the part.
static TRIED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Builds a part in a temporary directory and renames it when it is complete. Other processes that
/// need the part wait. Messages start with `count`.
#[track_caller]
pub fn make(how: &Make, name: &str, version: &str, directory: &Path, count: &str) {
    let cache = directory.parent().expect("a part lies in the cache");
    fs::create_dir_all(cache).unwrap();
    let _lock = lock(&cache.join(format!(".{name}.lock")));
    if directory.exists() {
        return;
    }
    let mut tried = TRIED.lock().unwrap();
    assert!(
        !tried.contains(&name.to_owned()),
        "{name} {version}: could not be made; the first test that wanted it says why"
    );
    tried.push(name.to_owned());
    drop(tried);
    eprintln!("{count}building {name} {version} …");
    let started = Instant::now();
    let fresh = tempfile::Builder::new().prefix(".making-").tempdir_in(cache).unwrap();
    match how {
        Make::GoInstall { package, program } => {
            let package = format!("{package}@v{version}");
            build(
                go(["install", "-trimpath", "-ldflags=-s -w", &package]).env("GOBIN", fresh.path()),
            );
            if *program != name {
                fs::rename(fresh.path().join(program), fresh.path().join(name)).unwrap();
            }
        }
        Make::GoModule { module, tags } => {
            build(
                go(["build", "-trimpath", "-tags", tags, "-ldflags=-s -w", "-o"])
                    .arg(fresh.path().join(name))
                    .arg(".")
                    .current_dir(source(module)),
            );
        }
        Make::GoTools { module, tags, variable } => {
            go_tools(module, tags, *variable, fresh.path());
        }
        Make::Cargo(package) => {
            let target = fresh.path().join("target");
            build(
                Command::new(env!("CARGO"))
                    .args(["build", "--quiet", "--locked", "--release"])
                    .current_dir(source(package))
                    .env("CARGO_TARGET_DIR", &target),
            );
            fs::rename(target.join("release").join(name), fresh.path().join(name)).unwrap();
            fs::remove_dir_all(target).unwrap();
        }
        Make::Pip(requirements) => {
            let flags = ["--quiet", "--disable-pip-version-check", "--root-user-action=ignore"];
            build(
                Command::new("python3")
                    .args(["-m", "pip", "install", "--no-deps", "--only-binary=:all:"])
                    .args(flags)
                    .arg("--requirement")
                    .arg(source(requirements))
                    .arg("--target")
                    .arg(fresh.path()),
            );
        }
        Make::Function(fill) => fill(fresh.path()),
    }
    run("chmod", ["755".as_ref(), fresh.path().as_os_str()]);
    fs::rename(fresh.keep(), directory).unwrap();
    eprintln!("{count}built {name} {version} in {} s", started.elapsed().as_secs());
}

/// A version from the sources: the first 12 hex digits of a SHA-256 over names and contents.
pub fn hash(
    sources: impl IntoIterator<Item = PathBuf>,
    versions: impl IntoIterator<Item = String>,
) -> String {
    let mut sum = Sha256::new();
    sources.into_iter().for_each(|source| add(&mut sum, &source));
    for version in versions {
        sum.update(version.as_bytes());
    }
    let digest: String = sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    digest[..12].to_owned()
}

fn add(sum: &mut Sha256, path: &Path) {
    let name = path.file_name().expect("a source has a name");
    if path.is_dir() {
        let mut inside: Vec<_> =
            fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        inside.sort();
        inside.iter().for_each(|path| add(sum, path));
    } else {
        let content = fs::read(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        sum.update(name.as_encoded_bytes());
        sum.update((content.len() as u64).to_be_bytes());
        sum.update(content);
    }
}

/// Builds the programs that a module below `tests/` lists as tools.
#[track_caller]
pub fn go_tools(module: &str, tags: &str, variable: Option<&str>, directory: &Path) {
    let linker = variable.map_or(String::new(), |variable| format!(" -X {variable}"));
    build(
        go(["build", "-trimpath", "-tags", tags])
            .arg(format!("-ldflags=-s -w{linker}"))
            .arg("-o")
            .arg(directory)
            .arg("tool")
            .current_dir(source(module)),
    );
}

/// A Go command. If a module needs a newer Go than the installed one, Go downloads it.
pub fn go<const N: usize>(arguments: [&str; N]) -> Command {
    let mut go = Command::new("go");
    go.args(arguments)
        .env("GOTOOLCHAIN", "auto")
        .env("GOFLAGS", "-buildvcs=false")
        .env("CGO_ENABLED", "1");
    go
}

/// Runs a build with visible output.
#[track_caller]
fn build(command: &mut Command) {
    let status = command.stdin(Stdio::null()).status().unwrap_or_else(|why| {
        panic!("{command:?}: {why}; install Go 1.21 or newer, Rust, and Python 3 with pip")
    });
    assert!(
        status.success(),
        "{command:?}: {status}; `make packages` installs the libraries it may lack"
    );
}

/// Waits until no other process has the lock of this file. The lock ends with the result.
pub fn lock(path: &Path) -> File {
    let file = File::create(path).unwrap();
    file.lock().unwrap();
    file
}
