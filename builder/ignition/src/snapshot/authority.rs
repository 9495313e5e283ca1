//! The certificate authorities of a config.

use bytes::Bytes;

use mosb_types::Finding;

/// Returns the bytes if they look like certificates in PEM. The TLS client checks each certificate.
pub(super) fn checked(bytes: Bytes) -> Result<Bytes, Finding> {
    const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
    if bytes.windows(BEGIN.len()).any(|window| window == BEGIN) {
        Ok(bytes)
    } else {
        Err(Finding::new(
            "bad-authority",
            "holds no certificate in PEM; give the authority's certificate, not another file",
        ))
    }
}
