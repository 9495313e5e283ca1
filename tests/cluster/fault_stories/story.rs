//! The stories: what users do to a pool step by step, and the final state of its objects.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::fault_cluster::{FaultCluster, M, ends, in_namespace, kubelet, ours, text};
use crate::test_cluster::state;
use mosb_api::labels;

/// A sequence of changes to one pool.
pub struct Story {
    pub name: &'static str,
    pub stages: &'static [Stage],
    /// The index of the first stage that no earlier story contains.
    pub own: usize,
    /// The number of builds.
    pub builds: usize,
    /// The number of Jobs, or of Pods without a Job.
    pub runners: usize,
    /// Whether it is also played with Pods without Jobs.
    pub alone: bool,
}

/// A change by a user, and a check that the controller has reacted.
pub struct Stage {
    pub act: fn(&FaultCluster, &str),
    pub done: fn(&Pool) -> bool,
}

/// The objects of a pool.
#[derive(Debug, Default)]
pub struct Pool {
    pub config: Value,
    pub pool: Value,
    pub builds: Vec<Value>,
    pub runners: Vec<Value>,
}

pub const STORIES: &[Story] = &[
    Story {
        name: "first build",
        stages: &[Stage {
            act: |cluster, pool| begins(cluster, pool, ends::ONE),
            done: |pool| pool.serves(ends::ONE),
        }],
        own: 0,
        builds: 1,
        runners: 1,
        alone: true,
    },
    Story {
        name: "superseding",
        stages: &[
            Stage {
                act: |cluster, pool| begins(cluster, pool, ends::NEVER),
                done: |pool| pool.runs(),
            },
            Stage {
                act: |cluster, pool| cluster.renders(pool, ends::TWO),
                done: |pool| pool.serves(ends::TWO),
            },
        ],
        own: 1,
        builds: 2,
        runners: 2,
        alone: true,
    },
    Story {
        name: "failure and fix",
        stages: &[
            Stage {
                act: |cluster, pool| begins(cluster, pool, ends::FAILS),
                done: |pool| pool.has_reason("BuildFailed"),
            },
            Stage {
                act: |cluster, pool| cluster.renders(pool, ends::ONE),
                done: |pool| pool.serves(ends::ONE),
            },
        ],
        own: 0,
        builds: 2,
        runners: 2,
        alone: true,
    },
    Story {
        name: "rebuild",
        stages: &[
            Stage {
                act: |cluster, pool| begins(cluster, pool, ends::ONE),
                done: |pool| pool.serves(ends::ONE),
            },
            Stage {
                act: |cluster, pool| annotate(cluster, pool, &format!("{M}/rebuild"), ""),
                done: |pool| {
                    let annotations = &pool.config["metadata"]["annotations"];
                    annotations[format!("{M}/rebuild")].is_null()
                        && annotations["mosb.dev/rebuild-of"].is_null()
                        && pool.serves(ends::ONE)
                },
            },
        ],
        own: 1,
        builds: 2,
        runners: 2,
        alone: true,
    },
    Story {
        name: "opting out while building",
        stages: &[
            Stage {
                act: |cluster, pool| begins(cluster, pool, ends::ONE),
                done: |pool| pool.serves(ends::ONE),
            },
            Stage {
                act: |cluster, pool| cluster.renders(pool, ends::NEVER),
                done: |pool| pool.runs(),
            },
            Stage {
                act: |cluster, pool| cluster.delete(&ours("machineosconfigs", pool)),
                done: |pool| {
                    pool.config.is_null() && pool.builds.is_empty() && pool.runners.is_empty()
                },
            },
        ],
        own: 2,
        builds: 2,
        runners: 2,
        alone: true,
    },
    Story {
        name: "adoption",
        stages: &[
            Stage {
                act: |cluster, pool| {
                    begins(cluster, pool, ends::ONE);
                    annotate(cluster, pool, "mosb.dev/build-on", "os-change");
                },
                done: |pool| pool.serves(ends::ONE),
            },
            Stage {
                act: |cluster, pool| cluster.renders(pool, ends::TWO),
                done: |pool| pool.serves(ends::TWO),
            },
        ],
        own: 1,
        builds: 2,
        runners: 1,
        alone: true,
    },
    Story {
        name: "a lost pod",
        stages: &[Stage {
            act: |cluster, pool| begins(cluster, pool, ends::LOST),
            done: |pool| pool.serves(ends::LOST),
        }],
        own: 0,
        builds: 1,
        runners: 2,
        alone: true,
    },
    Story {
        name: "a prepared base",
        stages: &[
            Stage {
                act: |cluster, pool| {
                    cluster.pool(pool, ends::PREPARED);
                    // Pools with the same instructions share a prepared base.
                    let instructions = format!("FROM base\nRUN echo {pool}\n");
                    let mut config = cluster.config(pool);
                    config["spec"]["containerFile"] =
                        json!([{ "containerfileArch": "NoArch", "content": instructions }]);
                    cluster.make(&ours("machineosconfigs", ""), &config);
                },
                done: |pool| pool.serves(ends::PREPARED),
            },
            Stage {
                act: |cluster, pool| cluster.renders(pool, ends::TWO),
                done: |pool| pool.serves(ends::TWO) && pool.is_built("direct"),
            },
        ],
        own: 0,
        builds: 2,
        runners: 2,
        alone: false,
    },
];

