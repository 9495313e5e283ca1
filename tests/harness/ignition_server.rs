//! `mosb serve-ignition` as a process, and the real Ignition as a machine that starts with a config.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::child::{Daemon, Finished, finish, lasting, limited};
use super::parts::IGNITION;
use super::program::program;

/// How long the kubelet would wait.
const HEALTH: Duration = Duration::from_secs(5);

/// A running `mosb serve-ignition`.
#[derive(Debug)]
pub struct IgnitionServer {
    pub machines: SocketAddr,
    pub kubelet: SocketAddr,
    daemon: Daemon,
}

impl IgnitionServer {
    /// Serves what is in this directory.
    #[track_caller]
    pub fn start(configs: &Path) -> Self {
        let mut command = lasting(program());
        command
            .args(["serve-ignition", "--log-format=json", "--listen=127.0.0.1:0"])
            .args(["--health-listen=127.0.0.1:0", "--configs"])
            .arg(configs)
            .env_clear()
            .env("PATH", "/usr/bin:/bin");
        let listens = |line: &str| {
            let (_, rest) = line.split_once("listening on ")?;
            let (machines, rest) = rest.split_once(", and on ")?;
            let (kubelet, _) = rest.split_once(' ')?;
            Some((machines.parse().ok()?, kubelet.parse().ok()?))
        };
        let (daemon, (machines, kubelet)) = Daemon::start(command, listens);
        Self { machines, kubelet, daemon }
    }

    pub fn log(&self) -> String {
        self.daemon.log()
    }

    pub fn pid(&self) -> u32 {
        self.daemon.pid
    }

    pub fn has_ended(&self) -> bool {
        self.daemon.has_ended()
    }

    /// The status code that the kubelet gets; empty if the connection is cut, as for a peer that asks
    /// too often.
    pub fn health(&self, path: &str) -> String {
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(self.kubelet)?;
            stream.set_read_timeout(Some(HEALTH))?;
            stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        let code = ask().ok().and_then(|answer| answer.split(' ').nth(1).map(str::to_owned));
        code.unwrap_or_default()
    }

    /// The bytes of the answer to a request, by the `openssl` program that trusts this CA alone.
    #[track_caller]
    pub fn ask(&self, authority: &Path, request: &str) -> Vec<u8> {
        let finished = self.tls(authority, &["-ign_eof"], request);
        finished.ok().stdout
    }

    /// A connection of `openssl s_client` with more options.
    #[track_caller]
    pub fn tls(&self, authority: &Path, options: &[&str], request: &str) -> Finished {
        let mut command = limited("openssl");
        command
            .args(["s_client", "-quiet", "-verify_quiet", "-verify_return_error"])
            .args(["-connect", &self.machines.to_string(), "-CAfile"])
            .arg(authority)
            .args(options);
        finish(&mut command, request.as_bytes())
    }
}

/// The config that a machine with this user data uses, as the real Ignition fetches and merges it;
/// the error is its log.
#[track_caller]
pub fn ignition_fetch(user_data: &[u8]) -> Result<Value, String> {
    let place = TempDir::new().unwrap();
    let path = |name: &str| place.path().join(name);
    fs::write(path("config.ign"), user_data).unwrap();
    fs::create_dir(path("root")).unwrap();
    let mut command = limited(IGNITION.program());
    command
        .args(["--platform=file", "--stage=fetch", "--log-to-stdout"])
        .arg("--config-cache")
        .arg(path("used.ign"))
        .arg("--state-file")
        .arg(path("state"))
        .arg("--neednet")
        .arg(path("neednet"))
        .arg("--root")
        .arg(path("root"))
        .env("IGNITION_CONFIG_FILE", path("config.ign"));
    let finished = finish(&mut command, &[]);
    if !finished.status.success() {
        return Err(String::from_utf8_lossy(&finished.stdout).into_owned() + &finished.stderr);
    }
    Ok(serde_json::from_slice(&fs::read(path("used.ign")).unwrap()).unwrap())
}
