//! Encrypted volumes: checked as in Ignition; only their names are returned.

use super::error::shown;
use super::object::Object;
use super::resource;
use super::url;
use super::version::SpecVersion;
use crate::object::RemoteSources;
use crate::places::check_path;

/// Checks one of `storage.luks`; returns its name.
pub(super) fn read(o: &Object<'_, '_>) -> String {
    let text = |key| o.text(key).unwrap_or_default();
    // The machine fetches it, not the build.
    let key = resource::read(&o.object("keyFile"), RemoteSources::Allowed).source;
    let has_key = key.is_some_and(|source| !source.is_empty());
    let is_bound = is_bound(&o.object("clevis"));
    if o.is_readable() {
        if text("name").contains('/') {
            o.problem("name", "bad-luks", "must not hold a slash");
        }
        if text("label").len() > 47 {
            o.problem("label", "bad-luks", "must be at most 47 bytes");
        }
        if let Err(message) = check_path(text("device")) {
            o.problem("device", "bad-luks", message);
        }
        if o.object("cex").bool("enabled") == Some(true) {
            if is_bound {
                o.problem("cex", "bad-luks", "can't be used with clevis; keep one");
            }
            if has_key {
                o.problem("cex", "bad-luks", "can't be used with a key file; keep one");
            }
        }
    }
    text("name").to_owned()
}

/// Checks `clevis`; returns whether it binds the volume to anything.
fn is_bound(clevis: &Object<'_, '_>) -> bool {
    let tang = !clevis.each("tang", check_tang).is_empty();
    let threshold = clevis.integer("threshold").unwrap_or(0) != 0;
    let others = tang || threshold || clevis.bool("tpm2") == Some(true);
    let custom = clevis.object("custom");
    check_custom(&custom);
    let has_pin = custom.text("pin").is_some_and(|pin| !pin.is_empty());
    // In spec 3.2 an empty object counted too.
    let has_custom = clevis.version() == SpecVersion::V3_2 && clevis.is_set("custom");
    if clevis.is_readable() && others && (has_custom || has_pin) {
        clevis.problem_here(
            "bad-luks",
            "uses custom together with tpm2, tang or threshold; keep one",
        );
    }
    others || has_pin
}

fn check_custom(custom: &Object<'_, '_>) {
    let [pin, config] = ["pin", "config"].map(|key| custom.text(key).unwrap_or_default());
    let network = custom.bool("needsNetwork") == Some(true) && custom.version() > SpecVersion::V3_2;
    if !custom.is_readable() || (pin.is_empty() && config.is_empty() && !network) {
        return;
    }
    if custom.version() < SpecVersion::V3_6 && !matches!(pin, "tpm2" | "tang" | "sss") {
        let message = format!("{} must be tpm2, tang or sss; spec 3.6.0 takes others", shown(pin));
        custom.problem("pin", "bad-luks", message);
    } else if pin.is_empty() {
        custom.problem("pin", "bad-luks", "is needed for a pin of one's own");
    }
    if config.is_empty() {
        custom.problem("config", "bad-luks", "is needed for a pin of one's own");
    }
}

fn check_tang(o: &Object<'_, '_>) {
    let text = |key| o.text(key).unwrap_or_default();
    if !o.is_readable() {
        return;
    }
    if !matches!(url::scheme(text("url")).as_deref(), Some("http" | "https")) {
        o.problem("url", "bad-luks", "must be a URL that begins with http:// or https://");
    }
    if text("thumbprint").is_empty() {
        o.problem("thumbprint", "bad-luks", "is needed");
    }
    let advertisement = text("advertisement");
    if !advertisement.is_empty()
        && serde_json::from_str::<serde::de::IgnoredAny>(advertisement).is_err()
    {
        o.problem("advertisement", "bad-luks", "must be JSON");
    }
}
