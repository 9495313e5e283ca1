//! Values that can't be right, found before a build fails on them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use mosb_image::signature_policy::SignaturePolicy;

use super::harmless_annotation::is_harmless;
use super::{
    BaseStream, ClusterSettings, ClusterSettingsError, Mirrors, Resources, Retention, Toleration,
};
use crate::names::is_subdomain;
use crate::own_check::OwnCheck;

type Checked = Result<(), ClusterSettingsError>;

fn wrong(field: impl Into<String>, problem: impl Into<String>) -> ClusterSettingsError {
    ClusterSettingsError::Field { field: field.into(), problem: problem.into() }
}

pub(super) fn check(settings: &ClusterSettings) -> Checked {
    for (field, text) in [
        ("additionalTrustBundle", settings.additional_trust_bundle.as_deref()),
        ("registryTrustBundle", settings.registry_trust_bundle.as_deref()),
        ("bootImages.userDataTrustBundle", settings.boot_images.user_data_trust_bundle.as_deref()),
    ] {
        certificates(field, text.unwrap_or(CERTIFICATE))?;
    }
    for (host, text) in &settings.image_registry_bundles {
        let field = format!("imageRegistryBundles.{host}");
        if !is_host(host) {
            return Err(wrong(field, "want host or host:port"));
        }
        certificates(&field, text)?;
    }
    for (at, mirrors) in settings.mirrors.iter().enumerate() {
        mirror(mirrors).map_err(|problem| wrong(format!("mirrors[{at}].{problem}"), PLACE))?;
    }
    for (list, entries) in settings.registry_sources.lists() {
        if let Some(at) = entries.iter().position(|scope| !is_scope(scope)) {
            return Err(wrong(format!("registrySources.{list}[{at}]"), PLACE));
        }
    }
    if let Some(text) = &settings.signature_policy {
        SignaturePolicy::parse(text.as_bytes())
            .map_err(|error| wrong("signaturePolicy", error.to_string()))?;
    }
    base_stream(settings)?;
    name("globalPullSecret", &settings.global_pull_secret)?;
    for (at, secret) in settings.pull_secrets.iter().enumerate() {
        name(&format!("pullSecrets[{at}]"), secret)?;
    }
    if settings.builders.is_empty() {
        return Err(wrong(
            "builders",
            "want at least one; leave it out for Job and custom-pod-builder",
        ));
    }
    for (field, secret) in [
        ("signing.secret", &settings.signing.secret),
        ("userData.joinSecret", &settings.user_data.join_secret),
    ] {
        secret.as_ref().map_or(Ok(()), |secret| name(field, secret))?;
    }
    proxy(settings)?;
    job(settings)?;
    image_checks(settings)?;
    settings.boot_images.check().map_err(|(field, problem)| wrong(field, problem))?;
    retention(settings)?;
    rollout(settings)?;
    for (name, policy) in &settings.rollout_policies {
        policy
            .check()
            .map_err(|(field, want)| wrong(format!("rolloutPolicies.{name}.{field}"), want))?;
    }
    Ok(())
}

/// A mirror that is unavailable for that many tries has a permanent failure.
const MAX_RUN_RETRIES: u32 = 10;
/// Each is compared with all packages of an image.
const MAX_HELD_PACKAGES: usize = 100;
/// A week.
const MAX_STREAM_MINUTES: u16 = 10_080;
const PLACE: &str = "want host[:port][/path], or *.domain as a source, without a tag";
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";

fn image_checks(settings: &ClusterSettings) -> Checked {
    let checks = &settings.checks;
    if checks.max_size_mib == Some(0) {
        return Err(wrong("checks.maxSizeMiB", "want at least 1"));
    }
    if checks.held_packages.len() > MAX_HELD_PACKAGES {
        return Err(wrong("checks.heldPackages", format!("want at most {MAX_HELD_PACKAGES}")));
    }
    let is_word = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    for (name, version) in &checks.held_packages {
        if !is_word(name) || !is_word(version) {
            let field = format!("checks.heldPackages.{name}");
            return Err(wrong(field, "want the version of a package, without blanks"));
        }
    }
    if checks.own.len() > OwnCheck::MAX_CHECKS {
        return Err(wrong("checks.own", format!("want at most {}", OwnCheck::MAX_CHECKS)));
    }
    for (name, check) in &checks.own {
        let field = format!("checks.own.{name}");
        check.check(name).map_err(|(part, want)| {
            wrong(format!("{field}.{part}").trim_end_matches('.').to_owned(), want)
        })?;
        quantities(&format!("{field}.resources"), &check.resources)?;
    }
    Ok(())
}

