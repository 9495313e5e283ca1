//! A stand-in for registries that tests cannot run. A profile describes the behaviour of one of
//! them.
//!
//! It serves plain HTTP on loopback and stores everything in memory. Where a profile does not
//! differ, it follows the distribution specification. It has one user, who may create, push to and
//! pull from every repository except those below [`FOREIGN`].

mod answers;
mod profile;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use url::Url;

use crate::http::Head;
use crate::registry::USER;
use crate::server::Listener;
use crate::snapshot::sha256;

pub use profile::{Location, Login, PLAIN, Profile, Refusal};

/// The prefix of repositories of another owner.
pub const FOREIGN: &str = "foreign/";

/// A running stand-in.
#[derive(Debug)]
pub struct StandIn {
    listener: Listener,
    _blobs: Listener,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    profile: Profile,
    blob_host: String,
    repositories: BTreeMap<String, Repository>,
    blobs: BTreeMap<String, Vec<u8>>,
    /// The repository and the bytes of each open upload, by number.
    uploads: BTreeMap<usize, (String, Vec<u8>)>,
    uploads_started: usize,
    requests: usize,
    /// The requests that the rate limit has rejected.
    limited: BTreeSet<String>,
    seen: Vec<String>,
    locked_out: bool,
}

#[derive(Debug, Default)]
struct Repository {
    /// The media type and the bytes of manifests, by digest.
    manifests: BTreeMap<String, (String, Vec<u8>)>,
    tags: BTreeMap<String, String>,
    blobs: BTreeSet<String>,
}

struct Request {
    head: Head,
    host: String,
    query: BTreeMap<String, Vec<String>>,
    body: Vec<u8>,
}

struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl StandIn {
    pub fn start(profile: Profile) -> Self {
        let state = Arc::new(Mutex::new(State {
            profile,
            blob_host: String::new(),
            repositories: BTreeMap::new(),
            blobs: BTreeMap::new(),
            uploads: BTreeMap::new(),
            uploads_started: 0,
            requests: 0,
            limited: BTreeSet::new(),
            seen: Vec::new(),
            locked_out: false,
        }));
        let shared = Arc::clone(&state);
        let blobs = Listener::start(move |stream| serve(stream, &shared, State::blob_elsewhere));
        lock(&state).blob_host = blobs.address();
        let shared = Arc::clone(&state);
        let listener = Listener::start(move |stream| serve(stream, &shared, State::answer));
        Self { listener, _blobs: blobs, state }
    }

    /// The name of a repository as `127.0.0.1:port/name`.
    pub fn repository(&self, name: &str) -> String {
        format!("{}/{name}", self.listener.address())
    }

    /// The user's credentials in docker's format, with this password.
    pub fn logins(&self, password: &str) -> String {
        let auth = STANDARD.encode(format!("{USER}:{password}"));
        json!({ "auths": { self.listener.address(): { "auth": auth } } }).to_string()
    }

    /// Creates a repository, as in a registry's web console.
    pub fn create(&self, name: &str) {
        lock(&self.state).repositories.entry(name.to_owned()).or_default();
    }

    /// Stores a manifest and its blobs as `name:tag`.
    pub fn put(&self, name: &str, tag: &str, manifest: &[u8], blobs: impl Fn(&str) -> Vec<u8>) {
        let state = &mut *lock(&self.state);
        let value: Value = serde_json::from_slice(manifest).unwrap();
        let named = value["layers"].as_array().unwrap().iter().chain([&value["config"]]);
        let repository = state.repositories.entry(name.to_owned()).or_default();
        for descriptor in named {
            let digest = descriptor["digest"].as_str().unwrap();
            state.blobs.insert(digest.to_owned(), blobs(digest));
            repository.blobs.insert(digest.to_owned());
        }
        let kind = value["mediaType"].as_str().unwrap().to_owned();
        let digest = format!("sha256:{}", sha256(manifest));
        repository.tags.insert(tag.to_owned(), digest.clone());
        repository.manifests.insert(digest, (kind, manifest.to_owned()));
    }

    /// Deletes a manifest.
    pub fn delete(&self, name: &str, digest: &str) {
        let state = &mut *lock(&self.state);
        let repository = state.repositories.get_mut(name).unwrap();
        repository.manifests.remove(digest).unwrap();
        repository.tags.retain(|_, named| named != digest);
    }

    /// Revokes the user's permissions, or restores them.
    pub fn lock_out(&self, locked_out: bool) {
        lock(&self.state).locked_out = locked_out;
    }

    /// The number of uploads that are neither complete nor cancelled.
    pub fn open_uploads(&self) -> usize {
        lock(&self.state).uploads.len()
    }

    /// The method and path of each request since the last call.
    pub fn seen(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.state).seen)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap()
}

fn serve(
    stream: TcpStream,
    state: &Mutex<State>,
    answer: impl Fn(&mut State, &Request) -> Reply,
) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let Some(head) = Head::read(&mut reader)? else {
        return Ok(());
    };
    let length = head.header("content-length").and_then(|text| text.parse().ok());
    let mut body = Vec::new();
    reader.take(length.unwrap_or(0)).read_to_end(&mut body)?;
    let url = Url::parse(&format!("http://x{}", head.target)).map_err(io::Error::other)?;
    let mut query = BTreeMap::<String, Vec<String>>::new();
    for (name, value) in url.query_pairs() {
        query.entry(name.into_owned()).or_default().push(value.into_owned());
    }
    let host = head.header("host").unwrap_or_default().to_owned();
    let is_head = head.method == "HEAD";
    let Reply { status, headers, body } = {
        let request = Request { head, host, query, body };
        answer(&mut state.lock().unwrap(), &request)
    };
    let mut text = format!("HTTP/1.1 {status} said so by a stand-in\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    let length = body.len();
    text.push_str(&format!("content-length: {length}\r\nconnection: close\r\n\r\n"));
    let mut to = stream;
    to.write_all(text.as_bytes())?;
    to.write_all(if is_head { &[] } else { &body })
}

impl Refusal {
    fn reply(self) -> Reply {
        let Self(status, code) = self;
        let body = json!({ "errors": [{ "code": code, "message": "said so by a stand-in" }] });
        Reply { body: body.to_string().into(), ..Reply::of(status) }
    }
}

impl Reply {
    fn of(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

impl Request {
    fn one(&self, name: &str) -> Option<&str> {
        self.query.get(name)?.first().map(String::as_str)
    }
}
