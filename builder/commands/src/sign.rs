//! `mosb sign`: signs an image that is in a registry.
#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "in help texts, brackets mean what may be left out"
)]

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::arguments::value;
use super::context::Session;
use super::error::Error;
use super::keys::signing_key;
use super::output::Object;
use super::page::Page;
use super::secret_input::SecretInput;
use super::{ExitCode, Result};
use mosb_image::ImageRef;
use mosb_registry::NamedManifest;
use mosb_trust::{AttachmentKind, Evidence};

/// Signs an image in a registry
///
/// The signature is that of cosign: it is pushed to the image's repository, with the tag sha256-….sig and as a referrer.
/// Signatures of others stay, and nothing is signed twice. Of an index, it and each of its images are signed, because some
/// tools check the one and some the other.
///
/// Policies compare the name in a signature with the name by which an image is pulled, so there is one signature for each
/// tag: that of IMAGE, or those that --sign-identity names.
///
/// Examples:
///
///   mosb sign quay.io/acme/os:v1 --sign-key os.key
///   mosb sign quay.io/acme/os@sha256:… --sign-key env:OS_KEY --sign-identity quay.io/acme/os:v1
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Sign {
    /// host/repo[:tag][@digest]
    #[arg(value_parser = value::<ImageRef>("IMAGE"))]
    pub image: ImageRef,
    /// The private key (ECDSA P-256: PKCS #8, or an encrypted key of cosign): a file, or env:NAME
    #[arg(long, value_name = "FILE", value_parser = value::<SecretInput>("--sign-key"))]
    pub sign_key: SecretInput,
    /// The password of an encrypted key: a file, or env:NAME
    #[arg(long, value_name = "FILE", value_parser = value::<SecretInput>("--sign-key-password"))]
    pub sign_key_password: Option<SecretInput>,
    /// The name that the image is signed for; can be repeated [default: IMAGE]
    #[arg(long, value_name = "REF", value_parser = value::<ImageRef>("--sign-identity"))]
    pub sign_identity: Vec<ImageRef>,
}

impl Sign {
    pub async fn run(&self, session: &Session) -> Result<ExitCode> {
        let key = signing_key(&self.sign_key, self.sign_key_password.as_ref()).await?;
        let context = session.clients()?;
        let client = &context.push;
        context.progress.step(&format!("resolving {}", self.image));
        // What the registry itself has: a mirror may be behind.
        let digest = match self.image.digest() {
            Some(digest) => digest,
            None => client.digest_of(&self.image).await?.ok_or_else(|| Error::NoTag {
                place: "sign".to_owned(),
                image: self.image.to_string(),
            })?,
        };
        let repo = self.image.repo();
        let named = client.named_manifests(&repo.pinned(digest).into()).await?;
        let identities = self.identities();
        let mut manifests = Vec::new();
        // The images before their index: then all of them are signed once it is.
        for NamedManifest { descriptor, platform } in named.into_iter().rev() {
            let image = repo.pinned(descriptor.digest);
            context.progress.step(&format!("signing {image}"));
            let references = identities.clone();
            let tag = AttachmentKind::Signature.tag(&descriptor.digest);
            let digest = descriptor.digest.to_string();
            let evidence =
                Evidence { key: &key, subject: descriptor, references, statements: Vec::new() };
            let added = client.attach(repo, &evidence).await?;
            let platform = platform.map(|platform| platform.to_string());
            manifests.push(SignedManifest { digest, platform, tag, added });
        }
        manifests.reverse();
        session.print(&SignedImage {
            image: repo.pinned(digest).to_string(),
            key: key.verifying_key().fingerprint().to_string(),
            identities,
            manifests,
        })
    }

    fn identities(&self) -> Vec<String> {
        if !self.sign_identity.is_empty() {
            return self.sign_identity.iter().map(ToString::to_string).collect();
        }
        let repo = self.image.repo();
        vec![match (self.image.tag(), self.image.digest()) {
            (Some(tag), _) => format!("{repo}:{tag}"),
            (None, Some(digest)) => format!("{repo}@{digest}"),
            (None, None) => format!("{repo}:latest"),
        }]
    }
}

/// An image that has signatures now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignedImage {
    /// `repo@digest`.
    pub image: String,
    /// Fingerprint of the key: SHA-256 of its SubjectPublicKeyInfo.
    pub key: String,
    /// The names that it is signed for.
    pub identities: Vec<String>,
    /// The manifest of the image; if it is an index, that, and those of its images.
    pub manifests: Vec<SignedManifest>,
}

/// A manifest that has signatures now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignedManifest {
    pub digest: String,
    /// Of an image in an index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// The tag of its signatures.
    pub tag: String,
    /// Whether signatures were added; if not, it had all of them.
    pub added: bool,
}

impl Object for SignedImage {
    const KIND: &'static str = "SignedImage";

    fn text(&self) -> String {
        let mut page = Page::default();
        page.line(&self.image);
        page.pairs(&[("key", Some(&self.key)), ("signed for", Some(&self.identities.join(", ")))]);
        page.section("Signatures");
        let rows: Vec<_> = self
            .manifests
            .iter()
            .map(|manifest| {
                let state = if manifest.added { "signed" } else { "signed already" };
                let platform = manifest.platform.clone().unwrap_or_default();
                vec![manifest.digest.clone(), platform, state.to_owned()]
            })
            .collect();
        page.table(&[], &rows);
        page.into_text()
    }
}
