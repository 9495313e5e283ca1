//! The answers of a stand-in to requests.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::{FOREIGN, Location, Login, Refusal, Reply, Repository, Request, State};
use crate::registry::{PASSWORD, USER};
use crate::snapshot::sha256;

/// Splits a path into the repository, the kind (`manifests` or `blobs`) and the rest.
fn split(path: &str) -> Option<(&str, &str, &str)> {
    let path = path.strip_prefix("/v2/")?;
    ["/blobs/uploads/", "/blobs/", "/manifests/"].iter().find_map(|kind| {
        let (name, rest) = path.split_once(kind)?;
        Some((name, kind.trim_matches('/'), rest))
    })
}

impl State {
    pub(super) fn answer(&mut self, request: &Request) -> Reply {
        let (method, path) = (&*request.head.method, request.head.path());
        self.requests += 1;
        self.seen.push(format!("{method} {path}"));
        let is_one_of = |limit| self.requests.is_multiple_of(limit);
        // Retries of an upload have different paths, so the limit counts them as one request;
        // otherwise it could reject all of them.
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

    /// An error, with a challenge if this registry sends one here.
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

    /// The repositories and actions that the request's credentials grant, or `None` without valid
    /// credentials.
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

    /// The host of the blobs. Like object stores, it rejects requests with credentials.
    pub(super) fn blob_elsewhere(&mut self, request: &Request) -> Reply {
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
            self.uploads_started += 1;
            self.uploads.insert(self.uploads_started, (name.to_owned(), Vec::new()));
            let location = self.location(request, name, self.uploads_started);
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
