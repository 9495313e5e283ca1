//! What a roll-out does on a machine: it reports what the machine runs, stages an image with its
//! kernel arguments, reboots into it, and gives the user `core` its SSH keys and its password. Beside
//! that, it lists which files of its image the machine hides, and adopts files that its first config
//! wrote. It runs in a privileged container with the machine's process IDs, and knows nothing of
//! Kubernetes, of other machines, or of why an image is wanted.
//!
//! Input: a [`DesiredState`] and the state of the machine. Output: a
//! [`NodeReport`](mosb_plan::api::rollout::NodeReport), or an [`Error`]. Invariant: each command is
//! idempotent and depends on the machine's state alone, so a container that was killed anywhere is
//! run again; an attempt of a target reboots a machine once.
//!
//! | file | holds |
//! | --- | --- |
//! | `host`, `host_root`, `entry`, `attributes`, `replaced_file` | the machine: its programs; its files, without leaving its root |
//! | `tool`, `bootc_status`, `rpm_ostree_status`, `origin`, `deployments`, `deployment_folder` | which images the machine has; where |
//! | `machine_state`, `report` | reading all of that; the report |
//! | `desired_state`, `machine_part_file` | what a command brings the machine to |
//! | `pull_access`, `login` | what an image is pulled with; credentials of a registry |
//! | `placed_login`, `placed_settings`, `leftover_login` | where the tools read these; removing them |
//! | `staging_unit`, `unit_output`, `rpm_ostree_daemon` | the unit that stages an image; what it wrote; the daemon that does it |
//! | `update_units` | units of the machine that would update it by themselves |
//! | `kernel_arguments`, `boot_arguments`, `target_fit` | what changes in them; those of the deployments; what is missing |
//! | `stage`, `unstage`, `boot_space` | staging an image; taking the next boot from another one; space for its kernel |
//! | `core_user`, `ssh_keys`, `shadow`, `password_file`, `core_access` | the keys and the password of `core` |
//! | `machine_record` | what mosb set on the machine |
//! | `file_tree`, `entry_state`, `drift` | a directory without its links; what is at a path; which files of its image the machine hides |
//! | `adopt` | files that stop being changes of the machine |
//! | `live` | files of a staged image that the machine gets while it runs |
//! | `record`, `journal`, `finalization`, `next_step`, `apply` | rebooting into it, once an attempt |
//! | `record_completion` | recording that the machine has all of a target |

mod adopt;
mod apply;
mod attributes;
mod boot_arguments;
mod boot_space;
mod bootc_status;
mod core_access;
mod core_user;
mod deployment_folder;
mod deployments;
mod desired_state;
mod drift;
mod entry;
mod entry_state;
mod error;
mod file_tree;
mod finalization;
mod host;
mod host_root;
mod journal;
mod kernel_arguments;
mod leftover_login;
mod live;
mod login;
mod machine_part_file;
mod machine_record;
mod machine_state;
mod next_step;
mod origin;
mod password_file;
mod placed_login;
mod placed_settings;
mod pull_access;
mod record;
mod record_completion;
mod replaced_file;
mod report;
mod rpm_ostree_daemon;
mod rpm_ostree_status;
mod shadow;
mod ssh_keys;
mod stage;
mod staging_unit;
mod target_fit;
mod tool;
mod unit_output;
mod unstage;
mod update_units;

pub use adopt::{Adoption, KeptPath, adopt};
pub use apply::{RebootPolicy, apply};
pub use desired_state::DesiredState;
pub use drift::{Difference, Drift, HiddenPath, drift};
pub use error::Error;
pub use host::Host;
pub use machine_part_file::read_machine_part;
pub use pull_access::PullAccess;
pub use report::report;
pub use stage::stage;
