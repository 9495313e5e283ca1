//! The section `ignition`.

use serde_json::Value;

use super::super::fields::Object;
use super::super::version::{SpecV2, SpecVersion};
use super::origins::Origins;
use super::shape::{each_once, filled, list, number, object, part};
use super::source;

/// Reads the section.
pub(super) fn read(root: &mut Object<'_, '_>, origins: &mut Origins) -> Option<Value> {
    let mut ignition = root.object("ignition");
    ignition.text("version");
    let config = references(&mut ignition.object("config"));
    origins.add("ignition.config.merge", "ignition.config.append");
    let mut fields =
        object([("version", Some(SpecVersion::V3_5.as_str().into())), ("config", config)]);
    if ignition.has("timeouts", SpecV2::V2_1) {
        let mut o = ignition.object("timeouts");
        let timeouts = ["httpResponseHeaders", "httpTotal"].map(|key| (key, number(o.number(key))));
        o.finish();
        fields.extend(object([("timeouts", part(object(timeouts)))]));
    }
    if ignition.has("security", SpecV2::V2_2) {
        let mut security = ignition.object("security");
        let mut tls = security.object("tls");
        let authorities = tls.each("certificateAuthorities", |o| source::reference(o).into());
        tls.finish();
        security.finish();
        let tls = part(object([("certificateAuthorities", list(authorities))]));
        fields.extend(object([("security", part(object([("tls", tls)])))]));
    }
    if ignition.has("proxy", SpecV2::V2_4) {
        let mut o = ignition.object("proxy");
        let proxy = object([
            ("httpProxy", filled(o.text("httpProxy"))),
            ("httpsProxy", filled(o.text("httpsProxy"))),
            ("noProxy", each_once(o.texts("noProxy"))),
        ]);
        o.finish();
        fields.extend(object([("proxy", part(proxy))]));
    }
    ignition.finish();
    part(fields)
}

/// What is appended is merged, one after the other.
fn references(config: &mut Object<'_, '_>) -> Option<Value> {
    let appended = config.each("append", |o| source::reference(o).into());
    let replaces = config.given("replace");
    let mut o = config.object("replace");
    let replacement = source::reference(&mut o);
    if replaces && o.sound() && replacement["source"] == "" {
        let message = "names no config; give its URL, or remove `replace`";
        o.problem("source", "bad-source", message);
    }
    o.finish();
    config.finish();
    part(object([("merge", list(appended)), ("replace", replaces.then_some(replacement.into()))]))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{are_refused, become_these};
    use serde_json::json;

    #[test]
    fn what_becomes_of_the_section() {
        let sha = format!("sha512-{}", "0".repeat(128));
        let reference = json!({ "source": "https://x/", "verification": { "hash": sha } });
        let headers = json!([{ "name": "A", "value": "b" }, { "name": "C", "value": "" }]);
        let (mut sent, mut want) = (reference.clone(), reference.clone());
        sent["httpHeaders"] = headers;
        want["httpHeaders"] = json!([{ "name": "A", "value": "b" }, { "name": "C" }]);
        become_these([
            (
                "references",
                "2.0.0",
                json!({ "ignition": { "config": { "append": [reference, { "source": "https://y/" }], "replace": null } } }),
                json!({ "ignition": { "config": { "merge": [reference, { "source": "https://y/" }] } } }),
            ),
            (
                "a replacement with headers",
                "2.4.0",
                json!({ "ignition": { "config": { "replace": sent, "append": [] } } }),
                json!({ "ignition": { "config": { "replace": want } } }),
            ),
            (
                "the rest",
                "2.4.0",
                json!({ "ignition": {
                    "timeouts": { "httpTotal": 0 },
                    "proxy": { "httpProxy": "", "httpsProxy": "https://p/", "noProxy": ["b", "a", "b"] },
                    "security": { "tls": { "certificateAuthorities": [{ "source": "data:,x" }] } },
                } }),
                json!({ "ignition": {
                    "timeouts": { "httpTotal": 0 },
                    "proxy": { "httpsProxy": "https://p/", "noProxy": ["b", "a"] },
                    "security": { "tls": { "certificateAuthorities": [{ "source": "data:,x" }] } },
                } }),
            ),
        ]);
    }

    #[test]
    fn what_is_refused() {
        let config = |config| json!({ "ignition": { "config": config } });
        let authorities = |list| json!({ "ignition": { "security": { "tls": { "certificateAuthorities": list } } } });
        are_refused([
            (
                "an empty replacement",
                "2.1.0",
                config(json!({ "replace": {} })),
                &["ignition.config.replace.source: bad-source"],
            ),
            (
                "nothing to append",
                "2.1.0",
                config(json!({ "append": [{}] })),
                &["ignition.config.append[0]: bad-source"],
            ),
            (
                "appended twice",
                "2.1.0",
                config(json!({ "append": [{ "source": "http://a/" }, { "source": "http://a/" }] })),
                &["ignition.config.append[1]: duplicate"],
            ),
            (
                "oem",
                "2.1.0",
                config(json!({ "append": [{ "source": "oem:///x" }] })),
                &["ignition.config.append[0].source: no-spec3-equal"],
            ),
            (
                "a newer scheme",
                "2.0.0",
                config(json!({ "append": [{ "source": "s3://a/b" }] })),
                &["ignition.config.append[0].source: bad-source"],
            ),
            (
                "a scheme of spec 3",
                "2.4.0",
                config(json!({ "append": [{ "source": "gs://a/b" }] })),
                &["ignition.config.append[0].source: bad-source"],
            ),
            (
                "a hash of spec 3",
                "2.4.0",
                config(
                    json!({ "append": [{ "source": "http://a/", "verification": { "hash": "sha256-00" } }] }),
                ),
                &["ignition.config.append[0].verification.hash: bad-verification"],
            ),
            (
                "no authority",
                "2.2.0",
                authorities(json!([{}])),
                &["ignition.security.tls.certificateAuthorities[0].source: bad-source"],
            ),
        ]);
    }
}