fn begins(cluster: &FaultCluster, pool: &str, number: u32) {
    cluster.pool(pool, number);
    cluster.make(&ours("machineosconfigs", ""), &cluster.config(pool));
}

fn annotate(cluster: &FaultCluster, pool: &str, key: &str, value: &str) {
    let change = json!({ "metadata": { "annotations": { key: value } } });
    cluster.change(&ours("machineosconfigs", pool), &change);
}

impl Pool {
    /// Whether the image of the config with this number is in service and no work is left.
    pub fn serves(&self, number: u32) -> bool {
        let annotations = &self.config["metadata"]["annotations"];
        let named = &annotations[format!("{M}/current-machine-os-build")];
        let build = self.builds.iter().find(|build| build["metadata"]["name"] == *named);
        let rendered = format!("{number:032x}");
        let fits = |build: &Value| {
            let image = &build["status"]["digestedImagePushSpec"];
            state(build) == "Succeeded"
                && text(&build["spec"]["machineConfig"]["name"]).ends_with(&rendered)
                && self.config["status"]["currentImagePullSpec"] == *image
                && self.pool["metadata"]["annotations"][format!("{M}/newestImageEquivalentConfig")]
                    == *image
        };
        build.is_some_and(fits) && self.runners.is_empty() && self.has_reason("BuildSuccess")
    }

    /// Whether a build was made by this method.
    fn is_built(&self, method: &str) -> bool {
        let mut builds = self.builds.iter();
        builds.any(|build| build["metadata"]["annotations"]["mosb.dev/method"] == method)
    }

    /// Whether a runner has started and the pool reports it.
    pub fn runs(&self) -> bool {
        self.runners.iter().any(kubelet::has_started) && self.has_reason("Building")
    }

    /// Whether the pool's condition ImageBuildDegraded has this reason.
    pub fn has_reason(&self, reason: &str) -> bool {
        let conditions = self.pool["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|one| one["type"] == "ImageBuildDegraded" && one["reason"] == reason)
    }
}

/// The objects of all pools.
pub struct Seen {
    pub runners: Vec<Value>,
    pools: BTreeMap<String, Pool>,
}

impl Seen {
    pub fn of(cluster: &FaultCluster) -> Self {
        let mut pools: BTreeMap<String, Pool> = BTreeMap::new();
        let name = |object: &Value| text(&object["metadata"]["name"]).to_owned();
        for pool in cluster.all(&ours("machineconfigpools", "")) {
            let key = name(&pool);
            pools.entry(key).or_default().pool = pool;
        }
        for config in cluster.all(&ours("machineosconfigs", "")) {
            let key = name(&config);
            pools.entry(key).or_default().config = config;
        }
        for build in cluster.all(&ours("machineosbuilds", "")) {
            let key = text(&build["spec"]["machineOSConfig"]["name"]).to_owned();
            pools.entry(key).or_default().builds.push(build);
        }
        let runners = kubelet::runners(cluster);
        for runner in &runners {
            // A label may be truncated, so this reads the annotation.
            let annotations = &runner["metadata"]["annotations"];
            let key = text(&annotations[format!("{M}/machine-os-config")]).to_owned();
            pools.entry(key).or_default().runners.push(runner.clone());
        }
        Self { runners, pools }
    }

