//! TLS 1.3 with the certificate of that moment.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, version};

use super::directory::Directory;

/// The TLS settings of the server. A handshake fails while there is no certificate.
///
/// # Errors
/// The TLS library does not support TLS 1.3. This one does.
pub(crate) fn server_config(directory: Arc<Directory>) -> Result<ServerConfig, rustls::Error> {
    let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_protocol_versions(&[&version::TLS13])?.with_no_client_auth();
    let mut config = builder.with_cert_resolver(Arc::new(CurrentCertificate(directory)));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A machine connects once.
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    Ok(config)
}

struct CurrentCertificate(Arc<Directory>);

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.served().certificate.clone()
    }
}

impl fmt::Debug for CurrentCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CurrentCertificate")
    }
}

/// A certificate with its key.
///
/// # Errors
/// What is wrong with them; it does not contain them.
pub(crate) fn certified_key(certificate: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let chain = chain.map_err(|_| "it must be certificates as PEM")?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| "its key must be PEM")?;
    let certified = CertifiedKey::from_der(chain, key, &default_provider());
    Ok(Arc::new(certified.map_err(|error| error.to_string())?))
}
