//! The password of `core` in the machine's shadow file. It is changed as the machine's own programs
//! do: under the lock of lckpwdf(3), by a new file in place of the old one.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use mosb_types::Secret;
use rustix::fs::{FlockOperation, Mode, OFlags, fcntl_lock, openat};
use rustix::io::Errno;

use crate::core_user::CORE;
use crate::error::Error;
use crate::host_root::{HostRoot, failed};
use crate::replaced_file::replace;
use crate::shadow::{self, ShadowProblem};

const SHADOW: &str = "/etc/shadow";
const ETC: &str = "/etc";
const LOCK: &str = ".pwd.lock";
/// The most bytes that are read.
const LIMIT: u64 = 16 * 1024 * 1024;
/// As long as lckpwdf(3) waits.
const LOCK_LIMIT: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(100);

/// The password field of `core`.
pub(crate) fn password(root: &HostRoot) -> Result<Secret<String>, Error> {
    let text = read(root)?;
    let field = shadow::password(text.expose(), CORE).map_err(bad)?;
    Ok(Secret::new(String::from_utf8_lossy(field).into_owned()))
}

/// Changes that field, and nothing else in the file.
pub(crate) async fn set_password(root: &HostRoot, hash: &str) -> Result<(), Error> {
    let lock = lock(root).await?;
    let text = read(root)?;
    let changed = Secret::new(shadow::with_password(text.expose(), CORE, hash).map_err(bad)?);
    replace(root, SHADOW, changed.expose())?;
    drop(lock);
    Ok(())
}

fn read(root: &HostRoot) -> Result<Secret<Vec<u8>>, Error> {
    Ok(Secret::new(root.read(SHADOW, LIMIT)?.unwrap_or_default()))
}

fn bad(problem: ShadowProblem) -> Error {
    Error::BadShadow { path: SHADOW, user: CORE, cause: problem.text() }
}

/// The lock ends with the result, or with this process.
async fn lock(root: &HostRoot) -> Result<OwnedFd, Error> {
    let failed = |error: Errno| failed(&format!("{ETC}/{LOCK}"), "can't be locked", error);
    let folder = root.folder(ETC).map_err(failed)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(&folder, LOCK, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
    let begun = Instant::now();
    loop {
        match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::ACCESS | Errno::AGAIN) if begun.elapsed() < LOCK_LIMIT => {
                tokio::time::sleep(POLL).await;
            }
            Err(Errno::ACCESS | Errno::AGAIN) => {
                return Err(Error::PasswordFileBusy { seconds: LOCK_LIMIT.as_secs() });
            }
            Err(error) => return Err(failed(error)),
        }
    }
}
