//! Files and settings that a new machine needs to pull its image.

use crate::pull_settings::{Authorities, environment_file};
use crate::{COPY_CONTAINERS, DockerConfigJson, pull_repositories, registries_conf};
use mosb_api::{ClusterSettings, RenderedConfig};
use mosb_image::PinnedRef;
use mosb_image::signature_policy::SignaturePolicy;
use mosb_plan::plan::SignatureFiles;
use mosb_registry::registries_conf::By;
use mosb_types::{Finding, Secret};

/// Files and settings that a new machine needs to pull its image, and nothing else.
#[derive(Debug, Clone)]
pub struct PullFiles {
    image: PinnedRef,
    logins: DockerConfigJson,
    registries_conf: Option<String>,
    /// PEM certificates of CAs, each with its `host` or `host:port`.
    authorities: Vec<(String, String)>,
    environment: Secret<String>,
    /// How signatures are verified, if they are.
    signatures: Option<SignatureFiles>,
}

/// A file below [`FIRST_BOOT`](super::FIRST_BOOT).
#[derive(Debug)]
pub(super) struct PullFile {
    pub name: String,
    pub mode: u32,
    pub bytes: Vec<u8>,
}

/// A drop-in of `registries.conf`, the last by its name, and the CAs of a host, beside the machine's
/// own files.
const MIRRORS: &str = "containers/registries.conf.d/zz-mosb-first-boot.conf";
const AUTHORITIES: &str = "mosb-first-boot.crt";
/// That image must be verified.
const VERIFY: &str = "verify";

impl PullFiles {
    /// Collects the files and settings for machines that pull this image. Of the logins, only those
    /// for its repository and its mirrors are used.
    pub fn new(image: &PinnedRef, logins: &DockerConfigJson, settings: &ClusterSettings) -> Self {
        let conf = registries_conf(settings);
        let repos = pull_repositories(image.repo(), conf.as_deref(), &[By::Digest]);
        Self {
            logins: logins.only_for(&repos),
            image: image.clone(),
            registries_conf: conf,
            authorities: Authorities::of(&repos, settings).by_host(),
            environment: environment_file(settings.proxy.as_ref()),
            signatures: None,
        }
    }

    /// The same, for machines that refuse an image without a signature. They pull with the policy that
    /// the config brings, if it has one.
    #[must_use]
    pub fn verified_by(self, config: &RenderedConfig) -> Self {
        Self { signatures: Some(SignatureFiles::of(config)), ..self }
    }

    /// Why the policy of the config would let a machine take the image without a signature.
    pub(super) fn policy_weakness(&self) -> Option<String> {
        let policy = self.signatures.as_ref()?.policy()?;
        SignaturePolicy::weakness(policy.as_bytes(), &self.image.to_string())
    }

    /// Warns of machines that verify with what their first OS has.
    pub fn without_policy(&self) -> Option<Finding> {
        let lacks_policy = self.signatures.as_ref().is_some_and(|files| files.policy().is_none());
        lacks_policy.then(|| {
            let message = format!(
                "new machines verify {} with the policy of the OS that they are installed with, and stay without a kubelet if it accepts everything; bring a policy.json with a MachineConfig",
                self.image
            );
            Finding::new("first-boot-policy", message)
        })
    }

    /// The image that machines pull.
    pub fn image(&self) -> &PinnedRef {
        &self.image
    }

    /// Whether it contains credentials.
    pub fn has_logins(&self) -> bool {
        !self.logins.is_empty()
    }

    pub(super) fn files(&self) -> Vec<PullFile> {
        let mut files = vec![
            one("environment", 0o600, self.environment.expose().as_bytes()),
            one("image", 0o600, format!("{}\n", self.image).as_bytes()),
            one("copy-containers", 0o700, COPY_CONTAINERS.as_bytes()),
            one("rebase", 0o700, include_bytes!("rebase.sh")),
        ];
        if self.has_logins() {
            files.push(one("auth.json", 0o600, self.logins.to_bytes().expose()));
        }
        // skopeo runs as an unprivileged user, which must be able to read the other files.
        if let Some(conf) = &self.registries_conf {
            files.push(one(MIRRORS, 0o644, conf.as_bytes()));
        }
        for (host, pem) in &self.authorities {
            let name = format!("containers/certs.d/{host}/{AUTHORITIES}");
            files.push(one(&name, 0o644, pem.as_bytes()));
        }
        if let Some(signatures) = &self.signatures {
            files.push(one(VERIFY, 0o600, b""));
            let given = signatures.files();
            files
                .extend(given.map(|(name, text)| {
                    one(&format!("containers/{name}"), 0o644, text.as_bytes())
                }));
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        files
    }
}

fn one(name: &str, mode: u32, bytes: &[u8]) -> PullFile {
    PullFile { name: name.to_owned(), mode, bytes: bytes.to_owned() }
}
