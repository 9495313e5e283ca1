//! Where logins are looked for, in order, and the programs (`docker-credential-*`) that keep them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::auth::credentials::{CredentialEntry, CredentialsError, DockerConfig, Login};
use crate::auth::login_key::normal_host;
use crate::error::Error;
use mosb_types::{Diagnostic as _, Explained, Secret};

/// Logins that are handed over and lie in no file, and what messages call them.
#[derive(Debug, Clone)]
pub struct Logins {
    /// Such as `secret push-secret`.
    pub origin: String,
    /// In docker's format.
    pub json: Secret<Vec<u8>>,
}

/// What the environment says about places with logins; `cli` reads it and hands it in.
#[derive(Debug, Clone, Default)]
pub struct CredentialSources {
    /// Only these: no file is looked into.
    pub only: Option<Logins>,
    /// `--authfile` or `--push-authfile`: only this file, and it must exist.
    pub authfile: Option<PathBuf>,
    /// `REGISTRY_AUTH_FILE`: only this file, and it must exist.
    pub registry_auth_file: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`; where it isn't set, podman and buildah keep logins in
    /// `/run/containers/<uid>`, which is asked too if a home is known (without one, nothing of this
    /// machine is meant to be seen).
    pub runtime_dir: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`; `~/.config` where it isn't set.
    pub config_home: Option<PathBuf>,
    /// `DOCKER_CONFIG`, a folder; `~/.docker` where it isn't set.
    pub docker_config: Option<PathBuf>,
    pub home: Option<PathBuf>,
}

impl CredentialSources {
    /// The files in the order in which they are asked, and whether each must exist
    /// (containers-auth.json(5)).
    pub fn files(&self) -> Vec<(PathBuf, bool)> {
        if self.only.is_some() {
            return Vec::new();
        }
        if let Some(only) = self.authfile.as_ref().or(self.registry_auth_file.as_ref()) {
            return vec![(only.clone(), true)];
        }
        let below_home = |path: &str| self.home.as_ref().map(|home| home.join(path));
        let config_home = self.config_home.clone().or_else(|| below_home(".config"));
        let docker = self.docker_config.clone().or_else(|| below_home(".docker"));
        let runtime = match (&self.runtime_dir, &self.home) {
            (Some(dir), _) => Some(dir.join("containers/auth.json")),
            (None, Some(_)) => {
                let uid = rustix::process::getuid().as_raw();
                Some(format!("/run/containers/{uid}/auth.json").into())
            }
            (None, None) => None,
        };
        [
            runtime,
            config_home.map(|dir| dir.join("containers/auth.json")),
            docker.map(|dir| dir.join("config.json")),
            below_home(".dockercfg"),
        ]
        .into_iter()
        .flatten()
        .map(|file| (file, false))
        .collect()
    }
}

/// A login and its origin, which may be logged.
#[derive(Debug, Clone)]
pub(crate) struct Credential {
    pub login: Login,
    pub origin: String,
}

/// Where a login came from, for an error's sentence.
pub(crate) fn describe(credential: Option<&Credential>) -> String {
    match credential {
        Some(credential) => format!("with the credentials of {}", credential.origin),
        None => "without credentials (none are known for it)".to_owned(),
    }
}

/// Most that a file with logins or a helper's answer may hold.
const MOST: u64 = 4 << 20;
/// A helper may wait for input of a user, which never comes.
const HELPER_TIME: Duration = Duration::from_secs(30);

/// Credentials by host and repository, so that a helper is run once.
type CredentialCache = HashMap<(String, String), Option<Arc<Credential>>>;

/// The logins, read once.
#[derive(Debug)]
pub(crate) struct Keyring {
    /// Where they are from, for messages, and what they say.
    configs: Vec<(String, DockerConfig)>,
    cache: Mutex<CredentialCache>,
}

