//! Certificate authorities that a config brings along.

use bytes::Bytes;

use mosb_types::Finding;

/// The same bytes if they look like certificates in PEM. Whether each of them is one, who trusts them finds out.
pub(super) fn checked(bytes: Bytes) -> Result<Bytes, Finding> {
    const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
    match bytes.windows(BEGIN.len()).any(|window| window == BEGIN) {
        true => Ok(bytes),
        false => Err(Finding::new(
            "bad-authority",
            "holds no certificate in PEM; give the authority's certificate, not another file",
        )),
    }
}
