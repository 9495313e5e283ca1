//! The section `ignition`.

use serde_json::{Value, json};

use super::super::object::Object;
use super::super::version::SpecVersion;
use super::origins::Origins;
use super::shape::{copy, remove_duplicates, resource};

pub(super) fn translate(root: &Object<'_, '_>, origins: &mut Origins) -> Value {
    let ignition = root.object("ignition");
    origins.add("ignition.config.merge", "ignition.config.append");
    let config = references(&ignition.object("config"));
    let authorities =
        ignition.object("security").object("tls").each("certificateAuthorities", resource);
    let mut proxy = copy(&ignition.object("proxy"), &[]);
    remove_duplicates(&mut proxy, "noProxy");
    json!({
        "version": SpecVersion::V3_5.as_str(),
        "config": config,
        "timeouts": copy(&ignition.object("timeouts"), &[]),
        "security": { "tls": { "certificateAuthorities": authorities } },
        "proxy": proxy,
    })
}

/// Configs to append become configs to merge, in the same order.
fn references(config: &Object<'_, '_>) -> Value {
    let appended = config.each("append", resource);
    let replace = config.object("replace");
    let replacement = config.is_set("replace").then(|| resource(&replace));
    if replacement.as_ref().is_some_and(|fields| fields["source"] == "") && replace.is_readable() {
        let message = "names no config; give its URL, or remove `replace`";
        replace.problem("source", "bad-source", message);
    }
    json!({ "merge": appended, "replace": replacement })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{are_refused, become_these};
    use serde_json::json;

    #[test]
    fn the_header_is_translated() {
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
    fn invalid_headers_are_rejected() {
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
