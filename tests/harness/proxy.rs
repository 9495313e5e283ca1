//! A proxy in front of a registry that injects faults of networks and busy registries: cut
//! connections, delays, error answers.
//!
//! A client uses it like the registry: the `Host` header is not changed, so the registry's
//! `Location` headers lead to the proxy. It supports plain HTTP with one request on each
//! connection, so that requests can be counted and cut individually.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::http::{self, Head};
use super::server::Listener;

/// The fault for one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Closes the connection. The registry does not get the request.
    CutBefore,
    /// Forwards the request, but closes the connection instead of sending the answer.
    CutAnswer,
    /// Closes the connection after this many bytes of the answer's body.
    CutBody(u64),
    /// Closes both connections after this many bytes of the request's body.
    CutUpload(u64),
    /// Forwards the request after a delay.
    Delay(Duration),
    /// Answers without the registry: a status and an optional header.
    Answer(u16, Option<(&'static str, String)>),
    /// Answers without the registry: 200 and this JSON.
    Json(String),
}

impl Fault {
    /// An answer with a status and no header: 401, 500, …
    pub fn status(status: u16) -> Self {
        Self::Answer(status, None)
    }

    /// Status 429 with a `Retry-After` header of this many seconds.
    pub fn too_many(seconds: u32) -> Self {
        Self::Answer(429, Some(("retry-after", seconds.to_string())))
    }

    /// Whether a client notices it at this request to a registry: only some have a body to cut, or
    /// get one.
    pub fn affects(&self, head: &Head) -> bool {
        match self {
            Self::CutBody(_) => {
                let has_body = ["/blobs/", "/manifests/"].iter().any(|of| head.path().contains(of));
                head.method == "GET" && has_body
            }
            Self::CutUpload(bytes) => {
                head.header("transfer-encoding").is_some()
                    || head.header("content-length").and_then(|text| text.parse().ok())
                        > Some(*bytes)
            }
            _ => true,
        }
    }
}

/// A request with its number, which starts at 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub number: usize,
    pub head: Head,
}

/// Returns the fault for a request, if there is one.
type Rule = Box<dyn Fn(&Seen) -> Option<Fault> + Send + Sync>;

/// A running proxy.
#[derive(Debug)]
pub struct FaultProxy {
    listener: Listener,
    state: Arc<State>,
}

struct State {
    registry: String,
    rule: Mutex<Rule>,
    seen: Mutex<Vec<Seen>>,
    sent: AtomicU64,
    received: AtomicU64,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("registry", &self.registry).finish_non_exhaustive()
    }
}

impl FaultProxy {
    /// Starts a proxy without faults in front of `127.0.0.1:port`.
    pub fn start(registry: &str) -> Self {
        let state = Arc::new(State {
            registry: registry.to_owned(),
            rule: Mutex::new(Box::new(|_| None)),
            seen: Mutex::default(),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
        });
        let shared = Arc::clone(&state);
        let listener = Listener::start(move |stream| serve(stream, &shared));
        Self { listener, state }
    }

    /// Replaces the rule and restarts the count of requests at 1.
    pub fn rule(&self, rule: impl Fn(&Seen) -> Option<Fault> + Send + Sync + 'static) {
        let mut seen = self.state.seen.lock().unwrap();
        *self.state.rule.lock().unwrap() = Box::new(rule);
        seen.clear();
        self.state.sent.store(0, Ordering::SeqCst);
        self.state.received.store(0, Ordering::SeqCst);
    }

    /// Injects this fault into the request with this number, and restarts the count at 1.
    pub fn fail(&self, number: usize, fault: Fault) {
        self.rule(move |seen| (seen.number == number).then(|| fault.clone()));
    }

    /// The address as `127.0.0.1:port`.
    pub fn address(&self) -> String {
        self.listener.address()
    }

    /// The requests since the last rule, in order of arrival.
    pub fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().unwrap().clone()
    }

    /// The bytes sent to the registry since the last rule, with heads.
    pub fn sent(&self) -> u64 {
        self.state.sent.load(Ordering::SeqCst)
    }

    /// The bytes received from the registry since the last rule, with heads.
    pub fn received(&self) -> u64 {
        self.state.received.load(Ordering::SeqCst)
    }
}

fn serve(stream: TcpStream, state: &State) -> io::Result<()> {
    let mut client = BufReader::new(stream.try_clone()?);
    let Some(head) = Head::read(&mut client)? else {
        return Ok(());
    };
    let fault = {
        let mut all = state.seen.lock().unwrap();
        let seen = Seen { number: all.len() + 1, head: head.clone() };
        let fault = (state.rule.lock().unwrap())(&seen);
        all.push(seen);
        fault
    };
    match &fault {
        Some(Fault::CutBefore) => return stream.shutdown(Shutdown::Both),
        Some(Fault::Answer(status, header)) => {
            head.drain(&mut client)?;
            let header = header.as_ref().map(|(name, value)| (*name, value.as_str()));
            return http::answer(&mut &stream, *status, header.as_slice(), "");
        }
        Some(Fault::Json(text)) => {
            head.drain(&mut client)?;
            return http::answer(&mut &stream, 200, &[("content-type", "application/json")], text);
        }
        Some(Fault::Delay(time)) => thread::sleep(*time),
        Some(Fault::CutAnswer | Fault::CutBody(_) | Fault::CutUpload(_)) | None => {}
    }
    let upload = match fault {
        Some(Fault::CutUpload(bytes)) => bytes,
        _ => u64::MAX,
    };
    let registry = TcpStream::connect(&state.registry)?;
    let request = head.closing();
    (&registry).write_all(request.as_bytes())?;
    state.sent.fetch_add(request.len() as u64, Ordering::SeqCst);
    thread::scope(|scope| {
        scope.spawn(|| {
            let whole = copy(&mut client.take(upload), &registry, &state.sent);
            if upload != u64::MAX {
                close(&registry, &stream);
            }
            whole
        });
        let answered = pass_back(&registry, &stream, fault.as_ref(), &state.received);
        close(&registry, &stream);
        answered
    })
}

/// Copies the registry's answer to the client, as far as the fault permits.
fn pass_back(
    registry: &TcpStream,
    client: &TcpStream,
    fault: Option<&Fault>,
    count: &AtomicU64,
) -> io::Result<()> {
    let mut registry = BufReader::new(registry);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && registry.read_until(b'\n', &mut head)? > 0 {}
    count.fetch_add(head.len() as u64, Ordering::SeqCst);
    if fault == Some(&Fault::CutAnswer) {
        return Ok(());
    }
    let mut to = client;
    to.write_all(&head)?;
    let body = match fault {
        Some(Fault::CutBody(bytes)) => *bytes,
        _ => u64::MAX,
    };
    copy(&mut registry.take(body), client, count)
}

fn copy(from: &mut impl Read, mut to: &TcpStream, count: &AtomicU64) -> io::Result<()> {
    let mut buffer = [0; 1 << 14];
    loop {
        let length = from.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..length])?;
        count.fetch_add(length as u64, Ordering::SeqCst);
    }
}

/// Closes both connections, which ends every reader.
fn close(one: &TcpStream, other: &TcpStream) {
    // Either side may have closed its connection already.
    one.shutdown(Shutdown::Both).ok();
    other.shutdown(Shutdown::Both).ok();
}
