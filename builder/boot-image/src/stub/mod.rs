//! The stub: the small Ignition config in a user-data Secret that fetches the config of a pool.
//!
//! Input: the bytes of the Secret. Output: the same stub in a spec that newer images read, or with
//! the current CA. Invariants: the host is never made up, it stays as it is; whoever reads the new
//! stub merges the same config; contents are in no error and in no `Debug`.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use x509_parser::pem::Pem;

use mosb_ignition::{Document, Spec, parse_data_url};
use mosb_types::{Diagnostic, canonical_json};

/// A Secret has at most 1 MiB.
const MAX_BYTES: usize = 1024 * 1024;
const AUTHORITIES: &str = "/ignition/security/tls/certificateAuthorities";
/// Findings of fields that a conversion would leave out.
const LOST: [&str; 3] = ["unknown-field", "newer-field", "lost-field"];

/// A stub of spec 2 or 3. `Debug` shows its version and pool only: it may have tokens.
#[derive(Clone, PartialEq)]
pub struct Stub {
    config: Value,
    version: String,
}

/// Why a stub can't be used. The caller adds the name of the Secret.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[diagnostic(class = InvalidInput)]
#[non_exhaustive]
pub enum StubError {
    #[error("the user data has {0} bytes; at most {MAX_BYTES} are supported")]
    #[diagnostic(code = "stub-too-long")]
    TooLong(usize),
    #[error(
        "the user data is not a JSON object (line {line}); only Ignition configs can be converted"
    )]
    #[diagnostic(code = "stub-not-json")]
    NotJson { line: usize },
    #[error("the user data has no ignition.version; only Ignition configs can be converted")]
    #[diagnostic(code = "stub-version")]
    NoVersion,
    #[error("the user data is of Ignition spec {found:?}; write it in spec 3")]
    #[diagnostic(code = "stub-version")]
    Version { found: String },
    #[error("the user data can't be converted to spec 3; write it in spec 3")]
    #[diagnostic(code = "stub-not-convertible")]
    NotConvertible {
        #[source]
        source: mosb_ignition::Error,
    },
    #[error("field {place} of the user data is not part of its spec; remove it, or write spec 3")]
    #[diagnostic(code = "stub-not-convertible")]
    Surplus { place: String },
    #[error(
        "the user data has no single CA of its own in {AUTHORITIES}: {found}; replace its CA by hand"
    )]
    #[diagnostic(code = "stub-authority")]
    AuthorityPlace { found: &'static str },
    #[error("the CA of the user data: {0}")]
    #[diagnostic(code = "stub-authority")]
    Authority(#[from] AuthorityError),
}

impl Stub {
    /// Parses the user data of a Secret.
    ///
    /// # Errors
    /// It is not a Ignition config of spec 2 or 3. A newer version of spec 3 than is known here is
    /// none.
    pub fn parse(bytes: &[u8]) -> Result<Self, StubError> {
        if bytes.len() > MAX_BYTES {
            return Err(StubError::TooLong(bytes.len()));
        }
        let config: Value = serde_json::from_slice(bytes)
            .map_err(|error| StubError::NotJson { line: error.line() })?;
        if !config.is_object() {
            return Err(StubError::NotJson { line: 1 });
        }
        let version = config.pointer("/ignition/version").and_then(Value::as_str);
        let version = version.ok_or(StubError::NoVersion)?.to_owned();
        if !is_spec3(&version) && !version.starts_with("2.") {
            let found = version.chars().take(32).collect();
            return Err(StubError::Version { found });
        }
        Ok(Self { config, version })
    }

    /// `ignition.version`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Whether images with spec 3 only can't read it.
    pub fn is_spec2(&self) -> bool {
        !is_spec3(&self.version)
    }

    /// A stub of spec 2 in the oldest version of spec 3 that has all of it, so that older images
    /// read it too. `None` for one of spec 3, which is left alone.
    ///
    /// # Errors
    /// Something of it has no equivalent in spec 3, or is not of its spec.
    pub fn upgrade_to_oldest(&self) -> Result<Option<Self>, StubError> {
        if !self.is_spec2() {
            return Ok(None);
        }
        if self.version.parse::<Spec>().is_err() {
            let found = self.version.chars().take(32).collect();
            return Err(StubError::Version { found });
        }
        let read =
            Document::read(&self.config).map_err(|source| StubError::NotConvertible { source })?;
        // A machine would ignore these fields, or not: what was meant is not known.
        if let Some(lost) = read.warnings.iter().find(|finding| LOST.contains(&&*finding.code)) {
            let place = lost.object.clone().unwrap_or_default();
            return Err(StubError::Surplus { place });
        }
        let config = read.document.into_oldest_version();
        let version = config.pointer("/ignition/version").and_then(Value::as_str);
        let version = version.ok_or(StubError::NoVersion)?.to_owned();
        Ok(Some(Self { config, version }))
    }

    /// The pool whose config it fetches: `https://HOST/config/POOL` is its only source.
    pub fn pool(&self) -> Option<&str> {
        let list = if self.is_spec2() { "append" } else { "merge" };
        let config = self.config.pointer("/ignition/config")?;
        let sources = config.get(list).and_then(Value::as_array).map(Vec::as_slice);
        let replace = config.get("replace").filter(|replace| !replace.is_null());
        let [source] = sources.unwrap_or_default() else { return None };
        if replace.is_some() {
            return None;
        }
        let rest = source.get("source")?.as_str()?.strip_prefix("https://")?;
        let pool = rest.split_once('/')?.1.strip_prefix("config/")?;
        let fine = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b);
        (!pool.is_empty() && pool.bytes().all(fine)).then_some(pool)
    }

    /// The CA that it trusts; `None` if it names none.
    ///
    /// # Errors
    /// More than one entry, one that is fetched, or no certificate in it.
    pub fn authority(&self) -> Result<Option<Authority>, StubError> {
        let Some(url) = self.authority_url()? else { return Ok(None) };
        let pem = parse_data_url(url)
            .map_err(|_| StubError::AuthorityPlace { found: "no valid data URL" })?;
        Ok(Some(Authority::parse(&pem)?))
    }

    /// The stub with these CAs (PEM) in the place of its own; `None` if it trusts one of them
    /// already, or names none. All else stays as it is, unknown fields too.
    ///
    /// # Errors
    /// More than one entry, or one whose contents are not in the stub; `pem` has no certificate.
    pub fn with_authority(&self, pem: &[u8]) -> Result<Option<Self>, StubError> {
        let new = Authority::parse(pem)?;
        match self.authority() {
            Ok(None) => return Ok(None),
            Ok(Some(own)) if own.is_in(&new) => return Ok(None),
            // An unreadable certificate is replaced all the same.
            Ok(Some(_)) | Err(StubError::Authority(_)) => {}
            Err(error) => return Err(error),
        }
        let mut config = self.config.clone();
        let source = config.pointer_mut(&format!("{AUTHORITIES}/0/source"));
        let source = source.ok_or(StubError::AuthorityPlace { found: "no source" })?;
        *source = format!("data:text/plain;charset=utf-8;base64,{}", STANDARD.encode(pem)).into();
        Ok(Some(Self { config, version: self.version.clone() }))
    }

    /// The data URL of the only CA.
    fn authority_url(&self) -> Result<Option<&str>, StubError> {
        let wrong = |found| Err(StubError::AuthorityPlace { found });
        let list = self.config.pointer(AUTHORITIES).and_then(Value::as_array);
        let entry = match list.map(Vec::as_slice).unwrap_or_default() {
            [] => return Ok(None),
            [entry] => entry,
            _ => return wrong("more than one"),
        };
        let is_set = |field: &str| match entry.get(field) {
            None | Some(Value::Null) => false,
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Object(fields)) => fields.values().any(|value| !value.is_null()),
            Some(_) => true,
        };
        if is_set("verification") || is_set("compression") {
            return wrong("one with a hash or a compression");
        }
        match entry.get("source").and_then(Value::as_str) {
            Some(url) if url.starts_with("data:") => Ok(Some(url)),
            Some(_) => wrong("one that is fetched"),
            None => wrong("no source"),
        }
    }

    /// The user data to write: canonical JSON, so that equal stubs are equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        canonical_json(&self.config)
    }
}

