//! A Cluster of Cluster API whose machines come from one template, and what the tests ask of it.

use std::collections::BTreeSet;
use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mosb_tests::boot_images::{
    BootImageCluster, CLUSTER_API_SETS, ClusterApi, TENANT, cluster_api_set, gcp_image,
    gcp_template, select_all,
};
use serde_json::{Value, json};

use super::provider;

/// The name of the Cluster.
const CLUSTER: &str = "prod";
/// The template that all sets have at first.
pub const TEMPLATE: &str = "workers";
/// The Secret with the Ignition config of new machines.
const STUB: &str = "worker-user-data";

/// The kind of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Deployment,
    Set,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Deployment => "MachineDeployment",
            Self::Set => "MachineSet",
        }
    }
}

/// A machine that is not being deleted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Machine {
    pub name: String,
    /// What the core controllers copied into its infrastructure machine from a template.
    pub image: String,
    pub is_available: bool,
}

/// The Cluster, with the images of release 2 published, and no controller of mosb yet.
pub struct Tenant {
    pub cluster: BootImageCluster,
}

impl Tenant {
    pub fn new() -> Self {
        Self::with(&["infrastructureRef", "controlPlaneRef"])
    }

    /// The same Cluster, which names no control plane. A machine of its own is one.
    pub fn without_control_plane() -> Self {
        let tenant = Self::with(&["infrastructureRef"]);
        for object in provider::control_plane_machine(CLUSTER, STUB) {
            tenant.cluster.apply(TENANT, &object);
        }
        tenant
    }

    /// A Cluster whose spec has these references to its infrastructure and control plane.
    fn with(references: &[&str]) -> Self {
        let cluster = BootImageCluster::with_core_controllers(2);
        cluster.readable_stub(TENANT, STUB);
        cluster.apply(TENANT, &workload_kubeconfig(&cluster));
        let mut spec = json!({});
        for (reference, part) in references.iter().zip(provider::cluster_parts(CLUSTER)) {
            let group = part["apiVersion"].as_str().unwrap().split('/').next();
            spec[reference] = json!({ "apiGroup": group, "kind": part["kind"], "name": CLUSTER });
            cluster.apply_with_status(Some(TENANT), &part);
        }
        let object = json!({ "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": { "name": CLUSTER }, "spec": spec });
        cluster.apply(TENANT, &object);
        cluster.apply(TENANT, &gcp_template(TEMPLATE, &gcp_image(1)));
        Self { cluster }
    }

    /// Makes a set with machines of the template, and returns them when all are available.
    pub fn set(
        &self,
        kind: Kind,
        name: &str,
        replicas: usize,
        edit: impl FnOnce(&mut Value),
    ) -> Vec<Machine> {
        let owner = json!({ "metadata": { "name": CLUSTER } });
        let template = gcp_template(TEMPLATE, "");
        let mut set = cluster_api_set(ClusterApi::V1Beta2, kind.word(), name, &owner, &template);
        // The core controllers write its owner.
        set["metadata"].as_object_mut().unwrap().remove("ownerReferences");
        set["spec"]["replicas"] = json!(replicas);
        edit(&mut set);
        self.cluster.apply(TENANT, &set);
        self.wait_for(kind, name, "the first machines", |machines| {
            machines.len() == replicas && have(machines, 1)
        })
    }

    /// The controller of mosb, for all sets of Cluster API.
    pub fn start_controller(&self) {
        self.cluster.settings(&select_all(&CLUSTER_API_SETS, &[]));
        self.cluster.start_controller();
    }

    /// Waits until this gives a value, while machines are provisioned.
    #[track_caller]
    pub fn wait<T>(&self, what: &str, found: impl Fn() -> Option<T>) -> T {
        self.cluster.wait(what, || {
            provider::provision(&self.cluster.node);
            found()
        })
    }

    /// Waits until a set has machines that are all available and fit.
    #[track_caller]
    pub fn wait_for(
        &self,
        kind: Kind,
        name: &str,
        what: &str,
        fit: impl Fn(&[Machine]) -> bool,
    ) -> Vec<Machine> {
        self.wait(&format!("{what} of {name}"), || {
            let machines = self.machines(kind, name);
            let are_available = machines.iter().all(|machine| machine.is_available);
            (are_available && fit(&machines)).then_some(machines)
        })
    }

    /// The machines of a set that have their infrastructure machine, by name.
    pub fn machines(&self, kind: Kind, name: &str) -> Vec<Machine> {
        let label = match kind {
            Kind::Deployment => "cluster.x-k8s.io/deployment-name",
            Kind::Set => "cluster.x-k8s.io/set-name",
        };
        let api = self.cluster.node.api();
        let all = api.list(Some(TENANT), "machines.cluster.x-k8s.io", &format!("{label}={name}"));
        let active = all.iter().filter(|one| one["metadata"]["deletionTimestamp"].is_null());
        let machine = |object: &Value| {
            let reference = object["spec"]["infrastructureRef"]["name"].as_str().unwrap();
            let infrastructure = api.find(Some(TENANT), "gcpmachine", reference)?;
            Some(Machine {
                name: object["metadata"]["name"].as_str().unwrap().to_owned(),
                image: infrastructure["spec"]["image"].as_str().unwrap().to_owned(),
                is_available: mosb_tests::condition(object, "Available"),
            })
        };
        let mut machines: Vec<_> = active.filter_map(machine).collect();
        machines.sort();
        machines
    }

    /// The template that a set refers to.
    pub fn template_of(&self, kind: Kind, name: &str) -> String {
        let kind = kind.word().to_lowercase();
        self.cluster.template_of(&format!("{kind}.cluster.x-k8s.io/{name}"))
    }
}

/// Whether there are machines, and all have the image of a release.
pub fn have(machines: &[Machine], release: u32) -> bool {
    !machines.is_empty() && machines.iter().all(|machine| machine.image == gcp_image(release))
}

/// The names that two states of a set have in common.
pub fn same(before: &[Machine], after: &[Machine]) -> usize {
    let names = |machines: &[Machine]| -> BTreeSet<String> {
        machines.iter().map(|machine| machine.name.clone()).collect()
    };
    names(before).intersection(&names(after)).count()
}

/// The Secret by which the core controllers reach the workload cluster, which is the same one.
fn workload_kubeconfig(cluster: &BootImageCluster) -> Value {
    let text = fs::read_to_string(cluster.node.kubeconfig()).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    let server = &mut config["clusters"][0]["cluster"];
    let authority = fs::read(server["certificate-authority"].as_str().unwrap()).unwrap();
    *server = json!({ "server": server["server"], "certificate-authority-data": STANDARD.encode(authority) });
    json!({ "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
        "metadata": { "name": format!("{CLUSTER}-kubeconfig"), "labels": { "cluster.x-k8s.io/cluster-name": CLUSTER } },
        "data": { "value": STANDARD.encode(config.to_string()) } })
}
