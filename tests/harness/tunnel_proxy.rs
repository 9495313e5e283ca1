//! A proxy for HTTPS, as a company has one: tunnels by `CONNECT`, for one user with a password.

use std::io::{self, BufReader};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::http::{self, Head};
use super::server::Listener;

const USER: &str = "traveller";
/// The password that the proxy wants.
const PASSWORD: &str = "tunnel-pass-phrase";

/// A running proxy.
#[derive(Debug)]
pub struct TunnelProxy {
    listener: Listener,
    opened: Arc<Mutex<Vec<String>>>,
}

impl TunnelProxy {
    /// Starts it on a free port of this address.
    pub fn start(address: IpAddr) -> Self {
        let opened: Arc<Mutex<Vec<String>>> = Arc::default();
        let all = Arc::clone(&opened);
        let listener = Listener::start_at(address, move |stream| serve(&stream, &all));
        Self { listener, opened }
    }

    /// Its address with the login.
    pub fn url(&self) -> String {
        format!("http://{USER}:{PASSWORD}@{}", self.listener.address())
    }

    /// A part of [`url`](Self::url) that must be nowhere else.
    pub fn password(&self) -> &'static str {
        PASSWORD
    }

    /// To which `host:port` tunnels were opened since the last call.
    pub fn take_opened(&self) -> Vec<String> {
        std::mem::take(&mut *self.opened.lock().unwrap())
    }
}

fn serve(client: &TcpStream, opened: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut from = BufReader::new(client.try_clone()?);
    let Some(head) = Head::read(&mut from)? else {
        return Ok(());
    };
    let want = format!("Basic {}", STANDARD.encode(format!("{USER}:{PASSWORD}")));
    if head.header("proxy-authorization") != Some(want.as_str()) {
        let realm = Some(("proxy-authenticate", "Basic realm=\"proxy\""));
        return http::answer(&mut &*client, 407, realm.as_slice(), "");
    }
    if head.method != "CONNECT" {
        return http::answer(&mut &*client, 405, &[], "");
    }
    let server = TcpStream::connect(&head.target)?;
    opened.lock().unwrap().push(head.target);
    io::Write::write_all(&mut &*client, b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    thread::scope(|scope| {
        scope.spawn(|| {
            // A cut connection ends both sides.
            io::copy(&mut from, &mut &server).ok();
            server.shutdown(Shutdown::Write).ok();
        });
        let copied = io::copy(&mut &server, &mut &*client).map(drop);
        client.shutdown(Shutdown::Both).ok();
        copied
    })
}
