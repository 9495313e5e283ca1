//! Encrypted volumes: checked as Ignition does, kept by name only.

use super::clean_path::check_path;
use super::error::shown;
use super::fields::Object;
use super::remote_sources::RemoteSources;
use super::resource;
use super::url;
use super::version::SpecVersion;

/// Reads `storage.luks`: the names of volumes.
pub(super) fn read(storage: &mut Object<'_, '_>) -> Vec<String> {
    if !storage.has("luks", SpecVersion::V3_2) {
        return Vec::new();
    }
    storage.each("luks", |o| {
        let name = o.text("name").unwrap_or_default();
        let (device, label) =
            (o.text("device").unwrap_or_default(), o.text("label").unwrap_or_default());
        o.text("uuid");
        o.truth("wipeVolume");
        o.texts("options");
        if o.has("discard", SpecVersion::V3_4) {
            o.truth("discard");
        }
        let open_options = if o.has("openOptions", SpecVersion::V3_4) {
            o.texts("openOptions")
        } else {
            Vec::new()
        };
        let mut key_file = o.object("keyFile");
        // The machine fetches it, not the build.
        let key = resource::read(&mut key_file, RemoteSources::Allowed).source.unwrap_or_default();
        key_file.finish();
        let clevis = clevis(&mut o.object("clevis"));
        let cex = o.has("cex", SpecVersion::V3_5) && {
            let mut cex = o.object("cex");
            let enabled = cex.truth("enabled") == Some(true);
            cex.finish();
            enabled
        };
        if !o.sound() {
            return name.to_owned();
        }
        if name.contains('/') {
            o.problem("name", "bad-luks", "must not hold a slash");
        }
        if label.len() > 47 {
            o.problem("label", "bad-luks", "must be at most 47 bytes");
        }
        if let Err(message) = check_path(device) {
            o.problem("device", "bad-luks", message);
        }
        o.no_duplicates("openOptions", open_options);
        if cex && clevis {
            o.problem("cex", "bad-luks", "can't be used with clevis; keep one");
        }
        if cex && !key.is_empty() {
            o.problem("cex", "bad-luks", "can't be used with a key file; keep one");
        }
        name.to_owned()
    })
}

/// Whether the volume is bound to anything.
fn clevis(clevis: &mut Object<'_, '_>) -> bool {
    let tang = clevis.each("tang", tang);
    let threshold = clevis.number("threshold").unwrap_or(0) != 0;
    let tpm2 = clevis.truth("tpm2") == Some(true);
    // In spec 3.2 an empty object counted too.
    let has_custom = clevis.version() == SpecVersion::V3_2 && clevis.given("custom");
    let mut custom = clevis.object("custom");
    let [pin, config] = ["pin", "config"].map(|key| custom.text(key).unwrap_or_default());
    let network =
        custom.truth("needsNetwork") == Some(true) && custom.version() > SpecVersion::V3_2;
    if custom.sound() && !(pin.is_empty() && config.is_empty() && !network) {
        if custom.version() < SpecVersion::V3_6 && !matches!(pin, "tpm2" | "tang" | "sss") {
            let message =
                format!("{} must be tpm2, tang or sss; spec 3.6.0 takes others", shown(pin));
            custom.problem("pin", "bad-luks", message);
        } else if pin.is_empty() {
            custom.problem("pin", "bad-luks", "is needed for a pin of one's own");
        }
        if config.is_empty() {
            custom.problem("config", "bad-luks", "is needed for a pin of one's own");
        }
    }
    custom.finish();
    let others = !tang.is_empty() || tpm2 || threshold;
    if clevis.sound() {
        clevis.no_duplicates("tang", tang);
        if others && (has_custom || !pin.is_empty()) {
            clevis.problem_here(
                "bad-luks",
                "uses custom together with tpm2, tang or threshold; keep one",
            );
        }
    }
    clevis.finish();
    others || !pin.is_empty()
}

fn tang<'v>(o: &mut Object<'v, '_>) -> &'v str {
    let (url, thumbprint) =
        (o.text("url").unwrap_or_default(), o.text("thumbprint").unwrap_or_default());
    let advertisement = if o.has("advertisement", SpecVersion::V3_4) {
        o.text("advertisement").unwrap_or_default()
    } else {
        ""
    };
    if o.sound() {
        if !matches!(url::scheme(url).as_deref(), Some("http" | "https")) {
            o.problem("url", "bad-luks", "must be a URL that begins with http:// or https://");
        }
        if thumbprint.is_empty() {
            o.problem("thumbprint", "bad-luks", "is needed");
        }
        if !advertisement.is_empty()
            && serde_json::from_str::<serde::de::IgnoredAny>(advertisement).is_err()
        {
            o.problem("advertisement", "bad-luks", "must be JSON");
        }
    }
    url
}
