//! Who signed a server's certificate, for the message that says which authority to trust. Nothing is decided by it.

use reqwest::tls::TlsInfo;
use url::Url;

use super::wire::Wire;
use crate::http::{Trust, client};

/// Asks without checking the certificate, and without any login, and reads who issued it.
pub(super) async fn issuer(wire: &Wire, url: Url) -> Option<String> {
    let agent = concat!("mosb/", env!("CARGO_PKG_VERSION"));
    let proxies = std::sync::Arc::clone(&wire.proxies);
    let client = client(agent, Trust::Anybody, None, proxies, wire.timeouts.connect).ok()?;
    let sent = tokio::time::timeout(wire.timeouts.connect, client.get(url).send());
    let response = sent.await.ok()?.ok()?;
    let info = response.extensions().get::<TlsInfo>()?;
    name(info.peer_certificate()?)
}

const INTEGER: u8 = 0x02;
const OBJECT_ID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// The version of a certificate, which may be left out.
const VERSION: u8 = 0xa0;

/// The parts of a name that people know (RFC 5280, 4.1.2.4), with their object identifiers.
const SHOWN: [(&str, [u8; 3]); 3] = [
    ("CN", [0x55, 0x04, 0x03]),
    ("O", [0x55, 0x04, 0x0a]),
    ("OU", [0x55, 0x04, 0x0b]),
];
/// Characters shown of each part.
const MOST: usize = 80;

/// The issuer's name in a certificate (DER): `CN=…, O=…`.
fn name(certificate: &[u8]) -> Option<String> {
    let signed = expect(&mut { certificate }, SEQUENCE)?;
    let mut fields = expect(&mut { signed }, SEQUENCE)?;
    if fields.first() == Some(&VERSION) {
        expect(&mut fields, VERSION)?;
    }
    expect(&mut fields, INTEGER)?;
    expect(&mut fields, SEQUENCE)?;
    let mut issuer = expect(&mut fields, SEQUENCE)?;
    let mut parts = Vec::new();
    while !issuer.is_empty() {
        let mut set = expect(&mut issuer, SET)?;
        while !set.is_empty() {
            let mut attribute = expect(&mut set, SEQUENCE)?;
            let kind = expect(&mut attribute, OBJECT_ID)?;
            let (_, value) = element(&mut attribute)?;
            if let Some((short, _)) = SHOWN.iter().find(|(_, id)| id == kind) {
                let text = String::from_utf8_lossy(value);
                let text = text.chars().filter(|c| !c.is_control()).take(MOST);
                parts.push(format!("{short}={}", text.collect::<String>()));
            }
        }
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The content of the next element, which must have this tag.
fn expect<'a>(from: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    let (found, content) = element(from)?;
    (found == tag).then_some(content)
}

/// Tag and content of the next element (X.690, 8.1).
fn element<'a>(from: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&[tag, length], rest) = from.split_first_chunk::<2>()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            let length = bytes
                .iter()
                .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            (length, rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    *from = rest;
    Some((tag, content))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `SEQUENCE { SEQUENCE { [0] {}, INTEGER, SEQUENCE {}, SEQUENCE { SET { SEQUENCE { CN, "a\n" } }, SET { SEQUENCE { C, "DE" } } } } }`
    const CERTIFICATE: [u8; 38] = [
        0x30, 0x81, 0x23, 0x30, 0x21, 0xa0, 0x00, 0x02, 0x01, 0x07, 0x30, 0x00, 0x30, 0x18, 0x31,
        0x0b, 0x30, 0x09, 0x06, 0x03, 0x55, 0x04, 0x03, 0x0c, 0x02, b'a', b'\n', 0x31, 0x09, 0x30,
        0x07, 0x06, 0x03, 0x55, 0x04, 0x06, 0x13, 0x00,
    ];

    #[test]
    fn the_issuer_is_named_and_rubbish_is_none() {
        assert_eq!(name(&CERTIFICATE).as_deref(), Some("CN=a"));
        for length in 0..CERTIFICATE.len() {
            assert_eq!(name(&CERTIFICATE[..length]), None, "{length}");
        }
        for at in 0..CERTIFICATE.len() {
            for byte in [0x00, 0x7f, 0x80, 0x84, 0xff] {
                let mut damaged = CERTIFICATE;
                damaged[at] = byte;
                // Whatever it says, it ends.
                let _ = name(&damaged);
            }
        }
    }
}
