//! A listener on a free port of this machine that gives each connection a thread, until it is
//! dropped.

use std::net::{SocketAddr, TcpListener, TcpStream};
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
    /// Listens from now on. An error of one connection ends that connection alone.
    pub fn start(serve: impl Fn(TcpStream) -> std::io::Result<()> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
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
                // The client saw its connection break; that is all an error means here.
                thread::spawn(move || stream.and_then(|stream| serve(stream)).ok());
            }
        });
        Self { address, closed, thread: Some(thread) }
    }

    /// `127.0.0.1:port`.
    pub fn address(&self) -> String {
        self.address.to_string()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::SeqCst);
        // Wakes the listener up, which then sees the flag; if that fails it has ended already.
        TcpStream::connect(self.address).ok();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}
