//! The boot images of machine sets: what new machines boot, kept at what the release says.
//!
//! Input: machine sets of OpenShift's machine API and of Cluster API with what they refer to, the
//! ConfigMap with the images of the release, and the settings. Output: another image in a set or a
//! template, stubs that this image can read, a BootImageHistory for each set, and conditions.
//!
//! Invariants: an image that is not proven to be one of a stream is never replaced. The machines of
//! a MachineDeployment are replaced only with its own yes, and of one MachineDeployment of a Cluster
//! at a time. Each set gets one write in a pass, the next of its order, with the version that was
//! decided on; so a controller that ends anywhere goes on from what exists. Nothing is written of a
//! kind that a machine-config-controller manages. Contents of Secrets are in no log, condition or
//! `Debug`.
//!
//! | file | does |
//! | --- | --- |
//! | `snapshot`, `observe` | the input of a decision; cache → snapshot |
//! | `machine_set` | reads a machine set |
//! | `unread` | what is not known, and which sets wait for it |
//! | `eligibility`, `stability` | which sets are left alone; when nothing is changed |
//! | `pool_os` | the OS that new machines get after their boot image |
//! | `judge` | the image of a set, what proves it, and the one that it should have |
//! | `decide`, `plan`, `obstacle` | snapshot → what happens to each set |
//! | `next_write`, `limits` | the next write of a set, in order; what all sets share |
//! | `history`, `record`, `pin` | the record of a set and its next write; a restored image stays |
//! | `template` | the new template of a set of Cluster API |
//! | `stub` | the Ignition config that new machines begin with |
//! | `stub_expiry` | when its CA expires |
//! | `report`, `report_events`, `worker_pool`, `figures` | what is reported |
//! | `decision` | plan → lookups and actions |
//! | `effect`, `execute` | a write, and how it is sent |
//! | `memory` | what the next passes need to know of writes and reads |
//! | `lookups` | reads Secrets |
//! | `reconciler` | gives these functions to the driver |
//! | `view` | what `mosb boot-images` shows and changes |

mod decide;
mod decision;
mod effect;
mod eligibility;
mod execute;
mod figures;
mod history;
mod judge;
mod limits;
mod lookups;
mod machine_set;
mod memory;
mod metrics;
mod next_write;
mod observe;
mod obstacle;
mod pin;
mod plan;
mod pool_os;
mod reconciler;
mod record;
mod report;
mod report_events;
mod rolling;
mod snapshot;
mod stability;
mod stub;
mod stub_expiry;
mod template;
mod unread;
mod view;
mod worker_pool;

#[cfg(test)]
mod tests;

pub use figures::{BootImageFigures, ExpiringStub, SkewFigures};
pub use metrics::BootImageMetrics;
pub use reconciler::BootImageReconciler;
pub use view::{
    BootImageChange, BootImageRequest, BootImageRequestError, BootImagesView, HistoryView, SetView,
    boot_image_change, boot_image_history, boot_image_rbac, boot_images, change_boot_image,
};

/// Name of the only BootImageStatus.
const STATUS_NAME: &str = "cluster";
