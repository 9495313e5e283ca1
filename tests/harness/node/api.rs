//! Requests to the API server from this process: repeated requests do not start a program each
//! time.
//!
//! In: what kubectl calls things (`pod`, `jobs`, `machineosbuild`). Out: the API's objects, as
//! JSON. `kubectl proxy` is between, which brings the credentials; it may run before the API server
//! does and while that is away.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::wait::wait;
use crate::child::{Daemon, lasting};

/// How long the API server may be away.
const AWAY: Duration = Duration::from_secs(120);
/// How the answer of kubectl's proxy begins where the API server has seen nothing of the request.
const NOT_SENT: [&str; 2] = ["dial tcp", "net/http: TLS handshake timeout"];
/// How long it may take over an answer.
const ANSWER: Duration = Duration::from_secs(60);
/// All kinds of a group in one answer, with the words for them.
const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The way to an API server.
#[derive(Debug)]
pub struct Api {
    address: String,
    kinds: Mutex<Vec<Kind>>,
    _proxy: Daemon,
}

/// An event of a watch.
#[derive(Debug)]
pub enum Event {
    /// All that there is.
    List(Vec<Value>),
    /// An object is new, or has changed.
    Is(Value),
    Deleted(Value),
}

#[derive(Debug, Clone)]
struct Kind {
    /// Plural, singular, and short.
    names: Vec<String>,
    group: String,
    /// `/api/v1` or `/apis/GROUP/VERSION`.
    prefix: String,
    plural: String,
    is_namespaced: bool,
}

impl Api {
    /// With the credentials of a kubeconfig.
    #[track_caller]
    pub fn start(kubectl: &Path, kubeconfig: &Path) -> Self {
        let mut command = lasting(kubectl);
        command.arg(format!("--kubeconfig={}", kubeconfig.display())).args(["proxy", "--port=0"]);
        let serves = |line: &str| line.strip_prefix("Starting to serve on ").map(str::to_owned);
        let (proxy, address) = Daemon::start(command, serves);
        Self { address, kinds: Mutex::default(), _proxy: proxy }
    }

    /// `HOST:PORT`, for plain HTTP.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Whether the API server is ready to answer.
    pub fn is_ready(&self) -> bool {
        request(&self.address, "GET", "/readyz", None).is_ok_and(|(code, _)| code == 200)
    }

    /// A request: code and object. It is sent again while the API server is away, and while it gets
    /// ready for a new kind.
    #[track_caller]
    pub fn ask(&self, method: &str, target: &str, body: Option<&Value>) -> (u16, Value) {
        let (code, text) = self.ask_text(method, target, body);
        (code, object(text))
    }

