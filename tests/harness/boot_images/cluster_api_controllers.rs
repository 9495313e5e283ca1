//! A stand-in for the controllers of Cluster API, which do not run here: it writes the status of
//! MachineDeployments. Each generation is observed, and the counts and condition `RollingOut` say
//! whether machines are being replaced.
//!
//! There are no MachineSets of MachineDeployments, and no machines: the test decides when they
//! would all have been replaced. The program `cluster_api` runs the real ones.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use super::cluster::{BootImageCluster, TENANT};
use super::kinds::{CLUSTER_API, ClusterApi};
use super::objects::condition;

/// What was seen of a MachineDeployment.
#[derive(Debug, Default)]
struct Deployment {
    observed_generation: i64,
    /// What its machines are made of.
    template: Value,
    /// How many it should have.
    replicas: Value,
    is_rolling_out: bool,
}

#[derive(Debug)]
pub struct ClusterApiControllers<'c> {
    cluster: &'c BootImageCluster,
    deployments: Mutex<BTreeMap<String, Deployment>>,
}

impl<'c> ClusterApiControllers<'c> {
    pub fn new(cluster: &'c BootImageCluster) -> Self {
        Self { cluster, deployments: Mutex::default() }
    }

    /// Observes each MachineDeployment that has changed. A roll-out begins with another template
    /// and lasts until [`Self::finish`]. With strategy `OnDelete`, machines that nobody deletes
    /// stay, so that `RollingOut` stays true.
    #[track_caller]
    pub fn observe(&self) {
        let kind = format!("machinedeployment.{CLUSTER_API}");
        let mut deployments = self.deployments.lock().unwrap_or_else(PoisonError::into_inner);
        for object in self.cluster.node.api().list(Some(TENANT), &kind, "") {
            let name = object["metadata"]["name"].as_str().unwrap();
            let generation = object["metadata"]["generation"].as_i64().unwrap();
            let one = deployments.entry(name.to_owned()).or_default();
            if one.observed_generation == generation {
                continue;
            }
            let template = object["spec"]["template"]["spec"]["infrastructureRef"].clone();
            let is_first = one.observed_generation == 0;
            one.is_rolling_out |= !is_first && one.template != template;
            one.observed_generation = generation;
            one.template = template;
            one.replicas = object["spec"]["replicas"].clone();
            self.report(name, one);
        }
    }

    /// All machines of a MachineDeployment have been replaced.
    #[track_caller]
    pub fn finish(&self, name: &str) {
        let mut deployments = self.deployments.lock().unwrap_or_else(PoisonError::into_inner);
        let one = deployments.get_mut(name).unwrap();
        assert!(one.is_rolling_out, "{name} does not roll out");
        one.is_rolling_out = false;
        self.report(name, one);
    }

    /// The MachineDeployments whose machines are being replaced.
    pub fn rolling_out(&self) -> Vec<String> {
        let deployments = self.deployments.lock().unwrap_or_else(PoisonError::into_inner);
        let rolling = deployments.iter().filter(|(_, one)| one.is_rolling_out);
        rolling.map(|(name, _)| name.clone()).collect()
    }

    #[track_caller]
    fn report(&self, name: &str, one: &Deployment) {
        let (rolling, updated) =
            if one.is_rolling_out { ("True", json!(0)) } else { ("False", one.replicas.clone()) };
        let conditions = json!([condition("RollingOut", rolling)]);
        let mut status =
            json!({ "observedGeneration": one.observed_generation, "replicas": one.replicas });
        match self.cluster.api_version {
            // The conditions of the older version know no roll-out.
            ClusterApi::V1Beta1 => {
                status["updatedReplicas"] = updated;
                status["v1beta2"] = json!({ "conditions": conditions });
            }
            ClusterApi::V1Beta2 => {
                status["upToDateReplicas"] = updated;
                status["conditions"] = conditions;
            }
        }
        let version = self.cluster.api_version.version();
        let target = format!(
            "/apis/{CLUSTER_API}/{version}/namespaces/{TENANT}/machinedeployments/{name}/status"
        );
        let api = self.cluster.node.api();
        let (code, answer) = api.ask("PATCH", &target, Some(&json!({ "status": status })));
        assert_eq!(code, 200, "{answer:#}");
    }
}
