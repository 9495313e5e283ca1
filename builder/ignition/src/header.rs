//! The section `ignition`: the version, and where Ignition itself would fetch things from.

use serde_json::{Map, Value};

use super::error::Error;
use super::fields::{Object, same_field};
use super::remote_sources::RemoteSources;
use super::resource;
use super::url;
use super::version::{Spec, SpecVersion};
use mosb_types::Finding;

/// The version that decides how everything else is read, if it is one of spec 3.
pub(super) fn version(config: &Value) -> Result<SpecVersion, Error> {
    said_version(config)?.parse()
}

/// The version that decides how everything else is read.
pub(super) fn spec(config: &Value) -> Result<Spec, Error> {
    said_version(config)?.parse()
}

/// What the config says its version is; empty if it doesn't.
fn said_version(config: &Value) -> Result<&str, Error> {
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

/// The first field of this name: that there are two is noticed when the section is read.
fn find<'v>(members: &'v Map<String, Value>, field: &str) -> Option<&'v Value> {
    members
        .get(field)
        .or_else(|| members.iter().find(|(k, _)| same_field(k, field)).map(|(_, v)| v))
}

/// Reads the section.
pub(super) fn read(root: &mut Object<'_, '_>) {
    let mut ignition = root.object("ignition");
    ignition.text("version");
    read_references(&mut ignition.object("config"));
    if ignition.has("proxy", SpecVersion::V3_1) {
        read_proxy(&mut ignition.object("proxy"));
    }
    let mut security = ignition.object("security");
    let mut tls = security.object("tls");
    let authorities = tls.each("certificateAuthorities", |o| {
        let remote = o.remote();
        let authority = resource::read_reference(o, remote);
        if o.sound() && authority.source.as_deref().unwrap_or_default().is_empty() {
            o.problem(
                "source",
                "bad-source",
                "a certificate authority needs a source; give its data URL",
            );
        }
        authority.source.unwrap_or_default()
    });
    if tls.sound() {
        tls.no_duplicates("certificateAuthorities", authorities.iter().map(String::as_str));
    }
    tls.finish();
    security.finish();
    let mut timeouts = ignition.object("timeouts");
    timeouts.number("httpResponseHeaders");
    timeouts.number("httpTotal");
    timeouts.finish();
    ignition.finish();
}

fn read_references(config: &mut Object<'_, '_>) {
    const RENDER: &str = "this config refers to another one, and nothing is fetched while an image is built; render it first";
    let merged =
        config.each("merge", |o| resource::read_reference(o, RemoteSources::Allowed).source);
    let mut replace = config.object("replace");
    let replaced = resource::read_reference(&mut replace, RemoteSources::Allowed).source;
    replace.finish();
    let refused = config.remote() == RemoteSources::Refused;
    if !merged.is_empty() {
        if refused {
            config.problem("merge", "referenced-config", RENDER);
        }
        if config.version() >= SpecVersion::V3_1 && config.sound() {
            for (index, source) in merged.iter().enumerate() {
                if source.as_deref().unwrap_or_default().is_empty() {
                    config.problem_in(
                        "merge",
                        index,
                        "bad-source",
                        "a config to merge needs a source",
                    );
                }
            }
        }
        if config.sound() {
            config.no_duplicates("merge", merged.iter().map(|s| s.as_deref().unwrap_or_default()));
        }
    }
    if replaced.is_some() && refused {
        config.problem("replace", "referenced-config", RENDER);
    }
    config.finish();
}

fn read_proxy(proxy: &mut Object<'_, '_>) {
    for key in ["httpProxy", "httpsProxy"] {
        let Some(value) = proxy.text(key) else {
            continue;
        };
        if !matches!(url::scheme(value).as_deref(), Some("http" | "https")) {
            proxy.problem(key, "bad-proxy", "must be a URL that begins with http:// or https://");
        }
    }
    let exempt = proxy.texts("noProxy");
    if proxy.sound() {
        proxy.no_duplicates("noProxy", exempt);
    }
    proxy.finish();
}
