//! `mosb serve-ignition` as a process: the real Ignition fetches a config with a stub, and peers
//! that are no machine of the pool get nothing.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpSocket, TcpStream};

use mosb_ignition_server::{
    Authority, Period, Token, TokenKey, accepted_tokens, config_key, stub, tokens_key,
};
use mosb_plan::payload::gzip;
use mosb_tests::{IgnitionServer, Oracle, ignition_fetch, run, wait};

const HOST: &str = "127.0.0.1";
const SOON: Duration = Duration::from_secs(30);

/// How long Ignition waits for the headers of an answer.
const IGNITION_TIMEOUT: Duration = Duration::from_secs(10);

/// The directory of a server, as the controller fills it.
struct Site {
    configs: TempDir,
    files: TempDir,
    authority: Authority,
    key: TokenKey,
}

impl Site {
    fn new() -> Self {
        let (configs, files) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let authority = Authority::generate(Timestamp::now()).unwrap();
        fs::write(files.path().join("ca.crt"), &authority.certificate).unwrap();
        let site = Self { configs, files, authority, key: TokenKey::generate() };
        let issued = site.authority.issue(HOST, Timestamp::now()).unwrap();
        site.write("tls.json", &issued.info.to_json());
        site.write("tls.key", issued.key.expose().as_bytes());
        site.write("tls.crt", issued.certificate.as_bytes());
        site
    }

    fn write(&self, key: &str, bytes: &[u8]) {
        fs::write(self.configs.path().join(key), bytes).unwrap();
    }

    /// A pool's config, with the tokens that are accepted at this time.
    fn pool(&self, pool: &str, config: &str, at: Timestamp) {
        self.write(&tokens_key(pool), &accepted_tokens(&self.key, pool, at));
        self.write(&config_key(pool), &gzip::packed(config.as_bytes()));
    }

    fn authority_file(&self) -> PathBuf {
        self.files.path().join("ca.crt")
    }

    fn stub(&self, server: &IgnitionServer, pool: &str, token: &Token) -> Vec<u8> {
        let url = format!("https://{}/{pool}", server.machines);
        stub(&url, &self.authority.certificate, token).expose().clone()
    }
}

/// A config as `mosb` makes them for machines, with a login.
fn config() -> String {
    let path = "testdata/bootstrap/three-pools/kubernetes/ignition/worker.ign";
    fs::read_to_string(mosb_tests::repository().join(path)).unwrap()
}

fn days(days: i64) -> Timestamp {
    Timestamp::from_second(Timestamp::now().as_second() + days * 24 * 3600).unwrap()
}

