//! `mosb keys`: keys for signatures of images.
#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "in help texts, brackets mean what may be left out"
)]

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::task::spawn_blocking;

use super::arguments::{usage, value};
use super::context::Session;
use super::error::Error;
use super::output::Object;
use super::page::Page;
use super::secret_input::SecretInput;
use super::{ExitCode, Result};
use mosb_trust::{KeyError, SigningKey, VerifyingKey};

#[derive(Debug, Subcommand)]
pub enum Keys {
    /// Makes a key: FILE is the private key (PKCS #8, for its owner only), FILE.pub the public key
    ///
    /// The key is ECDSA on the curve P-256, which each verifier takes. It is not encrypted.
    ///
    /// Example:
    ///
    ///   mosb keys new os.key
    #[command(verbatim_doc_comment)]
    New {
        /// The file for the private key; it must not exist
        file: PathBuf,
    },
    Show(Show),
}

/// Shows the public key of a private or public key, and its fingerprint
///
/// Example:
///
///   mosb keys show os.key
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Show {
    /// A private key (PKCS #8, or an encrypted key of cosign), or a public key; or env:NAME
    #[arg(value_parser = value::<SecretInput>("FILE"))]
    pub file: SecretInput,
    /// The password of an encrypted key: a file, or env:NAME
    #[arg(long, value_name = "FILE", value_parser = value::<SecretInput>("--sign-key-password"))]
    pub sign_key_password: Option<SecretInput>,
}

impl Keys {
    pub async fn run(self, session: &Session) -> Result<ExitCode> {
        match self {
            Self::New { file } => session.print(&new(&file)?),
            Self::Show(show) => session.print(&show.info().await?),
        }
    }
}

fn new(file: &Path) -> Result<KeyInfo> {
    let public_file = {
        let mut name = file.as_os_str().to_owned();
        name.push(".pub");
        PathBuf::from(name)
    };
    for file in [file, &public_file] {
        if file.symlink_metadata().is_ok() {
            return usage(format!("{}: it exists already; give another name", file.display()));
        }
    }
    let shown = file.display().to_string();
    let (key, text) =
        SigningKey::generate().map_err(|source| Error::Key { file: shown.clone(), source })?;
    let public_key = key.verifying_key().to_pem();
    write_new(file, text.expose().as_bytes(), 0o600)?;
    write_new(&public_file, public_key.as_bytes(), 0o644)?;
    let public_file = Some(public_file.display().to_string());
    Ok(KeyInfo { public_file, ..KeyInfo::new(shown, true, key.verifying_key()) })
}

/// Writes a file that does not exist yet.
fn write_new(file: &Path, content: &[u8], mode: u32) -> Result<(), Error> {
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(file)?;
        file.write_all(content)?;
        file.sync_all()
    };
    write().map_err(|source| Error::Write { file: file.display().to_string(), source })
}

impl Show {
    async fn info(&self) -> Result<KeyInfo> {
        let text = self.file.read("key")?;
        let file = self.file.to_string();
        match VerifyingKey::from_pem(text.expose()) {
            Ok(key) => Ok(KeyInfo::new(file, false, &key)),
            Err(KeyError::Label { .. }) => {
                let key = signing_key(&self.file, self.sign_key_password.as_ref()).await?;
                Ok(KeyInfo::new(file, true, key.verifying_key()))
            }
            Err(source) => Err(Error::Key { file, source }.into()),
        }
    }
}

/// Reads a private key. The password of an encrypted one takes half a second.
///
/// # Errors
/// It can't be read, is not a private key, or the password is wrong.
pub async fn signing_key(
    input: &SecretInput,
    password: Option<&SecretInput>,
) -> Result<SigningKey> {
    let text = input.read("key")?;
    let password = password.map(SecretInput::read_password).transpose()?;
    let read = spawn_blocking(move || SigningKey::from_pem(&text, password.as_ref()));
    let key = read.await.map_err(Error::stopped("reading the key"))?;
    Ok(key.map_err(|source| Error::Key { file: input.to_string(), source })?)
}

/// A key. Nothing of a private key is in it but its public key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyInfo {
    /// Its file, or `env:NAME`.
    pub file: String,
    /// The file of the public key; only of a new key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_file: Option<String>,
    /// Whether it has the private key.
    pub private: bool,
    /// Such as `ECDSA P-256`.
    pub algorithm: String,
    /// SHA-256 of the public key (SubjectPublicKeyInfo).
    pub fingerprint: String,
    /// The public key in PEM.
    pub public_key: String,
}

impl KeyInfo {
    fn new(file: String, private: bool, key: &VerifyingKey) -> Self {
        Self {
            file,
            public_file: None,
            private,
            algorithm: key.algorithm().name().to_owned(),
            fingerprint: key.fingerprint().to_string(),
            public_key: key.to_pem(),
        }
    }
}

impl Object for KeyInfo {
    const KIND: &'static str = "KeyInfo";

    fn text(&self) -> String {
        let mut page = Page::default();
        page.line(&self.file);
        page.pairs(&[
            ("kind", Some(if self.private { "private" } else { "public" })),
            ("algorithm", Some(&self.algorithm)),
            ("fingerprint", Some(&self.fingerprint)),
            ("public key", self.public_file.as_deref()),
        ]);
        self.public_key.lines().for_each(|line| page.line(line));
        page.into_text()
    }
}
