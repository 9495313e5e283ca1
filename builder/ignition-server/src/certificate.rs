//! The certificate that the server shows, and when it must be replaced. Pure.

use jiff::Timestamp;
use mosb_image::Digest;
use mosb_types::Secret;
use serde::{Deserialize, Serialize};

/// A certificate, its key, and what it is for.
#[derive(Debug, Clone)]
pub struct ServingCertificate {
    /// PEM.
    pub certificate: String,
    /// PEM.
    pub key: Secret<String>,
    pub info: CertificateInfo,
}

/// What a certificate is for. The controller keeps it beside the certificate, to see without
/// parsing one whether it fits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateInfo {
    /// The name or address in it.
    pub host: String,
    /// RFC 3339.
    pub not_before: String,
    /// RFC 3339.
    pub not_after: String,
    /// Of the PEM of the CA that issued it.
    pub authority: Digest,
    /// Of its own PEM.
    pub certificate: Digest,
}

impl CertificateInfo {
    /// Whether the certificate with this PEM serves this host under this CA, and this is within the
    /// first two thirds of its life: not before them either, as if a clock was wrong when it was made.
    pub fn fits(&self, pem: &[u8], host: &str, authority: &str, now: Timestamp) -> bool {
        let before_renewal = || {
            let start = self.not_before.parse::<Timestamp>().ok()?;
            let life = self.not_after.parse::<Timestamp>().ok()?.as_second() - start.as_second();
            let renewal = Timestamp::from_second(start.as_second() + life / 3 * 2).ok()?;
            Some(start..renewal)
        };
        self.host == host
            && self.authority == Digest::of(authority.as_bytes())
            && self.certificate == Digest::of(pem)
            && before_renewal().is_some_and(|time| time.contains(&now))
    }

    /// # Panics
    /// Never.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts are JSON")
    }

    /// None if it is not what [`to_json`](Self::to_json) writes.
    pub fn from_json(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_replaced_at_two_thirds_of_its_life_or_if_it_is_for_something_else() {
        let info = CertificateInfo {
            host: "a.example.com".to_owned(),
            not_before: "2026-01-01T00:00:00Z".to_owned(),
            not_after: "2026-04-01T00:00:00Z".to_owned(),
            authority: Digest::of(b"ca"),
            certificate: Digest::of(b"pem"),
        };
        assert_eq!(CertificateInfo::from_json(&info.to_json()).as_ref(), Some(&info));
        for (what, pem, host, authority, now, want) in [
            ("new", "pem", "a.example.com", "ca", "2026-01-01T00:00:00Z", true),
            ("later", "pem", "a.example.com", "ca", "2026-03-01T23:59:59Z", true),
            ("before its life", "pem", "a.example.com", "ca", "2025-12-31T23:59:59Z", false),
            ("two thirds", "pem", "a.example.com", "ca", "2026-03-02T00:00:00Z", false),
            ("another host", "pem", "b.example.com", "ca", "2026-01-01T00:00:00Z", false),
            ("another CA", "pem", "a.example.com", "cb", "2026-01-01T00:00:00Z", false),
            ("another PEM", "other", "a.example.com", "ca", "2026-01-01T00:00:00Z", false),
        ] {
            let now = now.parse().unwrap();
            assert_eq!(info.fits(pem.as_bytes(), host, authority, now), want, "{what}");
        }
        let unreadable = CertificateInfo { not_after: "soon".to_owned(), ..info };
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        assert!(!unreadable.fits(b"pem", "a.example.com", "ca", now));
    }
}
