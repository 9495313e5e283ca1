//! Files and settings that a new machine needs to pull its image.

use crate::pull_settings::{Authorities, environment_file};
use crate::{COPY_CONTAINERS, DockerConfigJson, pull_repositories, registries_conf};
use mosb_api::ClusterSettings;
use mosb_image::PinnedRef;
use mosb_registry::registries_conf::By;
use mosb_types::Secret;

/// Files and settings that a new machine needs to pull its image, and nothing else.
#[derive(Debug, Clone)]
pub struct PullFiles {
    image: PinnedRef,
    logins: DockerConfigJson,
    registries_conf: Option<String>,
    /// PEM certificates of CAs, each with its `host` or `host:port`.
    authorities: Vec<(String, String)>,
    environment: Secret<String>,
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
        }
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
        files.sort_by(|a, b| a.name.cmp(&b.name));
        files
    }
}

fn one(name: &str, mode: u32, bytes: &[u8]) -> PullFile {
    PullFile { name: name.to_owned(), mode, bytes: bytes.to_owned() }
}
