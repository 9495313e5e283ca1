//! Standalone MachineSets of Cluster API, in both versions of its contract. No controller of Cluster
//! API runs here; the program `cluster_api` tests MachineDeployments that roll.

use mosb_tests::boot_images::{
    BootImageCluster, ClusterApi, TENANT, cluster, cluster_api_set, gcp_image, gcp_template,
};
use serde_json::{Value, json};

use super::{details, is_skipped, plain};

const ROLL: &str = "mosb.dev/boot-image-roll";

fn selection() -> Value {
    let all = |resource: &str| json!({ "resource": resource, "apiGroup": "cluster.x-k8s.io", "selection": { "mode": "All" } });
    json!({ "machineManagers": [all("machinesets"), all("machinedeployments")] })
}

struct Tenant<'c> {
    cluster: &'c BootImageCluster,
    object: Value,
}

impl<'c> Tenant<'c> {
    fn new(cluster: &'c BootImageCluster, name: &str) -> Self {
        let object = self::cluster(cluster.api_version, name);
        let object = cluster.apply_with_status(Some(TENANT), &object);
        for (template, image) in [("workers", gcp_image(1)), ("others", gcp_image(1))] {
            cluster.apply(TENANT, &gcp_template(&format!("{name}-{template}"), &image));
        }
        Self { cluster, object }
    }

    /// A set with machines of this template.
    fn set(&self, kind: &str, name: &str, template: &str, edit: impl FnOnce(&mut Value)) {
        let template = gcp_template(template, "");
        let mut set =
            cluster_api_set(self.cluster.api_version, kind, name, &self.object, &template);
        edit(&mut set);
        // Its own controller has seen it and made its machine.
        set["status"] = json!({ "observedGeneration": 1, "replicas": 1, "upToDateReplicas": 1 });
        self.cluster.apply_with_status(Some(TENANT), &set);
    }

    fn template_of(&self, kind: &str, name: &str) -> String {
        let set =
            self.cluster.get(TENANT, &format!("{}.cluster.x-k8s.io/{name}", kind.to_lowercase()));
        let reference = &set["spec"]["template"]["spec"]["infrastructureRef"];
        reference["name"].as_str().unwrap().to_owned()
    }

    fn image(&self, kind: &str, name: &str) -> String {
        let template = self.template_of(kind, name);
        let template = self.cluster.get(TENANT, &format!("gcpmachinetemplate/{template}"));
        template["spec"]["template"]["spec"]["image"].as_str().unwrap().to_owned()
    }
}

#[test]
fn standalone_sets_share_a_clone_of_their_template_and_no_deployment_rolls() {
    for version in [ClusterApi::V1Beta2, ClusterApi::V1Beta1] {
        let cluster = plain(version, 2);
        let tenant = Tenant::new(&cluster, "prod");
        tenant.set("MachineDeployment", "stays", "prod-others", |_| ());
        tenant.set("MachineSet", "second", "prod-workers", |_| ());
        tenant.set("MachineSet", "alone", "prod-workers", |_| ());
        tenant.set("MachineSet", "of-stays", "prod-others", |set| {
            set["metadata"]["labels"] = json!({ "cluster.x-k8s.io/deployment-name": "stays" });
        });
        tenant.set("MachineDeployment", "class", "prod-others", |set| {
            set["metadata"]["labels"] = json!({ "topology.cluster.x-k8s.io/owned": "" });
            set["metadata"]["annotations"] = json!({ ROLL: "true" });
        });
        tenant.set("MachineDeployment", "paused", "prod-others", |set| {
            set["metadata"]["annotations"] = json!({ ROLL: "true", "cluster.x-k8s.io/paused": "" });
        });
        cluster.settings(&selection());
        cluster.start_controller();
        let switched = [("MachineSet", "alone"), ("MachineSet", "second")];
        for (kind, name) in switched {
            cluster.wait(name, || (tenant.image(kind, name) == gcp_image(2)).then_some(()));
            cluster.wait(name, || (details(&cluster, TENANT, name).len() == 2).then_some(()));
            assert_eq!(details(&cluster, TENANT, name), [gcp_image(1), gcp_image(2)]);
        }
        // One clone for all, beside the template, which older sets and a restore need.
        let names: Vec<_> = switched.map(|(kind, name)| tenant.template_of(kind, name)).into();
        assert!(
            names.iter().all(|name| *name == names[0] && name.starts_with("prod-workers-")),
            "{names:?}"
        );
        let clone = cluster.get(TENANT, &format!("gcpmachinetemplate/{}", names[0]));
        assert_eq!(clone["metadata"]["labels"]["mosb.dev/boot-image-clone"], "true");
        let old = cluster.get(TENANT, "gcpmachinetemplate/prod-workers");
        assert_eq!(old["spec"]["template"]["spec"]["image"], json!(gcp_image(1)));
        cluster.wait("skipped sets", || {
            is_skipped(&cluster, &["stays", "of-stays", "class", "paused"]).then_some(())
        });
        for name in ["stays", "class", "paused"] {
            assert_eq!(tenant.template_of("MachineDeployment", name), "prod-others");
        }
        assert_eq!(tenant.template_of("MachineSet", "of-stays"), "prod-others");
    }
}
