//! A TCP proxy in front of a registry that counts the bytes from clients, reports the first of them, and
//! does not change the traffic.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// What runs when the next bytes of a client arrive.
type Hook = Box<dyn FnOnce() + Send>;

/// The proxy. It runs until the program ends.
pub struct Counted {
    /// The address that clients connect to.
    pub address: String,
    sent: Arc<AtomicU64>,
    hook: Arc<Mutex<Option<Hook>>>,
}

impl Counted {
    pub fn to(registry: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (sent, registry) = (Arc::<AtomicU64>::default(), registry.to_owned());
        let hook = Arc::<Mutex<Option<Hook>>>::default();
        let (count, pending) = (Arc::clone(&sent), Arc::clone(&hook));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(&registry).unwrap();
                for stream in [&client, &server] {
                    stream.set_nodelay(true).unwrap();
                }
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let (count, pending) = (Arc::clone(&count), Arc::clone(&pending));
                thread::spawn(move || {
                    pass(from, to, |bytes| {
                        let hook = pending.lock().unwrap().take();
                        if let Some(hook) = hook {
                            hook();
                        }
                        count.fetch_add(bytes, Ordering::Relaxed);
                    })
                });
                thread::spawn(move || pass(server, client, |_| {}));
            }
        });
        Self { address, sent, hook }
    }

    /// Calls this once, before the next bytes of a client are passed to the registry.
    pub fn at_next_bytes(&self, hook: impl FnOnce() + Send + 'static) {
        *self.hook.lock().unwrap() = Some(Box::new(hook));
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
            count(length as u64);
            to.write_all(&buffer[..length])?;
        }
    };
    if copy().is_err() {
        from.shutdown(Shutdown::Both).ok();
    }
    to.shutdown(Shutdown::Write).ok();
}
