//! `mosb verify`: who signed an image, and whether a key or a policy accepts it.
#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "in help texts, brackets mean what may be left out"
)]

use std::path::PathBuf;

use clap::Args;
use futures_util::try_join;
use schemars::JsonSchema;
use serde::Serialize;

use super::arguments::{usage, value};
use super::context::{Session, options};
use super::error::Error;
use super::input::Input;
use super::output::Object;
use super::page::Page;
use super::settings::Settings;
use super::{ExitCode, Result};
use mosb_image::{ImageRef, PinnedRef};
use mosb_registry::{self as registry, Client, NamedManifest, Options, Referrer};
use mosb_trust::attestation::{self, PREDICATE_TYPE_ANNOTATION};
use mosb_trust::evaluate::PreparedRequirement;
use mosb_trust::provenance::SLSA_PROVENANCE;
use mosb_trust::spdx::SPDX_DOCUMENT;
use mosb_trust::{Attached, AttachmentKind, KEY_LIMIT, VerifyingKey};
use mosb_types::Finding;

/// Shows who signed an image, and checks it against keys or a policy
///
/// With --key, a signature of the image by one of the keys is enough, whatever name it is for. Without, the policy.json of
/// --signature-policy or of this machine decides, as for podman. What mosb can't check (signedBy, fulcio, pki, Rekor) is an
/// error. Of an index, it and each of its images must be accepted, because some tools check the one and some the other.
///
/// Exit codes: 0 accepted; 1 not accepted; 2 wrong use, or a policy that can't be checked; 3 not known, try again.
///
/// Examples:
///
///   mosb verify quay.io/acme/os:v1 --key os.key.pub
///   mosb verify quay.io/acme/os:v1 --signature-policy policy.json -o json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Verify {
    /// host/repo[:tag][@digest], as it is pulled
    #[arg(value_parser = value::<ImageRef>("IMAGE"))]
    pub image: ImageRef,
    /// A public key in PEM; can be repeated
    #[arg(long = "key", value_name = "FILE")]
    pub keys: Vec<PathBuf>,
}

impl Verify {
    /// Rejects what can't be meant.
    ///
    /// # Errors
    /// [`Error::Usage`].
    pub fn check(&self, settings: &Settings) -> Result<()> {
        if !self.keys.is_empty() && settings.signature_policy.is_some() {
            return usage("--key and --signature-policy: give one of them");
        }
        Ok(())
    }

    pub async fn run(&self, session: &Session) -> Result<ExitCode> {
        // The policy is evaluated here, and must not keep us from reading what it rejects.
        let settings = &session.settings;
        let with_policy = options(settings, settings.authfile.clone());
        let client = Client::new(&Options { signature_policy: None, ..with_policy.clone() })?;
        session.progress.watch(&client);
        let image = registry::pulled_name(&self.image)?;
        let rule = if self.keys.is_empty() {
            let Some((file, _)) = with_policy.signature_policy else {
                return usage(
                    "nothing to check the image with: this machine has no policy.json; give --key or --signature-policy",
                );
            };
            let registry::SignatureRule { file, scope, required, .. } =
                registry::read_signature_rule(&file, &image)?;
            Rule { policy: Some(AppliedPolicy { file, scope }), required }
        } else {
            Rule::of_keys(&self.keys)?
        };
        session.progress.step(&format!("resolving {image}"));
        let named = client.named_manifests(&image).await?;
        let mut manifests = Vec::new();
        for one in &named {
            let pinned = image.repo().pinned(one.descriptor.digest);
            session.progress.step(&format!("reading the signatures of {pinned}"));
            manifests.push(verify(&client, &image, &pinned, one, &rule.required).await?);
        }
        let verification = Verification {
            image: image.to_string(),
            digest: named[0].descriptor.digest.to_string(),
            accepted: manifests.iter().all(|manifest| manifest.accepted),
            policy: rule.policy,
            manifests,
        };
        session.print(&verification)?;
        Ok(if verification.accepted { 0 } else { 1 })
    }
}

/// What is required of the image.
struct Rule {
    policy: Option<AppliedPolicy>,
    required: PreparedRequirement,
}

impl Rule {
    fn of_keys(files: &[PathBuf]) -> Result<Self> {
        let read = |file: &PathBuf| -> Result<VerifyingKey, Error> {
            let text = Input::new(file).bytes("key", KEY_LIMIT)?;
            VerifyingKey::from_pem(&text)
                .map_err(|source| Error::Key { file: file.display().to_string(), source })
        };
        let keys = files.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Self { policy: None, required: PreparedRequirement::any_of(keys) })
    }
}

