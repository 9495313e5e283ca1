//! Files and settings that a new machine needs to pull its image.

use std::fmt::Write as _;

use crate::{DockerConfigJson, pull_repositories, registries_conf};
use mosb_image::{PinnedRef, RepoRef};
use mosb_plan::api::ClusterSettings;
use mosb_registry::http::Secret;
use mosb_registry::registries_conf::By;

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
        let everywhere = [&settings.additional_trust_bundle, &settings.registry_trust_bundle];
        let mut hosts: Vec<&str> = repos.iter().map(RepoRef::host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let authorities = hosts.into_iter().filter_map(|host| {
            let own = settings.image_registry_bundles.get(host);
            let all = everywhere.iter().filter_map(|pem| pem.as_ref()).chain(own);
            let all: Vec<&str> = all.map(|pem| pem.trim_end()).collect();
            (!all.is_empty()).then(|| (host.to_owned(), all.join("\n") + "\n"))
        });
        let authorities = authorities.collect();
        Self {
            logins: logins.only_for(&repos),
            image: image.clone(),
            registries_conf: conf,
            authorities,
            environment: Secret::new(environment(settings)),
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

/// The environment of the unit, and of rpm-ostree's daemon (systemd.exec(5), `EnvironmentFile=`).
fn environment(settings: &ClusterSettings) -> String {
    // The file is there also without a proxy: it is how the unit knows that there is something to do.
    let mut text = "# The proxy of the first pull\n".to_owned();
    let proxy = settings.proxy.as_ref().map(|proxy| proxy.variables());
    for (name, value) in proxy.unwrap_or_default() {
        let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
        writeln!(text, "{name}=\"{quoted}\"").expect("a String takes it");
    }
    text
}
