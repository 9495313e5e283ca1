//! Why a request got no response, and whether it may be retried.

use super::retry::AttemptOutcome;
use super::url_source::ForbiddenAddress;
use mosb_types::error_text;

/// rustls' error for a response that does not begin like TLS, such as plain HTTP.
const NO_TLS: &str = "InvalidContentType";

/// The error of one attempt without a response.
#[derive(Debug)]
pub struct RequestError {
    pub outcome: AttemptOutcome,
    /// Whether the TLS handshake failed.
    pub tls: bool,
    /// The root cause, without URLs.
    pub cause: String,
}

impl RequestError {
    pub fn new(outcome: AttemptOutcome, cause: impl Into<String>) -> Self {
        Self { outcome, tls: false, cause: cause.into() }
    }

    /// Whether the server doesn't speak TLS at all.
    pub fn is_plain_http(&self) -> bool {
        self.tls && self.cause.contains(NO_TLS)
    }
}

/// The cause below this one. An io error's own `source` skips the error that it wraps.
fn below<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> Option<&'a (dyn std::error::Error + 'static)> {
    match error.downcast_ref::<std::io::Error>().and_then(|e| e.get_ref()) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

/// The innermost cause: the outer ones say only that something failed, and may hold a URL with a
/// token in it.
pub fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = below(cause) {
        cause = next;
    }
    error_text(cause)
}

impl From<ForbiddenAddress> for RequestError {
    fn from(error: ForbiddenAddress) -> Self {
        Self::new(AttemptOutcome::Fatal, error.to_string())
    }
}

impl From<reqwest::Error> for RequestError {
    fn from(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let (mut tls, mut forbidden) = (false, false);
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            // tokio-rustls wraps every failure of a handshake so.
            tls |= cause
                .downcast_ref::<std::io::Error>()
                .is_some_and(|e| e.kind() == std::io::ErrorKind::InvalidData);
            forbidden |= cause.is::<ForbiddenAddress>();
            source = below(cause);
        }
        let outcome = if error.is_timeout() {
            AttemptOutcome::TimedOut
        } else if error.is_builder() || (error.is_connect() && tls) || forbidden {
            AttemptOutcome::Fatal
        } else if error.is_connect() {
            AttemptOutcome::NoConnection
        } else {
            AttemptOutcome::Cut
        };
        RequestError { outcome, tls: tls && error.is_connect(), cause: root_cause(&error) }
    }
}
