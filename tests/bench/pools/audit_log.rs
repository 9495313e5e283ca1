//! Reads the controller's requests to the API server from the audit log while it grows.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use mosb_tests::{COUNTED, Node, RECORDED};

/// A controller without requests for this long is idle.
const QUIET: Duration = Duration::from_secs(3);

/// An answered request.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub verb: String,
    #[serde(rename = "requestURI")]
    pub target: String,
    #[serde(rename = "requestReceivedTimestamp")]
    pub at: Timestamp,
    #[serde(rename = "stageTimestamp")]
    pub answered: Timestamp,
    #[serde(default)]
    response_status: Status,
    /// The object that was sent, if it is recorded.
    #[serde(default, rename = "requestObject")]
    pub sent: Value,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Status {
    code: u16,
}

impl Request {
    pub fn is_read(&self) -> bool {
        ["get", "list"].contains(&&*self.verb)
    }

    pub fn is_write(&self) -> bool {
        !self.is_read()
    }

    pub fn is_refused(&self) -> bool {
        self.response_status.code >= 300
    }

    /// The plural of its kind.
    pub fn kind(&self) -> &str {
        let path = self.target.split('?').next().unwrap_or_default();
        let (_, what) = path.rsplit_once("/v1/").unwrap_or(("", path));
        let inside = what.strip_prefix("namespaces/").and_then(|rest| rest.split_once('/'));
        let what = inside.map_or(what, |(_, what)| what);
        what.split('/').next().unwrap_or_default()
    }
}

/// The audit log, and the requests read so far.
pub struct AuditLog {
    log: BufReader<File>,
    half: String,
    /// In the order of the answers, without watches and without requests for the Lease.
    pub requests: Vec<Request>,
    /// Renewals of the Lease and related requests.
    pub leases: Vec<Request>,
}

impl AuditLog {
    pub fn of(node: &Node) -> Self {
        let [directory, ..] = node.traces();
        let log = File::open(Path::new(&directory).join("logs/audit")).unwrap();
        Self {
            log: BufReader::new(log),
            half: String::new(),
            requests: Vec::new(),
            leases: Vec::new(),
        }
    }

    /// Reads new lines and returns the number of new requests.
    pub fn read(&mut self) -> usize {
        let users = [COUNTED, RECORDED].map(|user| format!("\"username\":\"{user}\""));
        let before = self.requests.len();
        while self.log.read_line(&mut self.half).unwrap() > 0 && self.half.ends_with('\n') {
            let line = std::mem::take(&mut self.half);
            if line.contains("\"verb\":\"watch\"") || !users.iter().any(|user| line.contains(user))
            {
                continue;
            }
            let request: Request = serde_json::from_str(&line).unwrap();
            match request.kind() {
                "leases" => self.leases.push(request),
                _ => self.requests.push(request),
            }
        }
        self.requests.len() - before
    }

    /// Waits until there are no more requests.
    pub fn quiet(&mut self) {
        let mut last = Instant::now();
        while last.elapsed() < QUIET {
            thread::sleep(Duration::from_millis(100));
            if self.read() > 0 {
                last = Instant::now();
            }
        }
    }

    /// The requests since an instant.
    pub fn since(&self, at: Timestamp) -> Vec<&Request> {
        self.requests.iter().filter(|request| request.at >= at).collect()
    }
}
