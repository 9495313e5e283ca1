//! What a roll-out does on a machine: it reports what the machine runs, stages an image with its
//! kernel arguments, reboots into it, and gives the user `core` its SSH keys and its password. Beside
//! that, it lists which files of its image the machine hides, and adopts files that its first config
//! wrote. It runs in a privileged container with the machine's process IDs, and knows nothing of
//! Kubernetes, of other machines, or of why an image is wanted.
//!
//! Input: a [`DesiredState`] and the state of the machine. Output: a
//! [`NodeReport`](mosb_api::rollout::NodeReport), or an [`Error`]. Invariant: each command is
//! idempotent and depends on the machine's state alone, so a container that was killed anywhere is
//! run again; an attempt of a target reboots a machine once.
//!
//! | file | holds |
//! | --- | --- |
//! | `host`, `host_root` | the machine: its programs; its files, without leaving its root |
//! | `bootc_status`, `rpm_ostree_status`, `deployments`, `deployment_folder` | which images the machine has; where |
//! | `machine_state`, `report` | reading all of that, and with which tool; the report |
//! | `desired_state`, `pull_access` | what a command brings the machine to; what an image is pulled with |
//! | `placed_login`, `placed_settings` | where the tools read the login and the settings |
//! | `signature_policy` | whether they verify the image, and whether they refused it |
//! | `staging_unit`, `unit_output`, `rpm_ostree_daemon` | the unit that stages an image; what it wrote; the daemon that does it |
//! | `update_units` | units of the machine that would update it by themselves |
//! | `kernel_arguments`, `target_fit` | what changes in them, and who changes it; what a machine lacks of its target |
//! | `stage`, `unstage`, `boot_space`, `etc_merge` | staging an image; taking the next boot from another one; space for its kernel; whether it can be merged |
//! | `ssh_keys`, `shadow`, `core_access` | the keys and the password of `core` |
//! | `machine_record` | what mosb set on the machine |
//! | `file_tree`, `drift` | a directory without its links; which files of its image the machine hides |
//! | `adopt` | files that stop being changes of the machine |
//! | `live` | files of a staged image that the machine gets while it runs |
//! | `record`, `finalization`, `next_step`, `apply` | rebooting into it, once an attempt |
//! | `boot_check` | what the machine may leave again by itself |
//! | `soft_reboot` | doing that without a boot of the kernel |

mod adopt;
mod apply;
mod boot_check;
mod boot_space;
mod bootc_status;
mod core_access;
mod deployment_folder;
mod deployments;
mod desired_state;
mod drift;
mod error;
mod etc_merge;
mod file_tree;
mod finalization;
mod host;
mod host_root;
mod kernel_arguments;
mod live;
mod machine_record;
mod machine_state;
mod next_step;
mod placed_login;
mod placed_settings;
mod pull_access;
mod record;
mod report;
mod rpm_ostree_daemon;
mod rpm_ostree_status;
mod shadow;
mod signature_policy;
mod soft_reboot;
mod ssh_keys;
mod stage;
mod staging_unit;
mod target_fit;
mod unit_output;
mod unstage;
mod update_units;

pub use adopt::{Adoption, KeptPath, adopt};
pub use apply::{RebootPolicy, apply};
pub use desired_state::{DesiredState, read_machine_part};
pub use drift::{Difference, Drift, HiddenPath, drift};
pub use error::Error;
pub use host::Host;
pub use pull_access::PullAccess;
pub use report::report;
pub use stage::stage;
