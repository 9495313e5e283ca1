//! Contenders that do the same job in turn, so that other load on the machine affects all of them.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// A program or function to measure, and the number of rounds.
pub struct Contender<'a> {
    name: String,
    rounds: usize,
    /// Does the job once and returns its duration.
    run: Box<dyn FnMut() -> Duration + 'a>,
}

impl<'a> Contender<'a> {
    pub fn new(name: impl Into<String>, rounds: usize, run: impl FnMut() -> Duration + 'a) -> Self {
        Self { name: name.into(), rounds, run: Box::new(run) }
    }
}

/// The duration of each round of a contender.
#[derive(Debug, Clone)]
pub struct Times {
    pub name: String,
    pub rounds: Vec<Duration>,
}

impl Times {
    pub fn median(&self) -> Duration {
        Duration::from_secs_f64(median(self.rounds.iter().map(Duration::as_secs_f64)))
    }

    /// The median ratio of the rounds of this contender to those of another one.
    pub fn to(&self, other: &Self) -> f64 {
        let rounds = self.rounds.iter().zip(&other.rounds);
        median(rounds.map(|(own, other)| own.as_secs_f64() / other.as_secs_f64()))
    }
}

pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    }
}

/// A contender with at least this many rounds gets one warm-up round.
const MANY: usize = 10;

/// Runs all contenders in each round. Each round starts with another contender.
pub fn race(mut contenders: Vec<Contender<'_>>) -> Vec<Times> {
    let mut times: Vec<_> = contenders
        .iter()
        .map(|contender| Times { name: contender.name.clone(), rounds: Vec::new() })
        .collect();
    for contender in contenders.iter_mut().filter(|contender| contender.rounds >= MANY) {
        (contender.run)();
    }
    let rounds = contenders.iter().map(|contender| contender.rounds).max();
    for round in 0..rounds.unwrap_or(0) {
        for at in 0..contenders.len() {
            let at = (at + round) % contenders.len();
            let contender = &mut contenders[at];
            if round < contender.rounds {
                let took = (contender.run)();
                eprintln!("  {:9.3} s  {}", took.as_secs_f64(), contender.name);
                times[at].rounds.push(took);
            }
        }
    }
    times
}

/// Runs a function and returns its result and duration.
pub fn timed<T>(job: impl FnOnce() -> T) -> (T, Duration) {
    let started = Instant::now();
    let value = job();
    (value, started.elapsed())
}

/// Runs a program to its end, and returns its stdout and the duration.
pub fn run(command: &mut Command) -> (Vec<u8>, Duration) {
    let (output, took) = timed(|| command.stdin(Stdio::null()).output());
    let output = output.unwrap_or_else(|why| panic!("{command:?}: {why}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{stderr}", output.status);
    (output.stdout, took)
}

/// The interval of reading a child's memory. The kernel records the peak, so only a peak in the
/// last interval is missed.
const LOOK: Duration = Duration::from_millis(5);

/// Runs a program to its end, and returns the duration and the peak of resident memory.
pub fn run_watched(command: &mut Command) -> (Duration, u64) {
    run_to(command, 0)
}

/// The same for a program whose exit code must be this.
pub fn run_to(command: &mut Command, code: i32) -> (Duration, u64) {
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null());
    let started = Instant::now();
    let mut child = silent.spawn().unwrap_or_else(|why| panic!("{command:?}: {why}"));
    let mut peak = 0;
    let status = loop {
        peak = peak_of(child.id()).unwrap_or(peak);
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None => thread::sleep(LOOK),
        }
    };
    let took = started.elapsed();
    assert_eq!(status.code(), Some(code), "{command:?}");
    (took, peak)
}

/// `VmHWM` in bytes, or `None` if the process has ended.
fn peak_of(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kibibytes << 10)
}
