//! The controller's writes for one pool, recorded in the audit log and repeated by a bare client
//! for other pools.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use super::audit_log::Request;
use super::site::{AT_ONCE, Left, NAMESPACE, RAW_NAMESPACE, Site, change, send};

/// Kinds whose objects are created in parallel: those that a Job needs, and events.
const AT_ONCE_KINDS: [&str; 6] =
    ["configmaps", "secrets", "serviceaccounts", "roles", "rolebindings", "events"];

/// A recorded write.
#[derive(Debug, Clone)]
struct Write {
    method: &'static str,
    target: String,
    /// The path of the object.
    object: String,
    kind: String,
    body: String,
}

/// The writes for one pool, in order.
pub struct Recorded {
    pool: String,
    writes: Vec<Write>,
    /// The UIDs in the writes, with the paths of their objects.
    uids: Vec<(String, String)>,
}

impl Recorded {
    /// Takes the writes from the requests for this pool.
    pub fn new(site: &Site, pool: &str, requests: &[&Request]) -> Self {
        let mut requests: Vec<_> = requests.iter().filter(|request| request.is_write()).collect();
        requests.sort_by_key(|request| request.at);
        let writes: Vec<Write> = requests.iter().map(|request| write(request)).collect();
        let objects = writes.iter().map(|write| write.object.clone());
        let mut uids: Vec<(String, String)> = objects
            .map(|path| {
                let found = send(&site.client, "GET", &path, Vec::new());
                let found = site.runtime.block_on(found);
                (found.unwrap_or_else(|why| panic!("{path}: {why}")).uid, path)
            })
            .collect();
        uids.sort();
        uids.dedup();
        Self { pool: pool.to_owned(), writes, uids }
    }

    /// The number of writes for one pool.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// The kinds of the writes in order, for the report.
    pub fn kinds(&self) -> String {
        let kind = |write: &Write| format!("{} {}", write.method, write.kind);
        self.writes.iter().map(kind).collect::<Vec<_>>().join(", ")
    }

    /// Changes these pools and makes the writes for each, with as many pools in parallel as the
    /// controller has workers.
    pub fn play(&self, site: &Site, names: &[String], number: u32) -> Duration {
        // The paths and bodies are prepared before the measurement.
        let prepared: Vec<_> = names.iter().map(|name| (name, self.of(name))).collect();
        let started = Instant::now();
        let all = stream::iter(prepared.into_iter().map(|(name, writes)| async move {
            let (target, body) = change(name, number);
            let mut left = BTreeMap::new();
            let changed = send(&site.client, "PATCH", &target, body).await.unwrap();
            left.insert(target, changed);
            self.one(site, name, writes, left).await;
        }));
        let all = all.buffer_unordered(AT_ONCE).collect::<Vec<()>>();
        site.runtime.block_on(all);
        started.elapsed()
    }

    /// The same writes for another pool, in another namespace.
    fn of(&self, name: &str) -> Vec<Write> {
        let text = |text: &str| self.text(text, name);
        let of = |write: &Write| Write {
            target: text(&write.target),
            object: text(&write.object),
            body: text(&write.body),
            ..write.clone()
        };
        self.writes.iter().map(of).collect()
    }

    fn text(&self, text: &str, name: &str) -> String {
        let [own, other] = [NAMESPACE, RAW_NAMESPACE];
        text.replace(&self.pool, name)
            .replace(&format!("/namespaces/{own}/"), &format!("/namespaces/{other}/"))
            .replace(&format!("\"namespace\":\"{own}\""), &format!("\"namespace\":\"{other}\""))
    }

    async fn one(
        &self,
        site: &Site,
        name: &str,
        writes: Vec<Write>,
        mut left: BTreeMap<String, Left>,
    ) {
        // The MachineOSConfig exists already.
        for (_, path) in &self.uids {
            let path = self.text(path, name);
            if path.contains("/machineosconfigs/") {
                let found = send(&site.client, "GET", &path, Vec::new()).await;
                left.insert(path, found.unwrap());
            }
        }
        let is_at_once =
            |write: &Write| write.method == "POST" && AT_ONCE_KINDS.contains(&&*write.kind);
        for writes in writes.chunk_by(|one, next| is_at_once(one) && is_at_once(next)) {
            let sending = writes.iter().map(|write| {
                let body = self.body(write, name, &left);
                async move {
                    let done = send(&site.client, write.method, &write.target, body).await;
                    done.unwrap_or_else(|why| panic!("{}: {why}", write.target))
                }
            });
            for (write, done) in writes.iter().zip(join_all(sending).await) {
                left.insert(write.object.clone(), done);
            }
        }
    }

    /// The body with the UIDs and resource versions of the actual objects.
    fn body(&self, write: &Write, name: &str, left: &BTreeMap<String, Left>) -> Vec<u8> {
        let mut body = write.body.clone();
        for (uid, path) in &self.uids {
            if body.contains(uid.as_str())
                && let Some(there) = left.get(&self.text(path, name))
            {
                body = body.replace(uid, &there.uid);
            }
        }
        if write.method == "POST" {
            return body.into_bytes();
        }
        let mut value: Value = serde_json::from_str(&body).unwrap();
        if value["metadata"]["resourceVersion"].is_string() {
            value["metadata"]["resourceVersion"] = json!(left[&write.object].resource_version);
        }
        value.to_string().into_bytes()
    }
}

fn write(request: &Request) -> Write {
    let method = match &*request.verb {
        "create" => "POST",
        "update" => "PUT",
        "patch" => "PATCH",
        other => panic!("a build needs no {other}: {}", request.target),
    };
    let mut sent = request.sent.clone();
    let path = request.target.split('?').next().unwrap_or_default();
    let object = match method {
        "POST" => format!("{path}/{}", sent["metadata"]["name"].as_str().unwrap()),
        _ => path.trim_end_matches("/status").to_owned(),
    };
    if method == "POST" && request.kind() == "machineosbuilds" {
        // The benchmark deletes the build later, and nothing would remove the finalizer.
        sent["metadata"]["finalizers"] = Value::Null;
        sent["metadata"]["labels"]["bench"] = json!("raw");
    }
    Write {
        method,
        target: request.target.clone(),
        kind: request.kind().to_owned(),
        object,
        body: sent.to_string(),
    }
}