fn base_stream(settings: &ClusterSettings) -> Checked {
    if let Some(text) = &settings.base_stream {
        text.parse::<BaseStream>().map_err(|error| wrong("baseStream", error.to_string()))?;
    }
    if !(1..=MAX_STREAM_MINUTES).contains(&settings.base_stream_minutes) {
        return Err(wrong("baseStreamMinutes", format!("want 1 to {MAX_STREAM_MINUTES}")));
    }
    Ok(())
}

fn certificates(field: &str, text: &str) -> Checked {
    if text.contains("PRIVATE KEY") {
        return Err(wrong(
            field,
            "it holds a private key, and anyone who can read ConfigMaps can read it; take it out",
        ));
    }
    if !text.contains(CERTIFICATE) {
        return Err(wrong(field, "no certificate in it; want PEM"));
    }
    Ok(())
}

/// `host[:port]` or `[address]:port`, without characters that are invalid in a path.
pub fn is_host(text: &str) -> bool {
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (text, None),
    };
    let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let fine = |b: u8| b.is_ascii_alphanumeric() || b".-".contains(&b);
    let named = match address {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => name.bytes().all(fine) && name.starts_with(|c: char| c.is_ascii_alphanumeric()),
    };
    named && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

fn is_place(text: &str) -> bool {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b".:-_/[]".contains(&b);
    let host = text.split('/').next().unwrap_or_default();
    is_host(host) && text.bytes().all(fine) && !text.ends_with('/')
}

/// `host[:port][/path]`, or `*.domain`.
pub(super) fn is_scope(text: &str) -> bool {
    is_place(text) || text.strip_prefix("*.").is_some_and(is_host)
}

/// The error names the invalid field.
pub(super) fn mirror(mirrors: &Mirrors) -> Result<(), String> {
    if !is_scope(&mirrors.source) {
        return Err("source".to_owned());
    }
    match mirrors.mirrors.iter().position(|mirror| !is_place(mirror)) {
        Some(at) => Err(format!("mirrors[{at}]")),
        None => Ok(()),
    }
}

fn name(field: &str, text: &str) -> Checked {
    if !is_subdomain(text) {
        return Err(wrong(field, format!("{text:?} is not a name of an object")));
    }
    Ok(())
}

fn proxy(settings: &ClusterSettings) -> Checked {
    let Some(proxy) = &settings.proxy else {
        return Ok(());
    };
    for (field, url) in
        [("proxy.httpProxy", &proxy.http_proxy), ("proxy.httpsProxy", &proxy.https_proxy)]
    {
        let Some(url) = url else { continue };
        if url.has_user() {
            return Err(wrong(
                field,
                "it holds a password, and anyone who can read ConfigMaps can read it; put it into a Secret and name that in proxy.secret",
            ));
        }
        if !url.is_valid() {
            return Err(wrong(field, "want http://host:port"));
        }
    }
    match &proxy.secret {
        Some(secret) => name("proxy.secret", secret),
        None => Ok(()),
    }
}

fn job(settings: &ClusterSettings) -> Checked {
    let job = &settings.job;
    for (container, resources) in [
        ("direct", &job.resources.direct),
        ("imageBuild", &job.resources.image_build),
        ("imagePush", &job.resources.image_push),
        ("waitForDone", &job.resources.wait_for_done),
    ] {
        quantities(&format!("job.resources.{container}"), resources)?;
    }
    for (field, seconds) in [
        ("direct", job.active_deadline_seconds.direct),
        ("containerfile", job.active_deadline_seconds.containerfile),
    ] {
        if seconds == Some(0) {
            let field = format!("job.activeDeadlineSeconds.{field}");
            return Err(wrong(field, "want at least 1 second"));
        }
    }
    if job.run_retries > MAX_RUN_RETRIES {
        return Err(wrong("job.runRetries".to_owned(), "want at most 10"));
    }
    let of_control_plane = job.control_plane.tolerations.as_deref().unwrap_or_default();
    for (list, tolerations) in
        [("job.tolerations", &*job.tolerations), ("job.controlPlane.tolerations", of_control_plane)]
    {
        for (at, one) in tolerations.iter().enumerate() {
            toleration(one)
                .map_err(|(field, want)| wrong(format!("{list}[{at}].{field}"), want))?;
        }
    }
    if let Some(class) = &job.priority_class_name {
        name("job.priorityClassName", class)?;
    }
    for (at, secret) in job.image_pull_secrets.iter().enumerate() {
        name(&format!("job.imagePullSecrets[{at}]"), secret)?;
    }
    labels("job.nodeSelector", &job.node_selector, true)?;
    if let Some(selector) = &job.control_plane.node_selector {
        labels("job.controlPlane.nodeSelector", selector, true)?;
    }
    labels("job.labels", &job.labels, true)?;
    labels("job.annotations", &job.annotations, false)?;
    let refused = job.annotations.keys().find(|key| !is_harmless(key));
    refused.map_or(Ok(()), |key| {
        let problem = "container runtimes and plugins of nodes act upon annotations like this one, and mosb does not know it as harmless; leave it out, use a label or a word without a domain";
        Err(wrong(format!("job.annotations.{key}"), problem))
    })
}

