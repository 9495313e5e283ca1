//! `--sign-key`: signs and describes the image that is built.

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::arguments::{one_stdin, usage, value};
use crate::input::Input;
use crate::keys::signing_key;
use crate::secret_input::SecretInput;
use mosb_build::{Built, Signing};
use mosb_image::ImageRef;
use mosb_image::tree::BaseTree;
use mosb_registry::{Destination, Target};
use mosb_trust::SigningKey;

/// The builder that provenance names: whoever runs the command.
const BUILDER: &str = "https://mosb.dev/builder/command-line";

/// Options of signatures.
#[derive(Debug, Clone, Args)]
pub struct SignOptions {
    /// Sign the image with this private key (ECDSA P-256: PKCS #8, or an encrypted key of cosign), and attach its SBOM and provenance, before its tags name it: a file, or env:NAME
    #[arg(long, value_name = "FILE", value_parser = value::<SecretInput>("--sign-key"))]
    pub sign_key: Option<SecretInput>,
    /// The password of an encrypted key: a file, or env:NAME
    #[arg(long, value_name = "FILE", requires = "sign_key", value_parser = value::<SecretInput>("--sign-key-password"))]
    pub sign_key_password: Option<SecretInput>,
    /// The name that the image is signed for; can be repeated [default: its tags in TARGET]
    #[arg(long, value_name = "REF", requires = "sign_key", value_parser = value::<ImageRef>("--sign-identity"))]
    pub sign_identity: Vec<ImageRef>,
}

impl SignOptions {
    /// Rejects what can't be meant.
    ///
    /// # Errors
    /// [`Error::Usage`](crate::error::Error::Usage).
    pub fn check(&self, config: &Input, output: &Target) -> Result<()> {
        if let (Some(_), Destination::Layout(_)) = (&self.sign_key, output.destination()) {
            return usage(
                "--sign-key: an OCI layout has no place for signatures; push to a registry, or use mosb sign once the image is there",
            );
        }
        let secrets = [&self.sign_key, &self.sign_key_password].into_iter().flatten();
        let inputs = secrets.filter_map(|secret| match secret {
            SecretInput::Input(input) => Some(input),
            SecretInput::Variable(_) => None,
        });
        one_stdin(
            inputs.chain([config]),
            "--sign-key -: stdin can be read once; give a file or env:NAME for the key and its password",
        )
    }

    /// Reads the key; nothing without `--sign-key`.
    ///
    /// # Errors
    /// The key can't be read.
    pub async fn signer(&self) -> Result<Option<Signer>> {
        let Some(key) = &self.sign_key else {
            return Ok(None);
        };
        let key = signing_key(key, self.sign_key_password.as_ref()).await?;
        let identities = self.sign_identity.iter().map(ToString::to_string).collect();
        Ok(Some(Signer { key, identities }))
    }
}

/// A key, and the names that an image is signed for.
#[derive(Debug)]
pub struct Signer {
    key: SigningKey,
    identities: Vec<String>,
}

impl Signer {
    /// For the image that was asked for; `below` is the tree of what it is built on.
    pub fn of_image<'s>(&'s self, below: Option<&'s BaseTree>) -> Signing<'s> {
        Signing { key: &self.key, identities: &self.identities, builder: BUILDER, below }
    }

    /// For a prepared base that is made on the way: the names are not its own.
    pub fn of_prepared_base<'s>(&'s self, below: Option<&'s BaseTree>) -> Signing<'s> {
        Signing { identities: &[], ..self.of_image(below) }
    }

    /// What is printed of an image that was signed.
    pub fn signed(&self, built: &Built) -> SignedFor {
        let key = self.key.verifying_key().fingerprint().to_string();
        SignedFor { key, identities: built.signed_for.clone() }
    }
}

/// Whose signature an image has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignedFor {
    /// Fingerprint of the key: SHA-256 of its SubjectPublicKeyInfo.
    pub key: String,
    /// The names that it is signed for.
    pub identities: Vec<String>,
}

impl SignedFor {
    /// For people.
    pub fn names(&self) -> String {
        self.identities.join(", ")
    }
}
