//! Machine sets of Cluster API, in both versions of its contract.

use mosb_tests::boot_images::{
    BootImageCluster, CLUSTER_API_SETS, ClusterApi, ClusterApiControllers, ROLL, TENANT, cluster,
    cluster_api_set, condition, gcp_image, gcp_template, select_all,
};
use serde_json::{Value, json};

use super::{details, plain, reason_of};

const DEPLOYMENT: &str = "MachineDeployment";
const SET: &str = "MachineSet";

/// A Cluster whose sets have templates with the first image.
struct Tenant<'c> {
    cluster: &'c BootImageCluster,
    object: Value,
    controllers: ClusterApiControllers<'c>,
}

impl<'c> Tenant<'c> {
    fn new(cluster: &'c BootImageCluster, name: &str) -> Self {
        let object = self::cluster(cluster.api_version, name);
        let object = cluster.apply_with_status(Some(TENANT), &object);
        for template in ["prod-workers", "prod-others"] {
            cluster.apply(TENANT, &gcp_template(template, &gcp_image(1)));
        }
        Self { cluster, object, controllers: ClusterApiControllers::new(cluster) }
    }

    /// A set with machines of this template.
    fn set(&self, kind: &str, name: &str, template: &str, edit: impl FnOnce(&mut Value)) {
        let template = gcp_template(template, "");
        let mut set =
            cluster_api_set(self.cluster.api_version, kind, name, &self.object, &template);
        edit(&mut set);
        self.cluster.apply(TENANT, &set);
    }

    /// Writes the condition `Available` of the Cluster.
    fn set_available(&self, status: &str) {
        let mut object = self.object.clone();
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.retain(|field, _| field == "name");
        object["status"] = json!({ "conditions": [condition("Available", status)] });
        self.cluster.apply_with_status(Some(TENANT), &object);
    }

    fn get(&self, kind: &str, name: &str) -> Value {
        self.cluster.get(TENANT, &path(kind, name))
    }

    fn template_of(&self, kind: &str, name: &str) -> String {
        self.cluster.template_of(&path(kind, name))
    }

    fn image(&self, kind: &str, name: &str) -> String {
        let template = self.template_of(kind, name);
        let template = self.cluster.get(TENANT, &format!("gcpmachinetemplate/{template}"));
        template["spec"]["template"]["spec"]["image"].as_str().unwrap().to_owned()
    }

    /// Waits while the controllers of Cluster API answer.
    #[track_caller]
    fn wait(&self, what: &str, is_so: impl Fn() -> bool) {
        self.cluster.wait(what, || {
            self.controllers.observe();
            let rolling = self.controllers.rolling_out();
            let by_itself = rolling.iter().filter(|name| *name != "on-delete");
            assert!(by_itself.count() <= 1, "at the same time: {rolling:?}");
            is_so().then_some(())
        });
    }

    #[track_caller]
    fn wait_for_reason(&self, name: &str, part: &str) {
        self.wait(&format!("{name}: {part}"), || {
            reason_of(self.cluster, name).is_some_and(|reason| reason.contains(part))
        });
    }

    #[track_caller]
    fn wait_for_image(&self, kind: &str, name: &str) {
        self.wait(name, || {
            self.image(kind, name) == gcp_image(2) && details(self.cluster, TENANT, name).len() == 2
        });
        assert_eq!(details(self.cluster, TENANT, name), [gcp_image(1), gcp_image(2)], "{name}");
    }
}

#[test]
#[ignore = "make test-all: the older contract"]
fn sets_of_v1beta1_get_clones() {
    clones_and_roll_outs(ClusterApi::V1Beta1);
}

#[test]
fn sets_of_v1beta2_get_clones() {
    clones_and_roll_outs(ClusterApi::V1Beta2);
}

