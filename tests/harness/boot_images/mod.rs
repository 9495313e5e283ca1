//! Boot images of machine sets on a real API server, with CRDs of the tests: no cloud and no
//! OpenShift runs, and no controller of Cluster API but in a cluster that was asked for it. Elsewhere
//! [`ClusterApiControllers`] writes the status of MachineDeployments. Rights, versions, status
//! subresources and the refusal of changes to templates are the API server's own.

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
