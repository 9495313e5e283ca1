//! Real registries on free ports: Debian's (distribution 2.8), distribution 3 and olareg, with or
//! without authentication.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::child::{Daemon, Finished, finish, lasting, limited, run};
use super::layout::Layout;
use super::parts::{OLAREG, REGISTRY};
use super::tls::Certificate;
use super::token::{ISSUER, SERVICE, TokenServer};

/// The only user of a registry with authentication.
pub const USER: &str = "builder";
pub const PASSWORD: &str = "not-a-secret";
/// A user that can pull everything but push nothing, with the same password, if a registry uses
/// tokens.
pub const READER: &str = "reader";
/// The `htpasswd -B` entry of [`USER`], with the lowest cost of bcrypt.
const HTPASSWD: &str = "builder:$2y$04$mosbmosbmosbmosbmosbmO2ENYRTiFdTNwz/197wKdrKhpedOUEQa\n";

/// The registry program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// Debian's `docker-registry` 2.8, without the referrers API.
    Debian,
    /// distribution 3.
    Distribution,
    /// olareg, with storage in memory, without authentication and TLS.
    Olareg,
}

/// The authentication of a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Anyone,
    /// Basic authentication of `USER`.
    Basic,
    /// Tokens for `USER`. Anonymous clients can pull repositories below `public/`.
    Token,
}

/// The transport of a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Http,
    /// A certificate of a private authority; see [`Registry::certificates`].
    Https,
    /// Like `Https`, and with a client certificate, which is beside the authority's.
    MutualTls,
}

/// A running registry, empty at the start.
#[derive(Debug)]
pub struct Registry {
    address: String,
    transport: Transport,
    program: PathBuf,
    daemon: Option<Daemon>,
    _tokens: Option<TokenServer>,
    directory: TempDir,
}

/// The tags, manifests and links to blobs that a repository had.
#[derive(Debug)]
pub struct SavedRepository {
    repository: String,
    copy: TempDir,
}

impl Registry {
    #[track_caller]
    pub fn start(server: Server, access: Access, transport: Transport) -> Self {
        let directory = TempDir::new().unwrap();
        let path = directory.path();
        fs::create_dir(path.join("certificates")).unwrap();
        let tokens = (access == Access::Token).then(|| TokenServer::start(path));
        let config = path.join("config.json");
        // JSON is valid YAML.
        let settings = json!({
            "version": 0.1,
            "log": {"accesslog": {"disabled": true}},
            "storage": {
                "filesystem": {"rootdirectory": path.join("storage")},
                "delete": {"enabled": true},
            },
            "http": http(path, transport),
            "auth": auth(path, access, tokens.as_ref()),
        });
        fs::write(&config, settings.to_string()).unwrap();
        let program = match server {
            Server::Debian => PathBuf::from("docker-registry"),
            Server::Distribution => REGISTRY.program(),
            Server::Olareg => {
                assert_eq!((access, transport), (Access::Anyone, Transport::Http));
                OLAREG.program()
            }
        };
        let (daemon, address) = serve(&program, &config);
        let registry =
            Self { address, transport, program, daemon: Some(daemon), _tokens: tokens, directory };
        registry.write_authfile("authfile.json", USER, PASSWORD);
        registry
    }

    /// Starts an open registry without TLS, which most tests use.
    #[track_caller]
    pub fn plain() -> Self {
        Self::start(Server::Debian, Access::Anyone, Transport::Http)
    }

    /// Kills the process. The storage is not deleted.
    pub fn stop(&mut self) {
        self.daemon = None;
    }

    /// Starts it again at the same address.
    #[track_caller]
    pub fn start_again(&mut self) {
        let config = self.directory.path().join("config.json");
        let mut settings: Value = serde_json::from_slice(&fs::read(&config).unwrap()).unwrap();
        settings["http"]["addr"] = json!(self.address);
        fs::write(&config, settings.to_string()).unwrap();
        self.daemon = Some(serve(&self.program, &config).0);
    }

    /// Starts it again without deletion by its API.
    #[track_caller]
    pub fn refuse_deletion(&mut self) {
        self.stop();
        let config = self.directory.path().join("config.json");
        let mut settings: Value = serde_json::from_slice(&fs::read(&config).unwrap()).unwrap();
        settings["storage"]["delete"]["enabled"] = json!(false);
        fs::write(&config, settings.to_string()).unwrap();
        self.start_again();
    }

    /// Deletes a repository from the storage.
    pub fn forget(&self, repository: &str) {
        fs::remove_dir_all(self.folder(repository)).unwrap();
    }

    /// Copies what the storage has of a repository, without the blobs.
    pub fn save(&self, repository: &str) -> SavedRepository {
        let copy = TempDir::new().unwrap();
        copy_directory(&self.folder(repository), &copy.path().join("copy"));
        SavedRepository { repository: repository.to_owned(), copy }
    }

    /// Sets a repository back to what it was, as if nothing had been pushed since.
    pub fn restore(&self, saved: &SavedRepository) {
        self.forget(&saved.repository);
        copy_directory(&saved.copy.path().join("copy"), &self.folder(&saved.repository));
    }

    fn folder(&self, repository: &str) -> PathBuf {
        let repositories = "storage/docker/registry/v2/repositories";
        self.directory.path().join(repositories).join(repository)
    }

    /// The address as `127.0.0.1:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The name of a repository as `127.0.0.1:port/name`.
    pub fn repository(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }

    /// A directory with `ca.crt` for `--cert-dir`. It is empty without TLS.
    pub fn certificates(&self) -> PathBuf {
        self.directory.path().join("certificates")
    }

