//! A pool of the benchmark that must run something: each config after the first is built on its
//! prepared base.

use mosb_tests::wait;

use super::Site;
use super::phases::Phases;
use crate::prepared::CONTAINERFILE;
use crate::test_cluster::build_pod::{assert_direct, recorded};
use crate::test_cluster::{BUILD, Cluster};

pub struct Customised<'c> {
    cluster: &'c Cluster,
    pool: String,
}

impl<'c> Customised<'c> {
    /// Creates the pool, and returns when its first image and its prepared base are there.
    pub fn create(site: &Site<'_>, cluster: &'c Cluster) -> Self {
        let pool = format!("{}-customised", cluster.pool);
        cluster.create_pool(&pool);
        cluster.pool_wants(&pool, &site.config(cluster, &pool));
        cluster.opt_in_pool(&pool, Some(CONTAINERFILE));
        cluster.node.wait(&format!("machineosconfig/{pool}"), BUILD, |config| {
            config["status"]["currentImagePullSpec"].is_string()
        });
        wait("the recorded prepared base", BUILD, || recorded(cluster).pop());
        Self { cluster, pool }
    }

    /// Gives the pool another config and measures the phases of its build, which runs nothing.
    pub fn round(&self, site: &Site<'_>) -> Phases {
        let phases = site.round(self.cluster, &self.pool);
        assert_direct(&phases.pod);
        phases
    }
}

impl Drop for Customised<'_> {
    fn drop(&mut self) {
        for kind in ["machineosconfig", "machineconfigpool"] {
            self.cluster.node.kubectl(&["delete", kind, &self.pool, "--wait=false"]);
        }
    }
}
