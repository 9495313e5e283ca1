//! A TCP proxy in front of a registry that counts the bytes from clients and does not change the
//! traffic.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// The proxy. It runs until the program ends.
pub struct Counted {
    /// The address that clients connect to.
    pub address: String,
    sent: Arc<AtomicU64>,
}

impl Counted {
    pub fn to(registry: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (sent, registry) = (Arc::<AtomicU64>::default(), registry.to_owned());
        let count = Arc::clone(&sent);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(&registry).unwrap();
                for stream in [&client, &server] {
                    stream.set_nodelay(true).unwrap();
                }
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let count = Arc::clone(&count);
                thread::spawn(move || {
                    pass(from, to, |bytes| {
                        count.fetch_add(bytes, Ordering::Relaxed);
                    })
                });
                thread::spawn(move || pass(server, client, |_| {}));
            }
        });
        Self { address, sent }
    }

    /// The bytes sent to the registry since the last call.
    pub fn sent(&self) -> u64 {
        self.sent.swap(0, Ordering::Relaxed)
    }
}

/// Copies until one side closes. An error closes both connections, so each side notices it.
fn pass(mut from: TcpStream, mut to: TcpStream, count: impl Fn(u64)) {
    let mut buffer = vec![0; 64 << 10];
    let mut copy = || -> io::Result<()> {
        loop {
            let length = from.read(&mut buffer)?;
            if length == 0 {
                return Ok(());
            }
            to.write_all(&buffer[..length])?;
            count(length as u64);
        }
    };
    if copy().is_err() {
        from.shutdown(Shutdown::Both).ok();
    }
    to.shutdown(Shutdown::Write).ok();
}
