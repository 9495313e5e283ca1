//! Passes a result from the container that has it to the sidecar, and the acknowledgement back: two
//! files in a directory that both containers mount.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};

use super::result::{RESULT_KEY, RESULT_LIMIT};
use mosb_image::Digest;
use mosb_registry::folder::Folder;
use mosb_types::Diagnostic;

/// Name of the file with the acknowledgement.
const ACKNOWLEDGED: &str = "acknowledged";
/// Most bytes read of the acknowledgement.
const ACKNOWLEDGED_LIMIT: u64 = 8 * 1024;
/// How often each side checks for the other's file.
pub const POLL: Duration = Duration::from_millis(10);

/// The directory that a build container and the sidecar share.
#[derive(Debug, Clone)]
pub struct ResultDir {
    folder: PathBuf,
}

/// The sidecar's answer to a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Acknowledgement {
    /// SHA-256 of the result, so that an earlier acknowledgement does not count for a later result.
    pub result: Digest,
    /// Why it can't be delivered, if it can't.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// Why a result did not arrive.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum Error {
    #[error("{}: not writable; is the volume of the result mounted, and this user's?", path.display())]
    #[diagnostic(code = "result-folder", class = Internal)]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    #[diagnostic(code = "result-folder", class = Internal, remedy = _0.remedy())]
    Read(#[from] mosb_registry::Error),
    #[error(
        "the sidecar did not acknowledge the result within {} s; see its log", limit.as_secs()
    )]
    #[diagnostic(code = "not-acknowledged", class = Transient)]
    NotAcknowledged { limit: Duration },
    #[error("the sidecar can't deliver the result: {0}")]
    #[diagnostic(code = "not-delivered", class = Internal)]
    Refused(String),
}

impl ResultDir {
    /// `folder` must exist.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Writes a result atomically; it replaces an earlier one.
    ///
    /// # Errors
    /// The folder can't be written to.
    pub fn put(&self, result: &str) -> Result<(), Error> {
        self.write(RESULT_KEY, result.as_bytes())
    }

    /// The bytes of a result, if there is one. Another container may write to the directory, so no
    /// symbolic link is followed.
    ///
    /// # Errors
    /// There is something other than a regular file, or a file that is too large.
    pub fn result(&self) -> Result<Option<Vec<u8>>, Error> {
        let limit = RESULT_LIMIT as u64;
        let found = Folder::open(&self.folder)?.read(RESULT_KEY, "the result", limit)?;
        Ok(found.map(Vec::from))
    }

    /// Writes the acknowledgement of a result.
    ///
    /// # Errors
    /// The folder can't be written to.
    pub fn acknowledge(&self, acknowledgement: &Acknowledgement) -> Result<(), Error> {
        let text = serde_json::to_vec(acknowledgement).expect("two texts");
        self.write(ACKNOWLEDGED, &text)
    }

    /// Waits until this result is acknowledged.
    ///
    /// # Errors
    /// It is not acknowledged in time, or can't be delivered.
    pub async fn acknowledged(&self, result: &str, limit: Duration) -> Result<(), Error> {
        let want = Digest::of(result.as_bytes());
        let wait = async {
            loop {
                let bytes = Folder::open(&self.folder)?.read(
                    ACKNOWLEDGED,
                    "the acknowledgement",
                    ACKNOWLEDGED_LIMIT,
                )?;
                let answer: Option<Acknowledgement> =
                    bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
                match answer {
                    Some(Acknowledgement { result, refused }) if result == want => {
                        return match refused {
                            Some(why) => Err(Error::Refused(why)),
                            None => Ok(()),
                        };
                    }
                    // Still that of an earlier result.
                    _ => sleep(POLL).await,
                }
            }
        };
        timeout(limit, wait).await.unwrap_or(Err(Error::NotAcknowledged { limit }))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.folder.join(name);
        let written = || {
            let mut file = tempfile::Builder::new()
                .prefix(".mosb-tmp-")
                // The two containers may be two users.
                .permissions(Permissions::from_mode(0o644))
                .tempfile_in(&self.folder)?;
            file.write_all(bytes)?;
            file.as_file().set_permissions(Permissions::from_mode(0o644))?;
            file.persist(&path).map_err(|error| error.error)
        };
        written().map(drop).map_err(|source| Error::Write { path: path.clone(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[tokio::test]
    async fn a_result_is_acknowledged_by_its_own_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let side = ResultDir::new(folder.path());
        assert_eq!(side.result().unwrap(), None);
        side.put("first").unwrap();
        side.put("second").unwrap();
        assert_eq!(side.result().unwrap().unwrap(), b"second");
        let say = |text: &str, refused: Option<&str>| Acknowledgement {
            result: Digest::of(text.as_bytes()),
            refused: refused.map(str::to_owned),
        };
        let short = Duration::from_millis(30);
        let long = Duration::from_secs(60);
        let reason = |got: Result<(), Error>| got.map_err(|error| error.code());
        assert_eq!(reason(side.acknowledged("second", short).await), Err("not-acknowledged"));
        side.acknowledge(&say("first", None)).unwrap();
        assert_eq!(reason(side.acknowledged("second", short).await), Err("not-acknowledged"));
        side.acknowledge(&say("second", Some("gone"))).unwrap();
        assert_eq!(reason(side.acknowledged("second", long).await), Err("not-delivered"));
        side.acknowledge(&say("second", None)).unwrap();
        assert_eq!(reason(side.acknowledged("second", long).await), Ok(()));
        let names = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(names, 2, "nothing temporary stays");
    }

    #[test]
    fn only_regular_files_are_read_as_results() {
        let folder = tempfile::tempdir().unwrap();
        let secret = tempfile::NamedTempFile::new().unwrap();
        let path = folder.path().join(RESULT_KEY);
        let side = ResultDir::new(folder.path());
        std::os::unix::fs::symlink(secret.path(), &path).unwrap();
        assert_eq!(side.result().unwrap_err().code(), "result-folder");
        // A symbolic link is replaced, not followed.
        side.put("mine").unwrap();
        assert_eq!(fs::read(secret.path()).unwrap(), b"");
        fs::write(&path, vec![b' '; RESULT_LIMIT + 1]).unwrap();
        assert_eq!(side.result().unwrap_err().code(), "result-folder");
    }
}
