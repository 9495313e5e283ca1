//! A listener on a free port that serves each connection in a thread until it is dropped.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

#[derive(Debug)]
pub struct Listener {
    address: SocketAddr,
    closed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Starts listening on loopback. An error ends only its connection.
    pub fn start(serve: impl Fn(TcpStream) -> std::io::Result<()> + Send + Sync + 'static) -> Self {
        Self::start_at(Ipv4Addr::LOCALHOST.into(), serve)
    }

    /// The same on another address of this machine.
    pub fn start_at(
        address: IpAddr,
        serve: impl Fn(TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let closed = Arc::new(AtomicBool::new(false));
        let serve = Arc::new(serve);
        let stop = Arc::clone(&closed);
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let serve = Arc::clone(&serve);
                // The client notices the broken connection, so the error is not reported.
                thread::spawn(move || stream.and_then(|stream| serve(stream)).ok());
            }
        });
        Self { address, closed, thread: Some(thread) }
    }

    /// The address with the port.
    pub fn address(&self) -> String {
        self.address.to_string()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::SeqCst);
        // This connection wakes the thread, which then sees the flag. It fails if the thread has
        // ended.
        TcpStream::connect(self.address).ok();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}
