//! The tested program with its own home directory.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::child::{Finished, finish, limited};
use super::program::program;

/// A new user: empty home, cache, configuration and runtime directory.
#[derive(Debug)]
pub struct Mosb {
    home: TempDir,
    environment: Vec<(String, String)>,
    within: Vec<String>,
}

impl Mosb {
    pub fn new() -> Self {
        let home = TempDir::new().unwrap();
        for name in ["run", "work", "tmp"] {
            fs::create_dir(home.path().join(name)).unwrap();
        }
        Self { home, environment: Vec::new(), within: Vec::new() }
    }

    /// Starts the program by a launcher such as `prlimit`, `unshare` or a shell, which runs the
    /// command in its arguments.
    pub fn within<A: Into<String>>(mut self, launcher: impl IntoIterator<Item = A>) -> Self {
        self.within = launcher.into_iter().map(Into::into).collect();
        self
    }

    /// Adds an environment variable.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The directory for temporary files. It is empty if runs clean up.
    pub fn tmp(&self) -> PathBuf {
        self.home.path().join("tmp")
    }

    /// Runs the program to its end.
    #[track_caller]
    pub fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Finished {
        self.run_with(arguments, &[])
    }

    /// A MachineOSConfig from `mosb seed new`. Later images are pushed to a repository with the
    /// Secret `push`.
    #[track_caller]
    pub fn seed_new(&self, pool: &str, image: &str, repository: &str) -> String {
        let push = format!("{repository}:latest");
        let mut words = vec!["seed", "new", "--pool", pool, "--image", image];
        words.extend(["--push-secret", "push", "--push-spec", &push]);
        self.run(words).ok().text()
    }

    /// Runs the program to its end, with these bytes on stdin.
    #[track_caller]
    pub fn run_with<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        stdin: &[u8],
    ) -> Finished {
        let launched = self.launched();
        let mut command = limited(launched[0]);
        command.args(&launched[1..]);
        finish(self.surround(&mut command).args(arguments), stdin)
    }

    /// The program as a command, so that the test can start, signal and kill it.
    pub fn command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let launched = self.launched();
        let mut command = Command::new(launched[0]);
        command.args(&launched[1..]);
        self.surround(&mut command).args(arguments);
        command
    }

    /// The command line without the program's own arguments.
    fn launched(&self) -> Vec<&str> {
        let within = self.within.iter().map(String::as_str);
        within.chain([program().to_str().expect("a path that is text")]).collect()
    }

    /// Clears the environment except for `PATH`.
    fn surround<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let home = self.home.path();
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", home)
            .env("TMPDIR", self.tmp())
            .env("XDG_RUNTIME_DIR", home.join("run"))
            .env("XDG_CACHE_HOME", home.join("cache"))
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("XDG_DATA_HOME", home.join("data"))
            .current_dir(home.join("work"))
            .envs(self.environment.iter().cloned())
    }
}
