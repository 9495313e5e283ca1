//! A proxy in front of the API server that disturbs one write of a client: refuses it, loses its
//! answer, never answers, ends the watch that would tell of it, holds it until something else has
//! happened, or does nothing any more after it, so that the client can be killed between a write
//! and the next.
//!
//! Writes are distinguished by keys, words that occur in path or body, as names of pools do: many
//! clients' stories go on at once, each with a disturbance of its own. Leases, events and dry-runs
//! are no writes. Plain HTTP, one request a connection.

mod watches;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, BufReader, Read, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::http::{self, Head};
use super::node::{Api, Node};
use super::server::Listener;
use watches::Watches;

/// Which write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// The next, whatever it is.
    Next,
    /// Of those that do the same, as [`ApiProxy::write_kinds`] tells it, the one of this number, from 1.
    Nth(String, usize),
}

/// What becomes of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiFault {
    /// It is done and not answered, and later ones are not done: as if the client were killed,
    /// which it is to be next.
    Die,
    /// It is not done, and answered with this code.
    Refuse(u16),
    /// It is done; the connection closes instead of the answer.
    LoseAnswer,
    /// It is done, or not, and never answered.
    Hang { done: bool },
    /// The watches of its kind end with 410 before; what becomes of it says the next fault.
    EndWatch,
    /// It waits until [`ApiProxy::release`]; what becomes of it then says the next fault.
    Hold,
}

/// The kinds whose created objects are recorded.
const RECORDED_KINDS: [&str; 3] = ["machineosbuilds", "jobs", "pods"];

/// What is known of a key.
#[derive(Debug, Default)]
struct Entry {
    /// In their order.
    faults: VecDeque<(Write, ApiFault)>,
    closed: bool,
    written: Vec<String>,
    write_kinds: Vec<String>,
    created: Vec<(String, Value)>,
}

impl Entry {
    /// What becomes of a write that does this. One that was refused has its number again when it is
    /// tried again.
    fn due(&self, write_kind: &str) -> Option<ApiFault> {
        let done = || self.write_kinds.iter().filter(|one| *one == write_kind).count();
        match self.faults.front()? {
            (Write::Next, fault) => Some(*fault),
            (Write::Nth(what, number), fault) => {
                (what == write_kind && *number == done() + 1).then_some(*fault)
            }
        }
    }
}

/// A write with its body.
type Created = (String, Value);

#[derive(Debug, Default)]
struct State {
    upstream: String,
    entries: Mutex<BTreeMap<String, Arc<Mutex<Entry>>>>,
    watches: Watches,
    /// The keys of the writes that are held.
    held: Mutex<BTreeSet<String>>,
    released: Condvar,
}

/// A running proxy.
#[derive(Debug)]
pub struct ApiProxy {
    listener: Listener,
    state: Arc<State>,
    api: Api,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that broke left whole values behind.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ApiProxy {
    /// As a cluster administrator; nothing is disturbed yet.
    pub fn start(node: &Node) -> Self {
        let api = node.another_api();
        let state = Arc::new(State { upstream: api.address().to_owned(), ..State::default() });
        let shared = Arc::clone(&state);
        Self { listener: Listener::start(move |stream| relay(stream, &shared)), state, api }
    }

    /// A kubeconfig of who comes by here.
    pub fn kubeconfig(&self) -> Value {
        let server = format!("http://{}", self.listener.address());
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{ "name": "x", "cluster": { "server": server } }],
            "users": [{ "name": "x", "user": {} }],
            "contexts": [{ "name": "x", "context": { "cluster": "x", "user": "x" } }],
        })
    }

    /// From now on writes with this word are counted, and these are disturbed, one after the other.
    pub fn follow(&self, key: &str, faults: &[(Write, ApiFault)]) {
        let entry = Entry { faults: faults.iter().cloned().collect(), ..Entry::default() };
        locked(&self.state.entries).insert(key.to_owned(), Arc::new(Mutex::new(entry)));
    }

    /// Disturbs the next write with this word, or the one after those that are to be disturbed
    /// already.
    pub fn disturb(&self, key: &str, fault: ApiFault) {
        let entry = Arc::clone(&locked(&self.state.entries)[key]);
        locked(&entry).faults.push_back((Write::Next, fault));
    }

    fn entry<T>(&self, key: &str, of: impl FnOnce(&Entry) -> T) -> T {
        let entry = Arc::clone(&locked(&self.state.entries)[key]);
        let entry = locked(&entry);
        of(&entry)
    }

    /// Whether every disturbance has happened.
    pub fn is_hit(&self, key: &str) -> bool {
        self.entry(key, |entry| entry.faults.is_empty())
    }

    /// The writes so far, as `PATCH machineosconfigs/worker`.
    pub fn written(&self, key: &str) -> Vec<String> {
        self.entry(key, |entry| entry.written.clone())
    }

    /// The same without names, as `PUT machineosconfigs/status`.
    pub fn write_kinds(&self, key: &str) -> Vec<String> {
        self.entry(key, |entry| entry.write_kinds.clone())
    }

    /// How many writes are held.
    pub fn held(&self) -> usize {
        locked(&self.state.held).len()
    }

    /// Lets the writes go on that are held.
    pub fn release(&self) {
        locked(&self.state.held).clear();
        self.state.released.notify_all();
    }

    /// The objects of a kind of `RECORDED_KINDS` that were created, as they were sent.
    pub fn created(&self, key: &str, kind: &str) -> Vec<Value> {
        let of = |(found, object): &Created| (found == kind).then(|| object.clone());
        self.entry(key, |entry| entry.created.iter().filter_map(of).collect())
    }

    /// Lets the writes of the next client pass.
    pub fn open(&self) {
        for entry in locked(&self.state.entries).values() {
            locked(entry).closed = false;
        }
    }

    /// A request of a test's own, which is never disturbed: code and object.
    pub fn ask(&self, method: &str, target: &str, body: Option<&Value>) -> (u16, Value) {
        self.api.ask(method, target, body)
    }
}

