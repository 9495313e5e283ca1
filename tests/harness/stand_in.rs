//! A stand-in for registries that no test can run: it answers as a profile says that one of them does.
//!
//! Plain HTTP on loopback, everything in memory. What a profile does not say is as in the distribution specification. It
//! knows one user, who may create, push to and pull from every repository but those under [`FOREIGN`].

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use url::Url;

use super::http::Head;
use super::registry::{PASSWORD, USER};
use super::server::Listener;
use super::snapshot::sha256;

/// Repositories of somebody else.
pub const FOREIGN: &str = "foreign/";

/// Status and code of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal(pub u16, pub &'static str);

/// How one logs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login {
    /// With user and password.
    Basic,
    /// With a token; each 401 says from where.
    Token,
    /// With a token; only the answer to `/v2/` says from where.
    TokenByPing,
}

/// Where an upload goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Location {
    /// `http://host/v2/…`
    Absolute,
    /// `/v2/…?_state=…`, another state after each part.
    State,
    /// A path that is not below `/v2/`.
    Elsewhere,
}

/// What tells one registry from another.
#[derive(Debug, Clone, Copy)]
pub struct Profile {
    pub name: &'static str,
    pub login: Login,
    /// Takes user and password beside tokens, and asks for them where it refuses a request that had either.
    pub basic_too: bool,
    /// A token is for the last scope alone.
    pub one_scope: bool,
    /// To end an upload that is not needed takes the action `delete`.
    pub cancel_wants_delete: bool,
    /// The token server takes no actions but these.
    pub actions: &'static [&'static str],
    /// The token server refuses a scope that it does not grant, instead of leaving it out.
    pub token: Option<Refusal>,
    /// A question for a repository that does not exist.
    pub no_repository: Refusal,
    /// A question for a manifest that a repository does not have.
    pub no_manifest: Refusal,
    /// A question where one may not look.
    pub forbidden: Refusal,
    /// The first upload creates the repository, or is refused so.
    pub first_upload: Option<Refusal>,
    /// Whether a blob can be mounted from another repository; else an upload begins.
    pub mounts: bool,
    /// A mount from a repository that does not exist or that one may not read.
    pub bad_mount: Option<Refusal>,
    pub location: Location,
    /// Takes a blob in the request that ends its upload.
    pub takes_whole: bool,
    /// The answer to a part of an upload.
    pub part: u16,
    /// The answer to the end of an upload that is not needed.
    pub cancel: u16,
    /// Blobs come from another host, which takes no logins.
    pub redirects: bool,
    /// Whether it names the digest of what it answers with.
    pub names_digest: bool,
    /// Each so many requests one is too many, if it was none before.
    pub limit: Option<usize>,
}

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
    /// Repository and bytes of the uploads under way, by number.
    uploads: BTreeMap<usize, (String, Vec<u8>)>,
    begun: usize,
    requests: usize,
    /// The requests that were too many.
    limited: BTreeSet<String>,
    seen: Vec<String>,
    locked_out: bool,
}

#[derive(Debug, Default)]
struct Repository {
    /// Type and bytes.
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
            begun: 0,
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

    /// `127.0.0.1:port/name`.
    pub fn repository(&self, name: &str) -> String {
        format!("{}/{name}", self.listener.address())
    }

    /// The user's login in docker's format.
    pub fn logins(&self, password: &str) -> String {
        let auth = STANDARD.encode(format!("{USER}:{password}"));
        json!({ "auths": { self.listener.address(): { "auth": auth } } }).to_string()
    }

    /// Makes a repository, as in a registry's web console.
    pub fn create(&self, name: &str) {
        lock(&self.state).repositories.entry(name.to_owned()).or_default();
    }

    /// Puts what a layout has under a tag into `name:tag`.
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

    /// As if a manifest had been deleted.
    pub fn delete(&self, name: &str, digest: &str) {
        let state = &mut *lock(&self.state);
        let repository = state.repositories.get_mut(name).unwrap();
        repository.manifests.remove(digest).unwrap();
        repository.tags.retain(|_, named| named != digest);
    }

    /// The user may do nothing from now on, or again what he could.
    pub fn lock_out(&self, locked_out: bool) {
        lock(&self.state).locked_out = locked_out;
    }