fn request(line: &str, more: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: x\r\n{more}\r\n")
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

#[test]
fn ignition_uses_only_what_the_stub_fetches() {
    let site = Site::new();
    site.pool("worker", &config(), Timestamp::now());
    let server = IgnitionServer::start(site.configs.path());
    let token = site.key.token("worker", Period::at(Timestamp::now()));
    let stub = site.stub(&server, "worker", &token);
    assert!(stub.len() < 4096, "{} bytes; clouds take 16 KiB", stub.len());

    let fetched = ignition_fetch(&stub).unwrap();
    let given = ignition_fetch(config().as_bytes()).unwrap();
    assert_eq!(fetched, given);
    assert!(fetched.to_string().contains("/var/lib/mosb/first-boot/auth.json"));
    assert!(!fetched.to_string().contains(token.expose()));
    assert!(server.log().contains("served"), "{}", server.log());
    assert!(!server.log().contains(token.expose()));

    // What is fetched has this spec: an older one has no headers, and an Ignition that knows only
    // older ones names the version.
    let mut oracle = Oracle::start();
    let stub: Value = serde_json::from_slice(&stub).unwrap();
    let verdict = oracle.judge(&stub);
    assert_eq!(verdict["accepted"], true, "{verdict:#}");
    assert_eq!(verdict["entries"].as_array().map(Vec::len), Some(0), "{verdict:#}");
    let mut older = stub.clone();
    older["ignition"]["version"] = json!("3.0.0");
    let verdict = oracle.judge(&older);
    assert_ne!(verdict["entries"].as_array().map(Vec::len), Some(0), "{verdict:#}");
    let mut newer = stub;
    newer["ignition"]["version"] = json!("3.99.0");
    let error = ignition_fetch(newer.to_string().as_bytes()).unwrap_err();
    assert!(error.contains("unsupported config version"), "{error}");
}

/// The same user data, with which Ignition tries again for a short time only.
fn impatient(stub: &[u8]) -> Value {
    let mut stub: Value = serde_json::from_slice(stub).unwrap();
    stub["ignition"]["timeouts"] = json!({ "httpTotal": 6 });
    stub
}

#[test]
fn ignition_gets_nothing_without_its_pools_token() {
    let site = Site::new();
    let now = Timestamp::now();
    site.pool("worker", &config(), now);
    site.pool("infra", &config(), now);
    // The controller has not run for so long.
    site.pool("left", &config(), days(-61));
    let server = IgnitionServer::start(site.configs.path());
    let period = Period::at(now);
    let of = |pool: &str, period| site.key.token(pool, period);
    let current = of("worker", period);
    let (gone, not_yet) = (Some("resource not found"), Some("GET result: Service Unavailable"));
    for (what, pool, token, refused) in [
        ("the current token", "worker", &current, None),
        ("the one before", "worker", &of("worker", period.previous()), None),
        ("an older one", "worker", &of("worker", period.previous().previous()), not_yet),
        ("of another pool", "worker", &of("infra", period), not_yet),
        ("of no pool", "none", &of("none", period), not_yet),
        ("expired", "left", &of("left", Period::at(days(-61))), gone),
    ] {
        let stub = site.stub(&server, pool, token);
        let fetched = match refused {
            Some(_) => ignition_fetch(impatient(&stub).to_string().as_bytes()),
            None => ignition_fetch(&stub),
        };
        match (fetched, refused) {
            (Ok(_), refused) => assert_eq!(refused, None, "{what}"),
            (Err(log), refused) => {
                assert!(refused.is_some_and(|words| log.contains(words)), "{what}: {log}");
            }
        }
    }
    let mut without: Value =
        serde_json::from_slice(&site.stub(&server, "worker", &current)).unwrap();
    without["ignition"]["config"]["replace"]["httpHeaders"] = json!([]);
    let log = ignition_fetch(without.to_string().as_bytes()).unwrap_err();
    assert!(log.contains("resource not found"), "{log}");

    // A server with the certificate of another CA.
    let other = Authority::generate(now).unwrap();
    let url = format!("https://{}/worker", server.machines);
    let stub = stub(&url, &other.certificate, &current);
    let stub = impatient(stub.expose());
    let log = ignition_fetch(stub.to_string().as_bytes()).unwrap_err();
    assert!(log.contains("certificate signed by unknown authority"), "{log}");
    for token in [current.expose().as_str(), of("infra", period).expose()] {
        assert!(!server.log().contains(token));
    }
}

#[test]
fn every_stranger_gets_the_same_bytes() {
    let site = Site::new();
    site.pool("worker", &config(), Timestamp::now());
    site.pool("infra", &config(), Timestamp::now());
    let server = IgnitionServer::start(site.configs.path());
    let ask = |request: &str| server.ask(&site.authority_file(), request);
    let period = Period::at(Timestamp::now());
    let token = site.key.token("worker", period);
    let own = bearer(token.expose());
    let served = ask(&request("GET /worker", &own));
    assert!(served.starts_with(b"HTTP/1.1 200 OK\r\n"));
    let nothing = ask(&request("GET /none", ""));
    assert!(nothing.starts_with(b"HTTP/1.1 404 Not Found\r\n"));
    let not_yet = ask(&request("GET /none", &own));
    assert!(not_yet.starts_with(b"HTTP/1.1 503 Service Unavailable\r\n"));
    let (infra, wrong) = (bearer(site.key.token("infra", period).expose()), bearer("wrong"));
    for (what, line, more, want) in [
        ("no token", "GET /worker", "", &nothing),
        ("no token and a file", "GET /tls.key", "", &nothing),
        ("a wrong token", "GET /worker", &*wrong, &not_yet),
        ("the token of another pool", "GET /worker", &*infra, &not_yet),
        ("a file of the directory", "GET /tls.key", &*own, &not_yet),
        ("a path outside", "GET /../../etc/passwd", &*own, &not_yet),
        ("another method", "POST /worker", &*own, &nothing),
    ] {
        assert_eq!(ask(&request(line, more)), *want, "{what}");
    }
    let log = server.log();
    for reason in ["it has no token", "not one of this pool", "no config for this path"] {
        assert!(log.contains(reason), "{reason}: {log}");
    }
    // TLS 1.3 only, and the kubelet's port has no configs.
    let old = server.tls(&site.authority_file(), &["-tls1_2"], "");
    assert!(!old.status.success(), "{old:?}");
    let found = ["/healthz", "/readyz", "/worker"].map(|path| server.health(path));
    assert_eq!(found, ["200", "200", "404"]);
}

/// An idle connection from this address of the loopback.
async fn idle(from: u8, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, from], 0))).unwrap();
    socket.connect(to).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_peers_keep_no_machine_out() {
    let site = Site::new();
    site.pool("worker", &config(), Timestamp::now());
    let server = IgnitionServer::start(site.configs.path());
    let token = site.key.token("worker", Period::at(Timestamp::now()));
    // Twice as many as there may be, and then more, as often as these peers may.
    let (machines, kubelet) = (server.machines, server.kubelet);
    let mut held = Vec::new();
    for from in 2..50 {
        for _ in 0..32 {
            held.push(idle(from, machines).await);
        }
        for _ in 0..8 {
            held.push(idle(from, kubelet).await);
        }
    }
    let peers = tokio::spawn(async move {
        loop {
            for from in 2..50 {
                held.push(idle(from, machines).await);
            }
            held.drain(..held.len().saturating_sub(4000));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let started = Instant::now();
    let fetched = ignition_fetch(&site.stub(&server, "worker", &token));
    let health = server.health("/healthz");
    let passed = started.elapsed();
    peers.abort();
    assert_eq!(fetched.unwrap(), ignition_fetch(config().as_bytes()).unwrap());
    assert_eq!(health, "200");
    assert!(passed < IGNITION_TIMEOUT, "after {passed:?}");

    let large = format!("{}A: {}\r\n", bearer(token.expose()), "b".repeat(16 * 1024));
    let answer = server.tls(&site.authority_file(), &["-ign_eof"], &request("GET /worker", &large));
    assert!(!answer.stdout.starts_with(b"HTTP/1.1 200"), "{answer:?}");
}

#[test]
fn the_secret_is_replaced_while_it_runs() {
    let site = Site::new();
    let server = IgnitionServer::start(site.configs.path());
    let token = site.key.token("worker", Period::at(Timestamp::now()));
    let own = bearer(token.expose());
    let is_served = || {
        let answer = server.ask(&site.authority_file(), &request("GET /worker", &own));
        answer.starts_with(b"HTTP/1.1 200")
    };
    assert!(!is_served());
    site.pool("worker", &config(), Timestamp::now());
    wait("the pool", SOON, || is_served().then_some(()));
    fs::remove_file(site.configs.path().join(config_key("worker"))).unwrap();
    wait("no pool", SOON, || (!is_served()).then_some(()));
    run("kill", ["-TERM", &server.pid().to_string()]).ok();
    wait("its end", SOON, || server.has_ended().then_some(()));
    assert!(server.log().contains("ending what is under way"), "{}", server.log());

    let missing = mosb_tests::Mosb::new().run(["serve-ignition", "--configs", "/none"]);
    assert_eq!(missing.code(), Some(2), "{missing:?}");
    assert!(missing.stderr.contains("/none: not readable"), "{missing:?}");
}
