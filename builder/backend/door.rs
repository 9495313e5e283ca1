//! A registry client made of what a cluster says: credentials, CAs, mirrors, proxy.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use tempfile::TempDir;

use super::super::question::Problem;
use crate::api::ClusterSettings;
use crate::api::cluster_settings::Proxy;
use crate::backend::job::{DockerConfigJson, registries_conf};
use crate::http::{ProxyVariables, Secret};
use crate::registry::{CertDirs, Client, CredentialSources, Options};
use crate::report::Class;

/// A client, and the folder with the files that it reads; both go together.
#[derive(Debug)]
pub(super) struct Door {
    client: Client,
    // Only this user can look into it.
    _files: TempDir,
}

impl Door {
    /// Makes one; connects to nothing yet.
    pub(super) fn open(
        logins: &DockerConfigJson,
        settings: &ClusterSettings,
        proxy: Option<&Proxy>,
    ) -> Result<Self, Problem> {
        let files = files(logins, settings).map_err(|error| Problem {
            class: Class::Retry,
            reason: "file-error".to_owned(),
            message: format!("a temporary folder for credentials: {error}; make room below /tmp"),
        })?;
        let root = files.path();
        let there = |name: &str| Some(root.join(name)).filter(|path| path.exists());
        let client = Client::new(&Options {
            credentials: CredentialSources {
                authfile: there(LOGINS),
                ..CredentialSources::default()
            },
            certs: CertDirs {
                cert_dir: None,
                per_host: there(HOSTS).into_iter().collect(),
                everywhere: there(EVERYWHERE),
            },
            proxy: proxy.map(variables).unwrap_or_default(),
            registries_conf: there(MIRRORS).map(|path| (path, true)),
            ..Options::default()
        })?;
        Ok(Self {
            client,
            _files: files,
        })
    }

    /// The client; of use as long as the door is there.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }
}

const LOGINS: &str = "config.json";
const HOSTS: &str = "certs.d";
const EVERYWHERE: &str = "certs";
const MIRRORS: &str = "registries.conf";

fn files(logins: &DockerConfigJson, settings: &ClusterSettings) -> io::Result<TempDir> {
    let folder = tempfile::Builder::new()
        .prefix("mosb-")
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir()?;
    let root = folder.path();
    write(&root.join(LOGINS), logins.to_bytes().expose())?;
    if let Some(text) = registries_conf(&settings.mirrors) {
        write(&root.join(MIRRORS), text.as_bytes())?;
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
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)
}

pub(in crate::controller) fn variables(proxy: &Proxy) -> ProxyVariables {
    ProxyVariables {
        http: proxy
            .http_proxy
            .as_ref()
            .map(|url| Secret::new(url.expose().to_owned())),
        https: proxy
            .https_proxy
            .as_ref()
            .map(|url| Secret::new(url.expose().to_owned())),
        no_proxy: proxy.no_proxy.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_reads_is_for_this_user_alone_and_gone_with_it() {
        let settings = ClusterSettings {
            image_registry_bundles: [("registry.example:5000".to_owned(), "pem".to_owned())].into(),
            ..ClusterSettings::default()
        };
        let folder = files(&DockerConfigJson::empty(), &settings).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let root = folder.path().to_owned();
        assert_eq!(mode(&root), 0o700);
        assert_eq!(mode(&root.join(LOGINS)), 0o600);
        assert!(root.join("certs.d/registry.example:5000/ca.crt").exists());
        assert!(!root.join(MIRRORS).exists() && !root.join(EVERYWHERE).exists());
        drop(folder);
        assert!(!root.exists());
    }
}