    /// Uploads that were begun and neither ended nor cancelled.
    pub fn open_uploads(&self) -> usize {
        lock(&self.state).uploads.len()
    }

    /// Method and path of each request since the last time.
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

/// Name of a repository, `manifests` or `blobs`, and what of it.
fn split(path: &str) -> Option<(&str, &str, &str)> {
    let path = path.strip_prefix("/v2/")?;
    ["/blobs/uploads/", "/blobs/", "/manifests/"].iter().find_map(|kind| {
        let (name, rest) = path.split_once(kind)?;
        Some((name, kind.trim_matches('/'), rest))
    })
}

impl State {
    fn answer(&mut self, request: &Request) -> Reply {
        let (method, path) = (&*request.head.method, request.head.path());
        self.requests += 1;
        self.seen.push(format!("{method} {path}"));
        let is_one_of = |limit| self.requests.is_multiple_of(limit);
        // Each upload that is tried again has another name: with those, one could be refused for ever.
        let target = match path.split_once("/blobs/uploads/") {
            Some((repository, _)) => format!("{method} {repository}"),
            None => format!("{method} {}", request.head.target),
        };
        if self.profile.limit.is_some_and(is_one_of) && self.limited.insert(target) {
            return Refusal(429, "TOOMANYREQUESTS").reply().header("retry-after", "0");
        }
        if path == "/token" {
            return self.token(request);
        }
        if path == "/v2/" {
            return match self.grants(request) {
                Some(_) => Reply::of(200),
                None => self.challenge(request, Refusal(401, "UNAUTHORIZED"), true),
            };
        }
        let elsewhere = path.strip_prefix("/uploads-of-a-stand-in/");
        let upload = elsewhere.and_then(|number| self.uploads.get(&number.parse().ok()?));
        let upload = upload.map(|(name, _)| name.clone());
        let (name, kind, rest) = match (&upload, elsewhere, split(path)) {
            (Some(name), Some(number), _) => (&**name, "blobs/uploads", number),
            (_, _, Some(found)) => found,
            _ => return Refusal(404, "").reply(),
        };
        let write = !matches!(method, "GET" | "HEAD");
        let needed = match method {
            "DELETE" if self.profile.cancel_wants_delete => "delete",
            _ if write => "push",
            _ => "pull",
        };
        let granted = self.grants(request);
        let may = granted.as_ref().is_some_and(|granted| {
            let all = granted.iter().filter(|(on, _)| on == name || on == "*");
            all.flat_map(|(_, actions)| actions).any(|action| action == needed)
        });
        if !may {
            let refusal = match granted {
                None => Refusal(401, "UNAUTHORIZED"),
                Some(_) => self.profile.forbidden,
            };
            return self.challenge(request, refusal, false);
        }
        if !self.repositories.contains_key(name) {
            match (write, self.profile.first_upload) {
                (false, _) => return self.challenge(request, self.profile.no_repository, false),
                (true, Some(refusal)) => return self.challenge(request, refusal, false),
                (true, None) => {
                    self.repositories.insert(name.to_owned(), Repository::default());
                }
            }
        }
        match kind {
            "manifests" => self.manifest(request, name, rest),
            "blobs" => self.blob(request, name, rest),
            _ => self.upload(request, name, rest, granted.unwrap_or_default()),
        }
    }

    /// A refusal, with where to log in if this registry says so here.
    fn challenge(&self, request: &Request, refusal: Refusal, is_ping: bool) -> Reply {
        let reply = refusal.reply();
        if refusal.0 != 401 {
            return reply;
        }
        let is_logged_in = request.head.header("authorization").is_some();
        let challenge = match self.profile.login {
            Login::Basic => "Basic realm=\"stand-in\"".to_owned(),
            Login::Token if self.profile.basic_too && is_logged_in => {
                "Basic realm=\"stand-in\"".to_owned()
            }
            Login::TokenByPing if !is_ping => return reply,
            Login::Token | Login::TokenByPing => {
                let host = &request.host;
                format!("Bearer realm=\"http://{host}/token\",service=\"{host}\"")
            }
        };
        reply.header("www-authenticate", challenge)
    }

