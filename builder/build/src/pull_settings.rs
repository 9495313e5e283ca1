//! What a machine pulls one image with, beside a login: mirrors, CAs and proxy of the cluster's
//! settings. The controller makes it, a Secret carries it as JSON, and the machine's tools see it
//! while they pull.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{pull_repositories, registries_conf};
use mosb_image::{PinnedRef, RepoRef};
use mosb_plan::api::ClusterSettings;
use mosb_plan::api::cluster_settings::{Proxy, ProxyUrl, is_host};
use mosb_registry::http::Secret;
use mosb_registry::registries_conf::{By, RegistriesConf, full_name};
use mosb_types::{Diagnostic, canonical_json};

/// The most bytes of the JSON. A Secret has at most 1 MiB, and this one has more in it.
pub const MAX_PULL_SETTINGS: usize = 512 * 1024;
/// The most mirrors, and hosts with CAs, that are read.
const MAX_ENTRIES: usize = 100;
/// A script for a machine, with the arguments `ETC GIVEN OUT`. It makes what is shown to the pull
/// of an image in place of the machine's `/etc/containers`.
pub const COPY_CONTAINERS: &str = include_str!("copy_containers.sh");
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";

/// Mirrors of the repository of one image, CAs of the hosts that it may come from, and the proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PullSettings {
    registry: Option<Registry>,
    authorities: Authorities,
    proxy: Option<Proxy>,
}

/// The entry of a `registries.conf` for the repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Registry {
    location: String,
    insecure: bool,
    /// Only its mirrors may be asked.
    blocked: bool,
    mirrors: Vec<Mirror>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Mirror {
    location: String,
    insecure: bool,
}

/// PEM certificates of CAs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Authorities {
    /// Those for each of the hosts.
    everywhere: String,
    /// Each host that an image may come from, with the CAs for this host only.
    hosts: BTreeMap<String, String>,
}

/// The settings don't fit into the Secret of a Job.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error(
    "{image}: mirrors, CAs and proxy for its pull have {bytes} bytes, of which {largest} has {largest_bytes}; a machine gets at most {MAX_PULL_SETTINGS}: leave only those CAs in it that registries need"
)]
#[diagnostic(code = "pull-settings-too-large", class = InvalidInput)]
pub struct PullSettingsTooLarge {
    pub image: PinnedRef,
    pub bytes: usize,
    /// The field of the settings with the largest bundle of CAs.
    pub largest: String,
    pub largest_bytes: usize,
}

impl PullSettings {
    /// The settings for pulling this image by its digest. `settings.proxy` has its addresses.
    ///
    /// # Errors
    /// They are too large.
    pub fn new(
        image: &PinnedRef,
        settings: &ClusterSettings,
    ) -> Result<Self, PullSettingsTooLarge> {
        let conf = registries_conf(settings);
        let repos = pull_repositories(image.repo(), conf.as_deref(), &[By::Digest]);
        let made = Self {
            registry: conf.and_then(|conf| Registry::of(image.repo(), &conf)),
            authorities: Authorities::of(&repos, settings),
            proxy: settings
                .proxy
                .clone()
                .filter(|proxy| !proxy.is_empty())
                .map(|proxy| Proxy { secret: None, ..proxy }),
        };
        let bytes = made.to_json().expose().len();
        if bytes > MAX_PULL_SETTINGS {
            let (largest, largest_bytes) = largest_bundle(settings);
            let image = image.clone();
            return Err(PullSettingsTooLarge { image, bytes, largest, largest_bytes });
        }
        Ok(made)
    }

    /// Whether a machine pulls as it would without them.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The canonical JSON, as [`parse`](Self::parse) reads it.
    pub fn to_json(&self) -> Secret<Vec<u8>> {
        let mut value = json!({});
        if let Some(registry) = &self.registry {
            value["registry"] = json!(registry);
        }
        if !self.authorities.hosts.is_empty() {
            value["authorities"] = json!(self.authorities);
        }
        if let Some(proxy) = &self.proxy {
            let url = |url: &Option<_>| url.as_ref().map(|url: &ProxyUrl| url.expose().to_owned());
            value["proxy"] = json!({
                "httpProxy": url(&proxy.http_proxy),
                "httpsProxy": url(&proxy.https_proxy),
                "noProxy": proxy.no_proxy,
            });
        }
        Secret::new(canonical_json(&value))
    }

