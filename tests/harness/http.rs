//! A minimal HTTP/1.1 implementation for the token server and the proxy of tests, with one request
//! on each connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// The head of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub method: String,
    /// The path and query as they were sent.
    pub target: String,
    headers: Vec<(String, String)>,
}

impl Head {
    /// Reads a head. The result is `None` if the client closed the connection without a request.
    pub fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let first = line(from)?;
        if first.is_empty() {
            return Ok(None);
        }
        let bad = || io::Error::new(io::ErrorKind::InvalidData, format!("not a request: {first}"));
        let mut words = first.split(' ');
        let (method, target) = words.next().zip(words.next()).ok_or_else(bad)?;
        let (method, target) = (method.to_owned(), target.to_owned());
        let mut headers = Vec::new();
        loop {
            let line = line(from)?;
            match line.split_once(':') {
                Some((name, value)) => {
                    headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
                }
                None => break,
            }
        }
        Ok(Some(Self { method, target, headers }))
    }

    /// The value of a header, whose name must be in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The path without the query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The head with `Connection: close`.
    pub fn closing(&self) -> String {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        for (name, value) in &self.headers {
            if name != "connection" {
                text.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        text.push_str("connection: close\r\n\r\n");
        text
    }

    /// Reads and discards the body, so that a reset of the connection does not lose an early
    /// answer.
    pub fn drain(&self, from: &mut impl BufRead) -> io::Result<()> {
        if self.header("transfer-encoding").is_some() {
            loop {
                let size = u64::from_str_radix(line(from)?.trim(), 16).map_err(io::Error::other)?;
                io::copy(&mut from.take(size), &mut io::sink())?;
                line(from)?;
                if size == 0 {
                    return Ok(());
                }
            }
        }
        let length = self.header("content-length").and_then(|text| text.parse().ok());
        io::copy(&mut from.take(length.unwrap_or(0)), &mut io::sink())?;
        Ok(())
    }
}

/// Sends a complete answer. The connection closes after it.
pub fn answer(
    to: &mut impl Write,
    status: u16,
    headers: &[(&str, &str)],
    body: &str,
) -> io::Result<()> {
    let mut text = format!("HTTP/1.1 {status} said so by a test\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    let length = body.len();
    write!(to, "{text}content-length: {length}\r\nconnection: close\r\n\r\n{body}")
}

/// Reads a line without its end. It is empty at the end of the stream.
fn line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    from.take(1 << 16).read_line(&mut line)?;
    line.truncate(line.trim_end().len());
    Ok(line)
}

/// Sends one request to a server on this machine and returns the whole answer, head and body.
pub fn ask(address: &str, request: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "{request}\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    BufReader::new(stream).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