    /// What the request may do: repositories with actions; none where it is not logged in.
    fn grants(&self, request: &Request) -> Option<Vec<(String, Vec<String>)>> {
        let given = request.head.header("authorization")?;
        let by_password = given.starts_with("Basic ");
        if self.profile.login == Login::Basic || (self.profile.basic_too && by_password) {
            let all = ["pull", "push", "delete"].map(str::to_owned).to_vec();
            let (_, name) = (self.knows(given).then_some(())?, "*".to_owned());
            let on = split(request.head.path()).map(|(name, _, _)| name);
            let may = on.is_none_or(|on| self.may(on));
            return Some(if may { vec![(name, all)] } else { Vec::new() });
        }
        let token = given.strip_prefix("Bearer ")?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token).ok()?).ok()
    }

    fn knows(&self, given: &str) -> bool {
        given == format!("Basic {}", STANDARD.encode(format!("{USER}:{PASSWORD}")))
    }

    fn may(&self, name: &str) -> bool {
        !self.locked_out && !name.starts_with(FOREIGN)
    }

    fn token(&self, request: &Request) -> Reply {
        if !request.head.header("authorization").is_some_and(|given| self.knows(given)) {
            return Refusal(401, "UNAUTHORIZED").reply();
        }
        let mut granted: Vec<(String, Vec<String>)> = Vec::new();
        let scopes = request.query.get("scope").map_or(&[][..], Vec::as_slice);
        let left_out = if self.profile.one_scope { scopes.len().saturating_sub(1) } else { 0 };
        for scope in &scopes[left_out..] {
            let mut parts = scope.split(':').skip(1);
            let (name, actions) = (parts.next().unwrap(), parts.next().unwrap());
            let actions: Vec<_> = actions.split(',').map(str::to_owned).collect();
            if !actions.iter().all(|action| self.profile.actions.contains(&&**action)) {
                return Refusal(400, "INVALID_REQUEST").reply();
            }
            let exists = self.repositories.contains_key(name);
            let creates = self.profile.first_upload.is_none();
            if self.may(name) && (exists || creates) {
                granted.push((name.to_owned(), actions));
            } else if let Some(refusal) = self.profile.token {
                return refusal.reply();
            } else {
                granted.push((name.to_owned(), Vec::new()));
            }
        }
        let token = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&granted).unwrap());
        let body = json!({ "token": token, "expires_in": 300 }).to_string();
        Reply { body: body.into(), ..Reply::of(200) }
    }

    fn manifest(&mut self, request: &Request, name: &str, reference: &str) -> Reply {
        let names_digest = self.profile.names_digest;
        let repository = self.repositories.get_mut(name).unwrap();
        if request.head.method == "PUT" {
            let value: Value = serde_json::from_slice(&request.body).unwrap();
            let layers = value["layers"].as_array().unwrap().iter();
            let mut named = layers.chain([&value["config"]]);
            if !named.all(|one| repository.blobs.contains(one["digest"].as_str().unwrap())) {
                return Refusal(400, "MANIFEST_BLOB_UNKNOWN").reply();
            }
            let digest = format!("sha256:{}", sha256(&request.body));
            let kind = request.head.header("content-type").unwrap().to_owned();
            repository.manifests.insert(digest.clone(), (kind, request.body.clone()));
            if !reference.contains(':') {
                repository.tags.insert(reference.to_owned(), digest.clone());
            }
            let reply = Reply::of(201);
            return if names_digest {
                reply.header("docker-content-digest", digest)
            } else {
                reply
            };
        }
        let digest = repository.tags.get(reference).map_or(reference, String::as_str);
        let Some((kind, bytes)) = repository.manifests.get(digest) else {
            return self.challenge(request, self.profile.no_manifest, false);
        };
        let reply = Reply { body: bytes.clone(), ..Reply::of(200) }.header("content-type", kind);
        if names_digest { reply.header("docker-content-digest", digest) } else { reply }
    }

    fn blob(&self, request: &Request, name: &str, digest: &str) -> Reply {
        if !self.repositories[name].blobs.contains(digest) {
            return Refusal(404, "BLOB_UNKNOWN").reply();
        }
        if self.profile.redirects && request.head.method == "GET" {
            let to = format!("http://{}/{digest}", self.blob_host);
            return Reply::of(307).header("location", to);
        }
        Reply { body: self.blobs[digest].clone(), ..Reply::of(200) }
    }

    /// The host that blobs come from: as object stores do, it takes no second way to log in.
    fn blob_elsewhere(&mut self, request: &Request) -> Reply {
        if request.head.header("authorization").is_some() {
            return Refusal(400, "InvalidArgument").reply();
        }
        let blob = self.blobs.get(request.head.path().trim_start_matches('/'));
        blob.map_or(Reply::of(404), |blob| Reply { body: blob.clone(), ..Reply::of(200) })
    }

    fn upload(
        &mut self,
        request: &Request,
        name: &str,
        rest: &str,
        granted: Vec<(String, Vec<String>)>,
    ) -> Reply {
        if request.head.method == "POST" {
            if let (Some(digest), Some(from)) = (request.one("mount"), request.one("from")) {
                let readable = granted.iter().any(|(on, actions)| {
                    (on == from || on == "*") && actions.iter().any(|action| action == "pull")
                });
                let source = self.repositories.get(from).filter(|_| readable && self.may(from));
                match (source, self.profile.bad_mount) {
                    (None, Some(refusal)) => return self.challenge(request, refusal, false),
                    (Some(source), _) if self.profile.mounts && source.blobs.contains(digest) => {
                        let repository = self.repositories.get_mut(name).unwrap();
                        repository.blobs.insert(digest.to_owned());
                        return Reply::of(201)
                            .header("location", format!("/v2/{name}/blobs/{digest}"));
                    }
                    _ => {}
                }
            }
            self.begun += 1;
            self.uploads.insert(self.begun, (name.to_owned(), Vec::new()));
            let location = self.location(request, name, self.begun);
            return Reply::of(202).header("location", location);
        }
        let number: usize = rest.parse().unwrap();
        let Some((_, bytes)) = self.uploads.get_mut(&number) else {
            return Refusal(404, "BLOB_UPLOAD_UNKNOWN").reply();
        };
        if request.head.method == "DELETE" {
            let status = self.profile.cancel;
            if status == 204 {
                self.uploads.remove(&number);
            }
            return Reply::of(status);
        }
        if self.profile.location == Location::State
            && request.one("_state") != Some(&bytes.len().to_string())
        {
            return Refusal(400, "BLOB_UPLOAD_INVALID").reply();
        }
        if request.head.method == "PUT" && !request.body.is_empty() && !self.profile.takes_whole {
            return Refusal(404, "BLOB_UNKNOWN").reply();
        }
        bytes.extend(&request.body);
        let Some(digest) = request.one("digest").filter(|_| request.head.method == "PUT") else {
            let location = self.location(request, name, number);
            return Reply::of(self.profile.part).header("location", location);
        };
        let (_, bytes) = self.uploads.remove(&number).unwrap();
        if format!("sha256:{}", sha256(&bytes)) != digest {
            return Refusal(400, "DIGEST_INVALID").reply();
        }
        self.blobs.insert(digest.to_owned(), bytes);
        self.repositories.get_mut(name).unwrap().blobs.insert(digest.to_owned());
        Reply::of(201).header("location", format!("/v2/{name}/blobs/{digest}"))
    }

    fn location(&self, request: &Request, name: &str, number: usize) -> String {
        let path = format!("/v2/{name}/blobs/uploads/{number}");
        match self.profile.location {
            Location::Absolute => format!("http://{}{path}", request.host),
            Location::State => format!("{path}?_state={}", self.uploads[&number].1.len()),
            Location::Elsewhere => format!("/uploads-of-a-stand-in/{number}"),
        }
    }
}

/// As the distribution project's registry.
pub const PLAIN: Profile = Profile {
    name: "distribution",
    login: Login::Token,
    basic_too: false,
    one_scope: false,
    cancel_wants_delete: true,
    actions: &["pull", "push", "delete"],
    token: None,
    no_repository: Refusal(404, "NAME_UNKNOWN"),
    no_manifest: Refusal(404, "MANIFEST_UNKNOWN"),
    forbidden: Refusal(401, "UNAUTHORIZED"),
    first_upload: None,
    mounts: true,
    bad_mount: None,
    location: Location::State,
    takes_whole: true,
    part: 202,
    cancel: 204,
    redirects: false,
    names_digest: true,
    limit: None,
};
