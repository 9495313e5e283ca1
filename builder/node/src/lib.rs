//! What a roll-out does on a machine: it reports what the machine runs, stages an image, and
//! reboots into it. Beside that, it lists which files of its image the machine hides. It runs in a
//! privileged container with the machine's process IDs, and knows nothing of Kubernetes, of other
//! machines, or of why an image is wanted.
//!
//! Input: a [`NodeTarget`](mosb_plan::api::rollout::NodeTarget) and the state of the machine.
//! Output: a [`NodeReport`](mosb_plan::api::rollout::NodeReport), or an [`Error`]. Invariant: each
//! command is idempotent and depends on the machine's state alone, so a container that was killed
//! anywhere is run again; an attempt of a target reboots a machine once.
//!
//! | file | holds |
//! | --- | --- |
//! | `host`, `host_root` | the machine: its programs; its files, without leaving its root |
//! | `tool`, `bootc_status`, `rpm_ostree_status`, `origin`, `deployments` | which images the machine has |
//! | `machine_state`, `report` | reading all of that; the report |
//! | `login`, `placed_login`, `leftover_login` | credentials of a registry; where the tools read them; removing them |
//! | `staging_unit`, `rpm_ostree_daemon` | the unit that stages an image; the daemon that does it |
//! | `stage`, `unstage` | staging an image, and removing one |
//! | `file_tree`, `drift` | a directory without its links; which files of its image the machine hides |
//! | `record`, `journal`, `finalization`, `next_step`, `apply` | rebooting into it, once an attempt |

mod apply;
mod bootc_status;
mod deployments;
mod drift;
mod error;
mod file_tree;
mod finalization;
mod host;
mod host_root;
mod journal;
mod leftover_login;
mod login;
mod machine_state;
mod next_step;
mod origin;
mod placed_login;
mod record;
mod report;
mod rpm_ostree_daemon;
mod rpm_ostree_status;
mod stage;
mod staging_unit;
mod tool;
mod unstage;

pub use apply::apply;
pub use drift::{Difference, Drift, HiddenPath, drift};
pub use error::Error;
pub use host::Host;
pub use login::Login;
pub use report::report;
pub use stage::stage;