    pub fn pool(&mut self, name: &str) -> Pool {
        self.pools.remove(name).unwrap_or_default()
    }
}

const KINDS: [&str; 4] =
    ["machineconfigs", "machineconfigpools", "machineosconfigs", "machineosbuilds"];
/// The kinds of a build's workload and of the objects that it uses.
pub const SERVING: [&str; 7] =
    ["jobs", "pods", "configmaps", "secrets", "serviceaccounts", "roles", "rolebindings"];

/// All objects, with their kind.
pub fn all(cluster: &FaultCluster) -> Vec<(&'static str, Value)> {
    let of = |kind, collection: &str| {
        let all = cluster.all(collection).into_iter();
        all.map(move |object| (kind, object)).collect::<Vec<_>>()
    };
    let own = KINDS.into_iter().flat_map(|kind| of(kind, &ours(kind, "")));
    let serving = SERVING.into_iter().flat_map(|kind| of(kind, &in_namespace(kind)));
    own.chain(serving).collect()
}

/// Describes all objects of a pool without the parts that differ from pool to pool.
pub fn end(cluster: &FaultCluster, all: &[(&'static str, Value)], pool: &str) -> String {
    let mut found = Vec::new();
    for (kind, object) in all {
        let metadata = &object["metadata"];
        if !text(&metadata["name"]).contains(pool) {
            continue;
        }
        let owners = metadata["ownerReferences"].as_array();
        let owners = owners.into_iter().flatten().map(|owner| &owner["name"]);
        let mut compared = json!({ "kind": kind, "name": metadata["name"], "labels": metadata["labels"],
            "annotations": metadata["annotations"], "finalizers": metadata["finalizers"],
            "owners": owners.collect::<Vec<_>>(), "deleted": metadata["deletionTimestamp"].is_string() });
        if KINDS.contains(kind) {
            compared["spec"] = object["spec"].clone();
            compared["status"] = object["status"].clone();
        }
        let compared = serde_json::to_string_pretty(&without_chance(compared)).unwrap();
        let registry = &cluster.node.registry().host_port;
        let mut compared = compared.replace(pool, "POOL").replace(registry, "REGISTRY");
        for (number, image) in cluster.images.iter().enumerate() {
            compared = compared.replace(image, &format!("IMAGE {number}"));
        }
        found.push(without_hashes(&compared));
    }
    found.sort();
    found.join("\n")
}

/// Removes times and UIDs, which differ between two equal clusters.
pub fn without_chance(value: Value) -> Value {
    const CHANCE: [&str; 7] = [
        "lastTransitionTime",
        "buildStart",
        "buildEnd",
        "machineconfiguration.openshift.io/job-uid",
        "mosb.dev/not-before",
        "mosb.dev/rendered-from",
        "uid",
    ];
    match value {
        // The condition is absent or false, depending on whether the controller saw the pool before
        // its MachineOSConfig.
        Value::Array(all) => all
            .into_iter()
            .filter(|one| one["type"] != "Blocked" || one["status"] == "True")
            .map(without_chance)
            .collect(),
        Value::Object(all) => all
            .into_iter()
            .filter(|(key, _)| !CHANCE.contains(&key.as_str()))
            .map(|(key, value)| match (&*key, &value) {
                // When the image was checked.
                (labels::CHECKED, Value::String(record)) => {
                    let mut record: Value = serde_json::from_str(record).unwrap();
                    record["at"].take();
                    (key, record)
                }
                _ => (key, without_chance(value)),
            })
            .collect(),
        other => other,
    }
}

/// Replaces runs of 32 or 64 hex digits, which are hashes unless they are the number of a rendered
/// config.
pub fn without_hashes(text: &str) -> String {
    let mut out = String::new();
    for word in text.split_inclusive(|c: char| !c.is_ascii_hexdigit()) {
        let hash = word.trim_end_matches(|c: char| !c.is_ascii_hexdigit());
        let is_hash = [32, 64].contains(&hash.len()) && !hash.starts_with("00000000");
        if is_hash {
            out.push_str(&format!("HASH{}", &word[hash.len()..]))
        } else {
            out.push_str(word)
        }
    }
    out
}
