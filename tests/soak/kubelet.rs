//! What becomes of Jobs that have a pod: sooner or later, as the number of their rendered config says.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::events::Random;
use super::wish::{CRASHES, image};
use crate::fault_world::{M, World, ends, in_namespace, text};

pub struct Kubelet {
    random: Random,
    /// UIDs of Jobs.
    ended: BTreeSet<String>,
}

/// A Job, as far as it matters.
struct Begun<'a> {
    metadata: &'a Value,
    number: u32,
    is_first: bool,
}

impl Kubelet {
    pub fn new(random: Random) -> Self {
        Self {
            random,
            ended: BTreeSet::new(),
        }
    }

    /// One look at all Jobs; each that has a pod ends now or at another look.
    pub fn turn(&mut self, world: &World, jobs: &[Value]) {
        let begun = |job: &&Value| {
            let metadata = &job["metadata"];
            job["status"]["active"] == 1
                && metadata["deletionTimestamp"].is_null()
                && !self.ended.contains(text(&metadata["uid"]))
        };
        let begun: Vec<&Value> = jobs.iter().filter(begun).collect();
        let now: Vec<&Value> = begun
            .into_iter()
            .filter(|_| self.random.below(3) == 0)
            .collect();
        if now.is_empty() {
            return;
        }
        let pods = world.all(&in_namespace("pods"));
        for job in now {
            let uid = text(&job["metadata"]["uid"]);
            let is_its = |pod: &&Value| pod["metadata"]["ownerReferences"][0]["uid"] == uid;
            if let Some(pod) = pods.iter().find(is_its)
                && Begun::read(job).end(world, text(&pod["metadata"]["name"]))
            {
                self.ended.insert(uid.to_owned());
            }
        }
    }
}

impl<'a> Begun<'a> {
    fn read(job: &'a Value) -> Self {
        let metadata = &job["metadata"];
        let rendered = text(&metadata["labels"][format!("{M}/rendered-machine-config")]);
        let number = rendered.rsplit('-').next().unwrap_or_default();
        Self {
            metadata,
            number: u32::from_str_radix(number, 16).unwrap(),
            is_first: metadata["annotations"]["mosb.dev/attempt"] == "1",
        }
    }

    /// False if what it needs to tell is not there yet, or no more.
    fn end(&self, world: &World, pod: &str) -> bool {
        let (result, status) = match self.number & 0xff {
            ends::NEVER => return true,
            ends::LOST if self.is_first => {
                let why = json!({ "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI" });
                (None, json!({ "phase": "Failed", "conditions": [why] }))
            }
            CRASHES if self.is_first => (None, json!({ "phase": "Failed" })),
            ends::FAILS => {
                let failed = json!({ "outcome": "Failed", "step": "image-build", "class": "user-input",
                    "reason": "bad-config", "message": "a test wants it to fail" });
                (Some(failed), json!({ "phase": "Failed" }))
            }
            _ => {
                let Some(text) = self.containerfile(world) else {
                    return false;
                };
                let digest = &world.images[image(self.number, Some(&text))];
                let method = &self.metadata["annotations"]["mosb.dev/method"];
                let succeeded =
                    json!({ "outcome": "Succeeded", "digest": digest, "method": method });
                (Some(succeeded), json!({ "phase": "Succeeded" }))
            }
        };
        if let Some(mut result) = result {
            let build = text(&self.metadata["annotations"][format!("{M}/machine-os-build")]);
            result["jobUid"] = self.metadata["uid"].clone();
            result["build"] = json!(build);
            let mut data = json!({ "result.json": result.to_string() });
            if let Some(digest) = result.get("digest") {
                data["digest"] = digest.clone();
            }
            let map = self.needs("digest-").unwrap();
            if world
                .proxy
                .ask("PATCH", &map, Some(&json!({ "data": data })))
                .0
                != 200
            {
                return false;
            }
        }
        // Job and pod may be gone by now, since the result is told.
        let pod = format!("{}/{pod}/status", in_namespace("pods"));
        world
            .proxy
            .ask("PATCH", &pod, Some(&json!({ "status": status })));
        true
    }

    /// A ConfigMap that its pod needs.
    fn needs(&self, prefix: &str) -> Option<String> {
        let needs = text(&self.metadata["annotations"]["mosb.dev/needs"]).split(' ');
        let mut maps = needs.filter_map(|need| need.strip_prefix("ConfigMap/"));
        let name = maps.find(|name| name.starts_with(prefix))?;
        Some(format!("{}/{name}", in_namespace("configmaps")))
    }

    /// The Containerfile that its pod is given; empty without one, none if it is gone.
    fn containerfile(&self, world: &World) -> Option<String> {
        let Some(map) = self.needs("containerfile-") else {
            return Some(String::new());
        };
        let (code, map) = world.proxy.ask("GET", &map, None);
        (code == 200).then(|| text(&map["data"]["Containerfile"]).to_owned())
    }
}
