//! The watches through the proxy, which a test can end between two events.

use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{locked, status};

/// A client must restart an ended watch within this time.
const AGAIN: Duration = Duration::from_secs(20);

/// A watch that is forwarded to a client.
#[derive(Debug)]
pub struct WatchStream {
    kind: String,
    /// `None` after the proxy has ended it.
    client: Mutex<Option<TcpStream>>,
}

/// The open watches.
pub type Watches = Mutex<Vec<Arc<WatchStream>>>;

/// Forwards the events of a watch line by line, so that it can end between two of them.
pub fn hand_on(
    server: TcpStream,
    client: TcpStream,
    kind: String,
    watches: &Watches,
) -> io::Result<()> {
    end_with_client(&client, &server)?;
    let mut server = BufReader::new(server);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && server.read_until(b'\n', &mut head)? > 0 {}
    let mut to = client.try_clone()?;
    to.write_all(&head)?;
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    if !head.contains("transfer-encoding: chunked") {
        return io::copy(&mut server, &mut to).map(drop);
    }
    let stream = Arc::new(WatchStream { kind, client: Mutex::new(Some(client)) });
    locked(watches).push(Arc::clone(&stream));
    let done = lines(&mut server, &stream);
    locked(watches).retain(|one| !Arc::ptr_eq(one, &stream));
    done
}

/// Ends the watch at the API server, too, when the client closes it or is killed: else it stays for
/// minutes, and a test that kills a hundred clients has no more files to open.
fn end_with_client(client: &TcpStream, server: &TcpStream) -> io::Result<()> {
    let (mut client, server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        io::copy(&mut client, &mut io::sink()).ok();
        server.shutdown(Shutdown::Both).ok();
    });
    Ok(())
}

fn lines(server: &mut impl BufRead, stream: &WatchStream) -> io::Result<()> {
    let mut pending = Vec::new();
    loop {
        let mut size = String::new();
        server.read_line(&mut size)?;
        let size = u64::from_str_radix(size.trim(), 16).unwrap_or(0);
        server.take(size).read_to_end(&mut pending)?;
        server.read_line(&mut String::new())?;
        let whole = pending.iter().rposition(|byte| *byte == b'\n');
        let text: Vec<u8> = pending.drain(..whole.map_or(0, |at| at + 1)).collect();
        let mut client = locked(&stream.client);
        let Some(open) = client.as_mut() else {
            return Ok(());
        };
        if !text.is_empty() {
            chunk(open, &text)?;
        }
        if size == 0 {
            chunk(open, b"")?;
            return open.shutdown(Shutdown::Both);
        }
    }
}

fn chunk(to: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend(bytes);
    chunk.extend(b"\r\n");
    to.write_all(&chunk)
}

/// Whether the client still has the connection open.
fn is_open(client: &TcpStream) -> bool {
    let quiet = client.set_nonblocking(true).and_then(|()| client.peek(&mut [0]));
    let waits = matches!(&quiet, Err(why) if why.kind() == io::ErrorKind::WouldBlock);
    waits && client.set_nonblocking(false).is_ok()
}

/// Ends the watches of a kind like the API server when their resource version is too old. If none
/// is open, this waits for the client's next watch.
pub fn end(watches: &Watches, kind: &str) {
    let event = json!({ "type": "ERROR", "object": status(410) }).to_string() + "\n";
    let until = Instant::now() + AGAIN;
    let mut ended = 0;
    while ended == 0 && Instant::now() < until {
        let open = locked(watches).clone();
        for stream in open.iter().filter(|stream| stream.kind == kind) {
            if let Some(mut client) = locked(&stream.client).take().filter(is_open) {
                let sent =
                    chunk(&mut client, event.as_bytes()).and_then(|()| chunk(&mut client, b""));
                ended += usize::from(sent.is_ok());
                // The client may close the connection at the same moment.
                client.shutdown(Shutdown::Both).ok();
            }
        }
        if ended == 0 {
            thread::sleep(Duration::from_millis(20));
        }
    }
}
