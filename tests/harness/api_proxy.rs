//! A proxy in front of the API server that disturbs one write of a client: refuses it, loses its answer, ends the watch that
//! would tell of it, or does nothing any more after it, so that the client can be killed between a write and the next.
//!
//! Writes are told apart by keys, words that occur in path or body, as names of pools do: many clients' stories go on at
//! once, each with a disturbance of its own. Leases, events and dry-runs are no writes. Plain HTTP, one request a connection.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::child::{Daemon, lasting};
use super::http::{self, Head};
use super::node::Node;
use super::server::Listener;

/// What becomes of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiFault {
    /// It is done and not answered, and later ones are not done: as if the client were killed, which it is to be next.
    Die,
    /// It is not done, and answered with this code.
    Refuse(u16),
    /// It is done; the connection closes instead of the answer.
    LoseAnswer,
    /// The watches of its kind end with 410 before it is done.
    EndWatch,
}

/// The kinds of which is kept what was created.
const KEPT: [&str; 2] = ["machineosbuilds", "jobs"];

/// What is known of a key.
#[derive(Debug, Default)]
struct Entry {
    /// In their order, each with the number of its write.
    faults: VecDeque<(usize, ApiFault)>,
    closed: bool,
    written: Vec<String>,
    created: Vec<(String, Value)>,
}

/// A write with its body.
type Created = (String, Value);

#[derive(Debug, Default)]
struct State {
    upstream: String,
    entries: Mutex<BTreeMap<String, Arc<Mutex<Entry>>>>,
    watches: Mutex<Vec<Arc<WatchStream>>>,
}

/// A watch on its way to the client.
#[derive(Debug)]
struct WatchStream {
    kind: String,
    /// None once it was ended.
    client: Mutex<Option<TcpStream>>,
}

