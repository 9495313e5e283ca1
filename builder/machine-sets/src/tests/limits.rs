//! The limits of the writes of a decision, checked at each pass.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::fake_cluster::{FakeCluster, NAMESPACE};
use crate::effect::BootImageWrite;
use crate::plan::{BootImagePlan, Outcome};
use mosb_cluster::cluster_cache::BootImageKind;

impl FakeCluster {
    /// What holds at every write.
    pub fn check(&self, plan: &BootImagePlan) {
        let mut rolled = BTreeSet::new();
        for set in &plan.sets {
            // What failed before is tried again.
            let may_write = !matches!(set.outcome, Outcome::Waiting(_) | Outcome::Skipped { .. });
            assert!(may_write || set.write.is_none(), "{set:?}");
            if let Some(BootImageWrite::Patch { target, .. }) = &set.write
                && target.kind == BootImageKind::MachineDeployment
            {
                let object = &self.objects[&(target.kind, format!("{NAMESPACE}/{}", target.name))];
                let on_delete =
                    object.pointer("/spec/rollout/strategy/type") == Some(&json!("OnDelete"));
                let yes = object["metadata"]["annotations"]["mosb.dev/boot-image-roll"] == "true";
                assert!(yes || on_delete, "{}", target.name);
                if !on_delete {
                    let cluster = object["spec"]["clusterName"].to_string();
                    assert!(rolled.insert(cluster), "two at once: {}", target.name);
                    assert!(!self.is_rolling(), "one rolls already: {}", target.name);
                }
            }
        }
    }

    fn is_rolling(&self) -> bool {
        let deployments =
            self.objects.iter().filter(|((kind, _), _)| *kind == BootImageKind::MachineDeployment);
        let on_delete =
            |one: &Value| one.pointer("/spec/rollout/strategy/type") == Some(&json!("OnDelete"));
        deployments.map(|(_, one)| one).any(|one| {
            let status = &one["status"];
            !on_delete(one) && status["upToDateReplicas"].as_i64() < status["replicas"].as_i64()
        })
    }
}
