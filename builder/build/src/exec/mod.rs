//! Runs other programs. Only `keyring.rs` of crate `mosb-registry`, which runs credential helpers,
//! does so too.
//!
//! Input: a [`Command`], a plain value that can be printed, compared and tested. [`Command::run`]
//! runs it. Output: its stdout, and each line of both streams. Invariant: no shell, no terminal, no
//! process left running. The child has a process group of its own, which is killed when the future
//! is dropped or the time limit is over, and both streams are read to the end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use std::{fmt, io};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use mosb_types::Diagnostic;

/// How much of the end of a child's output an error holds.
const LAST_OUTPUT: usize = 8 * 1024;
/// Limit of a child's stdout; more than any answer that we need.
const STDOUT_LIMIT: usize = 1024 * 1024;
/// A longer line reaches the reader in pieces, so that memory stays bounded.
const LINE_LIMIT: usize = 64 * 1024;

/// The environment variables that a child inherits. Others would let the caller's shell change the
/// build.
const INHERITED: [&str; 20] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CONTAINERS_CONF",
    "REGISTRY_AUTH_FILE",
    "DOCKER_CONFIG",
    "_CONTAINERS_USERNS_CONFIGURED",
    "_CONTAINERS_ROOTLESS_UID",
    "_CONTAINERS_ROOTLESS_GID",
];

/// A program to run: its arguments, environment and time limit.
///
/// ```
/// use mosb_build::exec::Command;
/// let command = Command::new("buildah", "the package buildah").arg("rmi").user_words(["-f"]);
/// assert_eq!(command.to_string(), "buildah rmi -- -f");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    program: String,
    install: &'static str,
    args: Vec<OsString>,
    env: BTreeMap<String, OsString>,
    cwd: Option<PathBuf>,
    limit: Duration,
}

/// Where a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

impl Command {
    /// A program of the `PATH`, and what to install if it is missing.
    pub fn new(program: &str, install: &'static str) -> Self {
        Self {
            program: program.to_owned(),
            install,
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
            limit: Duration::from_secs(60),
        }
    }

    /// One word that we chose.
    #[must_use]
    pub fn arg(mut self, word: impl Into<OsString>) -> Self {
        self.args.push(word.into());
        self
    }

    /// An option with its value in one word, so that no value can be taken for another option.
    #[must_use]
    pub fn option(self, name: &str, value: impl Into<OsString>) -> Self {
        let mut word = OsString::from(format!("{name}="));
        word.push(value.into());
        self.arg(word)
    }

    /// `--`, then words that are operands whatever they begin with.
    #[must_use]
    pub fn user_words<W: Into<OsString>>(self, words: impl IntoIterator<Item = W>) -> Self {
        let separated = self.arg("--");
        words.into_iter().fold(separated, Self::arg)
    }

    /// An environment variable. Its value is never printed.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.insert(name.to_owned(), value.into());
        self
    }

    #[must_use]
    pub fn cwd(mut self, directory: &Path) -> Self {
        self.cwd = Some(directory.to_owned());
        self
    }

    /// How long it may take; the default is a minute.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The subcommand: the first word that is not an option, else the first word.
    fn action(&self) -> String {
        let words = || self.args.iter().map(|word| word.to_string_lossy());
        let action = words().find(|word| !word.starts_with('-'));
        action.or_else(|| words().next()).unwrap_or_default().into_owned()
    }

    /// Starts it by util-linux's setpriv if that is installed: then the kernel kills the program if
    /// this process is killed.
    fn prepared(&self) -> tokio::process::Command {
        let mut command = if is_there("setpriv") && is_there(&self.program) {
            let mut command = tokio::process::Command::new("setpriv");
            command.args(["--pdeathsig", "KILL", "--"]).arg(&self.program);
            command
        } else {
            tokio::process::Command::new(&self.program)
        };
        command
            .args(&self.args)
            .env_clear()
            .envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .env("LC_ALL", "C")
            .envs(&self.env)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        command
    }

    /// Runs it to its end, hands each line of both streams to `on_line`, and gives what it wrote to
    /// stdout.
    ///
    /// # Errors
    /// It can't be started, fails, or takes too long.
    pub async fn run(&self, mut on_line: impl FnMut(Stream, &str)) -> Result<Vec<u8>, Error> {
        tracing::debug!(command = %self, "running");
        let program = || self.program.clone();
        let mut child = self.prepared().spawn().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound if self.cwd.as_deref().is_none_or(Path::is_dir) => {
                Error::Missing { program: program(), install: self.install }
            }
            _ => Error::Start { program: program(), source },
        })?;
        let mut group = Group(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
        let mut stdout = Lines::new(child.stdout.take().expect("piped above"));
        let mut stderr = Lines::new(child.stderr.take().expect("piped above"));
        let (mut answer, mut last) = (Vec::new(), Vec::new());
        let work = async {
            loop {
                let (stream, line) = tokio::select! {
                    line = stdout.next(), if !stdout.ended => (Stream::Stdout, line),
                    line = stderr.next(), if !stderr.ended => (Stream::Stderr, line),
                    else => break,
                };
                let Some(line) =
                    line.map_err(|source| Error::Pipe { program: program(), source })?
                else {
                    continue;
                };
                if stream == Stream::Stdout && answer.len() < STDOUT_LIMIT {
                    answer.extend_from_slice(&line);
                }
                keep_last(&mut last, &line);
                on_line(stream, String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']));
            }
            child.wait().await.map_err(|source| Error::Pipe { program: program(), source })
        };
        let ended = tokio::time::timeout(self.limit, work).await;
        let last = String::from_utf8_lossy(&last).trim_end().to_owned();
        match ended {
            Err(_) => Err(Error::TimedOut {
                program: program(),
                action: self.action(),
                limit: self.limit,
                last,
            }),
            Ok(status) => {
                let status = status?;
                group.disarm();
                if status.success() {
                    return Ok(answer);
                }
                Err(Error::Failed { program: program(), action: self.action(), status, last })
            }
        }
    }
}

