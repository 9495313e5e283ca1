//! A proxy in front of the API server that injects a fault into one write of a client. It can
//! reject the write, drop the answer, never answer, end the watch that would report the write, or
//! hold the write until another event. It can also stop all later writes, so that the client can be
//! killed between two writes, and leave reads without an answer.
//!
//! A key selects the writes of one test: it is a word that occurs in the path or the body, such as
//! the name of a pool. Many stories can therefore run in parallel with different faults. Leases and
//! dry runs do not count as writes, and events only if the test asks for it. The proxy supports
//! plain HTTP with one request on each connection.

mod kills;
mod request;
mod watches;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, BufReader, Read, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::http::{self, Head};
use super::node::{Api, Node};
use super::server::Listener;
use request::{is_write, kind_of, method_and_resource, write_kind};
use watches::Watches;

/// Selects a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// The next write.
    Next,
    /// The write with this number, from 1, among those of the same kind as in
    /// [`ApiProxy::write_kinds`].
    Nth(String, usize),
}

/// The fault for a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiFault {
    /// The write is done but not answered, and later writes are not done, as if the client were
    /// killed. The test kills it next.
    Die,
    /// The write is not done. The answer has this status.
    Refuse(u16),
    /// The write is done. The connection closes instead of the answer.
    LoseAnswer,
    /// The write is done or not, and never answered.
    Hang { done: bool },
    /// Before the write, the watches of its kind end with 410. The next fault applies to the write.
    EndWatch,
    /// The write waits until [`ApiProxy::release`]. Then the next fault applies to it.
    Hold,
}

/// The fault for a read, which is not forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFault {
    /// The answer has this status.
    Refuse(u16),
    /// The connection closes instead of an answer.
    Cut,
}

/// The kinds whose created objects are recorded.
const RECORDED_KINDS: [&str; 3] = ["machineosbuilds", "jobs", "pods"];

/// The faults and the recorded writes of a key.
#[derive(Debug, Default)]
struct Entry {
    /// In order.
    faults: VecDeque<(Write, ApiFault)>,
    closed: bool,
    written: Vec<String>,
    write_kinds: Vec<String>,
    created: Vec<(String, Value)>,
}

