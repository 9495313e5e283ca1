//! Only the registry requests that a build needs, without a client library and without checks.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::thread;

use mosb_image::Digest;

use crate::build::Image;

/// A connection that is reused for all requests.
struct Connection {
    host: String,
    stream: BufReader<TcpStream>,
}

/// The order of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// In sequence, on one connection.
    Loop,
    /// In parallel, on two connections: the layer and the config, then both tags. This is the
    /// fastest possible order.
    AtOnce,
}

/// Reads the manifest and config of the base, uploads the layer and the config, and puts the
/// manifest under both tags.
pub fn calls(host: &str, repository: &str, base_tag: &str, image: &Image, order: Order) {
    let at = format!("/v2/{repository}");
    let edited = &image.assembled.edited;
    let media_type = &edited.media_type;
    let layer = || (image.assembled.layer.digest, &image.assembled.layer.bytes[..]);
    let config = || (edited.config_digest(), &edited.config[..]);
    let put = |to: &mut Connection, tag: &str| {
        let content_type = format!("content-type: {media_type}\r\n");
        let target = format!("{at}/manifests/{tag}");
        to.ask("PUT", &target, &content_type, &edited.manifest);
    };
    let [name, build_name] = &image.tags;

    let mut first = Connection::to(host);
    let accept = format!("accept: {media_type}\r\n");
    first.ask("GET", &format!("{at}/manifests/{base_tag}"), &accept, &[]);
    let base_config = image.base.config.digest;
    first.ask("GET", &format!("{at}/blobs/{base_config}"), "", &[]);
    match order {
        Order::Loop => {
            first.upload(&at, layer());
            first.upload(&at, config());
            put(&mut first, name);
            put(&mut first, build_name);
        }
        Order::AtOnce => {
            let mut second = thread::scope(|scope| {
                let second = scope.spawn(|| {
                    let mut second = Connection::to(host);
                    second.upload(&at, config());
                    second
                });
                first.upload(&at, layer());
                second.join().unwrap()
            });
            thread::scope(|scope| {
                scope.spawn(|| put(&mut second, build_name));
                put(&mut first, name);
            });
        }
    }
}

impl Connection {
    fn to(host: &str) -> Self {
        let stream = TcpStream::connect(host).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { host: host.to_owned(), stream: BufReader::new(stream) }
    }

    fn upload(&mut self, at: &str, (digest, bytes): (Digest, &[u8])) {
        let session = self.ask("POST", &format!("{at}/blobs/uploads/"), "", &[]);
        let session = session.expect("a place to upload to");
        let path = match session.split_once("://") {
            Some((_, rest)) => &rest[rest.find('/').expect("a path")..],
            None => &session,
        };
        let joint = if path.contains('?') { '&' } else { '?' };
        self.ask(
            "PUT",
            &format!("{path}{joint}digest={digest}"),
            "content-type: application/octet-stream\r\n",
            bytes,
        );
    }

    /// Sends a request, reads the whole answer, and returns its `Location` header.
    fn ask(&mut self, method: &str, target: &str, headers: &str, body: &[u8]) -> Option<String> {
        let (host, length) = (&self.host, body.len());
        let mut request =
            format!("{method} {target} HTTP/1.1\r\nhost: {host}\r\n{headers}content-length: {length}\r\n\r\n")
                .into_bytes();
        request.extend_from_slice(body);
        self.stream.get_mut().write_all(&request).unwrap();
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).unwrap_or_default();
        assert!(status.starts_with('2'), "{method} {target}: {line}");
        let (mut length, mut location) = (0, None);
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).unwrap();
            match line.trim_end().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse().unwrap()
                }
                Some((name, value)) if name.eq_ignore_ascii_case("location") => {
                    location = Some(value.to_owned())
                }
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).unwrap();
        location
    }
}
