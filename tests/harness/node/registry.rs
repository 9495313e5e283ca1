//! The node's registry: reached by this process, by pods and by containerd under one name, with TLS
//! and two users.

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::place::{Place, make_directory, write};
use super::settings::random;
use super::{Problem, problem};
use crate::child::{finish, limited};
use crate::tls::Certificate;

const PORT: u16 = 5000;
/// The user who pushes.
const USER: &str = "builder";
/// The user who only pulls; the registry itself can't forbid more.
const PULLER: &str = "puller";

/// A running registry; see [`super::Node::registry`].
#[derive(Debug)]
pub struct NodeRegistry {
    /// `ADDRESS:5000`, the same for everybody.
    pub host_port: String,
    /// The certificate of the registry's own authority, which nothing else trusts.
    pub ca_pem: String,
    pub user: &'static str,
    /// Made for this run alone, 32 hex digits: where else it turns up, a secret has got out.
    pub password: String,
    /// The same of another user, `puller`: for secrets that a build may see.
    pub pull_password: String,
    directory: PathBuf,
}

impl NodeRegistry {
    /// Writes the configuration of the program, and what containerd must know.
    pub fn write(place: &Place) -> Result<Self, Problem> {
        let directory = place.path("registry");
        let certificates = directory.join("certificates");
        make_directory(&certificates)?;
        let node = place.subnet.node();
        let host_port = format!("{node}:{PORT}");
        let authority = Certificate::authority(&directory, "registry-authority");
        let names = format!("IP:{node}");
        let server =
            Certificate::signed(&directory, "registry", "/CN=registry", &names, &authority);
        let ca_pem = fs::read_to_string(&authority.certificate)
            .map_err(|why| problem(authority.certificate.display(), &why))?;
        write(&certificates.join("ca.crt"), &ca_pem)?;

        let (password, pull_password) = (random()?, random()?);
        let htpasswd = directory.join("htpasswd");
        let users = hashed(USER, &password)? + &hashed(PULLER, &pull_password)?;
        write(&htpasswd, users)?;
        // JSON is YAML.
        let settings = json!({
            "version": 0.1,
            "log": {"accesslog": {"disabled": true}},
            "storage": {
                "filesystem": {"rootdirectory": directory.join("storage")},
                "delete": {"enabled": true},
            },
            "http": {
                "addr": host_port,
                "tls": {"certificate": server.certificate, "key": server.key},
            },
            "auth": {"htpasswd": {"realm": "node", "path": htpasswd}},
        });
        write(&place.path("config/registry.json"), settings.to_string())?;

        let registry = Self { host_port, ca_pem, user: USER, password, pull_password, directory };
        write(&registry.authfile(), registry.docker_config().to_string())?;
        Ok(registry)
    }

    /// The `hosts.toml` by which containerd trusts an authority's certificate.
    pub fn hosts(&self, authority: &Path) -> String {
        let host_port = &self.host_port;
        format!(
            "server = \"https://{host_port}\"\n[host.\"https://{host_port}\"]\n  ca = {authority:?}\n"
        )
    }

    /// `ADDRESS:5000/name`.
    pub fn repository(&self, name: &str) -> String {
        format!("{}/{name}", self.host_port)
    }

    /// The user's credentials, as a secret of type `kubernetes.io/dockerconfigjson` holds them.
    pub fn docker_config(&self) -> Value {
        self.config_of(self.user, &self.password)
    }

    /// The same of the user who only pulls.
    pub fn pull_config(&self) -> Value {
        self.config_of(PULLER, &self.pull_password)
    }

    fn config_of(&self, user: &str, password: &str) -> Value {
        let auth = STANDARD.encode(format!("{user}:{password}"));
        json!({"auths": {&self.host_port: {"auth": auth}}})
    }

    /// [`Self::docker_config`] in a file.
    pub fn authfile(&self) -> PathBuf {
        self.directory.join("authfile.json")
    }

