//! What can go wrong when a reference is fetched: one sentence each.

use std::fmt;
use std::time::Duration;

use mosb_ignition::Reference;
use mosb_registry::http::BadProxy;
use mosb_types::{ErrorClass, Finding};

/// What was asked for. Printed as `field: URL`, without credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The field of the config, and the config, if it was said.
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
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// 404 or 410.
    #[error("{asked}: not found ({status}); check the URL")]
    NotFound {
        /// What was asked for.
        asked: Asked,
        /// 404 or 410.
        status: u16,
    },
    /// 401, 403 or 407.
    #[error("{asked}: the server refused it ({status}); {remedy}")]
    Denied {
        /// What was asked for.
        asked: Asked,
        /// The status.
        status: u16,
        /// What to do.
        remedy: &'static str,
    },
    /// Another answer that is none of 200, 204 and those that may pass.
    #[error("{asked}: the server answered {status}, and contents come with 200; check the URL")]
    Refused {
        /// What was asked for.
        asked: Asked,
        /// The status.
        status: u16,
    },
    /// 408, 425 or 429 until we gave up.
    #[error("{asked}: too many requests ({status}), also after {tries} tries; try again later")]
    TooManyRequests {
        /// What was asked for.
        asked: Asked,
        /// The last status.
        status: u16,
        /// How often it was asked.
        tries: u32,
    },
    /// 5xx until we gave up.
    #[error("{asked}: the server answered {status} to {tries} tries; try again later")]
    Server {
        /// What was asked for.
        asked: Asked,
        /// The last status.
        status: u16,
        /// How often it was asked.
        tries: u32,
    },
    /// No connection, or it was cut each time.
    #[error("{asked}: not reachable: {cause}; check the host, the network and the proxy")]
    Unreachable {
        /// What was asked for.
        asked: Asked,
        /// What the system said.
        cause: String,
    },
    /// Not fetched in time.
    #[error(
        "{asked}: not fetched in {} s ({tries} tries); check the network, or raise --timeout or the config's ignition.timeouts",
        after.as_secs_f32()
    )]
    TimedOut {
        /// What was asked for.
        asked: Asked,
        /// All the time that it was given.
        after: Duration,
        /// How often it was asked.
        tries: u32,
    },
    /// The TLS handshake failed.
    #[error(
        "{asked}: no trusted TLS connection: {cause}; give its CA with --ca or in the config's ignition.security.tls"
    )]
    Tls {
        /// What was asked for.
        asked: Asked,
        /// What was wrong.
        cause: String,
    },
    /// More bytes than we take.
    #[error(
        "{asked}: more than {limit} bytes, which no machine's config has room for; check the URL"
    )]
    TooLarge {
        /// What was asked for.
        asked: Asked,
        /// The most we take.
        limit: u64,
    },
    /// All references of a rendering together.
    #[error(
        "{asked}: with it, more than {limit} bytes are fetched, which no machine's config has room for; refer to less"
    )]
    TotalTooLarge {
        /// What was asked for last.
        asked: Asked,
        /// The most we take.
        limit: u64,
    },
    /// More references than a rendering may have.
    #[error(
        "{asked}: with it and what comes after, {found} references are fetched, and at most {limit} may be; put contents into the config, or refer to fewer"
    )]
    TooMany {
        /// The first that is too much.
        asked: Asked,
        /// How many there are.
        found: usize,
        /// The most we take.
        limit: usize,
    },
    /// Redirects without end.
    #[error("{asked}: more than {most} redirects; give the URL that they lead to")]
    TooManyRedirects {
        /// What was asked for.
        asked: Asked,
        /// How many are followed.
        most: usize,
    },
    /// An authority of the config that can't be read.
    #[error(
        "{asked}: a certificate authority of its config is no certificate in PEM; correct ignition.security.tls"
    )]
    Authority {
        /// What was asked for.
        asked: Asked,
    },
    /// A proxy of the config that is no URL.
    #[error("{asked}: ignition.proxy: not a proxy's URL; write http://host:port")]
    Proxy {
        /// What was asked for.
        asked: Asked,
    },
    /// `--offline`.
    #[error(
        "{asked}: lies elsewhere, and --offline fetches nothing; give its contents as a data URL"
    )]
    Offline {
        /// What would be asked for.
        asked: Asked,
    },
    /// A proxy variable that is no URL.
    #[error("proxy variable {0}")]
    ProxyVariable(#[from] BadProxy),
    /// `--ca`.
    #[error("--ca: no certificate in it; give a file with CAs in PEM")]
    CaFile,
    /// `--http-headers-file`.
    #[error("--http-headers-file: {cause}; write `host: {{Name: value}}` for each host")]
    HeadersFile {
        /// What is wrong; no value.
        cause: String,
    },
    /// Several at once.
    #[error("{} references could not be fetched:{}", .0.len(), listed(.0))]
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

    /// The one that says what to do: among several one that must be mended, else the first.
    fn foremost(&self) -> &Self {
        match self {
            Self::Several(errors) => errors
                .iter()
                .find(|error| error.class() == ErrorClass::InvalidInput)
                .or(errors.first())
                .unwrap_or(self),
            one => one,
        }
    }

    /// What the caller should do about it.
    pub fn class(&self) -> ErrorClass {
        match self.foremost() {
            Self::TooManyRequests { .. }
            | Self::Server { .. }
            | Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::Tls { .. } => ErrorClass::Transient,
            Self::NotFound { .. }
            | Self::Denied { .. }
            | Self::Refused { .. }
            | Self::TooLarge { .. }
            | Self::TotalTooLarge { .. }
            | Self::TooMany { .. }
            | Self::TooManyRedirects { .. }
            | Self::Authority { .. }
            | Self::Proxy { .. }
            | Self::Offline { .. }
            | Self::ProxyVariable(_)
            | Self::CaFile
            | Self::HeadersFile { .. } => ErrorClass::InvalidInput,
            // Never empty, and `foremost` looked inside.
            Self::Several(_) => ErrorClass::Internal,
        }
    }

    /// Its word in events, conditions, metrics and `-o json`.
    pub fn reason(&self) -> &'static str {
        match self.foremost() {
            Self::NotFound { .. } => "not-found",
            Self::Denied { .. } => "fetch-denied",
            Self::Refused { .. } => "fetch-refused",
            Self::TooManyRequests { .. } => "too-many-requests",
            Self::TooMany { .. } => "too-many-references",
            Self::Server { .. } => "server-error",
            Self::Unreachable { .. } => "unreachable",
            Self::TimedOut { .. } => "timed-out",
            Self::Tls { .. } => "untrusted-tls",
            Self::TooLarge { .. } | Self::TotalTooLarge { .. } => "too-large",
            Self::TooManyRedirects { .. } => "too-many-redirects",
            Self::Authority { .. } | Self::CaFile => "bad-certificate",
            Self::Proxy { .. } | Self::ProxyVariable(_) => "bad-proxy",
            Self::Offline { .. } => "offline",
            Self::HeadersFile { .. } => "bad-headers-file",
            Self::Several(_) => "internal",
        }
    }

    /// Each error by itself, where there are several.
    pub fn findings(&self) -> Vec<Finding> {
        match self {
            Self::Several(errors) => {
                errors.iter().map(|error| Finding::new(error.reason(), error.to_string())).collect()
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_are_told_all_and_what_must_be_mended_counts() {
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
        assert_eq!((one.class(), one.reason()), (ErrorClass::Transient, "timed-out"));
        assert!(one.to_string().contains("in 1.5 s (2 tries)"), "{one}");
        assert!(one.findings().is_empty());
        let both = Error::all(vec![late(1), missing(2)]).unwrap();
        assert_eq!((both.class(), both.reason()), (ErrorClass::InvalidInput, "not-found"));
        assert_eq!(both.findings().len(), 2);
        assert!(both.to_string().contains("\n  storage.files[/2].contents: https://h/: not found"));
        let many = Error::all((0..50).map(late).collect()).unwrap();
        assert_eq!(many.class(), ErrorClass::Transient);
        assert!(many.to_string().ends_with("\n  and 30 more"));
    }
}
