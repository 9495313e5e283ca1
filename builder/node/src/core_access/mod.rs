//! Brings the SSH keys and the password of `core` to the machine, as steps that are decided first.
//! Each step is atomic, so a command that is killed between them is run again with what is left. A
//! config may change only this user after the machine was installed.

use std::fmt;
use std::time::Duration;

use mosb_api::rollout::MachinePart;

use crate::error::Error;
use crate::host::{Host, words};
use crate::host_root::HostRoot;
use crate::machine_record::SetByMosb;
use crate::shadow::{core_password, set_password};
use crate::ssh_keys::{KeysFile, SshKeys};

/// What a user without a password has in that field (shadow(5)).
const NO_PASSWORD: &str = "*";
/// Present where SELinux is in use.
const SELINUX: &str = "/sys/fs/selinux/enforce";
const RESTORECON: &str = "/usr/sbin/restorecon";
const LABEL_LIMIT: Duration = Duration::from_secs(60);

/// A change of the machine.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum AccessStep {
    WriteKeys(Vec<u8>),
    RemoveKeys,
    SetPassword(String),
}

/// Without keys and hash.
impl fmt::Debug for AccessStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WriteKeys(_) => "WriteKeys",
            Self::RemoveKeys => "RemoveKeys",
            Self::SetPassword(_) => "SetPassword",
        })
    }
}

/// What a part needs of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Needs {
    keys: bool,
    password: bool,
}

impl Needs {
    fn of(part: &MachinePart, set: &SetByMosb) -> Self {
        Self {
            keys: !part.ssh_authorized_keys.is_empty() || set.ssh_keys,
            password: part.password_hash.is_some() || !set.password_hashes.is_empty(),
        }
    }
}

/// What is left to do until `core` has the keys and the password of `part`; `set` is what mosb set
/// before. Without a part, `core` keeps what it has: nobody may be locked out of a machine that goes
/// back to the stock image.
///
/// # Errors
/// The part has something for `core`, and the machine has no such user, or a file of it can't be
/// read.
pub(crate) fn missing(
    root: &HostRoot,
    part: Option<&MachinePart>,
    set: &SetByMosb,
) -> Result<Vec<AccessStep>, Error> {
    let Some(part) = part else { return Ok(Vec::new()) };
    let needs = Needs::of(part, set);
    if !(needs.keys || needs.password) {
        return Ok(Vec::new());
    }
    let Some(user) = CoreUser::find(root)? else {
        // What was set before went with the user.
        let wants = !part.ssh_authorized_keys.is_empty() || part.password_hash.is_some();
        return if wants { Err(Error::NoCore) } else { Ok(Vec::new()) };
    };
    let mut steps = Vec::new();
    if needs.keys {
        steps.extend(keys_step(part, SshKeys::new(root, &user).read()?.as_ref()));
    }
    if needs.password {
        steps.extend(password_step(part, set, core_password(root)?.expose()));
    }
    Ok(steps)
}

fn keys_step(part: &MachinePart, found: Option<&KeysFile>) -> Option<AccessStep> {
    if part.ssh_authorized_keys.is_empty() {
        return found.map(|_| AccessStep::RemoveKeys);
    }
    let wanted: String =
        part.ssh_authorized_keys.iter().map(|key| format!("{}\n", key.trim_end())).collect();
    let is_so = found.is_some_and(|file| file.is_private && file.content == wanted.as_bytes());
    (!is_so).then(|| AccessStep::WriteKeys(wanted.into_bytes()))
}

fn password_step(part: &MachinePart, set: &SetByMosb, found: &str) -> Option<AccessStep> {
    match &part.password_hash {
        Some(hash) => (hash != found).then(|| AccessStep::SetPassword(hash.clone())),
        // Another one is a person's.
        None => {
            let is_ours = set.password_hashes.iter().any(|hash| hash == found);
            is_ours.then(|| AccessStep::SetPassword(NO_PASSWORD.to_owned()))
        }
    }
}

/// Carries out a step.
pub(crate) async fn carry_out(host: &Host, step: &AccessStep) -> Result<(), Error> {
    if let AccessStep::WriteKeys(_) = step {
        label_folder(host).await?;
    }
    carry_out_in(host.root(), step).await
}

async fn carry_out_in(root: &HostRoot, step: &AccessStep) -> Result<(), Error> {
    let user = CoreUser::find(root)?.ok_or(Error::NoCore)?;
    match step {
        AccessStep::WriteKeys(content) => SshKeys::new(root, &user).write(content),
        AccessStep::RemoveKeys => SshKeys::new(root, &user).remove(),
        AccessStep::SetPassword(hash) => set_password(root, hash).await,
    }
}

/// Makes the directory of the keys, and gives it its SELinux label, which the file then inherits. It
/// comes before the file, so that it is done again if this is killed.
async fn label_folder(host: &Host) -> Result<(), Error> {
    let root = host.root();
    let user = CoreUser::find(root)?.ok_or(Error::NoCore)?;
    let keys = SshKeys::new(root, &user);
    keys.make_folder()?;
    if root.exists(SELINUX) && root.exists(RESTORECON) {
        let label = words([RESTORECON, "-R", "--", &keys.folder_path()]);
        // The keys are of use with most policies all the same.
        if let Err(error) = host.run("restorecon", &label, LABEL_LIMIT).await {
            tracing::warn!("{error}");
        }
    }
    Ok(())
}

pub(crate) const CORE: &str = "core";
/// The second one is that of ostree's images, for users that the image brings.
const PASSWD: [&str; 2] = ["/etc/passwd", "/usr/lib/passwd"];
/// The most bytes that are read.
const LIMIT: u64 = 16 * 1024 * 1024;

/// The user, as passwd(5) has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CoreUser {
    pub uid: u32,
    pub gid: u32,
    /// An absolute path without `..`.
    pub home: String,
}

impl CoreUser {
    /// None if the machine has no such user, or one without a home.
    pub fn find(root: &HostRoot) -> Result<Option<Self>, Error> {
        for file in PASSWD {
            let text = root.text(file, LIMIT)?.unwrap_or_default();
            if let Some(found) = text.lines().find_map(of_line) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

fn of_line(line: &str) -> Option<CoreUser> {
    let mut fields = line.strip_prefix(CORE)?.strip_prefix(':')?.split(':');
    let (_password, uid, gid) = (fields.next()?, fields.next()?, fields.next()?);
    let (_comment, home) = (fields.next()?, fields.next()?);
    let is_plain = home.len() > 1
        && home.starts_with('/')
        && home[1..].split('/').all(|part| !matches!(part, "" | "." | ".."));
    let user = CoreUser { uid: uid.parse().ok()?, gid: gid.parse().ok()?, home: home.to_owned() };
    is_plain.then_some(user)
}

#[cfg(test)]
mod tests;
