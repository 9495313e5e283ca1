//! A server on loopback, and clients that are machines, or not.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::{Authority, Period, TokenKey, accepted_tokens, config_key, tokens_key};

const HOST: &str = "127.0.0.1";
const SOON: Duration = Duration::from_secs(20);

struct Site {
    configs: TempDir,
    authority: Authority,
    key: TokenKey,
    machines: SocketAddr,
    kubelet: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<Result<(), ListenError>>>,
}

impl Site {
    async fn start(limits: Limits) -> Self {
        let configs = TempDir::new().unwrap();
        let (now, key) = (Timestamp::now(), TokenKey::generate());
        let authority = Authority::generate(now).unwrap();
        write_certificate(configs.path(), &authority);
        write_pool(configs.path(), &key, "worker", b"the config of worker");
        let any = "127.0.0.1:0".parse().unwrap();
        let server = Server::listen(configs.path(), (any, any), limits).await.unwrap();
        let (machines, kubelet) = server.addresses().unwrap();
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(server.run(async { drop(stopped.await) }));
        let (stop, running) = (Some(stop), Some(running));
        Self { configs, authority, key, machines, kubelet, stop, running }
    }

    fn token(&self, pool: &str) -> String {
        self.key.token(pool, Period::at(Timestamp::now())).expose().clone()
    }

    async fn connect(&self) -> std::io::Result<TlsStream<TcpStream>> {
        connect(self.machines, &self.authority).await
    }

    /// The whole answer to a request for this path.
    async fn ask(&self, line: &str, token: Option<&str>) -> String {
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
        self.send(&format!("{line} HTTP/1.1\r\nHost: x\r\n{}\r\n", token.unwrap_or_default())).await
    }

    async fn send(&self, request: &str) -> String {
        let mut stream = self.connect().await.unwrap();
        // The server may answer before it has read everything.
        drop(stream.write_all(request.as_bytes()).await);
        let mut answer = Vec::new();
        drop(timeout(SOON, stream.read_to_end(&mut answer)).await.unwrap());
        String::from_utf8(answer).unwrap()
    }

    async fn health(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.kubelet).await.unwrap();
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut answer = String::new();
        timeout(SOON, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        answer["HTTP/1.1 ".len()..][..3].to_owned()
    }
}

async fn connect(
    address: SocketAddr,
    authority: &Authority,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.certificate.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from(HOST).unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

fn write_certificate(configs: &Path, authority: &Authority) {
    let issued = authority.issue(HOST, Timestamp::now()).unwrap();
    fs::write(configs.join("tls.key"), issued.key.expose()).unwrap();
    fs::write(configs.join("tls.crt"), &issued.certificate).unwrap();
    fs::write(configs.join("tls.json"), issued.info.to_json()).unwrap();
}

fn write_pool(configs: &Path, key: &TokenKey, pool: &str, config: &[u8]) {
    let tokens = accepted_tokens(key, pool, Timestamp::now());
    fs::write(configs.join(tokens_key(pool)), tokens).unwrap();
    fs::write(configs.join(config_key(pool)), config).unwrap();
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !is_so().await {
        assert!(Instant::now() < end, "{what}");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn only_machines_with_tokens_get_configs() {
    let site = Site::start(Limits::default()).await;
    let token = site.token("worker");
    let served = site.ask("GET /worker", Some(&token)).await;
    assert!(served.starts_with("HTTP/1.1 200 OK\r\n"), "{served}");
    assert!(served.ends_with("\r\n\r\nthe config of worker"), "{served}");
    let nothing = site.ask("GET /none", None).await;
    assert!(nothing.starts_with("HTTP/1.1 404 Not Found\r\n"), "{nothing}");
    // Ignition asks again: the server may learn of the pool or of the token.
    let not_yet = site.ask("GET /none", Some(&token)).await;
    assert!(not_yet.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{not_yet}");
    let infra = site.token("infra");
    for (what, line, token, want) in [
        ("no token", "GET /worker", None, &nothing),
        ("an empty token", "GET /worker", Some(""), &nothing),
        ("a wrong token", "GET /worker", Some("wrong"), &not_yet),
        ("another pool's token", "GET /worker", Some(infra.as_str()), &not_yet),
        ("the root", "GET /", Some(&*token), &not_yet),
        ("a file of the directory", "GET /tls.key", Some(&*token), &not_yet),
        ("a path outside", "GET /../worker", Some(&*token), &not_yet),
        ("another method", "DELETE /worker", Some(&*token), &nothing),
        ("health", "GET /healthz", None, &nothing),
    ] {
        assert_eq!(site.ask(line, token).await, *want, "{what}");
    }
    let other = "GET /worker HTTP/1.1\r\nHost: x\r\nAuthorization: Basic eDp5\r\n\r\n";
    assert_eq!(site.send(other).await, nothing);
    assert_eq!(
        (site.health("/healthz").await, site.health("/readyz").await),
        ("200".into(), "200".into())
    );
    assert_eq!(site.health("/worker").await, "404");
}

#[tokio::test]
async fn a_client_that_trusts_another_authority_gets_nothing() {
    let site = Site::start(Limits::default()).await;
    let other = Authority::generate(Timestamp::now()).unwrap();
    assert!(connect(site.machines, &other).await.is_err());
    assert!(site.connect().await.is_ok());
}

#[tokio::test]
async fn requests_have_limits_of_size_and_time() {
    let limits = Limits {
        request: Duration::from_secs(2),
        connection: Duration::from_secs(6),
        ..Limits::default()
    };
    let site = Site::start(limits).await;
    let token = site.token("worker");
    let authorization = format!("Authorization: Bearer {token}\r\n");
    let many: String = (0..40).map(|number| format!("A{number}: b\r\n")).collect();
    for (what, more) in [
        ("a large header", format!("A: {}\r\n", "b".repeat(MAX_HEADER_SIZE))),
        ("many headers", many),
    ] {
        let request = format!("GET /worker HTTP/1.1\r\nHost: x\r\n{authorization}{more}\r\n");
        let answer = site.send(&request).await;
        assert!(!answer.starts_with("HTTP/1.1 200"), "{what}: {answer}");
    }
    let small = format!("GET /worker HTTP/1.1\r\nHost: x\r\n{authorization}A: b\r\n\r\n");
    assert!(site.send(&small).await.starts_with("HTTP/1.1 200"));

    // No handshake, and no end of the header.
    let mut silent = TcpStream::connect(site.machines).await.unwrap();
    let mut rest = Vec::new();
    let cut = timeout(SOON, silent.read_to_end(&mut rest)).await.unwrap();
    assert!(cut.is_err() || rest.is_empty());
    let mut slow = site.connect().await.unwrap();
    slow.write_all(b"GET /worker HTTP/1.1\r\n").await.unwrap();
    drop(timeout(SOON, slow.read_to_end(&mut rest)).await.unwrap());
    assert!(!String::from_utf8_lossy(&rest).contains("200 OK"));
}

#[tokio::test]
async fn a_machine_that_does_not_read_is_cut() {
    // Only the limit of the whole connection ends one within the time of the test.
    let limits =
        Limits { connection: Duration::from_secs(2), request: SOON * 10, ..Limits::default() };
    let mut site = Site::start(limits).await;
    let token = site.token("worker");
    let mut silent = site.connect().await.unwrap();
    let mut rest = Vec::new();
    drop(timeout(SOON, silent.read_to_end(&mut rest)).await.unwrap());
    assert!(rest.is_empty());
    assert!(site.ask("GET /worker", Some(&token)).await.starts_with("HTTP/1.1 200"));
    // It does not delay the end of the server.
    let _silent = site.connect().await.unwrap();
    site.stop.take().unwrap().send(()).unwrap();
    timeout(SOON, site.running.take().unwrap()).await.unwrap().unwrap().unwrap();
}

/// So many connections of this address, which send nothing.
async fn silent(from: u8, to: SocketAddr, number: usize) -> Vec<TcpStream> {
    let mut held = Vec::new();
    for _ in 0..number {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, from], 0))).unwrap();
        held.push(socket.connect(to).await.unwrap());
    }
    held
}

