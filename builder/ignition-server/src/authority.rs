//! The CA of the server's certificates. Machines trust it for nothing else: it is in their stub, and
//! its key is in a Secret that the server does not mount.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use mosb_image::Digest;
use mosb_types::{Diagnostic, Secret};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use serde::{Deserialize, Serialize};

/// The CA is in the stubs of machines, which fetch their config once.
const AUTHORITY_YEARS: i16 = 10;
/// It is replaced so long before its end.
const AUTHORITY_RESERVE_DAYS: i32 = 365;
const CERTIFICATE_DAYS: i32 = 90;
/// New machines may have a clock that is slow.
const CLOCK_TOLERANCE_DAYS: i32 = 1;
const AUTHORITY_NAME: &str = "mosb serve-ignition CA";

/// The CA's certificate and key.
#[derive(Debug, Clone, PartialEq)]
pub struct Authority {
    /// PEM.
    pub certificate: String,
    /// PEM.
    pub key: Secret<String>,
    /// RFC 3339.
    pub not_after: String,
}

#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum AuthorityError {
    #[error("the CA of mosb serve-ignition: no key or certificate can be made; report it")]
    #[diagnostic(code = "no-certificate", class = Internal)]
    Generate(#[from] rcgen::Error),
    #[error("the CA of mosb serve-ignition: {0}")]
    #[diagnostic(code = "no-certificate", class = Internal)]
    Time(#[from] jiff::Error),
}

impl Authority {
    /// A new CA.
    ///
    /// # Errors
    /// [`AuthorityError`].
    pub fn generate(now: Timestamp) -> Result<Self, AuthorityError> {
        let key = KeyPair::generate()?;
        let (start, end) = (day(now, -CLOCK_TOLERANCE_DAYS)?, years_after(now)?);
        let mut params = authority_params();
        set_life(&mut params, start, end);
        let certificate = params.self_signed(&key)?;
        Ok(Self {
            certificate: certificate.pem(),
            key: Secret::new(key.serialize_pem()),
            not_after: midnight(end)?.to_string(),
        })
    }

    /// Whether it will last for the certificates and stubs that are made now. One that ends later
    /// than a CA of today was made when a clock was wrong, and is not valid yet.
    pub fn is_good(&self, now: Timestamp) -> bool {
        let ends_in_time = || {
            let end = self.not_after.parse::<Timestamp>().ok()?;
            let reserve = midnight(day(now, AUTHORITY_RESERVE_DAYS).ok()?).ok()?;
            let latest = years_after(now).ok()?.checked_add(tolerance().ok()?).ok()?;
            Some(reserve < end && end <= midnight(latest).ok()?)
        };
        ends_in_time() == Some(true) && KeyPair::from_pem(self.key.expose()).is_ok()
    }

    /// A new certificate for a server at this name or address.
    ///
    /// # Errors
    /// [`AuthorityError`].
    pub fn issue(&self, host: &str, now: Timestamp) -> Result<ServingCertificate, AuthorityError> {
        let issuer = Issuer::new(authority_params(), KeyPair::from_pem(self.key.expose())?);
        let key = KeyPair::generate()?;
        let (start, end) = (day(now, -CLOCK_TOLERANCE_DAYS)?, day(now, CERTIFICATE_DAYS)?);
        let mut params = CertificateParams::new(vec![host.to_owned()])?;
        params.distinguished_name = DistinguishedName::new();
        set_life(&mut params, start, end);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &issuer)?.pem();
        let info = CertificateInfo {
            host: host.to_owned(),
            not_before: midnight(start)?.to_string(),
            not_after: midnight(end)?.to_string(),
            authority: Digest::of(self.certificate.as_bytes()),
            certificate: Digest::of(certificate.as_bytes()),
        };
        Ok(ServingCertificate { certificate, key: Secret::new(key.serialize_pem()), info })
    }
}

/// Name and use of the CA, which are in its own certificate and in those that it issues.
fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, AUTHORITY_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn tolerance() -> Result<Span, jiff::Error> {
    Span::new().try_days(CLOCK_TOLERANCE_DAYS)
}

fn years_after(now: Timestamp) -> Result<Date, jiff::Error> {
    let today = now.to_zoned(TimeZone::UTC).date();
    today.checked_add(Span::new().try_years(AUTHORITY_YEARS)?)
}

fn day(now: Timestamp, days: i32) -> Result<Date, jiff::Error> {
    now.to_zoned(TimeZone::UTC).date().checked_add(Span::new().try_days(days)?)
}

fn midnight(day: Date) -> Result<Timestamp, jiff::Error> {
    Ok(day.to_zoned(TimeZone::UTC)?.timestamp())
}

/// Whole days: rcgen takes them without a crate of its own kind of time.
fn set_life(params: &mut CertificateParams, start: Date, end: Date) {
    let moment = |day: Date| {
        date_time_ymd(day.year().into(), day.month().unsigned_abs(), day.day().unsigned_abs())
    };
    params.not_before = moment(start);
    params.not_after = moment(end);
}

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

    fn now() -> Timestamp {
        "2026-11-25T10:00:00Z".parse().unwrap()
    }

    #[test]
    fn authorities_are_replaced_in_their_last_year() {
        let authority = Authority::generate(now()).unwrap();
        assert_eq!(authority.not_after, "2036-11-25T00:00:00Z");
        for (at, want) in [
            ("2026-11-23T23:59:59Z", false),
            ("2026-11-24T00:00:00Z", true),
            ("2026-11-25T10:00:00Z", true),
            ("2035-11-25T23:59:59Z", true),
            ("2035-11-26T00:00:00Z", false),
        ] {
            assert_eq!(authority.is_good(at.parse().unwrap()), want, "{at}");
        }
        let broken = Authority { key: Secret::new("no key".to_owned()), ..authority };
        assert!(!broken.is_good(now()));
        assert!(matches!(broken.issue("a", now()), Err(AuthorityError::Generate(_))));
    }

    #[test]
    fn certificates_are_for_names_or_addresses() {
        let authority = Authority::generate(now()).unwrap();
        for host in ["ignition.example.com", "192.0.2.1", "2001:db8::1"] {
            let issued = authority.issue(host, now()).unwrap();
            let pem = issued.certificate.as_bytes();
            assert!(issued.info.fits(pem, host, &authority.certificate, now()), "{host}");
            assert_eq!(issued.info.not_before, "2026-11-24T00:00:00Z");
            assert_eq!(issued.info.not_after, "2027-02-23T00:00:00Z");
            assert!(!format!("{issued:?}").contains("PRIVATE KEY"));
        }
        let other = authority.issue("ä", now());
        assert!(matches!(other, Err(AuthorityError::Generate(_))), "{other:?}");
    }

    #[test]
    fn certificates_are_replaced_early_or_for_another_host() {
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