/// Reads what is attached to one manifest, and checks it.
async fn verify(
    client: &Client,
    image: &ImageRef,
    pinned: &PinnedRef,
    named: &NamedManifest,
    required: &PreparedRequirement,
) -> Result<VerifiedManifest> {
    let (digest, keys) = (pinned.digest(), required.keys());
    let (untrusted, attestations) = try_join!(
        client.signatures(pinned),
        client.attached(pinned, AttachmentKind::Attestation),
    )?;
    let fingerprint = |key: usize| keys[key].fingerprint().to_string();
    let signatures = untrusted.iter().map(|signature| match signature.verify(&keys, &digest) {
        Ok(verified) => SignatureInfo {
            key: Some(fingerprint(verified.key)),
            identity: Some(verified.reference),
            problem: None,
        },
        Err(problem) => {
            SignatureInfo { key: None, identity: None, problem: Some(problem.to_string()) }
        }
    });
    let attestations = attestations.iter().flat_map(Attached::layers);
    let attestations = attestations.map(|(layer, envelope)| {
        let verified = match envelope {
            Some(envelope) => attestation::verify(envelope, &keys, &digest),
            None => Err(attestation::AttestationProblem::Unreadable),
        };
        match verified {
            Ok(verified) => AttestationInfo {
                description: verified.description(),
                predicate_type: Some(verified.predicate_type),
                key: Some(fingerprint(verified.key)),
                problem: None,
            },
            Err(problem) => AttestationInfo {
                predicate_type: layer.annotations.get(PREDICATE_TYPE_ANNOTATION).cloned(),
                key: None,
                description: None,
                problem: Some(problem.to_string()),
            },
        }
    });
    let attestations: Vec<_> = attestations.collect();
    let (referrers, warnings) = match client.referrers(pinned).await {
        Ok(referrers) => (referrers, Vec::new()),
        Err(error) => (Vec::new(), vec![Finding::from(&error).object(pinned.to_string())]),
    };
    let kinds = [AttachmentKind::Signature, AttachmentKind::Attestation];
    let is_other = |referrer: &Referrer| {
        kinds.iter().all(|kind| kind.artifact_type() != referrer.artifact_type)
    };
    let checked = required.check(image, &digest, &untrusted);
    Ok(VerifiedManifest {
        digest: digest.to_string(),
        platform: named.platform.as_ref().map(ToString::to_string),
        accepted: checked.is_ok(),
        reason: checked.err().map(|missing| missing.to_string()),
        signatures: signatures.collect(),
        attestations,
        other_referrers: referrers
            .into_iter()
            .filter(is_other)
            .map(|referrer| ReferrerInfo {
                digest: referrer.digest.to_string(),
                artifact_type: referrer.artifact_type,
            })
            .collect(),
        warnings,
    })
}

/// Who signed an image, and whether that is enough.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// The name that it is pulled by.
    pub image: String,
    /// Digest of the manifest or index that the name has now. Only this one was checked.
    pub digest: String,
    /// Whether all manifests are accepted.
    pub accepted: bool,
    /// The policy; absent with `--key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<AppliedPolicy>,
    /// The manifest of the image; if it is an index, that, and those of its images.
    pub manifests: Vec<VerifiedManifest>,
}

/// A policy, and what applies of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedPolicy {
    pub file: String,
    /// The scope of the image in it, or `default`.
    pub scope: String,
}

/// A manifest, and what is attached to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifiedManifest {
    pub digest: String,
    /// Of an image in an index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    pub accepted: bool,
    /// Why it is not accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub signatures: Vec<SignatureInfo>,
    pub attestations: Vec<AttestationInfo>,
    /// Referrers that mosb does not check.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub other_referrers: Vec<ReferrerInfo>,
    /// What could not be read, and is not needed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub warnings: Vec<Finding>,
}

/// A signature: by a key that was given, or why it does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignatureInfo {
    /// Fingerprint of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The name that it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// An attestation: by a key that was given, or why it does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttestationInfo {
    /// What it is, such as `https://slsa.dev/provenance/v1`; without `key`, this is not verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicate_type: Option<String>,
    /// Fingerprint of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What it has, for people; only of SPDX documents and SLSA provenance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A manifest that names an image as its subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReferrerInfo {
    pub digest: String,
    pub artifact_type: String,
}

impl Object for Verification {
    const KIND: &'static str = "Verification";

    fn text(&self) -> String {
        let mut page = Page::default();
        let verdict = if self.accepted { "accepted" } else { "not accepted" };
        page.line(&format!("{}: {verdict}", self.image));
        let policy = self.policy.as_ref();
        page.pairs(&[
            ("digest", Some(&self.digest)),
            ("policy", policy.map(|policy| &*policy.file)),
            ("scope", policy.map(|policy| &*policy.scope)),
        ]);
        for manifest in &self.manifests {
            let platform = manifest.platform.as_ref();
            let platform = platform.map_or(String::new(), |platform| format!(" ({platform})"));
            page.section(&format!("{}{platform}", manifest.digest));
            page.pairs(&[("not accepted", manifest.reason.as_deref())]);
            let signatures = manifest.signatures.iter().map(|signature| {
                ("signature", &signature.key, signature.identity.as_ref(), &signature.problem)
            });
            let attestations = manifest.attestations.iter().map(|attestation| {
                let kind = attestation.predicate_type.as_ref();
                let what = match kind.map(String::as_str) {
                    Some(SPDX_DOCUMENT) => "SBOM",
                    Some(SLSA_PROVENANCE) => "provenance",
                    _ => "attestation",
                };
                let about = attestation.description.as_ref().or(kind);
                (what, &attestation.key, about, &attestation.problem)
            });
            let rows = signatures.chain(attestations).map(|(what, key, about, problem)| {
                let of_key = key.as_ref().map(|key| format!("by {key}"));
                let state = of_key.or_else(|| problem.clone()).unwrap_or_default();
                vec![what.to_owned(), about.cloned().unwrap_or_default(), state]
            });
            page.table(&[], &rows.collect::<Vec<_>>());
            let referrers = manifest.other_referrers.iter();
            let rows = referrers.map(|it| vec![it.artifact_type.clone(), it.digest.clone()]);
            page.table(&[], &rows.collect::<Vec<_>>());
            page.findings(&manifest.warnings);
        }
        page.into_text()
    }
}
