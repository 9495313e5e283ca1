//! Errors of fetching a reference, one sentence each.

use std::fmt;
use std::time::Duration;

use mosb_ignition::Reference;
use mosb_registry::http::BadProxy;
use mosb_types::{Diagnostic, ErrorClass, Finding};

/// The requested resource. Printed as `field: URL`, without credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The field of the config, and the config if it is known.
    pub place: String,
    /// The URL of the field.
    pub url: String,
    /// Where a redirect led in the end.
    pub redirected: Option<String>,
}

impl Asked {
    pub(super) fn of(reference: &Reference) -> Self {
        Self {
            place: reference.place().to_owned(),
            url: reference.request().shown(),
            redirected: None,
        }
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.url)?;
        match &self.redirected {
            Some(url) => write!(f, " (redirected to {url})"),
            None => Ok(()),
        }
    }
}

/// Object, cause, remedy.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum Error {
    /// 404 or 410.
    #[error("{asked}: not found ({status}); check the URL")]
    #[diagnostic(code = "not-found", class = InvalidInput)]
    NotFound { asked: Asked, status: u16 },
    /// 401, 403 or 407.
    #[error("{asked}: the server refused it ({status}); {remedy}")]
    #[diagnostic(code = "fetch-denied", class = InvalidInput)]
    Denied { asked: Asked, status: u16, remedy: &'static str },
    /// Another answer that is none of 200, 204 and those that may pass.
    #[error("{asked}: the server answered {status}, and contents come with 200; check the URL")]
    #[diagnostic(code = "fetch-refused", class = InvalidInput)]
    Refused { asked: Asked, status: u16 },
    /// 408, 425 or 429 until we gave up.
    #[error("{asked}: too many requests ({status}), also after {tries} tries; try again later")]
    #[diagnostic(code = "too-many-requests", class = Transient)]
    TooManyRequests {
        asked: Asked,
        status: u16,
        /// How often it was asked.
        tries: u32,
    },
    /// 5xx until we gave up.
    #[error("{asked}: the server answered {status} to {tries} tries; try again later")]
    #[diagnostic(code = "server-error", class = Transient)]
    Server {
        asked: Asked,
        status: u16,
        /// How often it was asked.
        tries: u32,
    },
    /// No connection, or it was cut each time.
    #[error("{asked}: not reachable: {cause}; check the host, the network and the proxy")]
    #[diagnostic(code = "unreachable", class = Transient)]
    Unreachable { asked: Asked, cause: String },
    /// Not fetched in time.
    #[error(
        "{asked}: not fetched in {} s ({tries} tries); check the network, or raise --timeout or the config's ignition.timeouts",
        after.as_secs_f32()
    )]
    #[diagnostic(code = "timed-out", class = Transient)]
    TimedOut {
        asked: Asked,
        /// All the time that it was given.
        after: Duration,
        /// How often it was asked.
        tries: u32,
    },
    /// The TLS handshake failed.
    #[error(
        "{asked}: no trusted TLS connection: {cause}; give its CA with --ca (in a cluster additionalTrustBundle of ConfigMap mosb-config) or in the config's ignition.security.tls"
    )]
    #[diagnostic(code = "untrusted-tls", class = Transient)]
    Tls { asked: Asked, cause: String },
    /// More bytes than we take.
    #[error(
        "{asked}: more than {limit} bytes, which is too large for any machine's config; check the URL"
    )]
    #[diagnostic(code = "too-large", class = InvalidInput)]
    TooLarge { asked: Asked, limit: u64 },
    /// All references of a rendering together.
    #[error(
        "{asked}: with it, more than {limit} bytes are fetched, which is too large for any machine's config; refer to less"
    )]
    #[diagnostic(code = "too-large", class = InvalidInput)]
    TotalTooLarge {
        /// The last requested URL.
        asked: Asked,
        limit: u64,
    },
    /// More references than a rendering may have.
    #[error(
        "{asked}: with it and what comes after, {found} references are fetched, and at most {limit} may be; put contents into the config, or refer to fewer"
    )]
    #[diagnostic(code = "too-many-references", class = InvalidInput)]
    TooMany {
        /// The first that is too much.
        asked: Asked,
        found: usize,
        limit: usize,
    },
    /// Redirects without end.
    #[error("{asked}: more than {most} redirects; give the URL that they lead to")]
    #[diagnostic(code = "too-many-redirects", class = InvalidInput)]
    TooManyRedirects { asked: Asked, most: usize },
    /// An authority of the config that can't be read.
    #[error(
        "{asked}: a certificate authority of its config is not a certificate in PEM; correct ignition.security.tls"
    )]
    #[diagnostic(code = "bad-certificate", class = InvalidInput)]
    Authority { asked: Asked },
    /// A proxy of the config that is not a URL.
    #[error("{asked}: ignition.proxy: not a proxy's URL; write http://host:port")]
    #[diagnostic(code = "bad-proxy", class = InvalidInput)]
    Proxy { asked: Asked },
    /// `--offline`.
    #[error(
        "{asked}: lies elsewhere, and --offline fetches nothing; give its contents as a data URL"
    )]
    #[diagnostic(code = "offline", class = InvalidInput)]
    Offline {
        /// The URL that would be requested.
        asked: Asked,
    },
    /// A proxy variable that is not a URL.
    #[error("proxy variable {0}")]
    #[diagnostic(transparent)]
    ProxyVariable(#[from] BadProxy),
    /// `--ca`.
    #[error("--ca: no certificate in it; give a file with CAs in PEM")]
    #[diagnostic(code = "bad-certificate", class = InvalidInput)]
    CaFile,
    /// `--http-headers-file`.
    #[error("--http-headers-file: {cause}; write `host: {{Name: value}}` for each host")]
    #[diagnostic(code = "bad-headers-file", class = InvalidInput)]
    HeadersFile {
        /// The problem, without the value.
        cause: String,
    },
    /// Several at once.
    #[error("{} references could not be fetched:{}", .0.len(), listed(.0))]
    #[diagnostic(code = foremost(_0).code(), class = foremost(_0).class(), findings = _0.iter().map(Finding::from).collect())]
    Several(
        /// At least two, in the order of the references.
        Vec<Error>,
    ),
}