impl Entry {
    /// The fault for a write of this kind, if there is one. A rejected write has the same number
    /// when the client retries it.
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

/// The kind and the body of a created object.
type Created = (String, Value);

#[derive(Debug, Default)]
struct State {
    upstream: String,
    entries: Mutex<BTreeMap<String, Arc<Mutex<Entry>>>>,
    watches: Watches,
    /// The keys whose writes are held.
    held: Mutex<BTreeSet<String>>,
    released: Condvar,
    /// The faults of reads, in order, by a word in the target.
    reads: Mutex<BTreeMap<String, VecDeque<ReadFault>>>,
    counts_events: AtomicBool,
}

/// A running proxy.
#[derive(Debug)]
pub struct ApiProxy {
    listener: Listener,
    state: Arc<State>,
    api: Api,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The values are consistent even if another thread panicked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ApiProxy {
    /// Starts a proxy that acts as a cluster administrator, without faults.
    pub fn start(node: &Node) -> Self {
        Self::of(node.another_api())
    }

    /// Starts a proxy with the credentials of these requests, without faults.
    pub fn of(api: Api) -> Self {
        let state = Arc::new(State { upstream: api.address().to_owned(), ..State::default() });
        let shared = Arc::clone(&state);
        Self { listener: Listener::start(move |stream| relay(stream, &shared)), state, api }
    }

    /// The kubeconfig for clients of the proxy.
    pub fn kubeconfig(&self) -> Value {
        let server = format!("http://{}", self.listener.address());
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{ "name": "x", "cluster": { "server": server } }],
            "users": [{ "name": "x", "user": {} }],
            "contexts": [{ "name": "x", "context": { "cluster": "x", "user": "x" } }],
        })
    }

    /// Starts counting the writes with this key, and injects these faults in order.
    pub fn follow(&self, key: &str, faults: &[(Write, ApiFault)]) {
        let entry = Entry { faults: faults.iter().cloned().collect(), ..Entry::default() };
        locked(&self.state.entries).insert(key.to_owned(), Arc::new(Mutex::new(entry)));
    }

    /// Events count as writes from now on.
    pub fn count_events(&self) {
        self.state.counts_events.store(true, Ordering::SeqCst);
    }

    /// Adds a fault for the next write with this key, after the faults that are already planned.
    pub fn disturb(&self, key: &str, fault: ApiFault) {
        let entry = Arc::clone(&locked(&self.state.entries)[key]);
        locked(&entry).faults.push_back((Write::Next, fault));
    }

    /// Injects no further faults into the writes with this key, and permits them.
    pub fn forget_faults(&self, key: &str) {
        let entry = Arc::clone(&locked(&self.state.entries)[key]);
        let mut entry = locked(&entry);
        entry.faults.clear();
        entry.closed = false;
    }

    /// Injects these faults into the next reads whose target has this word. Watches are no reads.
    pub fn disturb_reads(&self, word: &str, faults: &[ReadFault]) {
        locked(&self.state.reads).insert(word.to_owned(), faults.iter().copied().collect());
    }

    /// Whether all faults of these reads have occurred.
    pub fn are_reads_hit(&self, word: &str) -> bool {
        locked(&self.state.reads)[word].is_empty()
    }

    fn entry<T>(&self, key: &str, of: impl FnOnce(&Entry) -> T) -> T {
        let entry = Arc::clone(&locked(&self.state.entries)[key]);
        let entry = locked(&entry);
        of(&entry)
    }

    /// Whether all faults have occurred.
    pub fn is_hit(&self, key: &str) -> bool {
        self.entry(key, |entry| entry.faults.is_empty())
    }

    /// The writes so far, such as `PATCH machineosconfigs/worker`.
    pub fn written(&self, key: &str) -> Vec<String> {
        self.entry(key, |entry| entry.written.clone())
    }

    /// The writes so far without names, such as `PUT machineosconfigs/status`.
    pub fn write_kinds(&self, key: &str) -> Vec<String> {
        self.entry(key, |entry| entry.write_kinds.clone())
    }

    /// The number of held writes.
    pub fn held(&self) -> usize {
        locked(&self.state.held).len()
    }

    /// Releases all held writes.
    pub fn release(&self) {
        locked(&self.state.held).clear();
        self.state.released.notify_all();
    }

    /// The created objects of a kind in `RECORDED_KINDS`, as the client sent them.
    pub fn created(&self, key: &str, kind: &str) -> Vec<Value> {
        let of = |(found, object): &Created| (found == kind).then(|| object.clone());
        self.entry(key, |entry| entry.created.iter().filter_map(of).collect())
    }

    /// Permits writes again, for the next client.
    pub fn open(&self) {
        for entry in locked(&self.state.entries).values() {
            locked(entry).closed = false;
        }
    }

    /// The requests of the test itself, without faults.
    pub fn api(&self) -> &Api {
        &self.api
    }
}

/// Forwards one request, and its answer if there is one.
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
    if head.method == "GET"
        && let Some(fault) = read_fault(state, &head.target)
    {
        return match fault {
            ReadFault::Refuse(code) => refuse(&mut client, code),
            ReadFault::Cut => client.shutdown(Shutdown::Both),
        };
    }
    let text = String::from_utf8_lossy(&body);
    let counts_events = state.counts_events.load(Ordering::SeqCst);
    let found = is_write(&head, counts_events).then(|| entry_of(state, &head.target, &text));
    let Some((key, shared)) = found.flatten() else {
        return io::copy(&mut forward()?, &mut client).map(drop);
    };
    let write_kind = write_kind(&head);
    // The writes of a key are serialized, so that their numbers are well defined.
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
            return refuse(&mut client, code);
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
    // A write that the API server rejects, such as the creation of an existing object, changes
    // nothing.
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

fn read_fault(state: &State, target: &str) -> Option<ReadFault> {
    let mut reads = locked(&state.reads);
    reads.iter_mut().find(|(word, _)| target.contains(*word))?.1.pop_front()
}

fn refuse(client: &mut TcpStream, code: u16) -> io::Result<()> {
    let json = ("content-type", "application/json");
    http::answer(client, code, &[json], &status(code).to_string())
}

/// Waits for the release. Later writes with the key are not held.
fn hold(state: &State, key: String) {
    let mut held = locked(&state.held);
    held.insert(key.clone());
    while held.contains(&key) {
        let woken = state.released.wait(held);
        held = woken.unwrap_or_else(PoisonError::into_inner);
    }
}

/// Waits until the client closes the connection after its timeout.
fn until_closed(client: &mut TcpStream) -> io::Result<()> {
    io::copy(client, &mut io::sink()).map(drop)
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

fn status(code: u16) -> Value {
    let reason = match code {
        409 => "Conflict",
        410 => "Expired",
        _ => "InternalError",
    };
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason,
        "code": code, "message": "said so by a test" })
}
