//! Why what must be run can't be run before the config is written.

use std::fmt;

use super::trust_files::{CA_TRUST_SOURCE, is_trust_file};
use super::{OwnLast, OwnParts};
use crate::plan::build_plan::BuildRequest;
use crate::plan::method::Reason;
use mosb_ignition::{Config, Storage};
use mosb_types::Finding;

/// Files that package managers, scripts of packages and dracut read. Of these, what ends in a slash
/// is a directory with all below it.
const READ_BY_PACKAGES: [&str; 18] = [
    "/etc/dnf/",
    "/etc/dracut.conf",
    "/etc/dracut.conf.d/",
    "/etc/group",
    "/etc/login.defs",
    "/etc/passwd",
    "/etc/pki/rpm-gpg/",
    "/etc/rpm-ostreed.conf",
    "/etc/rpm/",
    "/etc/systemd/system-preset/",
    "/etc/sysusers.d/",
    "/etc/yum.conf",
    "/etc/yum.repos.d/",
    "/etc/yum/",
    "/usr/lib/dracut/",
    "/usr/lib/rpm/",
    "/usr/lib/systemd/system-preset/",
    "/usr/lib/sysusers.d/",
];

/// The same for `update-ca-trust`, beside [`CA_TRUST_SOURCE`].
const READ_BY_CA_TRUST: [&str; 2] = ["/etc/pki/ca-trust/", "/usr/share/pki/"];

/// Why there is no prepared base, so that everything is run on each change of the config.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// Nothing is run before the config is written.
    NothingRuns,
    /// Something else must be run, after the config or by request.
    Reason(Reason),
    /// A stage that runs after the config needs `what` of `line`, which runs without the config.
    LastNeeds { line: usize, what: &'static str },
    /// A program that is run reads this file of the config.
    Read { path: String, by: &'static str },
    /// It is above the files that the trust store is compiled from, and no directory that stays.
    Above { path: String },
    /// A link below these files leads out of them, perhaps to another file of the config.
    Link { path: String },
    /// Its owner is a name, perhaps one that the config or a package brings.
    Owner { path: String },
    /// Its content can't be read.
    Content { path: String, problem: String },
}

impl Obstacle {
    /// The word for scripts.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NothingRuns => "prepared-nothing-runs",
            Self::Reason(_) => "prepared-other-reason",
            Self::LastNeeds { .. } => "prepared-last-needs-base",
            Self::Read { .. } => "prepared-reads-config",
            Self::Above { .. } | Self::Link { .. } | Self::Owner { .. } | Self::Content { .. } => {
                "prepared-trust-file"
            }
        }
    }

    /// What the administrator should know of a build for which a prepared base was not ruled out by
    /// request.
    pub fn warning(&self) -> Option<Finding> {
        let message = format!("everything is run at once at each change of the config: {self}");
        match self {
            Self::NothingRuns | Self::Reason(_) => None,
            Self::LastNeeds { .. }
            | Self::Read { .. }
            | Self::Above { .. }
            | Self::Link { .. }
            | Self::Owner { .. }
            | Self::Content { .. } => Some(Finding::new("prepared-not-used", message)),
        }
    }

    /// With code and path apart.
    pub fn finding(&self) -> Finding {
        let finding = Finding::new(self.code(), self.to_string());
        match self {
            Self::NothingRuns | Self::Reason(_) | Self::LastNeeds { .. } => finding,
            Self::Read { path, .. }
            | Self::Above { path }
            | Self::Link { path }
            | Self::Owner { path }
            | Self::Content { path, .. } => finding.path(path),
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingRuns => write!(f, "nothing has to be run before the config is written"),
            Self::Reason(reason) => reason.fmt(f),
            Self::LastNeeds { line, what } => write!(
                f,
                "Containerfile, line {line}: what runs after the config is written also needs {what}"
            ),
            Self::Read { path, by } => write!(f, "{path} of the config is read by {by}"),
            Self::Above { path } => {
                write!(f, "{path} is above the files that the trust store is compiled from")
            }
            Self::Link { path } => write!(
                f,
                "{path} is a link that leads out of the files that the trust store is compiled from"
            ),
            Self::Owner { path } => {
                write!(
                    f,
                    "{path} has an owner by name, which the config may bring; give its number"
                )
            }
            Self::Content { path, problem } => write!(f, "{path}: {problem}"),
        }
    }
}

