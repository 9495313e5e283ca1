//! Programs that are killed at their requests to a registry, and disturbed at them: another run ends
//! the same. `make test` takes one request of each kind, `make test-all` each request.

use std::collections::BTreeSet;
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
    /// The undisturbed run makes more requests than this.
    pub least: usize,
    /// `kills` selects more of its requests than this.
    pub least_kills: usize,
}

impl Moments<'static> {
    /// The program, which makes more than `least` requests, is killed at any of them, and nothing
    /// else happens.
    pub fn of(requests: Requests, least: usize) -> Self {
        let (signals, faults) = (&["-KILL"], &[]);
        Self { requests, signals, kills: |_| true, faults, first: 0, least, least_kills: least }
    }
}

impl Moments<'_> {
    /// What is tried at requests, each of which has the first one that was seen of it. At one
    /// request of a kind the faults that it can be affected by have their turn; a fault that had
    /// none is tried at the first request that it can affect.
    fn disturbances(&self, requests: &[(Request, Seen)]) -> Vec<(Disturbance<'_>, Request)> {
        let mut all = Vec::new();
        let kills = requests.iter().filter(|(_, seen)| (self.kills)(seen));
        for (request, _) in kills {
            let each = self.signals.iter().map(|signal| Disturbance::Signal(signal));
            all.extend(each.map(|disturbance| (disturbance, request.clone())));
        }
        let later = || requests.iter().filter(|(_, seen)| seen.number > self.first);
        let mut tried = vec![false; self.faults.len()];
        for (turn, (request, seen)) in later().enumerate() {
            let fits = |number: &usize| self.faults[*number].affects(&seen.head);
            let mut fitting: Vec<_> = (0..self.faults.len()).filter(fits).collect();
            if self.requests == Requests::OfEachKind && !fitting.is_empty() {
                fitting = vec![fitting[turn % fitting.len()]];
            }
            for number in fitting {
                tried[number] = true;
                all.push((Disturbance::Fault(&self.faults[number]), request.clone()));
            }
        }
        for (fault, _) in self.faults.iter().zip(tried).filter(|(_, tried)| !tried) {
            let found = later().find(|(_, seen)| fault.affects(&seen.head));
            let (request, _) = found.unwrap_or_else(|| panic!("{fault:?} affects no request"));
            all.push((Disturbance::Fault(fault), request.clone()));
        }
        all
    }
}

/// What happens to the program at a request.
#[derive(Debug, Clone, Copy)]
enum Disturbance<'m> {
    Signal(&'m str),
    Fault(&'m Fault),
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
        assert!(seen.len() > moments.least, "{} requests", seen.len());
        let kills = seen.iter().filter(|seen| (moments.kills)(seen)).count();
        assert!(kills > moments.least_kills, "{kills} requests to be killed at");
        let requests = moments.requests.among(&seen);
        let disturbances = moments.disturbances(&requests);
        assert!(!disturbances.is_empty(), "nothing to try");
        let (mut missed, mut met) = (Vec::new(), BTreeSet::new());
        for (disturbance, request) in &disturbances {
            let what = format!("{disturbance:?} at {request}");
            if self.is_met(*disturbance, request, &want, &what) {
                met.insert(&*request.kind);
            } else {
                missed.push(what);
            }
        }
        let tried = disturbances.len();
        println!("{tried} times, at {} of {} requests", requests.len(), seen.len());
        // Requests at the same time can change the numbers by a few.
        assert!(missed.len() * 10 <= tried, "of {tried} it ended before {missed:#?}");
        let kinds: BTreeSet<_> = disturbances.iter().map(|(_, request)| &*request.kind).collect();
        assert_eq!(met, kinds, "it ended before {missed:#?}");
        want
    }

    /// Whether the program got to the request and was disturbed there. Either way, it ends the same.
    #[track_caller]
    fn is_met(
        &self,
        disturbance: Disturbance<'_>,
        request: &Request,
        want: &Value,
        what: &str,
    ) -> bool {
        (self.clear)();
        let (is_it, is_met) = (request.is_it(), Arc::new(AtomicBool::new(false)));
        match disturbance {
            Disturbance::Signal(signal) => {
                if let Some(left) = kill_at(self.proxy, (self.command)(), signal, is_it) {
                    is_met.store(true, Ordering::SeqCst);
                    (self.left)(what, signal, &left);
                }
            }
            Disturbance::Fault(fault) => {
                let (fault, hit) = (fault.clone(), Arc::clone(&is_met));
                self.proxy.rule(move |seen| {
                    is_it(seen).then(|| {
                        hit.store(true, Ordering::SeqCst);
                        fault.clone()
                    })
                });
            }
        }
        assert_eq!((self.end)(what), *want, "{what}");
        is_met.load(Ordering::SeqCst)
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
