//! A registry client for the settings of a cluster: credentials, CAs, mirrors, proxy.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{DockerConfigJson, registries_conf};
use mosb_api::ClusterSettings;
use mosb_api::cluster_settings::{MirrorSourcePolicy, Mirrors, Proxy};
use mosb_registry::http::ProxyVariables;
use mosb_registry::{
    self as registry, CertDirs, Client, CredentialSources, Logins, Options, SettingNames,
};
use mosb_types::{Diagnostic, Secret};

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
        let names = names(settings, root);
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
                names: names.clone(),
            },
            proxy: proxy.map_or(base.proxy, proxy_variables),
            registries_conf: there(MIRRORS).map(|path| (path, true)),
            signature_policy: there(POLICY).map(|path| (path, true)),
            names,
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
    for (path, _, pem) in bundles(settings, root) {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        write(&path, pem.as_bytes())?;
    }
    Ok(folder)
}

/// The file, the field and the certificates of each bundle of CAs.
fn bundles<'a>(settings: &'a ClusterSettings, root: &Path) -> Vec<(PathBuf, String, &'a str)> {
    let everywhere = [
        ("trust-bundle.crt", "additionalTrustBundle", &settings.additional_trust_bundle),
        ("registry-trust.crt", "registryTrustBundle", &settings.registry_trust_bundle),
    ];
    let everywhere = everywhere.into_iter().filter_map(|(file, field, pem)| {
        Some((root.join(EVERYWHERE).join(file), field.to_owned(), pem.as_deref()?))
    });
    let of_hosts = settings.image_registry_bundles.iter().map(|(host, pem)| {
        let field = format!("imageRegistryBundles.{host}");
        (root.join(HOSTS).join(host).join("ca.crt"), field, &**pem)
    });
    everywhere.chain(of_hosts).collect()
}

/// What messages call these files: nobody but us has them.
fn names(settings: &ClusterSettings, root: &Path) -> SettingNames {
    let bundles = bundles(settings, root).into_iter();
    let bundles =
        bundles.map(|(path, field, _)| (path, format!("{field} of the cluster settings")));
    let own = [
        (
            root.join(POLICY),
            "in signaturePolicy of ConfigMap mosb-config, or in policy.json of the rendered config"
                .to_owned(),
        ),
        (root.join(MIRRORS), "mirrors and registrySources of the cluster settings".to_owned()),
    ];
    let sources = &settings.registry_sources;
    let never =
        |mirrors: &&Mirrors| mirrors.mirror_source_policy == MirrorSourcePolicy::NeverContactSource;
    let mirrored = settings.mirrors.iter().filter(never).map(|mirrors| {
        let object = mirrors.object_name();
        (mirrors.source.clone(), format!("mirrorSourcePolicy: NeverContactSource of {object}"))
    });
    let listed = sources.blocked_registries.iter();
    let listed = listed.map(|scope| (scope.clone(), sources.list_name("blockedRegistries")));
    let allowed =
        (!sources.allowed_registries.is_empty()).then(|| sources.list_name("allowedRegistries"));
    SettingNames {
        files: bundles.chain(own).collect(),
        allowed,
        blocked: mirrored.chain(listed).collect(),
    }
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

    #[test]
    fn messages_name_the_setting_and_no_temporary_file() {
        let text = r#"
registrySources: {allowedRegistries: [registry.redhat.io, m.example], blockedRegistries: [bad.example]}
signaturePolicy: '{"default":[{"type":"insecureAcceptAnything"}],"transports":{"docker":{"m.example/x":[{"type":"reject"}]}}}'
imageRegistryBundles: {m.example: "-----BEGIN CERTIFICATE-----"}
mirrors: [{source: m.example/only, mirrorSourcePolicy: NeverContactSource}]
"#;
        let mut settings = ClusterSettings::parse(text).unwrap();
        let problem = |settings: &ClusterSettings, image: &str| {
            let logins = DockerConfigJson::empty();
            let client = RegistryClient::new("", &logins, settings, None, Options::default());
            let image = image.parse().unwrap();
            match client.unwrap().client().pull_repositories(&image) {
                Ok(_) => String::new(),
                Err(error) => error.to_string(),
            }
        };
        let of_mosb_config = "registrySources.allowedRegistries of ConfigMap mosb-config";
        for (image, want) in [
            ("other.example/os", of_mosb_config),
            ("bad.example/os", of_mosb_config),
            ("m.example/x/os", "signaturePolicy of ConfigMap mosb-config"),
            ("m.example/only", "NeverContactSource of ConfigMap mosb-config"),
        ] {
            let message = problem(&settings, image);
            assert!(message.contains(want) && !message.contains("/mosb-"), "{image}: {message}");
        }
        settings.registry_sources.allowed_registries.clear();
        settings.registry_sources.object = "Image cluster".to_owned();
        let message = problem(&settings, "bad.example/os");
        let want = "blocked by \"bad.example\" in spec.registrySources.blockedRegistries of Image cluster; take it out there";
        assert!(message.contains(want), "{message}");
    }
}