/// Finds what depends on the rest of the config.
pub(super) fn check(
    request: &BuildRequest,
    ignition: Option<&Config>,
    reasons: &[Reason],
    own: &OwnParts,
    compiles_trust: bool,
) -> Result<(), Obstacle> {
    let is_run_before = |reason: &Reason| match reason {
        Reason::Extensions(_) | Reason::KernelType(_) | Reason::CaTrust(_) => true,
        Reason::CustomContainerfile => own.prepared.is_some(),
        _ => false,
    };
    let is_last = |reason: &Reason| match reason {
        Reason::CustomContainerfile => own.last != OwnLast::Nothing,
        _ => false,
    };
    let mut others = reasons.iter().filter(|reason| !is_run_before(reason) && !is_last(reason));
    if let Some(other) = others.next() {
        return Err(Obstacle::Reason(other.clone()));
    }
    if !reasons.iter().any(is_run_before) {
        return Err(Obstacle::NothingRuns);
    }
    let installs = request.config.installs_packages();
    match own.last {
        OwnLast::NeedsPrepared { line } => {
            let what = "the stage on which it is written; configs has the files of that stage, too";
            return Err(Obstacle::LastNeeds { line, what });
        }
        OwnLast::NeedsBase { line } if installs => {
            let what = "the base with its packages, which would be installed again for it";
            return Err(Obstacle::LastNeeds { line, what });
        }
        OwnLast::NeedsBase { .. } | OwnLast::OnConfigs | OwnLast::Nothing => {}
    }
    let Some(Config { storage, .. }) = ignition else {
        return Ok(());
    };
    let mut paths: Vec<&str> = paths(storage).collect();
    paths.sort_unstable();
    for path in paths.into_iter().filter(|path| !(compiles_trust && is_trust_file(path))) {
        let read = |path: &str, by| Obstacle::Read { path: path.to_owned(), by };
        if installs && READ_BY_PACKAGES.iter().any(|one| is_at(path, one)) {
            return Err(read(path, "the programs that install packages"));
        }
        if !compiles_trust {
            continue;
        }
        let is_above = CA_TRUST_SOURCE.starts_with(&format!("{path}/"));
        if is_above && !stays_a_directory(storage, path) {
            return Err(Obstacle::Above { path: path.to_owned() });
        }
        if !is_above && READ_BY_CA_TRUST.iter().any(|one| is_at(path, one)) {
            return Err(read(path, "update-ca-trust"));
        }
    }
    let links = storage.links.iter().filter(|link| compiles_trust && is_trust_file(&link.path));
    for link in links {
        let target = if link.hard || link.target.starts_with('/') {
            format!("/{}", link.target.trim_start_matches('/'))
        } else {
            let (directory, _) = link.path.rsplit_once('/').unwrap_or_default();
            format!("{directory}/{}", link.target)
        };
        if !is_trust_file(&target) || target.split('/').any(|component| component == "..") {
            return Err(Obstacle::Link { path: link.path.clone() });
        }
    }
    Ok(())
}

fn paths(storage: &Storage) -> impl Iterator<Item = &str> {
    let files = storage.files.iter().map(|file| &file.path);
    let directories = storage.directories.iter().map(|directory| &directory.path);
    let links = storage.links.iter().map(|link| &link.path);
    files.chain(directories).chain(links).map(String::as_str)
}

fn is_at(path: &str, place: &str) -> bool {
    match place.strip_suffix('/') {
        Some(directory) => path == directory || path.starts_with(place),
        None => path == place,
    }
}

/// Whether the config has at most a directory at the path, and what is below it stays.
fn stays_a_directory(storage: &Storage, path: &str) -> bool {
    let mut directories = storage.directories.iter().filter(|directory| directory.path == path);
    directories.any(|directory| directory.overwrite != Some(true))
}