    /// Reads the JSON. The error quotes nothing of it: an address of a proxy may have a password.
    ///
    /// # Errors
    /// It is too long, no such JSON, or has values that are invalid in a file of the machine.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > MAX_PULL_SETTINGS {
            return Err(format!("more than {MAX_PULL_SETTINGS} bytes"));
        }
        let read: Self = serde_json::from_slice(bytes).map_err(|error| {
            format!("no pull settings: line {}, column {}", error.line(), error.column())
        })?;
        read.check()?;
        Ok(read)
    }

    fn check(&self) -> Result<(), String> {
        let registry = self.registry.iter();
        let mirrors = || self.registry.iter().flat_map(|registry| &registry.mirrors);
        let mut locations = registry
            .map(|registry| &registry.location)
            .chain(mirrors().map(|mirror| &mirror.location));
        if mirrors().count() > MAX_ENTRIES || !locations.all(|place| is_repository(place)) {
            return Err("registry: a location is no repository".to_owned());
        }
        let Authorities { everywhere, hosts } = &self.authorities;
        if hosts.len() > MAX_ENTRIES || !hosts.keys().all(|host| is_host(host)) {
            return Err("authorities: a key is neither host nor host:port".to_owned());
        }
        let mut pems = hosts.values().chain([everywhere]).filter(|pem| !pem.is_empty());
        if !pems.all(|pem| pem.contains(CERTIFICATE) && !pem.contains('\0')) {
            return Err("authorities: a value has no certificate; want PEM".to_owned());
        }
        let Some(proxy) = &self.proxy else {
            return Ok(());
        };
        let mut urls = [&proxy.http_proxy, &proxy.https_proxy].into_iter().flatten();
        let no_proxy = proxy.no_proxy.as_deref().unwrap_or_default();
        if !urls.all(ProxyUrl::is_valid) || no_proxy.contains('\0') || proxy.secret.is_some() {
            return Err(
                "proxy: want httpProxy and httpsProxy as http://host:port, and noProxy".to_owned()
            );
        }
        Ok(())
    }

    /// A drop-in of `registries.conf` with the one entry for the repository, which takes precedence
    /// over all wider ones.
    pub fn registries_conf(&self) -> Option<String> {
        let registry = self.registry.as_ref()?;
        let place = |text: &mut String, location: &str, insecure: bool| {
            writeln!(text, "location = \"{location}\"\ninsecure = {insecure}")
                .expect("a String takes it");
        };
        let mut text = "[[registry]]\n".to_owned();
        place(&mut text, &registry.location, registry.insecure);
        writeln!(text, "blocked = {}", registry.blocked).expect("a String takes it");
        for mirror in &registry.mirrors {
            text.push_str("[[registry.mirror]]\n");
            place(&mut text, &mirror.location, mirror.insecure);
        }
        Some(text)
    }

    /// Each host with the PEM certificates of its CAs.
    pub fn authorities(&self) -> Vec<(String, String)> {
        self.authorities.by_host()
    }

    /// Whether there are mirrors or CAs.
    pub fn has_containers(&self) -> bool {
        self.registry.is_some() || !self.authorities.hosts.is_empty()
    }

    /// The environment of what pulls, if there is a proxy.
    pub fn environment(&self) -> Option<Secret<String>> {
        self.proxy.as_ref().map(|proxy| environment_file(Some(proxy)))
    }

    /// The addresses of the proxies, which may have a password.
    pub fn proxy_urls(&self) -> impl Iterator<Item = &str> {
        let proxy = self.proxy.iter();
        proxy
            .flat_map(|proxy| [&proxy.http_proxy, &proxy.https_proxy])
            .flatten()
            .map(ProxyUrl::expose)
    }
}

impl Registry {
    /// None if a machine without an entry does the same. An image is always pulled by its digest.
    fn of(repo: &RepoRef, conf: &str) -> Option<Self> {
        let mut all = RegistriesConf::default();
        all.add(conf, Path::new("mirrors")).ok()?;
        let location = full_name(repo);
        // A source that is blocked and has no mirrors.
        let Ok(sources) = all.pull_sources(repo, By::Digest) else {
            return Some(Self { location, insecure: false, blocked: true, mirrors: Vec::new() });
        };
        let own = sources.iter().find(|source| !source.mirror);
        let mirrors = sources.iter().filter(|source| source.mirror);
        let mirrors = mirrors
            .map(|one| Mirror { location: full_name(&one.repo), insecure: one.insecure })
            .collect();
        let insecure = own.is_some_and(|own| own.insecure);
        let made = Self { location, insecure, blocked: own.is_none(), mirrors };
        (made.insecure || made.blocked || !made.mirrors.is_empty()).then_some(made)
    }
}

