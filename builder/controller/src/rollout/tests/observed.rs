//! What the cache and the lookups show of a fake cluster.

use super::fleet::*;
use super::machine::FakeNode;
use crate::rollout::*;
use mosb_registry::Confirmed;

impl Fleet {
    /// What the cache and the lookups show of a pool.
    pub fn snapshot(&self, pool: &str) -> RolloutSnapshot {
        let config = self.configs.get(pool);
        let uid = config.map(|config| config.metadata.uid()).unwrap_or_default();
        let of_pool = |node: &&FakeNode| node.pool == pool;
        let elsewhere = |verb: NodeVerb| {
            let jobs = self.jobs.values();
            jobs.filter(|job| {
                let node = self.nodes.get(&job.node);
                job.seen.verb == verb
                    && job.seen.phase == JobPhase::Running
                    && node.is_some_and(|node| node.pool != pool)
            })
            .count()
        };
        let is_control_plane = |node: &&FakeNode| node.is_control_plane();
        RolloutSnapshot {
            pool: self.pools[pool].clone(),
            config: config.cloned(),
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
                schedulable_nodes: self
                    .nodes
                    .values()
                    .filter(|node| !node.machine.unschedulable || node.slot().is_some())
                    .count(),
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
                staging_elsewhere: [("reg.example".to_owned(), elsewhere(NodeVerb::Stage))].into(),
                reporting_elsewhere: elsewhere(NodeVerb::Report),
            },
            settings: self.settings,
            ..RolloutSnapshot::default()
        }
    }

    fn seen(&self, node: &FakeNode) -> Machine {
        let name = &node.machine.metadata.name;
        let jobs = self.jobs.values().filter(|job| job.node == *name);
        Machine {
            jobs: jobs.map(|job| job.seen.clone()).collect(),
            refusals: self
                .refusals
                .get(&node.pool)
                .and_then(|refusals| refusals.get(name))
                .cloned()
                .unwrap_or_default(),
            ..node.machine.clone()
        }
    }

    pub fn look_up(&mut self, lookup: &RolloutLookup, results: &mut RolloutLookupResults) {
        self.asked.push(lookup.clone());
        match lookup {
            RolloutLookup::Image(image) => {
                let found = if self.is_registry_down {
                    TargetImage::Unknown(problem("reg.example: no answer"))
                } else {
                    let platforms = ["linux/amd64".parse().unwrap()].into();
                    TargetImage::Present { image: Confirmed::in_a_test(image.clone()), platforms }
                };
                results.images.insert(image.clone(), found);
            }
            RolloutLookup::StockImage(rendered) => {
                results.stock_images.insert(rendered.clone(), Ok(image(STOCK_IMAGE)));
            }
            RolloutLookup::ControlPlane => {
                results.control_plane = Some(match &self.unhealthy {
                    Some(why) => ControlPlaneHealth::Unhealthy(why.clone()),
                    None => ControlPlaneHealth::Healthy { is_etcd_external: false },
                });
            }
            RolloutLookup::Pods { node } => {
                let pods = self.nodes[node].pods.clone();
                results.pods.insert(node.clone(), Ok(pods));
            }
        }
    }
}
