//! The certificates of a CA bundle, as far as a stub needs them.

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};
use x509_parser::pem::Pem;

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
