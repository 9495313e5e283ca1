//! A registry client for the settings of a cluster: credentials, CAs, mirrors, proxy.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use tempfile::TempDir;

use super::{DockerConfigJson, registries_conf};
use mosb_plan::api::ClusterSettings;
use mosb_plan::api::cluster_settings::Proxy;
use mosb_registry::http::{ProxyVariables, Secret};
use mosb_registry::{self as registry, CertDirs, Client, CredentialSources, Logins, Options};
use mosb_types::Diagnostic;

/// A client, and the temporary folder with the files that it reads.
#[derive(Debug)]
pub struct RegistryClient {
    client: Client,
    // Readable by this user only; deleted when this is dropped.
    _files: TempDir,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum RegistryClientError {
    #[error("a temporary folder for certificates: {0}; free disk space below /tmp")]
    #[diagnostic(code = "file-error", class = Transient)]
    Files(#[source] io::Error),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Registry(#[from] registry::Error),
}

impl RegistryClient {
    /// Does not connect yet. `origin` names the logins in messages, such as `secret push-secret`.
    /// Timeouts, retries and certificate verification are those of `base`; so is the proxy if
    /// `proxy` is `None`.
    ///
    /// # Errors
    /// Invalid logins, CAs or mirrors, or files that can't be written.
    pub fn new(
        origin: &str,
        logins: &DockerConfigJson,
        settings: &ClusterSettings,
        proxy: Option<&Proxy>,
        base: Options,
    ) -> Result<Self, RegistryClientError> {
        let files = files(settings).map_err(RegistryClientError::Files)?;
        let root = files.path();
        let there = |name: &str| Some(root.join(name)).filter(|path| path.exists());
        let client = Client::new(&Options {
            credentials: CredentialSources {
                only: Some(Logins { origin: origin.to_owned(), json: logins.to_bytes() }),
                ..CredentialSources::default()
            },
            certs: CertDirs {
                cert_dir: None,
                per_host: there(HOSTS).into_iter().collect(),
                everywhere: there(EVERYWHERE),
            },
            proxy: proxy.map_or(base.proxy, proxy_variables),
            registries_conf: there(MIRRORS).map(|path| (path, true)),
            signature_policy: there(POLICY).map(|path| (path, true)),
            ..base
        })?;
        Ok(Self { client, _files: files })
    }

    /// The client; usable as long as `self` exists.
    pub fn client(&self) -> &Client {
        &self.client
    }
}

const HOSTS: &str = "certs.d";
const EVERYWHERE: &str = "certs";
const MIRRORS: &str = "registries.conf";
const POLICY: &str = "policy.json";

fn files(settings: &ClusterSettings) -> io::Result<TempDir> {
    let folder = tempfile::Builder::new()
        .prefix("mosb-")
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir()?;
    let root = folder.path();
    if let Some(text) = registries_conf(settings) {
        write(&root.join(MIRRORS), text.as_bytes())?;
    }
    if let Some(policy) = settings.pull_policy() {
        write(&root.join(POLICY), policy.with_signatures().as_bytes())?;
    }
    let everywhere = [
        ("trust-bundle.crt", &settings.additional_trust_bundle),
        ("registry-trust.crt", &settings.registry_trust_bundle),
    ];
    for (name, pem) in everywhere {
        if let Some(pem) = pem {
            let folder = root.join(EVERYWHERE);
            fs::create_dir_all(&folder)?;
            write(&folder.join(name), pem.as_bytes())?;
        }
    }
    for (host, pem) in &settings.image_registry_bundles {
        let folder = root.join(HOSTS).join(host);
        fs::create_dir_all(&folder)?;
        write(&folder.join("ca.crt"), pem.as_bytes())?;
    }
    Ok(folder)
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)
}

/// The proxy settings of the cluster in the form that the client takes.
pub fn proxy_variables(proxy: &Proxy) -> ProxyVariables {
    ProxyVariables {
        http: proxy.http_proxy.as_ref().map(|url| Secret::new(url.expose().to_owned())),
        https: proxy.https_proxy.as_ref().map(|url| Secret::new(url.expose().to_owned())),
        no_proxy: proxy.no_proxy.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_private_and_deleted_with_the_client() {
        let settings = ClusterSettings {
            image_registry_bundles: [("registry.example:5000".to_owned(), "pem".to_owned())].into(),
            ..ClusterSettings::default()
        };
        let folder = files(&settings).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let root = folder.path().to_owned();
        assert_eq!(mode(&root), 0o700);
        let authority = root.join("certs.d/registry.example:5000/ca.crt");
        assert_eq!(mode(&authority), 0o600);
        assert!(!root.join(MIRRORS).exists() && !root.join(EVERYWHERE).exists());
        drop(folder);
        assert!(!root.exists());
    }
}
