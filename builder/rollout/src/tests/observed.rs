//! What the cache and the lookups show of a fake cluster.

use super::fleet::*;
use super::machine::{FakeJob, FakeNode};
use crate::leaving_configs::PoolConfigs;
use crate::observe::{NO_POOL, updating_pools};
use crate::*;
use mosb_api::{MachineConfigPool, MachineOsConfig, Metadata, labels};
use mosb_cluster::cluster_cache::SeenMachine;
use mosb_registry::Confirmed;
use mosb_types::ErrorClass;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Fleet {
    /// What the cache and the lookups show of a pool.
    pub fn snapshot(&self, pool: &str) -> RolloutSnapshot {
        let known = self.pools.get(pool);
        let of_it = |config: &&MachineOsConfig| config.spec.machine_config_pool.name == pool;
        let configs = self.configs.values().filter(of_it).cloned().collect();
        let has_pool = known.is_some_and(|pool| !pool.metadata.is_being_deleted());
        let PoolConfigs { config, rivals, leaving } = PoolConfigs::of(configs, has_pool);
        let uid = config.as_ref().map(|config| config.metadata.uid()).unwrap_or_default();
        let of_pool = |node: &&FakeNode| {
            let is_of_none = !self.pools.contains_key(&node.pool);
            let has_job =
                || self.jobs.values().any(|job| job.seen.node_uid == node.machine.metadata.uid());
            node.pool == pool && known.is_some()
                || pool == NO_POOL && is_of_none && (node.slot().is_some() || has_job())
        };
        let missing = || {
            let metadata = Metadata { name: pool.to_owned(), ..Metadata::default() };
            MachineConfigPool { metadata, ..MachineConfigPool::default() }
        };
        let is_elsewhere = |job: &&FakeJob| {
            let node = self.nodes.get(&job.node);
            let is_limited = matches!(job.seen.verb, NodeVerb::Report | NodeVerb::Stage);
            is_limited
                && job.seen.phase == JobPhase::Running
                && node.is_some_and(|node| node.pool != pool && node.machine.ready)
        };
        let elsewhere = self.jobs.values().filter(is_elsewhere);
        let is_control_plane = |node: &&FakeNode| node.is_control_plane();
        let seen: Vec<SeenMachine> = self.nodes.values().map(|node| node.machine.clone()).collect();
        RolloutSnapshot {
            pool: known.cloned().unwrap_or_else(missing),
            is_pool_missing: known.is_none(),
            rivals,
            leaving,
            builds: self
                .builds
                .iter()
                .filter(|build| build.metadata.is_controlled_by(uid))
                .cloned()
                .collect(),
            machines: self.nodes.values().filter(of_pool).map(|node| self.seen(node)).collect(),
            cluster: ClusterMachines {
                own_node: self.own_node.clone(),
                own_image: self.own_image.clone(),
                nodes: self.nodes.len(),
                other_places: OtherPlaces::of(self.own_node.as_deref(), seen.iter()),
                slots: {
                    let mut slots = self.slots();
                    slots.retain(|node, _| !self.hidden_slots.contains(node));
                    slots
                },
                broken_watch: self.broken_watch.clone(),
                control_plane: self
                    .nodes
                    .values()
                    .filter(is_control_plane)
                    .map(|node| ControlPlaneNode {
                        name: node.machine.metadata.name.clone(),
                        uid: node.machine.metadata.uid().to_owned(),
                        resource_version: String::new(),
                        ready: node.machine.ready,
                        has_slot: node.slot().is_some(),
                    })
                    .collect(),
                jobs_elsewhere: elsewhere.map(|job| job.seen.clone()).collect(),
                updating_elsewhere: updating_pools(
                    &self.pools.values().cloned().map(Arc::new).collect::<Vec<_>>(),
                    pool,
                    |other| self.members(&other.metadata.name),
                ),
            },
            settings: self.settings,
            policy: self.policies.get(pool).cloned().unwrap_or_default(),
            lookup_results: RolloutLookupResults {
                checked_pods: self.checked_pods.clone(),
                ..RolloutLookupResults::default()
            },
            shared_nodes: self.shared_nodes.clone(),
            config,
            ..RolloutSnapshot::default()
        }
    }

    fn members(&self, pool: &str) -> (Vec<Arc<SeenMachine>>, String) {
        let nodes = self.nodes.values().filter(|node| node.pool == pool);
        let seen = nodes.map(|node| Arc::new(node.machine.clone()));
        let image = self.configs.get(pool).map(|one| one.status.current_image_pull_spec.clone());
        (seen.collect(), image.unwrap_or_default())
    }

    fn seen(&self, node: &FakeNode) -> Machine {
        let name = &node.machine.metadata.name;
        let is_shown = |job: &MachineJob| !self.hides_apply_jobs || job.verb != NodeVerb::Apply;
        let jobs = self.jobs.values().filter(|job| job.node == *name && is_shown(&job.seen));
        let mut machine = node.machine.clone();
        if self.hidden_slots.contains(name) {
            machine.metadata.annotations.remove(labels::NODE_SLOT);
            machine.unschedulable = false;
        }
        Machine {
            node: machine,
            jobs: jobs.map(|job| job.seen.clone()).collect(),
            drain: self.drains.get(&node.pool).and_then(|drains| drains.get(name)).cloned(),
        }
    }

    fn slots(&self) -> BTreeMap<String, String> {
        let slot = |node: &FakeNode| {
            let metadata = &node.machine.metadata;
            Some((metadata.name.clone(), metadata.annotation(labels::NODE_SLOT)?.to_owned()))
        };
        self.nodes.values().filter_map(slot).collect()
    }

    pub fn look_up(&mut self, lookup: &RolloutLookup, results: &mut RolloutLookupResults) {
        self.asked.push(lookup.clone());
        match lookup {
            RolloutLookup::Image(_) | RolloutLookup::StockImage(_) if self.is_registry_silent => {
                results.pending.insert(lookup.clone());
            }
            RolloutLookup::Image(image) => {
                let found = if self.is_login_refused {
                    TargetImage::Unknown(mosb_reconcile::Problem {
                        class: ErrorClass::Rejected,
                        reason: "push-login".to_owned(),
                        message: "a login that pushes".to_owned(),
                    })
                } else if self.is_registry_down {
                    TargetImage::Unknown(problem("reg.example: no answer"))
                } else {
                    // Those of the machines that it is for.
                    let is_amd64 = |node: &FakeNode| {
                        let architecture = node.machine.metadata.labels.get("kubernetes.io/arch");
                        node.pool != "other" && architecture.is_some_and(|it| it == "amd64")
                    };
                    let wanted = self.nodes.values().filter(|node| is_amd64(node));
                    let platforms = wanted.map(|_| "linux/amd64".parse().unwrap()).collect();
                    TargetImage::Present { image: Confirmed::in_a_test(image.clone()), platforms }
                };
                results.images.insert(image.clone(), found);
            }
            RolloutLookup::StockImage(rendered) => {
                let found = if self.is_stock_unknown {
                    Err(problem(&format!(
                        "the API server: no answer on {}",
                        self.now.strftime("%F")
                    )))
                } else {
                    Ok(image(STOCK_IMAGE))
                };
                results.stock_images.insert(rendered.clone(), found);
            }
            RolloutLookup::MachinePart(rendered) => {
                let part = self.parts[&rendered.to_string()];
                results.machine_parts.insert(rendered.clone(), Ok(part));
            }
            RolloutLookup::ControlPlane => {
                results.control_plane = Some(match &self.unhealthy {
                    Some(why) => ControlPlaneHealth::Unhealthy(why.clone()),
                    None => ControlPlaneHealth::Healthy { is_etcd_external: self.is_etcd_external },
                });
            }
            RolloutLookup::Slots => results.slots = Some(Ok(self.slots())),
            RolloutLookup::Pods { node } => {
                let mut pods = self.nodes[node].pods.clone();
                pods.retain(|pod| !pod.stays());
                let failed = self.is_pod_list_failing.then(|| problem("no answer"));
                results.pods.insert(node.clone(), failed.map_or(Ok(pods), Err));
            }
            RolloutLookup::Alerts(_) if self.is_prometheus_silent => {
                results.pending.insert(lookup.clone());
            }
            RolloutLookup::Alerts(alerts) => {
                results.alerts.insert(alerts.clone(), self.alerts.clone());
            }
            RolloutLookup::CheckedPods { node, check } => {
                let failed = self.is_pod_list_failing.then(|| problem("no answer"));
                let found = failed.map_or(Ok(self.nodes[node].checked_pods.clone()), Err);
                let pods = CheckedPods { at: self.now, found };
                self.checked_pods.insert((node.clone(), check.clone()), pods.clone());
                results.checked_pods.insert((node.clone(), check.clone()), pods);
            }
        }
    }
}