impl Keyring {
    /// Reads every file that there is.
    pub fn read(sources: &CredentialSources) -> Result<Self, Error> {
        let parse = |origin: String, text: &[u8]| match DockerConfig::parse(text) {
            Ok(config) => Ok((origin, config)),
            Err(error) => Err(unusable(&origin, &error)),
        };
        let mut configs = Vec::new();
        if let Some(Logins { origin, json }) = &sources.only {
            configs.push(parse(origin.clone(), json.expose())?);
        }
        for (path, required) in sources.files() {
            let text = match read_bounded(&path) {
                Ok(text) => text,
                Err(e) if !required && e.kind() == std::io::ErrorKind::NotFound => continue,
                Err(e) => {
                    return Err(Error::Credentials {
                        origin: path.display().to_string(),
                        cause: format!("credentials not readable: {e}").into(),
                    });
                }
            };
            configs.push(parse(path.display().to_string(), &text)?);
        }
        Ok(Self { configs, cache: Mutex::default() })
    }

    /// The login for a repository of a registry, if any file or helper has one.
    pub async fn find(
        &self,
        host: &str,
        repository: &str,
    ) -> Result<Option<Arc<Credential>>, Error> {
        let key = (host.to_owned(), repository.to_owned());
        if let Some(known) = self.lock().get(&key) {
            return Ok(known.clone());
        }
        let mut credential = None;
        for (origin, config) in &self.configs {
            let found = match config.find(host, repository).map_err(|e| unusable(origin, &e))? {
                None => None,
                Some(CredentialEntry::Login(login)) => {
                    Some(Credential { login, origin: origin.clone() })
                }
                Some(CredentialEntry::Helper(name)) => {
                    let program = format!("docker-credential-{name}");
                    ask_helper(&program, host).await?.map(|login| Credential {
                        login,
                        origin: format!("{program} (named by {origin})"),
                    })
                }
            };
            if found.is_some() {
                credential = found.map(Arc::new);
                break;
            }
        }
        self.lock().insert(key, credential.clone());
        Ok(credential)
    }

    fn lock(&self) -> MutexGuard<'_, CredentialCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unusable(origin: &str, error: &CredentialsError) -> Error {
    Error::Credentials { origin: origin.to_owned(), cause: error.explained() }
}

fn read_bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut text = Vec::new();
    std::fs::File::open(path)?.take(MOST).read_to_end(&mut text)?;
    Ok(text)
}

#[derive(Deserialize)]
struct HelperAnswer {
    #[serde(default, rename = "Username")]
    username: String,
    #[serde(default, rename = "Secret")]
    secret: String,
}

