//! What an image is pulled with: a login, and mirrors, CAs and proxy of the cluster's settings.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use mosb_build::{MAX_PULL_SETTINGS, PullSettings, Redactor};
use mosb_types::Secret;

use crate::error::Error;
use crate::login::Login;

/// What an image is pulled with, beside what the machine has.
#[derive(Debug, Default)]
pub struct PullAccess {
    pub(crate) login: Option<Login>,
    pub(crate) settings: PullSettings,
}

impl PullAccess {
    /// Reads files of this container: logins as `auth.json` has them, and [`PullSettings`] as JSON.
    ///
    /// # Errors
    /// One can't be read, or is not what it should be. No message has its content.
    pub fn read(login: Option<&Path>, settings: Option<&Path>) -> Result<Self, Error> {
        Ok(Self {
            login: login.map(Login::read).transpose()?,
            settings: settings.map(read_settings).transpose()?.unwrap_or_default(),
        })
    }

    /// Whether the machine pulls as it would without mosb.
    pub(crate) fn is_empty(&self) -> bool {
        self.login.is_none() && self.settings.is_empty()
    }

    /// Removes passwords from the output of what pulls.
    pub(crate) fn redactor(&self) -> Redactor {
        let login = self.login.as_ref().map(|login| login.to_bytes().expose().clone());
        Redactor::from_logins(login).with_lines(self.settings.proxy_urls())
    }
}

fn read_settings(file: &Path) -> Result<PullSettings, Error> {
    let bad = |cause| Error::BadPullSettings { file: file.display().to_string(), cause };
    let mut bytes = Vec::new();
    let opened = File::open(file);
    opened
        .and_then(|opened| opened.take(MAX_PULL_SETTINGS as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| bad(format!("not readable: {error}")))?;
    PullSettings::parse(Secret::new(bytes).expose()).map_err(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_settings_that_is_bad_is_named_and_not_quoted() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), r#"{"proxy":{"httpsProxy":"http://u:hush-hush@p:1"}}"#)
            .unwrap();
        let access = PullAccess::read(None, Some(file.path())).unwrap();
        assert!(!access.is_empty());
        assert!(!format!("{access:?}").contains("hush"));
        assert_eq!(access.redactor().redact("proxy hush-hush refused"), "proxy [secret] refused");
        std::fs::write(file.path(), r#"{"proxy":{"httpsProxy":"hush"}}"#).unwrap();
        for path in [file.path(), Path::new("/none")] {
            let error = PullAccess::read(None, Some(path)).unwrap_err();
            assert!(matches!(error, Error::BadPullSettings { .. }), "{error}");
            assert!(!error.to_string().contains("hush"), "{error}");
        }
        assert!(PullAccess::read(None, None).unwrap().is_empty());
    }
}
