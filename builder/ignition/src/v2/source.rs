//! Contents and references to configs and certificates.

use super::super::fields::Object;
use super::super::resource::shown_hash;
use super::super::url;
use super::super::version::SpecV2;
use super::shape::{Fields, filled, list, object, part, text};

/// The contents of a file. Those that are not said are empty ones.
pub(super) fn contents(o: &mut Object<'_, '_>) -> Fields {
    let compression = filled(o.text("compression"));
    let mut contents = reference(o);
    contents.extend(object([("compression", compression)]));
    contents
}

/// A reference to a config or a certificate.
pub(super) fn reference(o: &mut Object<'_, '_>) -> Fields {
    let source = o.text("source").unwrap_or_default();
    check_source(o, source);
    let mut verification = o.object("verification");
    let hash = verification.text("hash");
    let function = hash.and_then(|hash| hash.split_once('-'));
    if let (Some(hash), Some((name, _))) = (hash, function)
        && name != "sha512"
    {
        let message =
            format!("{} must begin with `sha512-`: spec 2 knows no other hash", shown_hash(hash));
        verification.problem("hash", "bad-verification", message);
    }
    verification.finish();
    let mut headers = Vec::new();
    if o.has("httpHeaders", SpecV2::V2_4) {
        headers = o.each("httpHeaders", |header| {
            let name = text(header.text("name"));
            object([("name", name), ("value", filled(header.text("value")))]).into()
        });
    }
    object([
        ("source", Some(source.into())),
        ("verification", part(object([("hash", text(hash))]))),
        ("httpHeaders", list(headers)),
    ])
}

/// What spec 3 would say otherwise, or not at all.
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
