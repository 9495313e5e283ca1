//! A cluster that applies the writes of decisions, and checks the limits at each write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::api_server::{changed, json_patch, merge, refused};
use crate::decide::decide;
use crate::effect::{BootImageWrite, ObjectRef, Recorded};
use crate::memory::Memory;
use crate::plan::BootImagePlan;
use crate::pool_os::PoolOs;
use crate::snapshot::{BootImageSnapshot, GoldenState};
use mosb_api::ClusterSettings;
use mosb_boot_image::{Architecture, Golden};
use mosb_cluster::cluster_cache::{BootImageKind, SeenObject};
use mosb_cluster::secret_ref::SecretRef;
use mosb_cluster::user_data_secret::FoundSecret;
use mosb_types::Secret;

/// All kinds are managed.
pub const ALL: &str = "bootImages: {machineManagers: [
  {resource: machinesets, apiGroup: machine.openshift.io, selection: {mode: All}},
  {resource: controlplanemachinesets, apiGroup: machine.openshift.io, selection: {mode: All}},
  {resource: machinesets, apiGroup: cluster.x-k8s.io, selection: {mode: All}},
  {resource: machinedeployments, apiGroup: cluster.x-k8s.io, selection: {mode: All}}]";
pub const OLD: &str = "projects/fedora-coreos-cloud/global/images/fcos-41-1";
pub const NEW: &str = "projects/fedora-coreos-cloud/global/images/fcos-41-2";
pub const NAMESPACE: &str = "machines";

#[derive(Clone)]
pub struct FakeCluster {
    pub settings: String,
    pub objects: BTreeMap<(BootImageKind, String), Value>,
    pub golden: Value,
    /// By namespace and name; `null` for one that may not be read.
    pub secrets: BTreeMap<String, Value>,
    /// Those that have a MachineOSConfig.
    pub pools: Vec<PoolOs>,
    pub other_controller: Option<String>,
    /// Kinds that can't be listed.
    pub unread: BTreeMap<BootImageKind, String>,
    pub doubtful: BTreeMap<BootImageKind, String>,
    pub golden_doubt: Option<String>,
    /// Of the program's process.
    pub memory: Memory,
    /// Sets of which every write is refused.
    pub refused: BTreeSet<String>,
    /// Whether every write of an image is refused.
    pub refuses_images: bool,
    pub writes: Vec<String>,
    /// How many images were recorded as restored.
    pub restores: usize,
    clock: i64,
    version: i64,
}

impl FakeCluster {
    /// A cluster of Cluster API whose golden images are these.
    pub fn new(image: &str) -> Self {
        let mut cluster = Self {
            settings: format!("{ALL}}}"),
            objects: BTreeMap::new(),
            golden: Value::Null,
            secrets: BTreeMap::new(),
            pools: Vec::new(),
            other_controller: None,
            unread: BTreeMap::new(),
            doubtful: BTreeMap::new(),
            golden_doubt: None,
            memory: Memory::default(),
            refused: BTreeSet::new(),
            refuses_images: false,
            writes: Vec::new(),
            restores: 0,
            clock: 1_700_000_000,
            version: 0,
        };
        cluster.publish(image, "41.20250105.3.0");
        cluster
    }

    /// The images of another release.
    pub fn publish(&mut self, image: &str, release: &str) {
        let (project, name) = image.split_once("/global/images/").unwrap();
        let project = project.strip_prefix("projects/").unwrap();
        let stream = json!({ "stream": "stable", "architectures": { "x86_64": {
            "artifacts": { "gcp": { "release": release } },
            "images": { "gcp": { "release": release, "project": project, "name": name } },
        } } });
        self.golden = json!({ "stream": stream.to_string(), "releaseVersion": release });
    }