    /// Creates or replaces an object. The API server may have done so and not have said so; when the
    /// request is sent again, it is a conflict with an object that has all that was sent.
    #[track_caller]
    pub fn write(&self, method: &str, target: &str, object: &Value) -> (u16, Value) {
        let (code, answer) = self.ask(method, target, Some(object));
        if code != 409 {
            return (code, answer);
        }
        let mut path = target.split('?').next().unwrap_or(target).to_owned();
        if method == "POST" {
            path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap_or_default());
        }
        let there = self.ask("GET", &path, None).1;
        let is_there = |(key, sent): (&String, &Value)| match &**key {
            "metadata" => true,
            "stringData" => sent.as_object().into_iter().flatten().all(|(key, text)| {
                there["data"][key] == STANDARD.encode(text.as_str().unwrap_or_default())
            }),
            _ => has(&there[key], sent),
        };
        match object.as_object().is_some_and(|sent| sent.iter().all(is_there)) {
            true => (200, there),
            false => (code, answer),
        }
    }

    /// Code and body of an answer, as [`Self::ask`] gets it.
    #[track_caller]
    fn ask_text(&self, method: &str, target: &str, body: Option<&Value>) -> (u16, String) {
        let end = Instant::now() + AWAY;
        loop {
            match request_text(&self.address, method, target, body) {
                Ok((code, text)) if is_away(code, &text) && Instant::now() < end => {
                    thread::sleep(Duration::from_secs(1));
                }
                Ok(answer) => return answer,
                Err(why) => panic!("{method} {target}: {why}"),
            }
        }
    }

    /// An object, if it is there.
    #[track_caller]
    pub fn find(&self, namespace: Option<&str>, kind: &str, name: &str) -> Option<Value> {
        let target = format!("{}/{name}", self.known(namespace, kind));
        match self.ask("GET", &target, None) {
            (200, object) => Some(object),
            (404, _) => None,
            (code, answer) => panic!("{target}: {code} {answer:#}"),
        }
    }

    /// All objects of these kinds (`pods,jobs`) that have this label.
    #[track_caller]
    pub fn list(&self, namespace: Option<&str>, kinds: &str, label: &str) -> Vec<Value> {
        let of = |kind| {
            let target = format!("{}?labelSelector={label}", self.known(namespace, kind));
            let (code, mut list) = self.ask("GET", &target, None);
            assert_eq!(code, 200, "{target}: {list:#}");
            items(&mut list).unwrap_or_else(|| panic!("{target}: no list: {list:#}"))
        };
        kinds.split(',').flat_map(of).collect()
    }

    /// What a container has written so far, if it has started.
    pub fn log(&self, namespace: &str, pod: &str, container: &str) -> Option<String> {
        let pod = format!("/api/v1/namespaces/{namespace}/pods/{pod}");
        let target = format!("{pod}/log?container={container}");
        let (code, log) = self.ask_text("GET", &target, None);
        (code == 200).then_some(log)
    }

    /// A list of what a target selects (`/api/v1/pods?`), then each change, until one gives a
    /// value; none when the watch or the time has ended.
    pub fn watch<T>(
        &self,
        target: &str,
        end: Instant,
        mut on_event: impl FnMut(Event) -> Option<T>,
    ) -> Option<T> {
        let (all, since) = self.list_at(target)?;
        if let Some(value) = on_event(Event::List(all)) {
            return Some(value);
        }
        let stream = self.open_watch(target, &since)?;
        let limit = || {
            let left = end.saturating_duration_since(Instant::now());
            Some(left.max(Duration::from_millis(1)))
        };
        read_changes(stream, limit, on_event)
    }

    /// What a target selects, and the version of the cluster at that moment.
    pub(crate) fn list_at(&self, target: &str) -> Option<(Vec<Value>, String)> {
        let (_, mut list) = request(&self.address, "GET", target, None).ok()?;
        let all = items(&mut list)?;
        Some((all, list["metadata"]["resourceVersion"].as_str()?.to_owned()))
    }

    /// The connection of a watch of what has changed since a version, for [`read_changes`].
    pub(crate) fn open_watch(&self, target: &str, since: &str) -> Option<TcpStream> {
        let target = format!("{target}&watch=true&resourceVersion={since}");
        send(&self.address, "GET", &target, None).ok()
    }

    /// What selects one object. None if the API server doesn't know the kind.
    pub fn target_of(&self, namespace: Option<&str>, kind: &str, name: &str) -> Option<String> {
        let collection = self.collection(namespace, kind)?;
        Some(format!("{collection}?fieldSelector=metadata.name%3D{name}"))
    }

    /// Where objects of a kind are, which may be new to the API server.
    #[track_caller]
    fn known(&self, namespace: Option<&str>, kind: &str) -> String {
        wait(&format!("the kind {kind}"), ANSWER, || self.collection(namespace, kind))
    }

    /// The same. None if the API server doesn't know the kind.
    fn collection(&self, namespace: Option<&str>, kind: &str) -> Option<String> {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = kinds.iter().find(|one| one.is(kind)).cloned();
        if found.is_none() {
            *kinds = self.discover()?;
            found = kinds.iter().find(|one| one.is(kind)).cloned();
        }
        let Kind { prefix, plural, is_namespaced, .. } = found?;
        Some(match namespace.filter(|_| is_namespaced) {
            Some(namespace) => format!("{prefix}/namespaces/{namespace}/{plural}"),
            None => format!("{prefix}/{plural}"),
        })
    }

    fn discover(&self) -> Option<Vec<Kind>> {
        let mut kinds = Vec::new();
        for root in ["/api", "/apis"] {
            let (_, groups) = request_for(&self.address, root, DISCOVERY).ok()?;
            for group in groups["items"].as_array()? {
                let name = group["metadata"]["name"].as_str().unwrap_or_default();
                // The newest version that has a kind comes first.
                for version in group["versions"].as_array()? {
                    let at = [root, name, version["version"].as_str()?];
                    let at: Vec<_> = at.into_iter().filter(|part| !part.is_empty()).collect();
                    let resources = version["resources"].as_array()?.iter();
                    kinds.extend(resources.filter_map(|one| Kind::read(one, name, &at.join("/"))));
                }
            }
        }
        Some(kinds)
    }
}

impl Kind {
    fn read(resource: &Value, group: &str, prefix: &str) -> Option<Self> {
        let plural = resource["resource"].as_str()?.to_owned();
        let mut names = vec![plural.clone(), resource["singularResource"].as_str()?.to_owned()];
        let short = resource["shortNames"].as_array().into_iter().flatten();
        names.extend(short.filter_map(Value::as_str).map(str::to_owned));
        Some(Self {
            names,
            group: group.to_owned(),
            prefix: prefix.to_owned(),
            plural,
            is_namespaced: resource["scope"] == "Namespaced",
        })
    }

