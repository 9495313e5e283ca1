//! What is done to bring the files of an image to a machine that runs another one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use mosb_image::Digest;
use mosb_plan::plan::CURRENT_CONFIG;
use mosb_plan::plan::live::{LiveAction, is_live_in_image, is_live_path};

use super::etc_writer::EtcWriter;
use super::live_record::LiveRecord;
use super::pull_secret::{self, PullSecretPlan, PullSecretStep};
use super::tree_difference::{Stop, tree_difference};
use super::{Decision, States, decide};
use crate::deployment_folder::{self, DeploymentFolder};
use crate::deployments::parse_origin;
use crate::error::Error;
use crate::file_tree::{EntryKind, entry_state, fingerprint};
use crate::host_root::HostRoot;

/// The most bytes of an origin file.
const ORIGIN_LIMIT: u64 = 64 * 1024;
/// The `/etc` of an image, below its root.
const IMAGE_ETC: &str = "/usr/etc";

/// Whether a machine can be brought to an image while it runs.
#[derive(Debug)]
pub(crate) enum Planned {
    Live(Box<LivePlan>),
    /// The reason why it must reboot.
    Reboot(String),
}

/// What is done; nothing is written yet.
#[derive(Debug)]
pub(crate) struct LivePlan {
    deployment: DeploymentFolder,
    /// The root of the image whose files are brought; empty for the booted one.
    image_root: String,
    /// Paths below `/etc` that are brought: directories before what is in them.
    bring: Vec<String>,
    /// Paths below `/etc` that are removed: directories after what is in them.
    remove: Vec<String>,
    pull_secret: PullSecretPlan,
    reloads_crio: bool,
    /// The record as it is.
    old: Option<LiveRecord>,
    /// The record while it is done.
    begun: LiveRecord,
    /// The record once it is done; none if the machine has what it booted.
    done: Option<LiveRecord>,
}

