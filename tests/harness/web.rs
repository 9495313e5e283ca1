//! Web servers for fault tests: arbitrary answers over HTTP, complete answers over HTTPS.

use std::io::{self, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{fs, thread};

use super::child::{Daemon, lasting};
use super::http::Head;
use super::server::Listener;
use super::tls::Certificate;

/// A step of the answer to a request. The connection closes after the last step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerAction {
    Send(Vec<u8>),
    Wait(Duration),
    /// Sends these bytes repeatedly until the client closes the connection.
    Forever(Vec<u8>),
}

/// The bytes of a complete answer. The connection closes after it.
pub fn reply(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {status} said so by a test\r\n").into_bytes();
    for (name, value) in headers {
        bytes.extend(format!("{name}: {value}\r\n").bytes());
    }
    let length = body.len();
    bytes.extend(format!("content-length: {length}\r\nconnection: close\r\n\r\n").bytes());
    bytes.extend(body);
    bytes
}

/// Returns the answer to a request; the number counts the requests before it.
type Rule = Box<dyn Fn(&Head, usize) -> Vec<ServerAction> + Send + Sync>;

/// A running HTTP server. A client may also use it as a proxy.
#[derive(Debug)]
pub struct Web {
    listener: Listener,
    seen: Arc<Mutex<Vec<Head>>>,
}

impl Web {
    pub fn start(rule: impl Fn(&Head, usize) -> Vec<ServerAction> + Send + Sync + 'static) -> Self {
        let seen: Arc<Mutex<Vec<Head>>> = Arc::default();
        let (rule, all): (Rule, _) = (Box::new(rule), Arc::clone(&seen));
        let listener = Listener::start(move |stream| serve(stream, &rule, &all));
        Self { listener, seen }
    }

    /// A server with the same answer to every request.
    pub fn always(answer: Vec<u8>) -> Self {
        Self::start(move |_, _| vec![ServerAction::Send(answer.clone())])
    }

    /// The URL of a path: `http://127.0.0.1:port/path`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.listener.address())
    }

    /// The address as `127.0.0.1:port`.
    pub fn address(&self) -> String {
        self.listener.address()
    }

    /// The requests in order of arrival.
    pub fn seen(&self) -> Vec<Head> {
        self.seen.lock().unwrap().clone()
    }
}

fn serve(stream: TcpStream, rule: &Rule, all: &Mutex<Vec<Head>>) -> io::Result<()> {
    let head = match Head::read(&mut BufReader::new(stream.try_clone()?)) {
        Ok(Some(head)) => head,
        Ok(None) => return Ok(()),
        // Other servers answer a TLS handshake in the same way.
        Err(_) => return (&stream).write_all(&reply(400, &[], b"")),
    };
    let before = {
        let mut all = all.lock().unwrap();
        all.push(head.clone());
        all.len() - 1
    };
    let mut to = stream;
    for action in rule(&head, before) {
        match action {
            ServerAction::Send(bytes) => to.write_all(&bytes)?,
            ServerAction::Wait(time) => thread::sleep(time),
            ServerAction::Forever(bytes) => loop {
                to.write_all(&bytes)?;
            },
        }
    }
    Ok(())
}

/// OpenSSL's web server with a certificate of a private authority.
#[derive(Debug)]
pub struct SecureWeb {
    address: String,
    authority: PathBuf,
    _daemon: Daemon,
}

impl SecureWeb {
    /// Serves complete answers by name, from a directory of its own.
    pub fn start(directory: &Path, answers: &[(&str, Vec<u8>)]) -> Self {
        let authority = Certificate::authority(directory, "authority");
        let server = Certificate::server(directory, "server", &authority);
        for (name, answer) in answers {
            fs::write(directory.join(name), answer).unwrap();
        }
        let mut command = lasting("openssl");
        command
            .current_dir(directory)
            .args(["s_server", "-HTTP", "-accept", "127.0.0.1:0", "-cert"])
            .arg(&server.certificate)
            .arg("-key")
            .arg(&server.key);
        let ready = |line: &str| line.strip_prefix("ACCEPT ").map(str::to_owned);
        let (daemon, address) = Daemon::start(command, ready);
        Self { address, authority: authority.certificate, _daemon: daemon }
    }

    /// The URL of an answer: `https://127.0.0.1:port/name`.
    pub fn url(&self, name: &str) -> String {
        format!("https://{}/{name}", self.address)
    }

    /// The certificate of the authority in PEM.
    pub fn authority(&self) -> Vec<u8> {
        fs::read(&self.authority).unwrap()
    }
}
