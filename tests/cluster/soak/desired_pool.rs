//! The desired state of a pool, and the comparison with its actual state.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::events::{Random, try_change};
use crate::fault_cluster::{ALONE, FaultCluster, M, ends, ours, text};
use crate::fault_stories::story::Pool;
use crate::test_cluster::state;

/// Results of Jobs and Pods, selected by the lower byte of the number of the rendered config.
pub const KINDS: [u32; 6] = [ends::ONE, ends::TWO, ends::FAILS, ends::NEVER, ends::LOST, CRASHES];
/// The first pod ends with an error and reports nothing.
pub const CRASHES: u32 = 0xc1;
/// The number of rendered configs with the same result. It is small, so that the number of builds
/// does not grow.
const VARIANTS: usize = 2;
/// Each Containerfile leads to another image than the one before it.
const CONTAINERFILES: [Option<&str>; 3] = [
    None,
    Some("FROM configs AS final\nLABEL soak=1\n"),
    Some("FROM configs AS final\nLABEL soak=2\n"),
];

pub struct DesiredPool {
    pub pool: String,
    number: u32,
    containerfile: usize,
    is_opted_in: bool,
    rendered: BTreeSet<u32>,
}

/// The index of the image that a Job or Pod pushes.
pub fn image(number: u32, containerfile: Option<&str>) -> usize {
    let is_two = number & 0xff == ends::TWO;
    let is_odd = containerfile.is_some_and(|text| text.contains("soak=1"));
    usize::from(is_two != is_odd)
}

impl DesiredPool {
    /// Creates a pool with a MachineOSConfig.
    pub fn begin(cluster: &FaultCluster, number: usize) -> Self {
        // The builds of every third pool are Pods.
        let kind = if number % 3 == 2 { ALONE } else { "pool" };
        let pool = format!("{kind}-soak-{number:02}");
        cluster.proxy.follow(&pool, &[]);
        cluster.pool(&pool, ends::ONE);
        let mut desired = Self {
            pool,
            number: ends::ONE,
            containerfile: 0,
            is_opted_in: false,
            rendered: [ends::ONE].into(),
        };
        desired.toggle(cluster);
        desired
    }

    /// Gives the pool a new or an earlier rendered config.
    pub fn renders(&mut self, cluster: &FaultCluster, random: &mut Random) {
        let variant = u32::try_from(random.below(VARIANTS)).unwrap();
        self.number = variant << 8 | random.one_of(&KINDS);
        if self.rendered.insert(self.number) {
            cluster.renders(&self.pool, self.number);
        } else {
            let rendered = format!("rendered-{}-{:032x}", self.pool, self.number);
            let change = json!({ "spec": { "configuration": { "name": rendered } } });
            cluster.change(&ours("machineconfigpools", &self.pool), &change);
        }
    }

    pub fn containerfile(&mut self, cluster: &FaultCluster, random: &mut Random) {
        self.containerfile = random.below(CONTAINERFILES.len());
        let change = json!({ "spec": { "containerFile": self.containerfiles() } });
        try_change(cluster, &ours("machineosconfigs", &self.pool), &change);
    }

    fn containerfiles(&self) -> Value {
        let text = CONTAINERFILES[self.containerfile];
        text.map_or(Value::Null, |text| json!([{ "containerfileArch": "NoArch", "content": text }]))
    }

    /// Creates or deletes the MachineOSConfig.
    pub fn toggle(&mut self, cluster: &FaultCluster) {
        if self.is_opted_in {
            cluster.delete(&ours("machineosconfigs", &self.pool));
        } else {
            let mut config = cluster.config(&self.pool);
            config["spec"]["containerFile"] = self.containerfiles();
            let (code, answer) =
                cluster.proxy.api().ask("POST", &ours("machineosconfigs", ""), Some(&config));
            // The deletion of the previous one may not be complete; a later event tries again.
            if code == 409 {
                return;
            }
            assert_eq!(code, 201, "{answer:#}");
        }
        self.is_opted_in = !self.is_opted_in;
    }

    /// Describes the difference between the desired and the actual state, if there is one.
    pub fn missing(&self, cluster: &FaultCluster, found: &Pool) -> Option<String> {
        let Pool { config, builds, runners, .. } = found;
        let named = &config["metadata"]["annotations"][format!("{M}/current-machine-os-build")];
        let current = builds.iter().find(|build| build["metadata"]["name"] == *named);
        let rendered = current.map_or("", |build| text(&build["spec"]["machineConfig"]["name"]));
        let is_this = rendered.ends_with(&format!("{:032x}", self.number));
        let image = &cluster.images[image(self.number, CONTAINERFILES[self.containerfile])];
        let is_there = match (self.is_opted_in, self.number & 0xff) {
            (false, _) => config.is_null() && builds.is_empty() && runners.is_empty(),
            (true, ends::FAILS) => {
                is_this
                    && current.is_some_and(|build| state(build) == "Failed")
                    && found.has_reason("BuildFailed")
            }
            (true, ends::NEVER) => is_this && found.runs(),
            (true, _) => {
                found.serves(self.number)
                    && text(&config["status"]["currentImagePullSpec"]).ends_with(image)
            }
        };
        let rebuilds = !config["metadata"]["annotations"][format!("{M}/rebuild")].is_null();
        (!is_there || rebuilds).then(|| {
            format!(
                "{}: number {:x}, Containerfile {}, opted in: {}; found {named} of {rendered} {}, {} builds, {} Jobs or Pods, rebuild asked for: {rebuilds}",
                self.pool,
                self.number,
                self.containerfile,
                self.is_opted_in,
                current.map(state).unwrap_or_default(),
                builds.len(),
                runners.len(),
            )
        })
    }

    /// Deletes the pool and its MachineOSConfig.
    pub fn end(&self, cluster: &FaultCluster) {
        cluster.delete(&ours("machineosconfigs", &self.pool));
        cluster.delete(&ours("machineconfigpools", &self.pool));
    }
}
