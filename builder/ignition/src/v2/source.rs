//! Contents and references to configs and certificates.

use super::super::object::Object;
use super::super::resource::shown_hash;
use super::super::url;
use super::super::version::SpecV2;
use super::shape::{Fields, copy};

/// Contents, or a reference to a config or a certificate. Without a source the contents are empty.
pub(super) fn resource(o: &Object<'_, '_>) -> Fields {
    let source = o.text("source").unwrap_or_default();
    check_source(o, source);
    let verification = o.object("verification");
    if let Some(hash) = verification.text("hash")
        && let Some((function, _)) = hash.split_once('-')
        && function != "sha512"
    {
        let message =
            format!("{} must begin with `sha512-`: spec 2 knows no other hash", shown_hash(hash));
        verification.problem("hash", "bad-verification", message);
    }
    let mut fields = copy(o, &[]);
    fields.insert("source".to_owned(), source.into());
    fields
}

/// Refuses the schemes that spec 3 doesn't have, and those that only spec 3 has.
fn check_source(o: &Object<'_, '_>, source: &str) {
    let scheme = url::scheme(source).unwrap_or_default();
    let before_2_1 = o.spec() == SpecV2::V2_0.into();
    match scheme.as_str() {
        "oem" => {
            let message = "`oem:` is a directory of Container Linux that spec 3 doesn't know; give the contents as a data URL";
            o.problem("source", "no-spec3-equal", message);
        }
        "gs" | "arn" => o.problem(
            "source",
            "bad-source",
            format!("has the scheme {scheme:?}, which spec 2 doesn't know; give the contents as a data URL"),
        ),
        "tftp" | "s3" if before_2_1 => o.problem(
            "source",
            "bad-source",
            format!("has the scheme {scheme:?}, which came with spec 2.1.0; give the contents as a data URL"),
        ),
        _ => {}
    }
}
