//! Paths of files that the trust store is compiled from.

/// `update-ca-trust` adds the files below it to the trust store.
pub(in crate::plan) const CA_TRUST_SOURCE: &str = "/etc/pki/ca-trust/source/";

/// Whether the entry of a config at this path is written before the trust store is compiled.
pub(crate) fn is_trust_file(path: &str) -> bool {
    path.starts_with(CA_TRUST_SOURCE)
}
