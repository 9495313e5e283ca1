//! MachineDeployments and standalone MachineSets of Cluster API, in both versions of its contract.

use mosb_tests::boot_images::{
    BootImageCluster, ClusterApi, TENANT, ami, aws_template, cluster, cluster_api_set, condition,
};
use serde_json::{Value, json};

use super::{details, is_skipped, plain};

const ROLL: &str = "mosb.dev/boot-image-roll";

fn selection() -> Value {
    let all = |resource: &str| json!({ "resource": resource, "apiGroup": "cluster.x-k8s.io", "selection": { "mode": "All" } });
    json!({ "machineManagers": [all("machinesets"), all("machinedeployments")], "stockImages": [ami(1)] })
}

struct Tenant<'c> {
    cluster: &'c BootImageCluster,
    object: Value,
}

impl<'c> Tenant<'c> {
    fn new(cluster: &'c BootImageCluster, name: &str) -> Self {
        let object = self::cluster(cluster.api_version, name);
        let object = cluster.apply_with_status(Some(TENANT), &object);
        for (template, image) in [("workers", ami(1)), ("others", ami(1))] {
            cluster.apply(TENANT, &aws_template(&format!("{name}-{template}"), &image));
        }
        Self { cluster, object }
    }

    /// A set with machines of this template.
    fn set(&self, kind: &str, name: &str, template: &str, edit: impl FnOnce(&mut Value)) {
        let template = aws_template(template, "");
        let mut set =
            cluster_api_set(self.cluster.api_version, kind, name, &self.object, &template);
        edit(&mut set);
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
        let template = self.cluster.get(TENANT, &format!("awsmachinetemplate/{template}"));
        template["spec"]["template"]["spec"]["ami"]["id"].as_str().unwrap().to_owned()
    }
}

#[test]
fn templates_are_cloned_and_only_deployments_that_said_so_roll() {
    for version in [ClusterApi::V1Beta2, ClusterApi::V1Beta1] {
        let cluster = plain(version, 2);
        let tenant = Tenant::new(&cluster, "prod");
        let yes = |set: &mut Value| set["metadata"]["annotations"] = json!({ ROLL: "true" });
        tenant.set("MachineDeployment", "rolls", "prod-workers", yes);
        tenant.set("MachineDeployment", "stays", "prod-others", |_| ());
        tenant.set("MachineDeployment", "on-delete", "prod-workers", |set| match version {
            ClusterApi::V1Beta1 => set["spec"]["strategy"] = json!({ "type": "OnDelete" }),
            ClusterApi::V1Beta2 => {
                set["spec"]["rollout"] = json!({ "strategy": { "type": "OnDelete" } })
            }
        });
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
        let switched = [
            ("MachineDeployment", "rolls"),
            ("MachineDeployment", "on-delete"),
            ("MachineSet", "alone"),
        ];
        for (kind, name) in switched {
            cluster.wait(name, || (tenant.image(kind, name) == ami(2)).then_some(()));
            cluster.wait(name, || (details(&cluster, TENANT, name).len() == 2).then_some(()));
            assert_eq!(details(&cluster, TENANT, name), [ami(1), ami(2)]);
        }
        // One clone for all, beside the template, which older sets and a restore need.
        let names: Vec<_> = switched.map(|(kind, name)| tenant.template_of(kind, name)).into();
        assert!(
            names.iter().all(|name| *name == names[0] && name.starts_with("prod-workers-")),
            "{names:?}"
        );
        let clone = cluster.get(TENANT, &format!("awsmachinetemplate/{}", names[0]));
        assert_eq!(clone["metadata"]["labels"]["mosb.dev/boot-image-clone"], "true");
        let old = cluster.get(TENANT, "awsmachinetemplate/prod-workers");
        assert_eq!(old["spec"]["template"]["spec"]["ami"]["id"], json!(ami(1)));
        cluster.wait("skipped sets", || {
            is_skipped(&cluster, &["stays", "of-stays", "class", "paused"]).then_some(())
        });
        for name in ["stays", "class", "paused"] {
            assert_eq!(tenant.template_of("MachineDeployment", name), "prod-others");
        }
        assert_eq!(tenant.template_of("MachineSet", "of-stays"), "prod-others");
    }
}

#[test]
fn one_deployment_of_a_cluster_rolls_at_a_time_and_none_while_the_cluster_changes() {
    let version = ClusterApi::V1Beta2;
    let cluster = plain(version, 2);
    let tenant = Tenant::new(&cluster, "prod");
    let yes = |set: &mut Value| {
        set["metadata"]["annotations"] = json!({ ROLL: "true" });
        set["status"] = json!({ "conditions": [condition("RollingOut", "False")] });
    };
    tenant.set("MachineDeployment", "a", "prod-workers", yes);
    tenant.set("MachineDeployment", "b", "prod-others", yes);
    let unavailable = |status: &str| {
        let mut object = self::cluster(version, "prod");
        object["status"] = json!({ "conditions": [condition("Available", status)] });
        cluster.apply_with_status(Some(TENANT), &object);
    };
    unavailable("False");
    cluster.settings(&selection());
    cluster.start_controller();
    cluster.wait("both to wait", || is_skipped(&cluster, &["a", "b"]).then_some(()));
    assert_eq!(tenant.image("MachineDeployment", "a"), ami(1));
    unavailable("True");
    cluster.wait("a", || (tenant.image("MachineDeployment", "a") == ami(2)).then_some(()));
    // Its own controller says that it rolls out.
    let rolling = |set: &mut Value, status: &str| {
        set["metadata"]["annotations"] = json!({ ROLL: "true" });
        set["status"] = json!({ "conditions": [condition("RollingOut", status)] });
    };
    let template = tenant.template_of("MachineDeployment", "a");
    tenant.set("MachineDeployment", "a", &template, |set| rolling(set, "True"));
    cluster.set_release(3);
    cluster.wait("b to wait", || is_skipped(&cluster, &["b"]).then_some(()));
    tenant.set("MachineDeployment", "a", &template, |set| rolling(set, "False"));
    for name in ["a", "b"] {
        cluster.wait(name, || (tenant.image("MachineDeployment", name) == ami(3)).then_some(()));
    }
}
