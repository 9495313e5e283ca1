//! Adopts files of a machine: those of its `/etc` that are still what its config wrote stop being
//! changes of the machine, so that the next image brings its own.
//!
//! Input: the config that the machine was made from, its `/etc`, and the `/usr/etc` of the image
//! that it booted. Output: an [`Adoption`], and a list below [`FOLDER`](crate::deployment_folder::FOLDER). Invariant: the running
//! `/etc` and that of the deployment that boots again stay as they are. At shutdown, a unit makes a
//! copy of `/etc` without what is listed ([`compose.sh`](compose.sh)), and
//! `ostree-finalize-staged.service` sees that copy in place of the deployment's: so what the next
//! deployment gets follows from the copy, and a power cut leaves nothing half-made.
//!
//! | file | holds |
//! | --- | --- |
//! | `machine_config` | the config that the machine was made from |
//! | `base_tree` | the image that it booted, as a base |
//! | `decision` | what becomes of a path |
//! | `list` | the list of adopted paths, and the units that carry it out |

mod base_tree;
mod decision;
mod list;
mod machine_config;

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use mosb_api::rollout::{EtcReport, PathList};
use mosb_plan::plan::{CURRENT_CONFIG, written_to_etc};
use mosb_types::Finding;

use crate::deployment_folder::DeploymentFolder;
use crate::drift::{self, Difference, is_zero};
use crate::error::Error;
use crate::file_tree::{EntryState, entry_state, fingerprint};
use crate::finalization::FINALIZE_UNIT;
use crate::host::Host;
use crate::host_root::HostRoot;
use crate::live::LiveRecord;
use crate::machine_state::BOOTED_OSTREE;
use crate::staging_unit::show;
use base_tree::base_tree;
use decision::{Decision, decide};
use list::AdoptedEntry;
pub(crate) use list::arm;
use machine_config::MachineConfig;

/// The most paths that are listed in a report.
const MAX_LISTED: usize = 1_000;

/// Files that stop being changes of a machine, and those that stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Adoption {
    /// The name of the config that the machine was made from; of an Ignition config, its file.
    pub config: String,
    /// The file that the config was read from.
    pub source: String,
    pub dry_run: bool,
    /// Paths that the next image brings, sorted.
    pub adopted: Vec<String>,
    /// Paths that stay, because they are not as the config wrote them; sorted.
    pub kept: Vec<KeptPath>,
    /// How many more there are than are listed.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(with = "Option<usize>")]
    pub omitted: usize,
    /// What can't be decided, and stays.
    pub undecided: Vec<Finding>,
}

/// A path of the config that is otherwise on the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeptPath {
    /// Below `/etc`.
    pub path: String,
    /// How the machine differs from the config.
    pub differences: Vec<Difference>,
}

/// Adopts what the machine has as its config wrote it; with `is_dry_run`, only reports it. The
/// result takes effect when a staged image is finalized at a shutdown.
///
/// # Errors
/// The machine did not boot an image, its config is not known, or a file can't be read or written.
pub async fn adopt(
    host: &Host,
    config: Option<&Path>,
    is_dry_run: bool,
) -> Result<Adoption, Error> {
    let root = host.root();
    let config = MachineConfig::find(root, config)?;
    let (adoption, entries) = of_root(root, &config)?;
    if !is_dry_run {
        let deployment = DeploymentFolder::booted(root)?;
        if show(host, FINALIZE_UNIT, "LoadState").await? != "loaded" {
            return Err(Error::NoFinalizeUnit { unit: FINALIZE_UNIT });
        }
        list::write(root, &deployment, &entries)?;
        arm(host).await?;
    }
    Ok(Adoption { dry_run: is_dry_run, ..adoption }.shortened())
}

impl Adoption {
    fn shortened(mut self) -> Self {
        let rest = |length: usize| length.saturating_sub(MAX_LISTED);
        self.omitted = rest(self.adopted.len()) + rest(self.kept.len());
        self.adopted.truncate(MAX_LISTED);
        self.kept.truncate(MAX_LISTED);
        self.undecided.truncate(MAX_LISTED);
        self
    }
}

/// As [`adopt`] by the record of the machine, before the reboot of a roll-out. That can be made up
/// for later, so an error must not keep the machine from its image.
pub(crate) async fn adopt_by_record(host: &Host) {
    match adopt(host, None, false).await {
        Ok(Adoption { adopted, kept, .. }) => {
            tracing::info!(adopted = adopted.len(), kept = kept.len(), "adopted");
        }
        Err(Error::NoMachineConfig) => {
            tracing::info!("no record of the machine's config, so nothing is adopted");
        }
        Err(error) => tracing::error!("nothing is adopted: {error}"),
    }
}

