//! Child processes: programs that run to their end, and servers that run until they are dropped.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The time limit of a program that runs to its end, in seconds. It is enough to build a part on a
/// busy machine.
const LIMIT: &str = "1800";
/// The time limit for a server to become ready, on a busy machine.
const READY: Duration = Duration::from_secs(180);

/// The output and the exit status of a program.
#[derive(Debug)]
pub struct Finished {
    pub what: String,
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Finished {
    /// The exit code, or `None` after a signal.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Returns itself if the program succeeded; otherwise fails the test with the program's output.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert!(
            self.status.success(),
            "{}: {}\n{}{}",
            self.what,
            self.status,
            self.text(),
            self.stderr
        );
        self
    }

    /// Its stdout as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Its stdout as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        match serde_json::from_slice(&self.stdout) {
            Ok(value) => value,
            Err(why) => panic!("{}: no JSON on stdout: {why}\n{}", self.what, self.text()),
        }
    }
}

/// Runs a program with an empty stdin, and requires success.
#[track_caller]
pub fn run<A: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = A>) -> Finished {
    finish(limited(program).args(arguments), &[]).ok()
}

/// A command with the time limit. The caller adds arguments and environment.
pub fn limited(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--foreground", "--kill-after=5", LIMIT]).arg(program);
    command
}

/// Runs a command with these bytes on stdin, and returns the result also if it fails.
#[track_caller]
pub fn finish(command: &mut Command, stdin: &[u8]) -> Finished {
    let what = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|why| panic!("{what}: {why}"));
    let mut input = child.stdin.take().unwrap();
    let output = thread::scope(|scope| {
        // The program may close stdin before the end of the input.
        scope.spawn(move || input.write_all(stdin).is_ok());
        child.wait_with_output().unwrap()
    });
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Finished { what, status: output.status, stdout: output.stdout, stderr }
}

/// A program that runs until this value is dropped. It never outlives the test process.
#[derive(Debug)]
pub struct Daemon {
    pub pid: u32,
    stop: Option<mpsc::Sender<()>>,
    keeper: Option<JoinHandle<()>>,
    log: Arc<Mutex<String>>,
}

/// A command for a [`Daemon`]. The kernel kills it when the thread that started it ends.
pub fn lasting(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command
}

impl Daemon {
    /// Starts a [`lasting`] command and waits until `ready` recognizes a line of its output.
    #[track_caller]
    pub fn start<T>(mut command: Command, ready: impl Fn(&str) -> Option<T>) -> (Self, T) {
        let what = format!("{command:?}");
        let log = Arc::new(Mutex::new(String::new()));
        let (stop, stopped) = mpsc::channel::<()>();
        let (started, pid) = mpsc::channel();
        let (line, lines) = mpsc::channel();
        // The kernel kills the child when the thread that started it ends, so this thread runs as
        // long as the child.
        let lines_to = Arc::clone(&log);
        let keeper = thread::spawn(move || {
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = match command.spawn() {
                Ok(child) => child,
                Err(why) => return started.send(Err(why)).unwrap(),
            };
            read_lines(child.stdout.take().unwrap(), Arc::clone(&lines_to), line.clone());
            read_lines(child.stderr.take().unwrap(), lines_to, line);
            started.send(Ok(child.id())).unwrap();
            // This returns when the sender is dropped.
            stopped.recv().unwrap_err();
            // The child may have exited already.
            child.kill().ok();
            child.wait().unwrap();
        });
        let pid = pid.recv().unwrap().unwrap_or_else(|why| panic!("{what}: {why}"));
        let daemon = Self { pid, stop: Some(stop), keeper: Some(keeper), log: Arc::clone(&log) };
        let end = Instant::now() + READY;
        loop {
            match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    if let Some(found) = ready(&line) {
                        return (daemon, found);
                    }
                }
                Err(why) => panic!("{what}: not ready: {why}\n{}", log.lock().unwrap()),
            }
        }
    }
}

impl Daemon {
    /// Whether the process has exited. It is a zombie until its exit code is read.
    pub fn has_ended(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid));
        stat.map_or(true, |stat| stat.contains(") Z"))
    }

    /// The whole output so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(keeper) = self.keeper.take() {
            // A panic of the keeper thread is printed already. Another one here would hide the
            // failure of the test.
            keeper.join().ok();
        }
    }
}

fn read_lines(
    stream: impl Read + Send + 'static,
    log: Arc<Mutex<String>>,
    line: mpsc::Sender<String>,
) {
    thread::spawn(move || {
        for text in BufReader::new(stream).lines().map_while(Result::ok) {
            let mut log = log.lock().unwrap();
            log.push_str(&text);
            log.push('\n');
            // There is no receiver after the program is ready.
            line.send(text).ok();
        }
    });
}
