//! Programs that are killed at their requests to a registry, and disturbed at them: another run ends
//! the same. `make test` takes one request of each kind, `make test-all` each request.

use std::fmt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use mosb_tests::{Fault, FaultProxy, Finished, Seen, run, wait};

const SOON: Duration = Duration::from_secs(120);
/// Longer than a test.
const FOREVER: Duration = Duration::from_secs(3600);
/// The fewest requests of a program that is worth a test.
const LEAST: usize = 5;

/// A program behind a proxy, and what must be the same whenever it was killed.
pub struct Program<'t> {
    pub proxy: &'t FaultProxy,
    /// Takes away what a former run has made.
    pub clear: &'t dyn Fn(),
    /// The program that is killed, with pipes for its output.
    pub command: &'t dyn Fn() -> Command,
    /// Runs it to its end. Returns what must be the same each time.
    pub end: &'t dyn Fn(&str) -> Value,
    /// Checks what one that was killed with a signal has left.
    pub left: &'t dyn Fn(&str, &str, &Finished),
}

/// At which requests, with which signals and faults.
pub struct Moments<'t> {
    pub requests: Requests,
    /// Signals for the requests that `kills` selects.
    pub signals: &'t [&'t str],
    pub kills: fn(&Seen) -> bool,
    /// At one request of a kind these in turn, at each request all of them.
    pub faults: &'t [Fault],
    /// How many requests come before the first fault.
    pub first: usize,
}

impl Moments<'static> {
    /// The program is killed at any request, and nothing else happens.
    pub fn of(requests: Requests) -> Self {
        Self { requests, signals: &["-KILL"], kills: |_| true, faults: &[], first: 0 }
    }
}

/// Which requests of those that an undisturbed run makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requests {
    OfEachKind,
    All,
}

/// A request by its kind, and its number among those of this kind.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Request {
    kind: String,
    number: usize,
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {} of {:?}", self.number, self.kind)
    }
}

impl Request {
    /// Method, what is asked for, and which sort of tag: `PUT manifests prepared`.
    fn kind(seen: &Seen) -> String {
        let path = seen.head.path();
        let what = ["/blobs/uploads/", "/blobs/", "/manifests/", "/referrers/", "/tags/"];
        let what = what.into_iter().find(|what| path.contains(what)).unwrap_or("/");
        let tag = path.rsplit_once("/manifests/").map_or("", |(_, tag)| match tag {
            tag if tag.starts_with("prepared-") => " prepared",
            tag if tag.contains(':') => " digest",
            _ => " tag",
        });
        format!("{} {}{tag}", seen.head.method, what.trim_matches('/'))
    }

    /// A rule that is true once.
    fn is_it(&self) -> impl Fn(&Seen) -> bool + Send + Sync + 'static {
        let (request, count) = (self.clone(), AtomicUsize::new(0));
        move |seen| {
            Self::kind(seen) == request.kind
                && count.fetch_add(1, Ordering::SeqCst) + 1 == request.number
        }
    }
}

impl Requests {
    /// These requests, each with the first one that was seen of it.
    fn among(self, seen: &[Seen]) -> Vec<(Request, Seen)> {
        let mut kinds: Vec<Vec<(Request, Seen)>> = Vec::new();
        for seen in seen {
            let kind = Request::kind(seen);
            let known = kinds.iter_mut().find(|all| all[0].0.kind == kind);
            let number = known.as_ref().map_or(0, |all| all.len()) + 1;
            let request = (Request { kind, number }, seen.clone());
            match known {
                Some(all) => all.push(request),
                None => kinds.push(vec![request]),
            }
        }
        match self {
            Self::All => kinds.into_iter().flatten().collect(),
            Self::OfEachKind => {
                let by_turns = kinds.into_iter().enumerate();
                by_turns.map(|(turn, mut all)| all.swap_remove(turn % all.len())).collect()
            }
        }
    }
}

impl Program<'_> {
    /// Returns what is the same each time.
    #[track_caller]
    pub fn ends_the_same(&self, moments: &Moments<'_>) -> Value {
        self.proxy.rule(|_| None);
        let want = (self.end)("undisturbed");
        let seen = self.proxy.seen();
        assert!(seen.len() > LEAST, "{} requests", seen.len());
        let requests = moments.requests.among(&seen);
        let (mut tried, mut missed) = (0, 0);
        for (turn, (request, first)) in requests.iter().enumerate() {
            for signal in moments.signals.iter().filter(|_| (moments.kills)(first)) {
                let what = format!("{signal} at {request}");
                (self.clear)();
                match kill_at(self.proxy, (self.command)(), signal, request.is_it()) {
                    Some(finished) => (self.left)(&what, signal, &finished),
                    None => missed += 1,
                }
                tried += 1;
                assert_eq!((self.end)(&what), want, "{what}");
            }
            if first.number <= moments.first || moments.faults.is_empty() {
                continue;
            }
            let (faults, turn) = (moments.faults, turn % moments.faults.len());
            let faults = match moments.requests {
                Requests::OfEachKind => &faults[turn..=turn],
                Requests::All => faults,
            };
            for fault in faults {
                let what = format!("{fault:?} at {request}");
                (self.clear)();
                let (is_it, fault) = (request.is_it(), fault.clone());
                let hits = Arc::new(AtomicUsize::new(0));
                let hit = Arc::clone(&hits);
                self.proxy.rule(move |seen| {
                    is_it(seen).then(|| {
                        hit.fetch_add(1, Ordering::SeqCst);
                        fault.clone()
                    })
                });
                assert_eq!((self.end)(&what), want, "{what}");
                tried += 1;
                missed += usize::from(hits.load(Ordering::SeqCst) == 0);
            }
        }
        println!("{tried} times, at {} of {} requests", requests.len(), seen.len());
        // Requests at the same time can change the numbers by a few.
        assert!(missed * 10 <= tried, "{missed} of {tried} ended before the request");
        want
    }
}

/// Runs a command until the proxy holds a request, and all that follow it, and ends it there. None if
/// it ended before.
#[track_caller]
pub fn kill_at(
    proxy: &FaultProxy,
    mut command: Command,
    signal: &str,
    fits: impl Fn(&Seen) -> bool + Send + Sync + 'static,
) -> Option<Finished> {
    let held = Arc::new(AtomicBool::new(false));
    let holds = Arc::clone(&held);
    proxy.rule(move |seen| {
        if fits(seen) {
            holds.store(true, Ordering::SeqCst);
        }
        holds.load(Ordering::SeqCst).then_some(Fault::Delay(FOREVER))
    });
    let mut child = command.spawn().unwrap();
    let is_held = wait("the request", SOON, || {
        let is_held = held.load(Ordering::SeqCst);
        (is_held || child.try_wait().unwrap().is_some()).then_some(is_held)
    });
    if is_held {
        // All other processes of a namespace end with its first one, as in a container.
        run("kill", [signal, &child.id().to_string()]);
    }
    // The held request is not answered: this ends because of the signal.
    wait("the end", SOON, || child.try_wait().unwrap());
    let output = child.wait_with_output().unwrap();
    proxy.rule(|_| None);
    is_held.then(|| Finished {
        what: format!("{command:?}"),
        status: output.status,
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