fn is_spec3(version: &str) -> bool {
    version.starts_with("3.")
}

impl fmt::Debug for Stub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Stub");
        shown.field("version", &self.version).field("pool", &self.pool()).finish_non_exhaustive()
    }
}

/// More certificates than any bundle of a cluster's own CAs has.
const MAX_CERTIFICATES: usize = 1000;

/// The certificates of a bundle, by their fingerprints. Public, so it may be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    fingerprints: BTreeSet<[u8; 32]>,
    not_after: i64,
}

/// Why a bundle can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityError {
    #[error("it has no certificate in PEM; give the CA's")]
    Empty,
    #[error("certificate {number} of it is not valid; give the CA's")]
    Certificate { number: usize },
    #[error("it has more than {MAX_CERTIFICATES} certificates; give fewer")]
    TooMany,
}

impl Authority {
    /// Parses certificates in PEM.
    ///
    /// # Errors
    /// There is none, or an invalid one.
    pub fn parse(pem: &[u8]) -> Result<Self, AuthorityError> {
        let mut fingerprints = BTreeSet::new();
        let mut not_after = None;
        for (index, block) in Pem::iter_from_buffer(pem).enumerate() {
            if index == MAX_CERTIFICATES {
                return Err(AuthorityError::TooMany);
            }
            let wrong = || AuthorityError::Certificate { number: index + 1 };
            let block = block.map_err(|_| wrong())?;
            let certificate = block.parse_x509().map_err(|_| wrong())?;
            not_after = not_after.max(Some(certificate.validity().not_after.timestamp()));
            fingerprints.insert(Sha256::digest(&block.contents).into());
        }
        let not_after = not_after.ok_or(AuthorityError::Empty)?;
        Ok(Self { fingerprints, not_after })
    }

    /// When the last certificate of it expires: Unix time in seconds. While CAs are replaced, a
    /// bundle has old ones beside the new one.
    pub fn not_after(&self) -> i64 {
        self.not_after
    }

    /// Whether `bundle` has one of these certificates.
    pub(super) fn is_in(&self, bundle: &Self) -> bool {
        !self.fingerprints.is_disjoint(&bundle.fingerprints)
    }
}
