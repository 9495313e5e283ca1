//! Reads contents and references, and checks them by the rules of their version.

use super::content::{Compression, HashFunction, Resource, Verification};
use super::data_url::{Body, DataUrlError};
use super::error::{shown, shown_word};
use super::object::Object;
use super::url;
use super::version::SpecVersion;
use crate::object::RemoteSources;

/// Reads contents from the fields of `o`.
pub(super) fn read(o: &Object<'_, '_>, remote: RemoteSources) -> Resource {
    let resource = read_reference(o, remote);
    if o.version() < SpecVersion::V3_1 {
        refuse_hash_without_source(o);
    }
    resource
}

/// Reads a reference to a config or to a certificate: in spec 3.0.0, its hash needs no source.
pub(super) fn read_reference(o: &Object<'_, '_>, remote: RemoteSources) -> Resource {
    let source = o.text("source");
    let compression = read_compression(o);
    check_source(o, source.unwrap_or_default(), remote);
    check_headers(o);
    let verification = read_verification(&o.object("verification"));
    if o.version() >= SpecVersion::V3_1 {
        refuse_hash_without_source(o);
    }
    Resource { source: source.map(str::to_owned), compression, verification }
}

fn read_compression(o: &Object<'_, '_>) -> Compression {
    match o.text("compression") {
        None | Some("") => Compression::None,
        Some("gzip") => Compression::Gzip,
        Some(other) => {
            let message = format!("{} must be \"gzip\", or left out", shown_word(other));
            o.problem("compression", "bad-compression", message);
            Compression::None
        }
    }
}

fn check_source(o: &Object<'_, '_>, source: &str, remote: RemoteSources) {
    if source.is_empty() {
        return;
    }
    let problem = |code, message: String| o.problem("source", code, message);
    if source.starts_with("data:") {
        match Body::find(source) {
            Ok(_) => {}
            Err(e @ DataUrlError::Unusual { .. }) => {
                problem("unusual-data-url", format!("the data URL {e}"))
            }
            Err(e) => problem("bad-data-url", format!("the data URL {e}")),
        }
        return;
    }
    let version = o.version();
    let scheme = url::scheme(source);
    let bad = |message: &str| Err(message.to_owned());
    let readable = match scheme.as_deref() {
        None => bad("is not a readable URL; give the contents as a data URL"),
        Some("") => bad("has no scheme; give the contents as a data URL"),
        Some("data") => bad("must begin with `data:` in lower case"),
        Some("s3") if version >= SpecVersion::V3_4 && url::names_empty_version(source) => {
            bad("names an empty versionId; give one, or leave it out")
        }
        Some("arn") if version >= SpecVersion::V3_4 && !url::is_s3_arn(source) => {
            bad("is not the name of an object in S3")
        }
        Some("arn") if version >= SpecVersion::V3_4 && url::names_empty_version(source) => {
            bad("names an empty versionId; give one, or leave it out")
        }
        Some("arn") if version >= SpecVersion::V3_4 => Ok(()),
        Some("http" | "https" | "tftp" | "s3") => Ok(()),
        Some("gs") if version >= SpecVersion::V3_2 => Ok(()),
        Some(scheme @ ("gs" | "arn")) => Err(format!(
            "has the scheme {scheme:?}, which came with a later spec; give the contents as a data URL"
        )),
        Some(scheme) => Err(format!(
            "has the scheme {}, which Ignition doesn't know; give the contents as a data URL",
            shown_word(scheme)
        )),
    };
    match readable {
        Err(message) => problem("bad-source", message),
        Ok(()) if remote == RemoteSources::Rejected => {
            let host = url::host(source).map(|host| format!(" (host {})", shown(host)));
            let message = format!(
                "lies elsewhere{}, and nothing is fetched while an image is built; render the config first, with the contents in it",
                host.unwrap_or_default()
            );
            problem("remote-source", message);
        }
        Ok(()) => {}
    }
}

fn check_headers(o: &Object<'_, '_>) {
    let headers = o.each("httpHeaders", |header| {
        if header.is_readable() && header.text("name").unwrap_or_default().is_empty() {
            header.problem("name", "bad-source", "a header needs a name");
        }
        if header.text("value") == Some("") {
            header.problem(
                "value",
                "bad-source",
                "a header's value must not be empty; leave it out to remove the header",
            );
        }
    });
    let is_http = || {
        let scheme = url::scheme(o.text("source").unwrap_or_default());
        matches!(scheme.as_deref(), Some("http" | "https"))
    };
    if !headers.is_empty() && o.is_readable() && !is_http() {
        o.problem(
            "httpHeaders",
            "bad-source",
            "headers are for http and https sources; remove them",
        );
    }
}

fn read_verification(verification: &Object<'_, '_>) -> Option<Verification> {
    let hash = verification.text("hash")?;
    match read_hash(hash, verification.version()) {
        Ok(read) => Some(read),
        Err((code, message)) => {
            verification.problem("hash", code, format!("{} {message}", shown_hash(hash)));
            None
        }
    }
}

fn refuse_hash_without_source(o: &Object<'_, '_>) {
    let verification = o.object("verification");
    if verification.is_set("hash") && !o.is_set("source") && o.is_readable() {
        verification.problem(
            "hash",
            "bad-verification",
            "there is no source to verify; give one, or no hash",
        );
    }
}

/// A hash for a message: only its function and its length, because it may be the hash of a secret.
pub(super) fn shown_hash(hash: &str) -> String {
    let (function, sum) = hash.split_once('-').unwrap_or(("", hash));
    let count = sum.chars().count();
    match function {
        "" => format!("a text of {count} characters"),
        function => format!("{} and {count} characters", shown_word(function)),
    }
}

/// The hash, or code and message of its problem.
pub(super) fn read_hash(
    hash: &str,
    version: SpecVersion,
) -> Result<Verification, (&'static str, &'static str)> {
    let bad = |message| Err(("bad-verification", message));
    let Some((name, sum)) = hash.split_once('-') else {
        return bad(
            "must be the hash function, a dash and the hash, as `sha512-` and 128 hex digits",
        );
    };
    let function = match name {
        "sha512" => HashFunction::Sha512,
        "sha256" if version >= SpecVersion::V3_1 => HashFunction::Sha256,
        "sha256" => return bad("must be sha512: sha256 came with spec 3.1.0"),
        _ => return bad("must begin with `sha512-` or, since spec 3.1.0, `sha256-`"),
    };
    if sum.len() != 2 * function.size() {
        return bad("must have 128 hex digits after `sha512-`, 64 after `sha256-`");
    }
    if !sum.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(("unusable-verification", "must be hex digits after the dash"));
    }
    Ok(Verification { function, sum: sum.to_ascii_lowercase() })
}