impl Authorities {
    pub fn of(repos: &[RepoRef], settings: &ClusterSettings) -> Self {
        let everywhere = [&settings.additional_trust_bundle, &settings.registry_trust_bundle];
        let everywhere: String =
            everywhere.into_iter().flatten().map(|pem| line_end(pem)).collect();
        let hosts = repos.iter().filter_map(|repo| {
            let own = settings.image_registry_bundles.get(repo.host());
            let own = own.map(|pem| line_end(pem)).unwrap_or_default();
            let has_any = !own.is_empty() || !everywhere.is_empty();
            has_any.then(|| (repo.host().to_owned(), own))
        });
        let hosts: BTreeMap<String, String> = hosts.collect();
        // Without a host, there is nothing to be trusted.
        if hosts.is_empty() { Self::default() } else { Self { everywhere, hosts } }
    }

    /// Each host with all PEM certificates for it.
    pub fn by_host(&self) -> Vec<(String, String)> {
        let all = self.hosts.iter();
        all.map(|(host, own)| (host.clone(), format!("{}{own}", self.everywhere))).collect()
    }
}

/// A file for `EnvironmentFile=` (systemd.exec(5)). It is not empty: the unit of a first boot knows by
/// it that there is something to do.
pub(crate) fn environment_file(proxy: Option<&Proxy>) -> Secret<String> {
    let mut text = "# The proxy of the pull\n".to_owned();
    for (name, value) in proxy.map(Proxy::variables).unwrap_or_default() {
        let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
        writeln!(text, "{name}=\"{quoted}\"").expect("a String takes it");
    }
    Secret::new(text)
}

/// The field with the largest bundle of CAs, and its bytes.
fn largest_bundle(settings: &ClusterSettings) -> (String, usize) {
    let everywhere = [
        ("additionalTrustBundle", &settings.additional_trust_bundle),
        ("registryTrustBundle", &settings.registry_trust_bundle),
    ];
    let everywhere = everywhere
        .into_iter()
        .filter_map(|(field, pem)| Some((field.to_owned(), pem.as_ref()?.len())));
    let of_hosts = settings.image_registry_bundles.iter();
    let of_hosts = of_hosts.map(|(host, pem)| (format!("imageRegistryBundles.{host}"), pem.len()));
    let largest = everywhere.chain(of_hosts).max_by_key(|(_, bytes)| *bytes);
    largest.unwrap_or_else(|| ("mirrors".to_owned(), 0))
}

fn line_end(pem: &str) -> String {
    format!("{}\n", pem.trim_end())
}