/// A write of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    /// That the files are being written.
    Record,
    /// What a write that was killed left beside this path.
    Clean(&'a str),
    PullSecret,
    /// This path below `/etc`.
    Entry(&'a str),
}

impl LivePlan {
    /// What brings the files of the staged image, of this digest.
    pub fn to_staged(root: &HostRoot, image: Digest, boot_id: &str) -> Result<Planned, Error> {
        let deployment = match DeploymentFolder::booted(root) {
            Ok(deployment) => deployment,
            Err(Error::EtcNotOfDeployment) => {
                return Ok(Planned::Reboot("/etc is not that of its deployment".to_owned()));
            }
            Err(error) => return Err(error),
        };
        let Some(staged) = staged_deployment(root, image, &deployment)? else {
            return Ok(Planned::Reboot("its deployment is not found on the machine".to_owned()));
        };
        let folder = |deployment: &DeploymentFolder| {
            let path = deployment.root();
            root.folder(&path).map_err(|error| Error::File {
                path,
                doing: "not readable",
                source: error.into(),
            })
        };
        let (before, after) = (folder(&deployment)?, folder(&staged)?);
        let differing = match tree_difference(&before, &after, &may_differ) {
            Ok(differing) => differing,
            Err(Stop::Differs(path)) => {
                let path = path.escape_debug();
                return Ok(Planned::Reboot(format!("the images differ in /{path}")));
            }
            Err(Stop::TooMuch(cause)) => return Ok(Planned::Reboot(cause.to_owned())),
            Err(Stop::Unreadable { path, source }) => {
                return Err(Error::File {
                    path: format!("/{path}"),
                    doing: "not readable",
                    source,
                });
            }
        };
        let below_etc = differing.iter().filter_map(|path| path.strip_prefix("usr/etc/"));
        let paths = below_etc.filter(|path| format!("/etc/{path}") != CURRENT_CONFIG);
        let paths = paths.map(str::to_owned).collect();
        let old = LiveRecord::read(root, &deployment)?;
        Self::decide(root, deployment, staged.root(), image, boot_id, paths, old)
    }

    /// What brings the files of the booted image back; none if no others were written.
    pub fn to_booted(
        root: &HostRoot,
        image: Digest,
        boot_id: &str,
    ) -> Result<Option<Planned>, Error> {
        let Some(old) = LiveRecord::of_booted(root)? else { return Ok(None) };
        let deployment = DeploymentFolder::booted(root)?;
        let image_root = String::new();
        let planned =
            Self::decide(root, deployment, image_root, image, boot_id, BTreeSet::new(), Some(old))?;
        Ok(Some(match planned {
            Planned::Live(plan) => Planned::Live(Box::new(Self { done: None, ..*plan })),
            reboot @ Planned::Reboot(_) => reboot,
        }))
    }

    /// `paths`: those below `/etc` in which the images differ.
    fn decide(
        root: &HostRoot,
        deployment: DeploymentFolder,
        image_root: String,
        image: Digest,
        boot_id: &str,
        mut paths: BTreeSet<String>,
        old: Option<LiveRecord>,
    ) -> Result<Planned, Error> {
        let written = old.as_ref().map(|old| old.files.clone()).unwrap_or_default();
        paths.extend(written.keys().cloned());
        let (machine, booted) = (root.tree("/etc")?, root.tree(IMAGE_ETC)?);
        let wanted = root.tree(&format!("{image_root}{IMAGE_ETC}"))?;
        let (mut bring, mut remove) = (Vec::new(), Vec::new());
        let (mut begun, mut done) = (written.clone(), BTreeMap::new());
        let mut made = BTreeSet::new();
        for path in &paths {
            let at = Path::new(path);
            let [booted, wanted, found] =
                [entry_state(&booted, at)?, entry_state(&wanted, at)?, entry_state(&machine, at)?];
            let known = written.get(path).cloned().unwrap_or_default();
            let has_folder = match path.rsplit_once('/') {
                None => true,
                Some((folder, _)) if made.contains(folder) => true,
                Some((folder, _)) => {
                    let entry = machine.entry(Path::new(folder))?;
                    entry.is_some_and(|entry| entry.kind == EntryKind::Directory)
                }
            };
            let states = States {
                booted: booted.as_ref(),
                wanted: wanted.as_ref(),
                machine: found.as_ref(),
            };
            match decide(states, &known, has_folder) {
                Decision::Done => {}
                Decision::Bring if wanted.is_none() => remove.push(path.clone()),
                Decision::Bring => {
                    bring.push(path.clone());
                    made.insert(path.clone());
                }
                Decision::Keep => {
                    tracing::warn!("/etc/{path}: a person changed it, so it stays as it is");
                    continue;
                }
                Decision::Reboot => {
                    return Ok(Planned::Reboot(format!("/etc/{path} can't be replaced live")));
                }
            }
            let fingerprint = fingerprint(wanted.as_ref());
            if booted != wanted {
                done.insert(path.clone(), vec![fingerprint.clone()]);
            }
            let known = begun.entry(path.clone()).or_default();
            if !known.contains(&fingerprint) {
                known.push(fingerprint);
            }
        }
        remove.reverse();
        let pull_secret = pull_secret::plan(root, &image_root)?;
        if let PullSecretStep::Reboot(cause) = pull_secret.step {
            return Ok(Planned::Reboot(cause.to_owned()));
        }
        let undone = pull_secret.only_in_boot && pull_secret.step != PullSecretStep::Keep;
        let done = LiveRecord {
            image,
            complete: true,
            only_in_boot: undone.then(|| boot_id.to_owned()),
            files: done,
        };
        let begun = LiveRecord { image, complete: false, only_in_boot: None, files: begun };
        let is_crio =
            |path: &String| is_live_path(&format!("/etc/{path}")) == Some(LiveAction::ReloadCrio);
        // What was written and completed has been read.
        let is_read = old.as_ref().is_some_and(|old| old.complete && old.image == image);
        let reloads_crio = if is_read {
            bring.iter().chain(&remove).any(is_crio)
        } else {
            begun.files.keys().any(is_crio)
        };
        let done = Some(done);
        Ok(Planned::Live(Box::new(Self {
            deployment,
            image_root,
            bring,
            remove,
            pull_secret,
            reloads_crio,
            old,
            begun,
            done,
        })))
    }

    /// Whether anything is done.
    pub fn is_needed(&self) -> bool {
        self.old != self.done
            || !self.bring.is_empty()
            || !self.remove.is_empty()
            || !matches!(self.pull_secret.step, PullSecretStep::Nothing | PullSecretStep::Keep)
    }

    /// Whether what reads the files must read them again.
    pub fn reloads_crio(&self) -> bool {
        self.reloads_crio
    }

    /// What is written, in order. Each step can be repeated, and the record is the first.
    pub fn steps(&self) -> Vec<Step<'_>> {
        let clean = self.begun.files.keys().map(|path| Step::Clean(path));
        let entries = self.bring.iter().chain(&self.remove).map(|path| Step::Entry(path));
        let first = [Step::Record].into_iter();
        first.chain(clean).chain([Step::PullSecret]).chain(entries).collect()
    }

    /// Carries out a step.
    pub fn carry_out(&self, root: &HostRoot, step: &Step<'_>) -> Result<(), Error> {
        match step {
            Step::Record => self.begun.write(root, &self.deployment),
            Step::Clean(path) => EtcWriter::open(root)?.clean(path),
            Step::PullSecret => pull_secret::carry_out(root, &self.pull_secret.step),
            Step::Entry(path) => {
                tracing::info!("/etc/{path}: brought without a reboot");
                let image = root.tree(&format!("{}{IMAGE_ETC}", self.image_root))?;
                EtcWriter::open(root)?.bring(path, &image)
            }
        }
    }

    /// Records that all is done.
    pub fn complete(&self, root: &HostRoot) -> Result<(), Error> {
        match &self.done {
            Some(done) => done.write(root, &self.deployment),
            None => LiveRecord::remove(root, &self.deployment),
        }
    }
}

/// Whether the images may differ in this path, relative to their roots.
fn may_differ(path: &str) -> bool {
    // The list that a shell reads has a line for each.
    if path.chars().any(char::is_control) {
        return false;
    }
    match path.strip_prefix("usr/etc/") {
        Some(below) => {
            let path = format!("/etc/{below}");
            path == CURRENT_CONFIG || is_live_in_image(&path)
        }
        None => pull_secret::may_differ(path),
    }
}

/// A deployment of the image that is not the booted one; none if there are several with other trees.
pub(crate) fn staged_deployment(
    root: &HostRoot,
    image: Digest,
    booted: &DeploymentFolder,
) -> Result<Option<DeploymentFolder>, Error> {
    let mut found: Option<DeploymentFolder> = None;
    for one in deployment_folder::all(root)? {
        let origin = root.text(&one.origin(), ORIGIN_LIMIT)?.unwrap_or_default();
        if one == *booted || parse_origin(&origin).digest != Some(image) {
            continue;
        }
        if found.as_ref().is_some_and(|found| found.checksum() != one.checksum()) {
            return Ok(None);
        }
        found = Some(one);
    }
    Ok(found)
}
