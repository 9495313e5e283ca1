//! TLS 1.3 with the certificate of that moment.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, version};

use super::directory::Directory;

/// The TLS settings of the server. A handshake fails while there is no certificate.
///
/// # Errors
/// The TLS library has no TLS 1.3, which it has.
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