fn clones_and_roll_outs(version: ClusterApi) {
    let cluster = plain(version, 2);
    let tenant = Tenant::new(&cluster, "prod");
    let annotation =
        |key: &str, value: &str| json!({ ROLL: "true", key: value, "example.com/keep": "a" });
    let yes = |set: &mut Value| set["metadata"]["annotations"] = annotation(ROLL, "true");
    tenant.set(DEPLOYMENT, "first", "prod-workers", yes);
    tenant.set(DEPLOYMENT, "next", "prod-others", yes);
    tenant.set(DEPLOYMENT, "on-delete", "prod-workers", |set| match version {
        ClusterApi::V1Beta1 => set["spec"]["strategy"] = json!({ "type": "OnDelete" }),
        ClusterApi::V1Beta2 => {
            set["spec"]["rollout"] = json!({ "strategy": { "type": "OnDelete" } });
        }
    });
    tenant.set(SET, "alone", "prod-workers", |_| ());
    tenant.set(SET, "second", "prod-workers", |_| ());
    // None of these is changed.
    tenant.set(DEPLOYMENT, "stays", "prod-others", |_| ());
    tenant.set(SET, "of-stays", "prod-others", |set| {
        set["metadata"]["labels"] = json!({ "cluster.x-k8s.io/deployment-name": "stays" });
    });
    tenant.set(DEPLOYMENT, "class", "prod-others", |set| {
        yes(set);
        set["metadata"]["labels"] = json!({ "topology.cluster.x-k8s.io/owned": "" });
    });
    tenant.set(DEPLOYMENT, "paused", "prod-others", |set| {
        set["metadata"]["annotations"] = annotation("cluster.x-k8s.io/paused", "");
    });
    let untouched = [
        (DEPLOYMENT, "stays", ROLL),
        (SET, "of-stays", "MachineDeployment stays"),
        (DEPLOYMENT, "class", "ClusterClass"),
        (DEPLOYMENT, "paused", "paused"),
    ];

    // None while the Cluster is not available.
    tenant.set_available("False");
    tenant.controllers.observe();
    let generations = untouched.map(|(kind, name, _)| generation(&tenant.get(kind, name)));
    cluster.settings(&select_all(&CLUSTER_API_SETS, &[]));
    cluster.start_controller();
    for name in ["alone", "second", "first", "next", "on-delete"] {
        tenant.wait_for_reason(name, "Cluster tenant/prod is not available");
    }
    let templates = cluster.node.api().list(Some(TENANT), "gcpmachinetemplates", "");
    assert_eq!(templates.len(), 2, "{templates:#?}");

    tenant.set_available("True");
    tenant.wait_for_image(DEPLOYMENT, "first");
    tenant.wait_for_reason("next", "the machines of MachineDeployment first are being replaced");
    assert_eq!(tenant.template_of(DEPLOYMENT, "next"), "prod-others");
    tenant.controllers.finish("first");
    tenant.wait_for_image(DEPLOYMENT, "next");
    tenant.controllers.finish("next");
    for (kind, name) in [(SET, "alone"), (SET, "second"), (DEPLOYMENT, "on-delete")] {
        tenant.wait_for_image(kind, name);
    }
    let kept = &tenant.get(DEPLOYMENT, "first")["metadata"]["annotations"];
    assert_eq!(kept["example.com/keep"], "a");

    // One clone for all, beside the template, which older sets and a restore need.
    let clone = tenant.template_of(SET, "alone");
    assert!(clone.starts_with("prod-workers-"), "{clone}");
    for (kind, name) in [(SET, "second"), (DEPLOYMENT, "first"), (DEPLOYMENT, "on-delete")] {
        assert_eq!(tenant.template_of(kind, name), clone, "{name}");
    }
    let clone = cluster.get(TENANT, &format!("gcpmachinetemplate/{clone}"));
    assert_eq!(clone["metadata"]["labels"]["mosb.dev/boot-image-clone"], "true");
    let old = cluster.get(TENANT, "gcpmachinetemplate/prod-workers");
    assert_eq!(old["spec"]["template"]["spec"]["image"], json!(gcp_image(1)));
    for ((kind, name, part), before) in untouched.into_iter().zip(generations) {
        tenant.wait_for_reason(name, part);
        assert_eq!(generation(&tenant.get(kind, name)), before, "{name} is not written");
    }
}

/// As `machineset.cluster.x-k8s.io/a`.
fn path(kind: &str, name: &str) -> String {
    format!("{}.cluster.x-k8s.io/{name}", kind.to_lowercase())
}

fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap()
}
