//! A certificate and its key, as the TLS library takes them. Pure.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// A certificate with its key.
///
/// # Errors
/// What is wrong with them; it does not contain them.
pub(crate) fn certified_key(certificate: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let chain = chain.map_err(|_| "it is no PEM of certificates")?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| "its key is no PEM of a key")?;
    let certified = CertifiedKey::from_der(chain, key, &default_provider());
    Ok(Arc::new(certified.map_err(|error| error.to_string())?))
}