fn is_repository(text: &str) -> bool {
    text.parse::<RepoRef>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_image::Digest;

    const SETTINGS: &str = r"
additionalTrustBundle: |
  -----BEGIN CERTIFICATE-----
  of-all
imageRegistryBundles:
  registry.example:5000: |
    -----BEGIN CERTIFICATE-----
    of-registry
  other.example: |
    -----BEGIN CERTIFICATE-----
    of-other
mirrors:
  - {source: registry.example:5000/acme, mirrors: [mirror.example/acme, tags.example/acme]}
  - {source: registry.example:5000/acme, mirrors: [never.example/acme], by: tag}
  - {source: quay.io, mirrors: [mirror.example/quay]}
registrySources: {insecureRegistries: [mirror.example]}
";

    fn image() -> PinnedRef {
        let repo: RepoRef = "registry.example:5000/acme/os".parse().unwrap();
        repo.pinned(Digest::of(b"image"))
    }

    fn settings(text: &str) -> ClusterSettings {
        let mut settings = ClusterSettings::parse(text).unwrap();
        let proxy = [
            ("httpsProxy", "http://user:pass-word@proxy.example:3128"),
            ("noProxy", "a.example, \"b\\c\""),
        ];
        let proxy = proxy.map(|(key, text)| (key.to_owned(), text.as_bytes().to_vec()));
        settings.proxy = Some(Proxy::default().with_secret(&proxy.into()).unwrap());
        settings
    }

    #[test]
    fn a_machine_gets_what_its_repository_needs_and_no_more() {
        let made = PullSettings::new(&image(), &settings(SETTINGS)).unwrap();
        let conf = made.registries_conf().unwrap();
        let want = r#"[[registry]]
location = "registry.example:5000/acme/os"
insecure = false
blocked = false
[[registry.mirror]]
location = "mirror.example/acme/os"
insecure = true
[[registry.mirror]]
location = "tags.example/acme/os"
insecure = false
"#;
        assert_eq!(conf, want);
        // Our own client reads the same from it as from the whole.
        let whole = registries_conf(&settings(SETTINGS)).unwrap();
        let places = [&conf, &whole].map(|text| {
            let mut read = RegistriesConf::default();
            read.add(text, Path::new("registries.conf")).unwrap();
            read.pull_sources(image().repo(), By::Digest).unwrap()
        });
        assert_eq!(places[0], places[1]);
        let all = "-----BEGIN CERTIFICATE-----\nof-all\n";
        let own = "-----BEGIN CERTIFICATE-----\nof-registry\n";
        let authorities = [
            ("mirror.example".to_owned(), all.to_owned()),
            ("registry.example:5000".to_owned(), format!("{all}{own}")),
            ("tags.example".to_owned(), all.to_owned()),
        ];
        assert_eq!(made.authorities(), authorities);
        let environment = made.environment().unwrap();
        for line in [
            "https_proxy=\"http://user:pass-word@proxy.example:3128\"",
            r#"NO_PROXY="a.example, \"b\\c\"""#,
        ] {
            assert!(environment.expose().lines().any(|it| it == line), "{line}");
        }
        assert_eq!(made.proxy_urls().count(), 1);
        assert!(!format!("{made:?}").contains("pass-word"));
        assert_eq!(PullSettings::parse(made.to_json().expose()).unwrap(), made);
    }

    #[test]
    fn without_settings_for_its_repository_a_machine_pulls_as_it_does() {
        for text in [
            "{}",
            "mirrors: [{source: quay.io, mirrors: [mirror.example/quay]}]",
            "mirrors: [{source: registry.example:5000, mirrors: [a.example/b], by: tag}]",
            "imageRegistryBundles: {a.example: '-----BEGIN CERTIFICATE-----'}",
            "registrySources: {blockedRegistries: [a.example]}",
        ] {
            let made = PullSettings::new(&image(), &ClusterSettings::parse(text).unwrap()).unwrap();
            assert!(made.is_empty(), "{text}");
            assert_eq!(made.to_json().expose(), b"{}", "{text}");
            assert_eq!(made.registries_conf(), None, "{text}");
            assert!(made.environment().is_none() && !made.has_containers(), "{text}");
        }
        assert!(PullSettings::parse(b"{}").unwrap().is_empty());
    }

    #[test]
    fn a_source_that_must_not_be_asked_is_blocked() {
        for (text, mirrors) in [
            (
                "mirrors: [{source: registry.example:5000/acme, mirrors: [a.example/b], mirrorSourcePolicy: NeverContactSource}]",
                1,
            ),
            ("registrySources: {blockedRegistries: ['registry.example:5000']}", 0),
        ] {
            let made = PullSettings::new(&image(), &ClusterSettings::parse(text).unwrap()).unwrap();
            let conf = made.registries_conf().unwrap();
            assert!(conf.contains("blocked = true"), "{text}: {conf}");
            assert_eq!(conf.matches("registry.mirror").count(), mirrors, "{text}: {conf}");
        }
    }

    #[test]
    fn a_bundle_that_is_too_large_is_named() {
        let large = format!("{CERTIFICATE}\n{}", "x".repeat(MAX_PULL_SETTINGS));
        let mut settings = settings(SETTINGS);
        settings.image_registry_bundles.insert("other.example".to_owned(), large.clone());
        // No image of it is pulled.
        assert!(PullSettings::new(&image(), &settings).is_ok());
        settings.registry_trust_bundle = Some(large + "larger");
        let error = PullSettings::new(&image(), &settings).unwrap_err();
        assert_eq!(error.largest, "registryTrustBundle");
        assert!(error.to_string().contains("registryTrustBundle"), "{error}");
    }

    #[test]
    fn json_that_is_unfit_for_files_of_a_machine_is_refused_and_not_quoted() {
        let registry = |location: &str, mirror: &str| {
            json!({ "registry": { "location": location, "insecure": false, "blocked": false,
                "mirrors": [{ "location": mirror, "insecure": false }] } })
        };
        let host = |host: &str, pem: &str| json!({ "authorities": { "hosts": { host: pem } } });
        assert!(
            PullSettings::parse(registry("a.example/b", "c.example/d").to_string().as_bytes())
                .is_ok()
        );
        assert!(PullSettings::parse(host("a.example", CERTIFICATE).to_string().as_bytes()).is_ok());
        let many: Vec<_> = (0..=MAX_ENTRIES).map(|at| format!("a{at}.example")).collect();
        let many: BTreeMap<_, _> = many.iter().map(|host| (host, CERTIFICATE)).collect();
        for value in [
            registry("a.example/b\"\nblocked = true", "c.example/d"),
            registry("a.example/b", "hush"),
            host("../hush", CERTIFICATE),
            host("..", CERTIFICATE),
            host("a.example/hush", CERTIFICATE),
            host("a.example", "hush"),
            json!({ "authorities": { "hosts": many } }),
            json!({ "proxy": { "httpProxy": "hush" } }),
            json!({ "proxy": { "httpsProxy": "http://a\nhush" } }),
            json!({ "proxy": { "noProxy": "hush\0" } }),
            json!({ "proxy": { "secret": "hush" } }),
            json!({ "later": "hush" }),
            json!({ "proxy": "hush" }),
            json!(" ".repeat(MAX_PULL_SETTINGS)),
        ] {
            let error = PullSettings::parse(value.to_string().as_bytes()).unwrap_err();
            assert!(!error.contains("hush"), "{error}");
        }
    }

    fn copy(dir: &Path) -> std::process::Output {
        let script = dir.join("script");
        std::fs::write(&script, COPY_CONTAINERS).unwrap();
        let paths = ["etc", "given", "run/out"].map(|name| dir.join(name));
        std::process::Command::new("sh").arg(script).args(paths).output().unwrap()
    }

    #[test]
    fn the_copy_has_what_the_machine_has_and_what_is_given_and_changes_neither() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let write = |name: &str, text: &str, mode: u32| {
            std::fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            std::fs::write(path(name), text).unwrap();
            std::fs::set_permissions(path(name), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        write("etc/containers/policy.json", "policy", 0o644);
        write("etc/elsewhere/first/own.crt", "own", 0o644);
        write("etc/elsewhere/first/own.key", "key", 0o600);
        std::fs::create_dir_all(path("etc/containers/certs.d")).unwrap();
        symlink("../../elsewhere/first", path("etc/containers/certs.d/first")).unwrap();
        symlink("/nowhere", path("etc/containers/dangling")).unwrap();
        write("etc/docker/certs.d/second:5000/docker.crt", "docker", 0o644);
        write("etc/docker/certs.d/first/hidden.crt", "hidden", 0o644);
        write("given/certs.d/first/ours.crt", "ours", 0o600);
        write("given/certs.d/second:5000/ours.crt", "ours", 0o644);
        write("given/registries.conf.d/ours.conf", "mirrors", 0o644);
        // The second time, a try that was killed left something.
        for _ in 0..2 {
            let output = copy(dir.path());
            assert!(output.status.success(), "{output:?}");
            let mode = |name: &str| {
                let found = path("run/out").join(name).symlink_metadata();
                found.ok().map(|found| found.permissions().mode() & 0o7777)
            };
            for (name, want) in [
                ("", Some(0o755)),
                ("policy.json", Some(0o644)),
                ("certs.d/first/own.crt", Some(0o644)),
                ("certs.d/first/own.key", Some(0o600)),
                ("certs.d/first/ours.crt", Some(0o644)),
                ("certs.d/first/hidden.crt", None),
                ("certs.d/second:5000/docker.crt", Some(0o644)),
                ("certs.d/second:5000/ours.crt", Some(0o644)),
                ("registries.conf.d/ours.conf", Some(0o644)),
                ("dangling", None),
            ] {
                assert_eq!(mode(name), want, "{name}");
            }
            assert_eq!(path("run").metadata().unwrap().permissions().mode() & 0o7777, 0o700);
            assert!(!path("etc/elsewhere/first/ours.crt").exists());
            assert!(!path("etc/docker/certs.d/second:5000/ours.crt").exists());
            write("run/out.new/half", "", 0o644);
        }
        // Settings that are not there any more.
        std::fs::remove_dir_all(path("given")).unwrap();
        assert!(copy(dir.path()).status.success());
        assert!(!path("run/out").exists());
    }

    #[test]
    fn a_machine_without_settings_gets_the_directory_on_which_the_copy_is_mounted() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("given/registries.conf.d")).unwrap();
        assert!(copy(dir.path()).status.success());
        assert_eq!(std::fs::read_dir(dir.path().join("etc/containers")).unwrap().count(), 0);
        assert!(dir.path().join("run/out/registries.conf.d").exists());
        // What is no setting is not copied into memory.
        let large = std::fs::File::create(dir.path().join("etc/containers/large")).unwrap();
        std::io::Write::write_all(&mut &large, &vec![1; 17 << 20]).unwrap();
        let output = copy(dir.path());
        assert!(!output.status.success());
        assert!(String::from_utf8_lossy(&output.stderr).contains("KiB"), "{output:?}");
    }
}
