//! Boot images of machine sets on a real API server, with CRDs of the tests: no cloud and no
//! OpenShift runs. Cluster API's own controllers run in a cluster that is made
//! [with them](BootImageCluster::with_core_controllers); elsewhere [`ClusterApiControllers`] is a
//! stand-in that writes the status of MachineDeployments. The API server itself checks rights,
//! versions and status subresources, and rejects changes of templates.

mod cluster;
mod cluster_api_controllers;
mod kinds;
mod objects;

pub use cluster::{BootImageCluster, MOSB_NAMESPACE, TENANT};
pub use cluster_api_controllers::ClusterApiControllers;
pub use kinds::ClusterApi;
pub use objects::{
    CLUSTER_API_SETS, MACHINE_API_NAMESPACE, REGION, ROLL, ami, aws_control_plane, aws_machine_set,
    cluster, cluster_api_set, condition, gcp_image, gcp_template, golden, kubevirt_image,
    machine_template, metal_disk, release, select_all, stream, vmware_release,
};