    pub fn put(&mut self, kind: BootImageKind, mut object: Value) {
        self.version += 1;
        let api_version = kind.resource("v1beta2").api_version;
        object["apiVersion"] = json!(api_version);
        object["kind"] = json!(kind.as_str());
        let meta = &mut object["metadata"];
        if meta["namespace"].is_null() {
            meta["namespace"] = json!(NAMESPACE);
        }
        let key =
            format!("{}/{}", meta["namespace"].as_str().unwrap(), meta["name"].as_str().unwrap());
        if meta["uid"].is_null() {
            meta["uid"] = json!(format!("{kind}/{key}"));
        }
        if meta["generation"].is_null() {
            meta["generation"] = json!(1);
        }
        meta["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert((kind, key), object);
    }

    /// A pool whose new machines get this OS, with their user data in this Secret.
    pub fn pool(&mut self, name: &str, os: Option<&str>, user_data: Option<&str>) {
        self.pools.retain(|pool| pool.pool != name);
        let user_data = user_data.map(|name| format!("{NAMESPACE}/{name}").parse().unwrap());
        let release = os.map(|text| text.parse().unwrap());
        self.pools.push(PoolOs { pool: name.to_owned(), user_data, release });
    }

    /// A Cluster that is available.
    pub fn cluster(&mut self, name: &str) {
        self.put(
            BootImageKind::Cluster,
            json!({ "metadata": { "name": name }, "spec": {},
                "status": { "conditions": [{ "type": "Available", "status": "True" }] } }),
        );
    }

    /// A template with this image.
    pub fn template(&mut self, name: &str, image: &str) {
        self.put(
            BootImageKind::GcpMachineTemplate,
            json!({ "metadata": { "name": name, "ownerReferences": [{ "kind": "Cluster",
                    "apiVersion": "cluster.x-k8s.io/v1beta2", "name": "c", "uid": "c" }] },
                "spec": { "template": { "spec": { "image": image, "instanceType": "n1" } } } }),
        );
    }

    /// A standalone MachineSet or a MachineDeployment with a template of its own name.
    pub fn set(&mut self, kind: BootImageKind, name: &str, image: &str) {
        self.cluster("c");
        self.template(&format!("{name}-t"), image);
        self.put(
            kind,
            json!({ "metadata": { "name": name, "ownerReferences": [{ "kind": "Cluster",
                    "apiVersion": "cluster.x-k8s.io/v1beta2", "name": "c", "uid": "c" }] },
                "spec": { "clusterName": "c", "template": { "spec": {
                    "bootstrap": { "configRef": { "kind": "KubeadmConfigTemplate" } },
                    "infrastructureRef": { "apiGroup": "infrastructure.cluster.x-k8s.io",
                        "kind": "GCPMachineTemplate", "name": format!("{name}-t") } } } },
                "status": { "observedGeneration": 1, "replicas": 3, "upToDateReplicas": 3 } }),
        );
    }

    /// Changes an object as another client.
    pub fn edit(&mut self, kind: BootImageKind, name: &str, edit: impl FnOnce(&mut Value)) {
        let key = (kind, format!("{NAMESPACE}/{name}"));
        let mut object = self.objects.remove(&key).expect("it exists");
        let before = object["spec"].clone();
        edit(&mut object);
        if object["spec"] != before {
            changed(&mut object);
        }
        self.put(kind, object);
    }

    pub fn annotate(&mut self, kind: BootImageKind, name: &str, key: &str, value: &str) {
        self.edit(kind, name, |object| object["metadata"]["annotations"][key] = json!(value));
    }

    /// The image that new machines of a set boot.
    pub fn image(&self, kind: BootImageKind, name: &str) -> String {
        let set = &self.objects[&(kind, format!("{NAMESPACE}/{name}"))];
        let template =
            set["spec"]["template"]["spec"]["infrastructureRef"]["name"].as_str().unwrap();
        let key = (BootImageKind::GcpMachineTemplate, format!("{NAMESPACE}/{template}"));
        let template = &self.objects[&key];
        template["spec"]["template"]["spec"]["image"].as_str().unwrap().to_owned()
    }

    /// The images in the record of a set, with their counts.
    pub fn record(&self, history: &str) -> Vec<(String, i64)> {
        let key = (BootImageKind::BootImageHistory, format!("{NAMESPACE}/{history}"));
        let details = self.objects[&key]["status"]["details"].as_array().unwrap().clone();
        let entry = |one: &Value| {
            (one["bootImageRef"].as_str().unwrap().to_owned(), one["count"].as_i64().unwrap())
        };
        details.iter().map(entry).collect()
    }

    pub fn snapshot(&self) -> BootImageSnapshot {
        let mut objects: BTreeMap<BootImageKind, BTreeMap<String, Arc<SeenObject>>> =
            BTreeMap::new();
        for ((kind, key), value) in &self.objects {
            let object: DynamicObject = serde_json::from_value(value.clone()).unwrap();
            let seen = SeenObject::new(*kind, object).unwrap();
            objects.entry(*kind).or_default().insert(key.clone(), Arc::new(seen));
        }
        let single = |kind| objects.get(&kind)?.values().next().cloned();
        let golden =
            serde_json::from_value::<Option<BTreeMap<String, String>>>(self.golden.clone());
        let settings = ClusterSettings::parse(&self.settings);
        BootImageSnapshot {
            settings: settings.map(|one| one.boot_images).map_err(|error| error.to_string()),
            golden: match golden.unwrap() {
                None => GoldenState::Missing,
                Some(data) => match Golden::parse(&data) {
                    Ok(golden) => GoldenState::Found(Box::new(golden)),
                    Err(error) => GoldenState::Unreadable(error.to_string()),
                },
            },
            golden_name: "mosb/coreos-bootimages".to_owned(),
            own_architecture: Some(Architecture::X86_64),
            other_controller: self.other_controller.clone(),
            unread: self.unread.clone(),
            doubtful: self.doubtful.clone(),
            golden_doubt: self.golden_doubt.clone(),
            machine_configuration: single(BootImageKind::MachineConfiguration),
            cluster_version: single(BootImageKind::ClusterVersion),
            infrastructure: single(BootImageKind::Infrastructure),
            status: single(BootImageKind::BootImageStatus),
            worker_pool: None,
            pools: self.pools.clone(),
            outdated: BTreeSet::new(),
            memory: self.memory.clone(),
            stubs: BTreeMap::new(),
            objects,
        }
    }

    /// So many seconds pass.
    pub fn wait(&mut self, seconds: i64) {
        self.clock += seconds;
    }

    /// The decision, with all lookups.
    pub fn decide(&mut self) -> BootImagePlan {
        self.clock += 1;
        let now = Timestamp::from_second(self.clock).unwrap();
        let mut snapshot = self.snapshot();
        for _ in 0..3 {
            let plan = decide(&snapshot, now);
            assert_eq!(plan, decide(&snapshot, now), "it is a function");
            if plan.lookups.is_empty() {
                return plan;
            }
            for secret in &plan.lookups {
                snapshot.stubs.insert(secret.clone(), self.secret(secret));
            }
        }
        panic!("lookups don't end");
    }

    pub fn secret(&self, name: &SecretRef) -> FoundSecret {
        let Some(object) = self.secrets.get(&name.to_string()) else { return FoundSecret::Missing };
        if object.is_null() {
            return FoundSecret::Forbidden("cannot get".to_owned());
        }
        let secret: k8s_openapi::api::core::v1::Secret =
            serde_json::from_value(object.clone()).unwrap();
        FoundSecret::Found(Box::new(Secret::new(secret.into())))
    }

    /// One pass; at most so many of its writes are applied.
    pub fn pass(&mut self, most: usize) -> BootImagePlan {
        let plan = self.decide();
        self.check(&plan);
        let writes = plan.sets.iter().filter_map(|set| Some((set, set.write.as_ref()?)));
        for (set, write) in writes.take(most) {
            let is_image = matches!(write, BootImageWrite::Patch { .. });
            let is_refused = self.refused.contains(&set.name) || self.refuses_images && is_image;
            let result = if is_refused { Err(refused(403)) } else { Ok(()) };
            let now = Timestamp::from_second(self.clock).unwrap();
            self.memory.record(write, &result, now);
            if !is_refused {
                self.apply(write);
            }
        }
        plan
    }

    /// Passes until nothing changes.
    pub fn settle(&mut self) -> BootImagePlan {
        self.settle_by(usize::MAX)
    }

    /// Passes that each end after so many writes, until nothing changes.
    pub fn settle_by(&mut self, most: usize) -> BootImagePlan {
        for _ in 0..200 {
            let plan = self.pass(most);
            if plan.sets.iter().all(|set| set.write.is_none()) {
                return plan;
            }
        }
        panic!("it does not settle: {:?}", self.writes);
    }

    /// The machines of all MachineDeployments are replaced.
    pub fn finish_rollouts(&mut self) {
        let names: Vec<String> = self
            .objects
            .iter()
            .filter(|((kind, _), _)| *kind == BootImageKind::MachineDeployment)
            .map(|(_, one)| one["metadata"]["name"].as_str().unwrap().to_owned())
            .collect();
        for name in names {
            self.edit(BootImageKind::MachineDeployment, &name, |one| {
                one["status"]["upToDateReplicas"] = one["status"]["replicas"].clone();
            });
        }
    }

    fn apply(&mut self, write: &BootImageWrite) {
        self.writes.push(write.to_string());
        match write {
            BootImageWrite::Status { target, fields, recorded } => {
                self.restores += usize::from(*recorded == Recorded::Restored);
                self.merge_status(target, fields);
            }
            BootImageWrite::Stub(write) => {
                let object = serde_json::to_value(&write.object.expose().0).unwrap();
                self.secrets.insert(write.secret.to_string(), object);
            }
            BootImageWrite::Create { kind, namespace, name, body, .. } => {
                let key = (*kind, format!("{namespace}/{name}"));
                if let Some(there) = self.objects.get(&key) {
                    assert_eq!(there["spec"], body["spec"]);
                    return;
                }
                self.put(*kind, body.clone());
            }
            BootImageWrite::Patch { target, operations } => self.patch(target, operations),
        }
    }

    /// A JSON patch of the version that was seen.
    pub fn patch(&mut self, target: &ObjectRef, operations: &[Value]) {
        let mut object = self.seen(target);
        let before = object["spec"].clone();
        json_patch(&mut object, operations);
        if object["spec"] != before {
            changed(&mut object);
            if target.kind == BootImageKind::MachineDeployment {
                object["status"]["upToDateReplicas"] = json!(0);
            }
        }
        self.put(target.kind, object);
    }

    /// A merge patch of the status of the version that was seen.
    pub fn merge_status(&mut self, target: &ObjectRef, fields: &Value) {
        let mut object = self.seen(target);
        merge(&mut object["status"], fields);
        self.put(target.kind, object);
    }

    fn seen(&mut self, target: &ObjectRef) -> Value {
        let key = (target.kind, format!("{}/{}", target.namespace, target.name));
        let object = self.objects.remove(&key).unwrap();
        assert_eq!(object["metadata"]["resourceVersion"], *target.resource_version);
        object
    }
}