/// One request, and its answer if it gets one.
fn relay(mut client: TcpStream, state: &State) -> io::Result<()> {
    let mut from = BufReader::new(client.try_clone()?);
    let Some(head) = Head::read(&mut from)? else {
        return Ok(());
    };
    let length = head.header("content-length").and_then(|n| n.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    from.read_exact(&mut body)?;
    let forward = || {
        let mut server = TcpStream::connect(&state.upstream)?;
        server.write_all(head.closing().as_bytes())?;
        server.write_all(&body)?;
        io::Result::Ok(server)
    };
    if head.method == "GET" && head.target.contains("watch=true") {
        return watches::hand_on(forward()?, client, kind_of(&head), &state.watches);
    }
    let text = String::from_utf8_lossy(&body);
    let found = is_write(&head).then(|| entry_of(state, &head.target, &text));
    let Some((key, shared)) = found.flatten() else {
        return io::copy(&mut forward()?, &mut client).map(drop);
    };
    let write_kind = write_kind(&head);
    // The writes of a key one after the other, so that their number means something.
    let mut entry = locked(&shared);
    let fault = loop {
        if entry.closed {
            return client.shutdown(Shutdown::Both);
        }
        match entry.due(&write_kind) {
            Some(ApiFault::EndWatch) => {
                entry.faults.pop_front();
                watches::end(&state.watches, &kind_of(&head));
            }
            Some(ApiFault::Hold) => {
                entry.faults.pop_front();
                drop(entry);
                hold(state, key.clone());
                entry = locked(&shared);
            }
            other => break other,
        }
    };
    match fault {
        Some(ApiFault::Refuse(code)) => {
            entry.faults.pop_front();
            let status = status(code).to_string();
            let json = ("content-type", "application/json");
            return http::answer(&mut client, code, &[json], &status);
        }
        Some(ApiFault::Hang { done: false }) => {
            entry.faults.pop_front();
            drop(entry);
            return until_closed(&mut client);
        }
        _ => {}
    }
    let mut answer = Vec::new();
    forward()?.read_to_end(&mut answer)?;
    // What was refused, as an object that is there already, changed nothing.
    if !answer.starts_with(b"HTTP/1.1 2") {
        return client.write_all(&answer);
    }
    if fault.is_some() {
        entry.faults.pop_front();
    }
    entry.written.push(method_and_resource(&head));
    entry.write_kinds.push(write_kind);
    if head.method == "POST" && RECORDED_KINDS.contains(&&*kind_of(&head)) {
        let object = serde_json::from_slice(&body)?;
        entry.created.push((kind_of(&head), object));
    }
    entry.closed = fault == Some(ApiFault::Die);
    drop(entry);
    match fault {
        Some(ApiFault::Die | ApiFault::LoseAnswer) => client.shutdown(Shutdown::Both),
        Some(ApiFault::Hang { .. }) => until_closed(&mut client),
        _ => client.write_all(&answer),
    }
}

/// Waits until it is released; later writes of the key need not.
fn hold(state: &State, key: String) {
    let mut held = locked(&state.held);
    held.insert(key.clone());
    while held.contains(&key) {
        let woken = state.released.wait(held);
        held = woken.unwrap_or_else(PoisonError::into_inner);
    }
}

/// The client goes away when it has waited for long enough.
fn until_closed(client: &mut TcpStream) -> io::Result<()> {
    io::copy(client, &mut io::sink()).map(drop)
}

/// A write that stays and that others read.
fn is_write(head: &Head) -> bool {
    let path = head.path();
    head.method != "GET"
        && !head.target.contains("dryRun")
        && !["/leases", "/events", "/authorization.k8s.io/"].iter().any(|word| path.contains(word))
}

fn entry_of(state: &State, target: &str, body: &str) -> Option<(String, Arc<Mutex<Entry>>)> {
    let entries = locked(&state.entries);
    let within = |text: &str| {
        let mut found = entries.iter().filter(|(key, _)| text.contains(*key));
        let (key, entry) = found.next()?;
        Some((key.clone(), Arc::clone(entry)))
    };
    within(target).or_else(|| within(body))
}

/// What follows the version, without the namespace.
fn resource(head: &Head) -> &str {
    let path = head.path();
    let (_, what) = path.rsplit_once("/v1/").unwrap_or(("", path));
    let in_namespace = what.strip_prefix("namespaces/").and_then(|rest| rest.split_once('/'));
    in_namespace.map_or(what, |(_, what)| what)
}

fn kind_of(head: &Head) -> String {
    let kind = resource(head).split('/').next();
    kind.unwrap_or_default().to_owned()
}

fn method_and_resource(head: &Head) -> String {
    format!("{} {}", head.method, resource(head))
}

/// The same without the name.
fn write_kind(head: &Head) -> String {
    let mut parts = resource(head).split('/');
    let kind = parts.next().unwrap_or_default();
    let sub = parts.nth(1).map(|sub| format!("/{sub}"));
    format!("{} {kind}{}", head.method, sub.unwrap_or_default())
}

fn status(code: u16) -> Value {
    let reason = match code {
        409 => "Conflict",
        410 => "Expired",
        _ => "InternalError",
    };
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason,
        "code": code, "message": "said so by a test" })
}