    /// A file with the credentials of `USER` in docker's format.
    pub fn authfile(&self) -> PathBuf {
        self.directory.path().join("authfile.json")
    }

    /// A file with the credentials of `READER`.
    pub fn reader_authfile(&self) -> PathBuf {
        self.write_authfile("reader.json", READER, PASSWORD)
    }

    /// A file with a wrong password.
    pub fn wrong_authfile(&self) -> PathBuf {
        self.write_authfile("wrong.json", USER, "wrong")
    }

    fn write_authfile(&self, name: &str, user: &str, password: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        let auth = STANDARD.encode(format!("{user}:{password}"));
        fs::write(&path, json!({"auths": {&self.address: {"auth": auth}}}).to_string()).unwrap();
        path
    }

    /// Copies an image of a layout to `repository:tag` by skopeo, without changes.
    #[track_caller]
    pub fn push(&self, layout: &Layout, tag: &str, image: &str) {
        self.copy(&layout.reference(tag), image, &["--all", "--preserve-digests"]);
    }

    /// Copies an image and converts it to Docker's media types.
    #[track_caller]
    pub fn push_docker(&self, layout: &Layout, tag: &str, image: &str) {
        self.copy(&layout.reference(tag), image, &["--format=v2s2"]);
    }

    fn copy(&self, source: &str, image: &str, flags: &[&str]) {
        let mut command = limited("skopeo");
        command
            .args(["--insecure-policy", "copy", "--quiet"])
            .args(flags)
            .arg(format!("--dest-tls-verify={}", self.verify()))
            .arg(format!("--dest-cert-dir={}", self.certificates().display()))
            .arg(format!("--dest-authfile={}", self.authfile().display()))
            .arg(source)
            .arg(format!("docker://{}", self.repository(image)));
        finish(&mut command, &[]).ok();
    }

    /// Reads all of `repository:tag` by skopeo into a local target (`dir:…`, `oci:…`).
    #[track_caller]
    pub fn pull(&self, image: &str, to: &str) {
        let mut command = limited("skopeo");
        command
            .args(["--insecure-policy", "copy", "--quiet"])
            .arg(format!("--src-tls-verify={}", self.verify()))
            .arg(format!("--src-cert-dir={}", self.certificates().display()))
            .arg(format!("--src-authfile={}", self.authfile().display()))
            .arg(format!("docker://{}", self.repository(image)))
            .arg(to);
        finish(&mut command, &[]).ok();
    }

    fn verify(&self) -> bool {
        self.transport != Transport::Http
    }

    /// Runs `skopeo inspect` on `repository:tag`, with credentials from a file.
    #[track_caller]
    pub fn inspect(&self, image: &str, authfile: &Path) -> Finished {
        let mut command = limited("skopeo");
        command
            .args(["--insecure-policy", "inspect"])
            .arg(format!("--tls-verify={}", self.verify()))
            .arg(format!("--cert-dir={}", self.certificates().display()))
            .arg(format!("--authfile={}", authfile.display()))
            .arg(format!("docker://{}", self.repository(image)));
        finish(&mut command, &[])
    }

    /// All files in the registry's storage.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut folders = vec![self.directory.path().join("storage")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { folders.push(path) } else { files.push(path) }
            }
        }
        files.sort();
        files
    }

    /// The path of a blob in the storage, for reading or for damaging it.
    pub fn blob_path(&self, digest: &str) -> PathBuf {
        let hex = digest.trim_start_matches("sha256:");
        let blobs = self.directory.path().join("storage/docker/registry/v2/blobs/sha256");
        blobs.join(&hex[..2]).join(hex).join("data")
    }
}

#[track_caller]
fn copy_directory(from: &Path, to: &Path) {
    run("cp", ["-a".as_ref(), from.as_os_str(), to.as_os_str()]);
}

fn serve(program: &Path, config: &Path) -> (Daemon, String) {
    let mut command = lasting(program);
    command.arg("serve").arg(config).env("OTEL_TRACES_EXPORTER", "none");
    Daemon::start(command, address)
}

fn http(path: &Path, transport: Transport) -> Value {
    let mut settings = json!({"addr": "127.0.0.1:0"});
    if transport != Transport::Http {
        let authority = Certificate::authority(path, "authority");
        let server = Certificate::server(path, "server", &authority);
        fs::copy(&authority.certificate, path.join("certificates/ca.crt")).unwrap();
        settings["tls"] = json!({"certificate": server.certificate, "key": server.key});
        if transport == Transport::MutualTls {
            settings["tls"]["clientcas"] = json!([authority.certificate]);
            let client = Certificate::server(path, "client", &authority);
            fs::copy(&client.certificate, path.join("certificates/client.cert")).unwrap();
            fs::copy(&client.key, path.join("certificates/client.key")).unwrap();
        }
    }
    settings
}

fn auth(path: &Path, access: Access, tokens: Option<&TokenServer>) -> Value {
    let htpasswd = path.join("htpasswd");
    match (access, tokens) {
        (Access::Token, Some(tokens)) => json!({"token": {
            "realm": tokens.realm(), "service": SERVICE, "issuer": ISSUER,
            "rootcertbundle": tokens.certificate,
        }}),
        (Access::Basic, _) => {
            fs::write(&htpasswd, HTPASSWD).unwrap();
            json!({"htpasswd": {"realm": "tests", "path": htpasswd}})
        }
        (Access::Anyone | Access::Token, _) => Value::Null,
    }
}

/// Parses the address from the log line that both registries write when they listen.
fn address(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("listening on ")?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ':');
    Some(rest[..end.unwrap_or(rest.len())].to_owned())
}