fn listed(errors: &[Error]) -> String {
    const SHOWN: usize = 20;
    let mut text: String = errors.iter().take(SHOWN).map(|error| format!("\n  {error}")).collect();
    if let more @ 1.. = errors.len().saturating_sub(SHOWN) {
        text.push_str(&format!("\n  and {more} more"));
    }
    text
}

impl Error {
    /// One or several as one; none is none.
    pub(super) fn all(mut errors: Vec<Self>) -> Option<Self> {
        match errors.len() {
            0 | 1 => errors.pop(),
            _ => Some(Self::Several(errors)),
        }
    }
}

/// The most useful of several errors: one that must be corrected, else the first.
/// There is a first, as [`Error::all`] makes `Several` of at least two.
fn foremost(errors: &[Error]) -> &Error {
    let must_be_corrected = |error: &&Error| error.class() == ErrorClass::InvalidInput;
    errors.iter().find(must_be_corrected).unwrap_or(&errors[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_fetch_failures_are_reported_and_permanent_ones_decide_the_class() {
        let asked = |n: usize| Asked {
            place: format!("storage.files[/{n}].contents"),
            url: "https://h/".to_owned(),
            redirected: None,
        };
        let late =
            |n| Error::TimedOut { asked: asked(n), after: Duration::from_millis(1500), tries: 2 };
        let missing = |n| Error::NotFound { asked: asked(n), status: 404 };
        assert!(Error::all(Vec::new()).is_none());
        let one = Error::all(vec![late(1)]).unwrap();
        assert_eq!((one.class(), one.code()), (ErrorClass::Transient, "timed-out"));
        assert!(one.to_string().contains("in 1.5 s (2 tries)"), "{one}");
        assert!(one.findings().is_empty());
        let both = Error::all(vec![late(1), missing(2)]).unwrap();
        assert_eq!((both.class(), both.code()), (ErrorClass::InvalidInput, "not-found"));
        assert_eq!(both.findings().len(), 2);
        assert!(both.to_string().contains("\n  storage.files[/2].contents: https://h/: not found"));
        let many = Error::all((0..50).map(late).collect()).unwrap();
        assert_eq!(many.class(), ErrorClass::Transient);
        assert!(many.to_string().ends_with("\n  and 30 more"));
    }
}