/// More machines than a registry can serve at once.
const MAX_STAGING: u16 = 100;
/// Machines with much memory take minutes to start; after a day somebody has to look.
const NODE_TIMEOUT_MINUTES: RangeInclusive<u16> = 5..=24 * 60;

fn retention(settings: &ClusterSettings) -> Checked {
    let Some(Retention { keep, days }) = settings.retention else {
        return Ok(());
    };
    if !(1..=Retention::MAX_KEEP).contains(&keep) {
        return Err(wrong("retention.keep", format!("want 1 to {}", Retention::MAX_KEEP)));
    }
    if days > Retention::MAX_DAYS {
        return Err(wrong("retention.days", format!("want 0 to {}", Retention::MAX_DAYS)));
    }
    Ok(())
}

fn rollout(settings: &ClusterSettings) -> Checked {
    let rollout = &settings.rollout;
    if !(1..=MAX_STAGING).contains(&rollout.staging_per_registry) {
        return Err(wrong("rollout.stagingPerRegistry", "want 1 to 100"));
    }
    if !NODE_TIMEOUT_MINUTES.contains(&rollout.node_timeout_minutes) {
        return Err(wrong("rollout.nodeTimeoutMinutes", "want 5 to 1440"));
    }
    Ok(())
}

fn quantities(field: &str, resources: &Resources) -> Checked {
    for (kind, map) in [("requests", &resources.requests), ("limits", &resources.limits)] {
        for (resource, quantity) in map {
            if quantity.as_deref().is_some_and(|text| !is_quantity(text)) {
                let field = format!("{field}.{kind}.{resource}");
                return Err(wrong(field, "want a quantity such as 500m, 1Gi or 20G"));
            }
        }
    }
    Ok(())
}

/// A decimal number with one of Kubernetes' suffixes.
fn is_quantity(text: &str) -> bool {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
    let suffixes = ["", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    number.parse::<f64>().is_ok() && suffixes.contains(&suffix)
}

/// The error names the invalid field and its valid values.
fn toleration(one: &Toleration) -> Result<(), (&'static str, &'static str)> {
    let among = |value: &Option<String>, allowed: &[&str]| {
        value.as_deref().is_none_or(|value| allowed.contains(&value))
    };
    if !among(&one.operator, &["Equal", "Exists"]) {
        return Err(("operator", "want Equal or Exists"));
    }
    if !among(&one.effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]) {
        return Err(("effect", "want NoSchedule, PreferNoSchedule or NoExecute"));
    }
    let exists = one.operator.as_deref() == Some("Exists");
    if one.key.as_deref().is_none_or(str::is_empty) && !exists {
        return Err(("key", "want a key, or operator Exists"));
    }
    if exists && one.value.as_deref().is_some_and(|value| !value.is_empty()) {
        return Err(("value", "operator Exists has no value; leave it out"));
    }
    if one.toleration_seconds.is_some() && one.effect.as_deref() != Some("NoExecute") {
        return Err(("tolerationSeconds", "only effect NoExecute has it"));
    }
    Ok(())
}

fn labels(field: &str, labels: &BTreeMap<String, String>, values_too: bool) -> Checked {
    let word = |text: &str| {
        let fine = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        let ends = |c: char| c.is_ascii_alphanumeric();
        text.len() <= 63 && text.bytes().all(fine) && text.starts_with(ends) && text.ends_with(ends)
    };
    for (key, value) in labels {
        let key_fine = match key.split_once('/') {
            Some((domain, name)) => is_subdomain(domain) && word(name),
            None => word(key),
        };
        let value_fine = !values_too || value.is_empty() || word(value);
        if !key_fine || !value_fine {
            let problem = "the API takes [domain/]name with letters, digits, - _ ., at most 63 of them, and such a value";
            return Err(wrong(format!("{field}.{key}"), problem));
        }
    }
    Ok(())
}