/// Runs `docker-credential-<name> get` (docker-credential-helpers, development): host on stdin,
/// JSON on stdout. Not by way of `exec`: a helper needs stdin and all of the user's environment (a
/// key ring's socket, a cloud's variables), and what it says to stdout is a secret.
async fn ask_helper(program: &str, host: &str) -> Result<Option<Login>, Error> {
    let broken = |cause| Error::Credentials { origin: program.to_owned(), cause };
    // Credentials for Docker Hub have the key of its address of 2013.
    let server = match normal_host(host) {
        "docker.io" => "https://index.docker.io/v1/",
        other => other,
    };
    let mut child = tokio::process::Command::new(program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|e| {
            let remedy = "install it or take it out of the docker config";
            broken(Explained::new(format!("can't be run: {e}"), remedy))
        })?;
    let mut stdin = child.stdin.take().expect("stdin is piped above");
    let stdout = child.stdout.take().expect("stdout is piped above");
    let talk = async {
        // A helper that answers without reading what it is asked closes the pipe; its answer
        // decides.
        let _ = stdin.write_all(server.as_bytes()).await;
        drop(stdin);
        let mut answer = Vec::new();
        stdout.take(MOST).read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>((answer, child.wait().await?))
    };
    let (answer, status) = tokio::time::timeout(HELPER_TIME, talk)
        .await
        .map_err(|_| broken(format!("no answer within {} s", HELPER_TIME.as_secs()).into()))?
        .map_err(|e| broken(format!("not readable: {e}").into()))?;
    if !status.success() {
        let said = String::from_utf8_lossy(&answer);
        if said.contains("credentials not found") {
            return Ok(None);
        }
        return Err(broken(Explained::new(
            format!("ended with {status}"),
            "run it by hand to see why",
        )));
    }
    let answer: HelperAnswer = serde_json::from_slice(&answer).map_err(|_| {
        broken("its answer is not the JSON of a credential helper".to_owned().into())
    })?;
    Ok(match (&*answer.username, answer.secret) {
        (_, secret) if secret.is_empty() => None,
        ("<token>", secret) => Some(Login::Identity(Secret::new(secret))),
        (user, secret) => Some(Login::Password {
            user: Secret::new(user.to_owned()),
            password: Secret::new(secret),
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_file_is_the_only_one() {
        let all = CredentialSources {
            runtime_dir: Some("/run/user/1".into()),
            docker_config: Some("/d".into()),
            home: Some("/h".into()),
            ..CredentialSources::default()
        };
        let paths = |s: &CredentialSources| {
            s.files()
                .into_iter()
                .map(|(path, required)| {
                    format!("{}{}", path.display(), if required { "!" } else { "" })
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(
            paths(&all),
            [
                "/run/user/1/containers/auth.json",
                "/h/.config/containers/auth.json",
                "/d/config.json",
                "/h/.dockercfg"
            ]
        );
        let variable = CredentialSources { registry_auth_file: Some("/v".into()), ..all };
        assert_eq!(paths(&variable), ["/v!"]);
        let flag = CredentialSources { authfile: Some("/a".into()), ..variable };
        assert_eq!(paths(&flag), ["/a!"]);
        let only = CredentialSources {
            only: Some(Logins { origin: "secret pull".to_owned(), json: Secret::new(Vec::new()) }),
            ..flag
        };
        assert_eq!(paths(&only), Vec::<String>::new());
        assert_eq!(paths(&CredentialSources::default()), Vec::<String>::new());
        let home_only =
            CredentialSources { home: Some("/h".into()), ..CredentialSources::default() };
        let uid = rustix::process::getuid().as_raw();
        assert_eq!(paths(&home_only)[0], format!("/run/containers/{uid}/auth.json"));
    }

    #[tokio::test]
    async fn credential_helpers_read_stdin_and_answer_in_json() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let asked = dir.path().join("asked");
        let script = |text: &str| {
            let path = dir.path().join("helper");
            let line = format!("#!/bin/sh\ncat > {}\n{text}\n", asked.display());
            std::fs::write(&path, line).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let secret = |text: &str| Secret::new(text.to_owned());
        for (what, text, host, server, want) in [
            (
                "a password",
                r#"echo '{"ServerURL":"x","Username":"u","Secret":"p"}'"#,
                "quay.io",
                "quay.io",
                Ok(Some(Login::Password { user: secret("u"), password: secret("p") })),
            ),
            (
                "a token",
                r#"echo '{"Username":"<token>","Secret":"t"}'"#,
                "docker.io",
                "https://index.docker.io/v1/",
                Ok(Some(Login::Identity(secret("t")))),
            ),
            (
                "nothing known",
                "echo 'credentials not found in native keychain'; exit 1",
                "quay.io",
                "quay.io",
                Ok(None),
            ),
            ("a failure", "echo hunter2; exit 3", "quay.io", "quay.io", Err(())),
            ("rubbish", "echo hunter2", "quay.io", "quay.io", Err(())),
        ] {
            let answer = ask_helper(&script(text), host).await;
            if let Err(error) = &answer {
                assert!(!error.to_string().contains("hunter2"), "{what}: {error}");
            }
            assert_eq!(answer.map_err(|_| ()), want, "{what}");
            assert_eq!(std::fs::read_to_string(&asked).unwrap(), server, "{what}");
        }
        let error = ask_helper("docker-credential-mosb-test-nothing", "quay.io").await.unwrap_err();
        assert!(
            error.to_string().starts_with("docker-credential-mosb-test-nothing: can't be run"),
            "{error}"
        );
    }
}