/// Whether the next image may not get a path of `/etc` as the machine has it: it is adopted or can be, or
/// it was written for an image that was not booted.
pub(crate) fn may_be_left_out(
    root: &HostRoot,
    booted: &DeploymentFolder,
    path: &Path,
    state: Option<&EntryState>,
) -> bool {
    let has = |entry: &AdoptedEntry| {
        Path::new(&entry.path) == path && fingerprint(entry.state.as_ref()) == fingerprint(state)
    };
    let by_config = || {
        let config = MachineConfig::find(root, None).ok()?;
        Some(of_root(root, &config).ok()?.1.iter().any(has))
    };
    // What can't be read leaves nothing out.
    list::has(root, booted, path, state) || by_config() == Some(true)
}

/// The `/etc` of the machine. A report must have the rest also if this can't be read.
pub(crate) fn etc_report(root: &HostRoot) -> Option<EtcReport> {
    let read = || {
        let drift = drift::of_root(root)?;
        let hidden = PathList::new(drift.paths.iter().map(|one| &*one.path), drift.omitted);
        let mut report = EtcReport { hidden, ..EtcReport::default() };
        let config = match MachineConfig::find(root, None) {
            Ok(config) => config,
            Err(Error::NoMachineConfig) => return Ok(report),
            Err(error) => return Err(error),
        };
        let (adoption, _) = of_root(root, &config)?;
        let kept = adoption.kept.iter().map(|one| &*one.path);
        report.kept = Some(PathList::new(kept, 0));
        report.adoptable = Some(PathList::new(adoption.adopted.iter().map(|path| &**path), 0));
        report.adopted =
            DeploymentFolder::booted(root).is_ok_and(|one| root.exists(&list::list_file(&one)));
        Ok(report)
    };
    read().inspect_err(|error: &Error| tracing::warn!("{error}")).ok()
}

fn of_root(
    root: &HostRoot,
    config: &MachineConfig,
) -> Result<(Adoption, Vec<AdoptedEntry>), Error> {
    if !root.exists(BOOTED_OSTREE) {
        return Err(Error::NotImageBased);
    }
    let base = base_tree(root)?;
    let written = written_to_etc(&base, &config.ignition).map_err(|source| {
        Error::BadMachineConfig { file: config.source.clone(), cause: source.to_string() }
    })?;
    let (machine, image) = (root.tree("/etc")?, root.tree("/usr/etc")?);
    let mut adoption = Adoption {
        config: config.name.clone(),
        source: config.source.clone(),
        dry_run: true,
        adopted: Vec::new(),
        kept: Vec::new(),
        omitted: 0,
        undecided: written.undecided,
    };
    let live = LiveRecord::of_booted(root)?;
    let mut entries = Vec::new();
    let paths = written.entries.into_iter().filter_map(|(path, entry)| {
        let below = path.relative().strip_prefix("etc/")?.to_owned();
        Some((below, Some(entry)))
    });
    let mut paths: Vec<_> = paths.collect();
    // No image has a use for the one that the machine was made from.
    if config.source == CURRENT_CONFIG {
        let below = CURRENT_CONFIG.trim_start_matches("/etc/").to_owned();
        paths.retain(|(path, _)| *path != below);
        paths.push((below, None));
        paths.sort_by(|one, other| one.0.cmp(&other.0));
    }
    for (below, written) in paths {
        let path = PathBuf::from(&below);
        let found = entry_state(&machine, &path)?;
        let in_image = entry_state(&image, &path)?;
        // The next image brings it anyway.
        if live.as_ref().is_some_and(|live| live.has_written(&below, found.as_ref())) {
            continue;
        }
        let decision = match &written {
            Some(written) => decide(written, found.as_ref(), in_image.as_ref()),
            None => decision::of_record(found.as_ref(), in_image.as_ref()),
        };
        let path = format!("/etc/{below}");
        match decision {
            Decision::Unchanged => {}
            Decision::Adopt if below.chars().any(char::is_control) => {
                let message = "its name has a control character; change it by hand";
                adoption.undecided.push(Finding::new("undecided", message).path(path));
            }
            Decision::Adopt => {
                entries.push(AdoptedEntry { path: below, state: found });
                adoption.adopted.push(path);
            }
            Decision::Keep(differences) => adoption.kept.push(KeptPath { path, differences }),
        }
    }
    Ok((adoption, entries))
}

#[cfg(test)]
mod tests;