#[tokio::test]
async fn silent_connections_delay_nobody() {
    let limits = Limits { request: Duration::from_secs(60), ..Limits::default() };
    let site = Site::start(limits).await;
    let token = site.token("worker");
    let mut held = Vec::new();
    for from in 2..50 {
        held.extend(silent(from, site.machines, MACHINES.of_peer / 2).await);
        held.extend(silent(from, site.kubelet, KUBELET.of_peer).await);
    }
    assert!(held.len() > 2 * MACHINES.all);
    // Behind the address of machines there may be others, too.
    held.extend(silent(1, site.machines, MACHINES.of_peer).await);
    let all_served = async {
        until("a connection more of this address", async || site.connect().await.is_ok()).await;
        sleep(MACHINES.interval).await;
        let config = site.ask("GET /worker", Some(&token)).await;
        assert!(config.ends_with("the config of worker"), "{config}");
        assert_eq!(site.health("/healthz").await, "200");
    };
    timeout(Duration::from_secs(10), all_served).await.expect("Ignition ends a request after that");
}

#[tokio::test]
async fn certificate_and_configs_are_replaced_while_it_runs() {
    let limits = Limits { reload: Duration::from_millis(20), ..Limits::default() };
    let mut site = Site::start(limits).await;
    let configs = site.configs.path().to_owned();
    write_pool(&configs, &site.key, "infra", b"the config of infra");
    let token = site.token("infra");
    until("another pool", async || {
        site.ask("GET /infra", Some(&token)).await.ends_with("the config of infra")
    })
    .await;
    fs::remove_file(configs.join(config_key("worker"))).unwrap();
    let token = site.token("worker");
    until("a pool less", async || {
        site.ask("GET /worker", Some(&token)).await.starts_with("HTTP/1.1 503")
    })
    .await;
    site.authority = Authority::generate(Timestamp::now()).unwrap();
    write_certificate(&configs, &site.authority);
    until("another certificate", async || site.connect().await.is_ok()).await;
    for name in ["tls.crt", "tls.key"] {
        fs::write(configs.join(name), "").unwrap();
    }
    until("no certificate", async || site.health("/readyz").await == "503").await;
    assert!(site.connect().await.is_err());
    assert_eq!(site.health("/healthz").await, "200");
    // What runs is finished after a signal.
    write_certificate(&configs, &site.authority);
    until("the certificate", async || site.connect().await.is_ok()).await;
    let mut running = site.connect().await.unwrap();
    site.stop.take().unwrap().send(()).unwrap();
    let token = site.token("infra");
    let request =
        format!("GET /infra HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n");
    running.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    running.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("the config of infra"), "{answer}");
    site.running.take().unwrap().await.unwrap().unwrap();
    assert!(TcpStream::connect(site.machines).await.is_err());
}