    /// A directory with `ca.crt`, as `--cert-dir` takes it.
    pub fn certificates(&self) -> PathBuf {
        self.directory.join("certificates")
    }

    /// Puts an image into `repository:tag`, from anything that skopeo reads, all platforms, byte
    /// for byte.
    #[track_caller]
    pub fn push(&self, source: &str, image: &str) {
        self.skopeo(
            &["copy", "--quiet", "--all", "--preserve-digests"],
            "dest",
            &[source, &format!("docker://{}", self.repository(image))],
        );
    }

    /// Reads `repository:tag` or `repository@digest`, into a place of skopeo's.
    #[track_caller]
    pub fn pull(&self, image: &str, to: &str) {
        self.skopeo(
            &["copy", "--quiet", "--all", "--preserve-digests"],
            "src",
            &[&format!("docker://{}", self.repository(image)), to],
        );
    }

    /// Takes `repository@digest` away from those who ask for it.
    #[track_caller]
    pub fn delete(&self, image: &str) {
        let mut skopeo = limited("skopeo");
        skopeo
            .args(["--insecure-policy", "delete", "--cert-dir"])
            .arg(self.certificates())
            .arg("--authfile")
            .arg(self.authfile())
            .arg(format!("docker://{}", self.repository(image)));
        finish(&mut skopeo, &[]).ok();
    }

    /// Whether it has `host:port/repository@digest`.
    pub fn has(&self, image: &str) -> bool {
        let mut skopeo = limited("skopeo");
        skopeo
            .args(["--insecure-policy", "inspect", "--raw", "--cert-dir"])
            .arg(self.certificates())
            .arg("--authfile")
            .arg(self.authfile())
            .arg(format!("docker://{image}"));
        finish(&mut skopeo, &[]).status.success()
    }

    fn skopeo(&self, command: &[&str], side: &str, places: &[&str]) {
        let mut skopeo = limited("skopeo");
        skopeo
            .arg("--insecure-policy")
            .args(command)
            .arg(format!("--{side}-cert-dir={}", self.certificates().display()))
            .arg(format!("--{side}-authfile={}", self.authfile().display()))
            .args(places);
        finish(&mut skopeo, &[]).ok();
    }

    /// Whether a server listens there.
    pub fn listens(&self) -> bool {
        TcpStream::connect(&self.host_port).is_ok()
    }

    /// The digest of the manifest `repository:tag`.
    #[track_caller]
    pub fn tagged(&self, repository: &str, tag: &str) -> String {
        let tags = format!("docker/registry/v2/repositories/{repository}/_manifests/tags");
        let link = self.storage().join(tags).join(tag).join("current/link");
        fs::read_to_string(&link).unwrap_or_else(|why| panic!("{repository}:{tag}: {why}"))
    }

    /// A blob that it was given.
    #[track_caller]
    pub fn blob(&self, digest: &str) -> File {
        let hex = digest.trim_start_matches("sha256:");
        let blobs = self.storage().join("docker/registry/v2/blobs/sha256");
        let file = blobs.join(&hex[..2]).join(hex).join("data");
        File::open(&file).unwrap_or_else(|why| panic!("{digest}: {why}"))
    }

    /// Where it keeps all that it was given: to look for what must not be there.
    pub fn storage(&self) -> PathBuf {
        self.directory.join("storage")
    }
}

/// The line for a user. Perl is a part of every Debian, and its `crypt` knows bcrypt.
fn hashed(user: &str, password: &str) -> Result<String, Problem> {
    const SCRIPT: &str = r#"print crypt(<STDIN>, '$2y$04$mosbmosbmosbmosbmosbmO')"#;
    let finished = finish(limited("perl").args(["-e", SCRIPT]), password.as_bytes());
    let hash = finished.text();
    if hash.starts_with("$2y$04$") {
        Ok(format!("{user}:{hash}\n"))
    } else {
        Err(format!("perl's crypt makes no bcrypt: {hash:?} {}", finished.stderr))
    }
}
