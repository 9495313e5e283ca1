//! Boot images of machine sets on a real API server, with CRDs of the tests: no cloud and no
//! OpenShift runs, and no controller of Cluster API but in a cluster that was asked for it. Rights,
//! versions, status subresources and the refusal of changes to templates are the API server's own.

mod cluster;
mod kinds;
mod objects;

pub use cluster::{BootImageCluster, MOSB_NAMESPACE, TENANT};
pub use kinds::ClusterApi;
pub use objects::{
    MACHINE_API_NAMESPACE, ami, aws_machine_set, cluster, cluster_api_set, condition, gcp_image,
    gcp_template, golden, release, stream,
};
