//! The section `ignition`: the version, references to other configs, and settings for fetching.

use serde_json::{Map, Value};

use super::error::Error;
use super::normalize::same_field;
use super::object::Object;
use super::version::{Spec, SpecVersion};
use super::{resource, url};
use crate::object::RemoteSources;
use mosb_types::Finding;

/// The version of the config, if it is one of spec 3.
pub(super) fn version(config: &Value) -> Result<SpecVersion, Error> {
    version_text(config)?.parse()
}

/// The version of the config.
pub(super) fn spec(config: &Value) -> Result<Spec, Error> {
    version_text(config)?.parse()
}

/// The text of `ignition.version`; empty if there is none.
fn version_text(config: &Value) -> Result<&str, Error> {
    let wrong = |object: &str, message: &str| {
        let problems = vec![Finding::new("wrong-type", message).object(object)];
        Err(Error::Invalid { problems })
    };
    let Some(members) = config.as_object() else {
        return wrong("the config", "must be an object with the field `ignition`");
    };
    match find(members, "ignition") {
        None | Some(Value::Null) => Ok(""),
        Some(Value::Object(ignition)) => match find(ignition, "version") {
            None | Some(Value::Null) => Ok(""),
            Some(Value::String(version)) => Ok(version),
            Some(_) => wrong("ignition.version", "must be a string"),
        },
        Some(_) => wrong("ignition", "must be an object"),
    }
}

/// The first field of this name: a second one is a problem when the config is normalized.
fn find<'v>(members: &'v Map<String, Value>, field: &str) -> Option<&'v Value> {
    members
        .get(field)
        .or_else(|| members.iter().find(|(k, _)| same_field(k, field)).map(|(_, v)| v))
}

pub(super) fn check(root: &Object<'_, '_>) {
    let ignition = root.object("ignition");
    check_references(&ignition.object("config"));
    check_proxy(&ignition.object("proxy"));
    ignition.object("security").object("tls").each("certificateAuthorities", |o| {
        let authority = resource::read_reference(o, o.remote());
        if o.is_readable() && authority.source.unwrap_or_default().is_empty() {
            o.problem(
                "source",
                "bad-source",
                "a certificate authority needs a source; give its data URL",
            );
        }
    });
}

fn check_references(config: &Object<'_, '_>) {
    const RENDER: &str = "this config refers to another one, and nothing is fetched while an image is built; render it first";
    let source = |o: &Object<'_, '_>| resource::read_reference(o, RemoteSources::Allowed).source;
    let merged = config.each("merge", source);
    let replaced = source(&config.object("replace"));
    if config.version() >= SpecVersion::V3_1 && config.is_readable() {
        for (index, source) in merged.iter().enumerate() {
            if source.as_deref().unwrap_or_default().is_empty() {
                let message = "a config to merge needs a source";
                config.problem_in("merge", index, "bad-source", message);
            }
        }
    }
    if config.remote() == RemoteSources::Rejected {
        for (key, is_set) in [("merge", !merged.is_empty()), ("replace", replaced.is_some())] {
            if is_set {
                config.problem(key, "referenced-config", RENDER);
            }
        }
    }
}

fn check_proxy(proxy: &Object<'_, '_>) {
    for key in ["httpProxy", "httpsProxy"] {
        let scheme = proxy.text(key).map(url::scheme);
        if scheme.is_some_and(|scheme| !matches!(scheme.as_deref(), Some("http" | "https"))) {
            proxy.problem(key, "bad-proxy", "must be a URL that begins with http:// or https://");
        }
    }
}