/// Lines of a stream; neither their number nor their length is trusted.
struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    ended: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    fn new(stream: R) -> Self {
        Self { reader: BufReader::new(stream), line: Vec::new(), ended: false }
    }

    /// The next line with its end, or as much of it as is buffered at once. No byte is lost if the
    /// future is dropped.
    async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let ready = self.reader.fill_buf().await?;
            if ready.is_empty() {
                self.ended = true;
                return Ok((!self.line.is_empty()).then(|| std::mem::take(&mut self.line)));
            }
            let end = ready.iter().position(|b| *b == b'\n');
            let length = end.map_or(ready.len(), |at| at + 1);
            self.line.extend_from_slice(&ready[..length]);
            self.reader.consume(length);
            if end.is_some() || self.line.len() >= LINE_LIMIT {
                return Ok(Some(std::mem::take(&mut self.line)));
            }
        }
    }
}

fn keep_last(last: &mut Vec<u8>, line: &[u8]) {
    last.extend_from_slice(line);
    if last.len() > LAST_OUTPUT {
        last.drain(..last.len() - LAST_OUTPUT);
    }
}

/// Whether a spawn would find a program.
fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path);
    if program.contains('/') {
        Path::new(program).is_file()
    } else {
        folders.any(|folder| folder.join(program).is_file())
    }
}

/// A running child's process group, killed with all its children unless it ended.
#[derive(Debug)]
struct Group(Option<Pid>);

impl Group {
    fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0
            && let Err(error) = kill_process_group(pid, Signal::KILL)
        {
            tracing::debug!(%error, "process group was gone already");
        }
    }
}

/// The command line for `--dry-run`, quoted for a POSIX shell. Without the environment, whose
/// values may be secret.
impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quoted(&self.program))?;
        for word in &self.args {
            write!(f, " {}", quoted(&word.to_string_lossy()))?;
        }
        Ok(())
    }
}

fn quoted(word: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_=+./:,@%".contains(&b);
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests;

/// The error of a program.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum Error {
    /// The program is not installed.
    #[error("{program} is not installed; install {install}")]
    #[diagnostic(code = "program-missing", class = InvalidInput)]
    Missing { program: String, install: &'static str },
    /// It is there and could not be started.
    #[error("{program} could not be started; check that it may be run here")]
    #[diagnostic(code = "program-not-started", class = InvalidInput)]
    Start { program: String, source: io::Error },
    /// It ended with an error.
    #[error("{program} {action} ended with {status}; its last output:\n{last}")]
    #[diagnostic(code = "program-failed", class = Rejected, remedy = None)]
    Failed {
        program: String,
        action: String,
        status: ExitStatus,
        /// The end of its output.
        last: String,
    },
    /// It did not end in time, and was killed.
    #[error("{program} {action} did not end within {} s and was killed; its last output:\n{last}", limit.as_secs())]
    #[diagnostic(code = "program-timed-out", class = Transient, remedy = None)]
    TimedOut {
        program: String,
        action: String,
        limit: Duration,
        /// The end of its output.
        last: String,
    },
    /// Reading or writing its pipes failed.
    #[error("{program}: its output can't be read")]
    #[diagnostic(code = "program-pipe", class = Transient)]
    Pipe { program: String, source: io::Error },
}
