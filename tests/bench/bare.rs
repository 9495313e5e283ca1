//! The registry calls that a build can't do without, by hand: one connection, one request after the other, no checks.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use mosb::image::Digest;

use crate::build::Image;

struct Connection {
    host: String,
    stream: BufReader<TcpStream>,
}

/// Reads the base's manifest and config, sends layer and config, puts the manifest under both tags.
pub fn calls(host: &str, repository: &str, base_tag: &str, image: &Image) {
    let stream = TcpStream::connect(host).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut to = Connection {
        host: host.to_owned(),
        stream: BufReader::new(stream),
    };
    let at = format!("/v2/{repository}");
    let media_type = &image.assembled.edited.media_type;
    let accept = format!("accept: {media_type}\r\n");
    to.ask("GET", &format!("{at}/manifests/{base_tag}"), &accept, &[]);
    to.ask(
        "GET",
        &format!("{at}/blobs/{}", image.base.config.digest),
        "",
        &[],
    );
    let edited = &image.assembled.edited;
    to.upload(
        &at,
        image.assembled.layer.digest,
        &image.assembled.layer.bytes,
    );
    to.upload(&at, edited.config_digest(), &edited.config);
    let content_type = format!("content-type: {media_type}\r\n");
    for tag in &image.tags {
        to.ask(
            "PUT",
            &format!("{at}/manifests/{tag}"),
            &content_type,
            &edited.manifest,
        );
    }
}

impl Connection {
    fn upload(&mut self, at: &str, digest: Digest, bytes: &[u8]) {
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

    /// Sends a request, reads the answer away; its location comes back.
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