    /// `pods`, or with the group `events.events.k8s.io`.
    fn is(&self, word: &str) -> bool {
        let (name, group) = word.split_once('.').unzip();
        let is_group = group.is_none_or(|group| group == self.group);
        is_group && self.names.iter().any(|one| one == name.unwrap_or(word))
    }
}

/// Reads the changes of a watch until one gives a value; none when the watch or the time that
/// `limit` gives to the next change has ended.
pub(crate) fn read_changes<T>(
    watch: TcpStream,
    limit: impl Fn() -> Option<Duration>,
    mut on_event: impl FnMut(Event) -> Option<T>,
) -> Option<T> {
    let mut changes = BufReader::new(watch);
    skip_head(&mut changes)?;
    loop {
        changes.get_ref().set_read_timeout(limit()).ok()?;
        let mut line = String::new();
        // Neither half a line nor the end of the time is a change.
        changes.read_line(&mut line).ok()?;
        let mut change: Value = serde_json::from_str(&line).ok()?;
        let object = change.get_mut("object")?.take();
        let event = match change["type"].as_str()? {
            "ADDED" | "MODIFIED" => Event::Is(object),
            "DELETED" => Event::Deleted(object),
            _ => return None,
        };
        if let Some(value) = on_event(event) {
            return Some(value);
        }
    }
}

/// What is in a list, which says version and kind once for all.
fn items(list: &mut Value) -> Option<Vec<Value>> {
    let (version, kind) = (list["apiVersion"].clone(), list.get("kind")?.as_str()?.to_owned());
    let Value::Array(mut items) = list.get_mut("items")?.take() else {
        return None;
    };
    for item in &mut items {
        item["apiVersion"] = version.clone();
        item["kind"] = json!(kind.trim_end_matches("List"));
    }
    Some(items)
}

/// One request to a `kubectl proxy`: code and object. A body that is not JSON is a string.
pub fn request(
    address: &str,
    method: &str,
    target: &str,
    body: Option<&Value>,
) -> io::Result<(u16, Value)> {
    let (code, text) = request_text(address, method, target, body)?;
    Ok((code, object(text)))
}

fn request_text(
    address: &str,
    method: &str,
    target: &str,
    body: Option<&Value>,
) -> io::Result<(u16, String)> {
    answer(send(address, method, target, body)?)
}

fn request_for(address: &str, target: &str, accept: &str) -> io::Result<(u16, Value)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER))?;
    write!(stream, "GET {target} HTTP/1.0\r\nhost: {address}\r\naccept: {accept}\r\n\r\n")?;
    let (code, text) = answer(stream)?;
    Ok((code, object(text)))
}

/// Whether an answer means that the API server may answer later: it is busy, its etcd is, or, says
/// the proxy, it is on a machine that is off.
fn is_away(code: u16, text: &str) -> bool {
    let is_not_sent = || NOT_SENT.iter().any(|begin| text.starts_with(begin));
    matches!(code, 429 | 502 | 503 | 504)
        || code == 500 && (is_not_sent() || text.contains("request timed out"))
}

/// Without chunks, so HTTP/1.0.
fn send(address: &str, method: &str, target: &str, body: Option<&Value>) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER))?;
    let content = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = body.map(Value::to_string).unwrap_or_default();
    write!(
        stream,
        "{method} {target} HTTP/1.0\r\nhost: {address}\r\ncontent-type: {content}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    Ok(stream)
}

/// Whether a value has all that another one has. `null` is as good as nothing.
fn has(value: &Value, part: &Value) -> bool {
    match (value, part) {
        (_, Value::Null) => true,
        (Value::Object(_), Value::Object(part)) => {
            part.iter().all(|(key, part)| has(&value[key], part))
        }
        (Value::Array(all), Value::Array(part)) => {
            all.len() == part.len() && all.iter().zip(part).all(|(value, part)| has(value, part))
        }
        _ => value == part,
    }
}

/// Code and body of an answer.
fn answer(mut stream: TcpStream) -> io::Result<(u16, String)> {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let code = code.ok_or_else(|| io::Error::other(format!("no answer: {head:?}")))?;
    Ok((code, body.to_owned()))
}

/// A body as an object. One that is not JSON is a string.
fn object(body: String) -> Value {
    serde_json::from_str(&body).unwrap_or_else(|_| json!(body))
}

/// None if the answer is not a good one.
fn skip_head(from: &mut impl BufRead) -> Option<()> {
    let mut line = String::new();
    from.read_line(&mut line).ok()?;
    let is_good = line.split(' ').nth(1) == Some("200");
    while !line.trim_end().is_empty() {
        line.clear();
        from.read_line(&mut line).ok()?;
    }
    is_good.then_some(())
}