/// A running proxy.
#[derive(Debug)]
pub struct ApiProxy {
    listener: Listener,
    state: Arc<State>,
    _kubectl: Daemon,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that broke left whole values behind.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ApiProxy {
    /// As a cluster administrator; nothing is disturbed yet.
    pub fn start(node: &Node, kubectl: impl AsRef<std::ffi::OsStr>) -> Self {
        let mut command = lasting(kubectl);
        command
            .arg(format!("--kubeconfig={}", node.kubeconfig().display()))
            .args(["proxy", "--port=0"]);
        let serves = |line: &str| {
            line.strip_prefix("Starting to serve on ")
                .map(str::to_owned)
        };
        let (kubectl, upstream) = Daemon::start(command, serves);
        let state = Arc::new(State {
            upstream,
            ..State::default()
        });
        let shared = Arc::clone(&state);
        Self {
            listener: Listener::start(move |stream| relay(stream, &shared)),
            state,
            _kubectl: kubectl,
        }
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

    /// From now on writes with this word are counted, from 1, and those with these numbers are disturbed. One that was refused
    /// has its number again when it is tried again.
    pub fn follow(&self, key: &str, faults: &[(usize, ApiFault)]) {
        let entry = Entry {
            faults: faults.iter().copied().collect(),
            ..Entry::default()
        };
        locked(&self.state.entries).insert(key.to_owned(), Arc::new(Mutex::new(entry)));
    }

    /// Disturbs the next write with this word, or the one after those that are to be disturbed already.
    pub fn disturb(&self, key: &str, fault: ApiFault) {
        let entry = Arc::clone(&locked(&self.state.entries)[key]);
        let mut entry = locked(&entry);
        let next = entry
            .faults
            .back()
            .map_or(entry.written.len(), |(at, _)| *at)
            + 1;
        entry.faults.push_back((next, fault));
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

    /// The objects of a kind of [`KEPT`] that were created, as they were sent.
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

    /// A request of a test's own, which nobody disturbs: code and object.
    pub fn ask(&self, method: &str, target: &str, body: Option<&Value>) -> (u16, Value) {
        loop {
            match ask(&self.state.upstream, method, target, body) {
                // The API server gets ready for a kind that is new to it.
                Ok((429, _)) => thread::sleep(Duration::from_secs(1)),
                Ok(answer) => return answer,
                Err(why) => panic!("{method} {target}: {why}"),
            }
        }
    }
}

/// Without chunks, so HTTP/1.0.
fn ask(
    upstream: &str,
    method: &str,
    target: &str,
    body: Option<&Value>,
) -> io::Result<(u16, Value)> {
    let mut stream = TcpStream::connect(upstream)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let content = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = body.map(Value::to_string).unwrap_or_default();
    write!(
        stream,
        "{method} {target} HTTP/1.0\r\nhost: {upstream}\r\ncontent-type: {content}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let code = code.ok_or_else(|| io::Error::other(format!("no answer: {head:?}")))?;
    Ok((code, serde_json::from_str(body).unwrap_or_default()))
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
        return watch(forward()?, client, kind_of(&head), state);
    }
    let text = String::from_utf8_lossy(&body);
    let entry = is_write(&head).then(|| entry_of(state, &head.target, &text));
    let Some(entry) = entry.flatten() else {
        return io::copy(&mut forward()?, &mut client).map(drop);
    };
    // The writes of a key one after the other, so that their number means something.
    let mut entry = locked(&entry);
    if entry.closed {
        return client.shutdown(Shutdown::Both);
    }
    let number = entry.written.len() + 1;
    let fault = match entry.faults.front() {
        Some((at, fault)) if *at == number => Some(*fault),
        _ => None,
    };
    match fault {
        Some(ApiFault::Refuse(code)) => {
            entry.faults.pop_front();
            let status = status(code).to_string();
            let json = ("content-type", "application/json");
            return http::answer(&mut client, code, &[json], &status);
        }
        Some(ApiFault::EndWatch) => end_watches(state, &kind_of(&head)),
        Some(ApiFault::Die | ApiFault::LoseAnswer) | None => {}
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
    entry.written.push(told(&head));
    if head.method == "POST" && KEPT.contains(&&*kind_of(&head)) {
        let object = serde_json::from_slice(&body)?;
        entry.created.push((kind_of(&head), object));
    }
    entry.closed = fault == Some(ApiFault::Die);
    match fault {
        Some(ApiFault::Die | ApiFault::LoseAnswer) => client.shutdown(Shutdown::Both),
        Some(ApiFault::Refuse(_) | ApiFault::EndWatch) | None => client.write_all(&answer),
    }
}

/// A write that stays and that others read.
fn is_write(head: &Head) -> bool {
    let path = head.path();
    head.method != "GET"
        && !head.target.contains("dryRun")
        && !["/leases", "/events", "/authorization.k8s.io/"]
            .iter()
            .any(|word| path.contains(word))
}

fn entry_of(state: &State, target: &str, body: &str) -> Option<Arc<Mutex<Entry>>> {
    let entries = locked(&state.entries);
    let within = |text: &str| {
        entries
            .iter()
            .find_map(|(key, entry)| text.contains(key).then(|| Arc::clone(entry)))
    };
    within(target).or_else(|| within(body))
}

/// What follows the version, without the namespace.
fn resource(head: &Head) -> &str {
    let path = head.path();
    let (_, what) = path.rsplit_once("/v1/").unwrap_or(("", path));
    let in_namespace = what
        .strip_prefix("namespaces/")
        .and_then(|rest| rest.split_once('/'));
    in_namespace.map_or(what, |(_, what)| what)
}

fn kind_of(head: &Head) -> String {
    let kind = resource(head).split('/').next();
    kind.unwrap_or_default().to_owned()
}

fn told(head: &Head) -> String {
    format!("{} {}", head.method, resource(head))
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

/// Hands on the events of a watch line by line, so that it can be ended between two.
fn watch(server: TcpStream, client: TcpStream, kind: String, state: &State) -> io::Result<()> {
    let mut server = BufReader::new(server);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && server.read_until(b'\n', &mut head)? > 0 {}
    let mut to = client.try_clone()?;
    to.write_all(&head)?;
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    if !head.contains("transfer-encoding: chunked") {
        return io::copy(&mut server, &mut to).map(drop);
    }
    let stream = Arc::new(WatchStream {
        kind,
        client: Mutex::new(Some(client)),
    });
    locked(&state.watches).push(Arc::clone(&stream));
    let done = lines(&mut server, &stream);
    locked(&state.watches).retain(|one| !Arc::ptr_eq(one, &stream));
    done
}

fn lines(server: &mut impl BufRead, stream: &WatchStream) -> io::Result<()> {
    let mut pending = Vec::new();
    loop {
        let mut size = String::new();
        server.read_line(&mut size)?;
        let size = u64::from_str_radix(size.trim(), 16).unwrap_or(0);
        server.take(size).read_to_end(&mut pending)?;
        server.read_line(&mut String::new())?;
        let whole = pending.iter().rposition(|byte| *byte == b'\n');
        let text: Vec<u8> = pending.drain(..whole.map_or(0, |at| at + 1)).collect();
        let mut client = locked(&stream.client);
        let Some(open) = client.as_mut() else {
            return Ok(());
        };
        if !text.is_empty() {
            chunk(open, &text)?;
        }
        if size == 0 {
            chunk(open, b"")?;
            return open.shutdown(Shutdown::Both);
        }
    }
}

fn chunk(to: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend(bytes);
    chunk.extend(b"\r\n");
    to.write_all(&chunk)
}

fn end_watches(state: &State, kind: &str) {
    let event = json!({ "type": "ERROR", "object": status(410) }).to_string() + "\n";
    let watches = locked(&state.watches).clone();
    for stream in watches.iter().filter(|stream| stream.kind == kind) {
        if let Some(mut client) = locked(&stream.client).take() {
            // Who went away needs no end.
            let ended = chunk(&mut client, event.as_bytes()).and_then(|()| chunk(&mut client, b""));
            ended.and_then(|()| client.shutdown(Shutdown::Both)).ok();
        }
    }
}
