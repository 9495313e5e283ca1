//! Deletes images of pools that nothing needs any more from the registries that they were pushed to.
//!
//! Input: MachineOSBuilds, what names an image in the cluster, and the tags of the push repository.
//! Output: each image with the reasons to keep it, or its deletion.
//!
//! Invariants: no image is deleted that a machine booted, staged or can go back to, or that a pin, the
//! history, user data or a running build names. What is not known to be made by a build of this very
//! MachineOSConfig is left alone.
//!
//! | file | does |
//! | --- | --- |
//! | `judge` | facts and tags → what becomes of each image, and why it is kept |
//! | `batch` | which images one pass deletes, and whether it still may |
//! | `facts` | cluster → facts, and why nothing is deleted now |
//! | `prune` | lists, records and deletes |
//! | `decide`, `reconciler` | when the controller prunes, and what the condition says |
//! | `pool_images` | what `mosb images` prints |
//! | `registry_policy` | policies for registries that refuse deletion |

mod batch;
mod decide;
#[cfg(test)]
mod decide_tests;
mod facts;
#[cfg(test)]
mod facts_tests;
mod judge;
#[cfg(test)]
mod judge_tests;
mod pool_images;
#[cfg(test)]
mod property_tests;
mod prune;
mod reconciler;
mod registry_policy;

pub use decide::IMAGE_RETENTION_CONDITION;
pub use pool_images::{ImageState, PoolImage, PoolImages};
pub use prune::{PruneMode, PruneRequest, RetentionError, prune};
pub use reconciler::{RetentionMetrics, RetentionReconciler};
pub use registry_policy::{PolicyFormat, policy};
