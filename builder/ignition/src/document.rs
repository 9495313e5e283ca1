//! A whole config in the form that is merged, resolved and written.

use std::fmt;

use serde_json::{Value, json};

use mosb_types::Finding;

use crate::error::Error;
use crate::normalize::prune;
use crate::object::RemoteSources;
use crate::v2;
use crate::version::{Spec, SpecVersion, upgrade};

/// A whole config in the shape of spec 3.5.0, which is also that of 3.6.0, as JSON.
///
/// It has only fields of that spec, with their exact names; no null, and no empty object or list
/// except as an entry of a list; `ignition.version` is 3.5.0, or 3.6.0 if that was the version of
/// the input. Empty strings and false that the input sets are retained. Every entry of a list has
/// its key (path, name, device); the keys of a keyed list are unique. It may refer to other configs
/// and to remote contents.
///
/// `Debug` shows no contents, because they may be secret.
#[derive(Clone, PartialEq)]
pub struct Document(pub(super) Value);

/// The result of reading a config.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadDocument {
    /// Upgraded to spec 3.5.0 unless it is newer.
    pub document: Document,
    /// The version of the input.
    pub spec: Spec,
    /// Ignored fields, and settings without effect.
    pub warnings: Vec<Finding>,
}

impl Document {
    /// A config that sets nothing.
    pub fn empty() -> Self {
        Self(json!({ "ignition": { "version": SpecVersion::USUAL.as_str() } }))
    }

    /// Reads the raw object of `spec.config` by the rules of its own version, and upgrades it to
    /// 3.5.0 unless it is newer. Unlike [`super::parse()`], it accepts references to other configs
    /// and remote contents.
    ///
    /// # Errors
    /// The spec version if it is none of [`Spec::ALL`]; else all problems with their places.
    ///
    /// ```
    /// use mosb_ignition::Document;
    /// let raw = serde_json::json!({
    ///     "ignition": { "version": "3.1.0" },
    ///     "storage": { "files": [{ "Path": "/etc/motd", "mode": null, "append": [] }] },
    /// });
    /// let read = Document::read(&raw)?;
    /// assert_eq!(read.spec.as_str(), "3.1.0");
    /// assert_eq!(
    ///     read.document.into_json(),
    ///     serde_json::json!({ "ignition": { "version": "3.5.0" }, "storage": { "files": [{ "path": "/etc/motd" }] } })
    /// );
    /// assert_eq!(read.warnings[0].code, "misspelt-field");
    /// # Ok::<(), mosb_ignition::Error>(())
    /// ```
    pub fn read(config: &Value) -> Result<ReadDocument, Error> {
        let spec = super::header::spec(config)?;
        let (mut normalized, warnings) = match spec {
            Spec::V3(version) => {
                let mut checked = super::parse::check(config, version, RemoteSources::Allowed)?;
                checked.warnings.extend(upgrade(&mut checked.normalized, version));
                (checked.normalized, checked.warnings)
            }
            Spec::V2(_) => {
                let translated = v2::translate(config)?;
                (translated.config, translated.warnings)
            }
        };
        prune(&mut normalized);
        Ok(ReadDocument { document: Self(normalized), spec, warnings })
    }

    /// Its `ignition.version`: 3.5.0 or 3.6.0.
    pub(super) fn version(&self) -> SpecVersion {
        let text = self.0.pointer("/ignition/version").and_then(Value::as_str);
        let version = text.and_then(|text| text.parse().ok());
        version.unwrap_or(SpecVersion::USUAL)
    }

    pub fn as_json(&self) -> &Value {
        &self.0
    }

    pub fn into_json(self) -> Value {
        self.0
    }
}

impl Default for Document {
    fn default() -> Self {
        Self::empty()
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sections = self.0.as_object().map(|members| members.keys());
        let mut shown = f.debug_tuple("Document");
        for section in sections.into_iter().flatten() {
            shown.field(section);
        }
        shown.finish()
    }
}

impl Document {
    /// Sets the defaults of a pool's files, after all configs are merged: a file with contents gets
    /// `overwrite: true` if it isn't set (Ignition's default is false, and without a source true is
    /// invalid), and an empty `compression`, which only overrides an earlier one, is removed.
    #[must_use]
    pub fn with_file_defaults(mut self) -> Self {
        let files = self.0.pointer_mut("/storage/files");
        let files = files.and_then(Value::as_array_mut);
        for file in files.into_iter().flatten() {
            if file.pointer("/contents/compression") == Some(&json!("")) {
                let contents = file["contents"].as_object_mut();
                contents.expect("it has a compression").remove("compression");
            }
            let sourced = file.pointer("/contents/source").is_some();
            if sourced && file.get("overwrite").is_none() {
                file["overwrite"] = json!(true);
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use mosb_types::Diagnostic as _;

    use super::*;
    use crate::parse;
    use crate::schema::{Field, Items, Kind, Object, SPEC3};

    fn read(version: &str, mut config: Value) -> Result<ReadDocument, Error> {
        config["ignition"]["version"] = json!(version);
        Document::read(&config)
    }

    fn codes(findings: &[Finding]) -> Vec<String> {
        let code = |f: &Finding| format!("{} {}", f.code, f.object.as_deref().unwrap_or("-"));
        findings.iter().map(code).collect()
    }

    /// Each field once, of 3.6.0 or what `version` has of it.
    fn everything(object: &'static Object, version: SpecVersion) -> Value {
        let sample = |name: &str| match name {
            "path" | "device" | "devices" => json!("/dev/a"),
            "contents" => json!(""),
            "level" => json!("raid1"),
            "format" => json!("ext4"),
            "compression" => json!("gzip"),
            "source" | "url" | "httpProxy" | "httpsProxy" => json!("https://a/"),
            "hash" => json!(format!("sha512-{}", "ab".repeat(64))),
            "guid" | "typeGuid" => json!("01234567-89AB-CDEF-EDCB-A98765432101"),
            "pin" => json!("tpm2"),
            "advertisement" => json!("{}"),
            _ => json!("x"),
        };
        let fields = object.fields.iter().filter(|f| f.since <= Spec::V3(version));
        let value = |field: &'static Field| {
            let value = match field.kind {
                Kind::String => sample(field.name),
                Kind::Integer => json!(1),
                Kind::Bool => json!(true),
                Kind::Object(of) => everything(of, version),
                Kind::List(Items::Objects(of), _) => json!([everything(of, version)]),
                Kind::List(..) => json!([sample(field.name)]),
            };
            (field.name.to_owned(), value)
        };
        Value::Object(fields.map(value).collect())
    }

    /// The same config, without fields that exclude each other.
    fn valid(version: SpecVersion) -> Value {
        let mut config = everything(&SPEC3, version);
        for list in ["directories", "files", "links"] {
            let node = &mut config["storage"][list][0];
            node["path"] = json!(format!("/{list}"));
            for owner in ["user", "group"] {
                node[owner] = json!({ "id": 1 });
            }
        }
        for (name, unit) in [("units", "a.service"), ("dropins", "x.conf")] {
            let units = &mut config["systemd"]["units"][0];
            match name {
                "units" => units["name"] = json!(unit),
                _ => units["dropins"][0]["name"] = json!(unit),
            }
        }
        if version >= SpecVersion::V3_3 {
            config["kernelArguments"]["shouldNotExist"] = json!(["y"]);
            config["kernelArguments"]["shouldExist"] = json!(["x"]);
        }
        if version >= SpecVersion::V3_2 {
            let volume = &mut config["storage"]["luks"][0];
            let clevis = &mut volume["clevis"];
            clevis.as_object_mut().unwrap().remove("custom");
            volume.as_object_mut().unwrap().remove("cex");
        }
        config["storage"]["raid"][0]["devices"] = json!(["/dev/a"]);
        config["ignition"]["version"] = json!(version.as_str());
        config
    }

    #[test]
    fn every_field_is_read_in_its_versions() {
        for version in SpecVersion::ALL {
            let config = valid(version);
            let read = Document::read(&config).unwrap();
            let unknown = |f: &&Finding| f.code == "unknown-field" || f.code == "newer-field";
            let unknown: Vec<_> = read.warnings.iter().filter(unknown).collect();
            assert!(unknown.is_empty(), "{version}: {unknown:?}");
            let mut want = config;
            want["ignition"]["version"] = json!(version.max(SpecVersion::USUAL).as_str());
            if version == SpecVersion::V3_4 {
                let tang = &mut want["storage"]["luks"][0]["clevis"]["tang"][0];
                tang.as_object_mut().unwrap().remove("advertisement");
            }
            assert_eq!(read.document.as_json(), &want, "{version}");
        }
    }

    #[test]
    fn fields_newer_than_the_version_are_dropped() {
        for version in SpecVersion::ALL {
            let mut newest = valid(SpecVersion::V3_6);
            newest["ignition"]["version"] = json!(version.as_str());
            let read = Document::read(&newest).unwrap();
            let again = read.document.as_json();
            assert_eq!(Document::read(again).unwrap().document, read.document);
            let newer = read.warnings.iter().filter(|w| w.code == "newer-field");
            let mut expected = newest;
            for warning in newer {
                let place = format!(".{}", warning.object.as_deref().unwrap());
                let pointer = place.replace(['.', '['], "/").replace(']', "");
                let (parent, field) = pointer.rsplit_once('/').unwrap();
                let parent = expected.pointer_mut(parent).and_then(Value::as_object_mut);
                assert!(parent.unwrap().remove(field).is_some(), "{version}: {place}");
            }
            upgrade(&mut expected, version);
            prune(&mut expected);
            assert_eq!(again, &expected, "{version}");
        }
    }

    #[test]
    fn remote_references_are_rejected_or_resolved() {
        let remote = json!({
            "ignition": {
                "config": { "merge": [{ "source": "https://a/" }], "replace": { "source": "https://b/" } },
                "security": { "tls": { "certificateAuthorities": [{ "source": "https://c/" }] } },
            },
            "storage": { "files": [{ "path": "/a", "contents": { "source": "http://d/" }, "append": [{ "source": "tftp://e/" }] }] },
        });
        let mut want = remote.clone();
        want["ignition"]["version"] = json!("3.5.0");
        let document = read("3.1.0", remote).unwrap().document;
        assert_eq!(document.as_json(), &want);
        let Err(Error::Invalid { problems }) = parse(document.as_json()) else {
            panic!("a build fetches nothing")
        };
        assert_eq!(problems.len(), 5, "{problems:?}");
        for (what, version, config, want) in [
            (
                "wrong",
                "3.0.0",
                json!({ "storage": { "files": [{ "path": "a" }, { "path": "/a", "contents": { "source": "ftp://a/" } }] } }),
                &["bad-path storage.files[0].path", "bad-source storage.files[1].contents.source"]
                    [..],
            ),
            (
                "no source to merge",
                "3.1.0",
                json!({ "ignition": { "config": { "merge": [{}] } } }),
                &["bad-source ignition.config.merge[0]"][..],
            ),
        ] {
            let Err(Error::Invalid { problems }) = read(version, config) else { panic!("{what}") };
            assert_eq!(codes(&problems), want, "{what}");
        }
        let reason = |version: &str| read(version, json!({})).unwrap_err().code();
        assert_eq!(reason("3.7.0"), "unknown-ignition-spec");
        assert_eq!(reason("1.0.0"), "unknown-ignition-spec");
    }

    #[test]
    fn ignored_and_lost_fields_are_warnings() {
        let config = json!({
            "Storage": { "luks": [{ "name": "l", "device": "/d", "clevis": { "tang": [
                { "url": "https://t/", "thumbprint": "t", "advertisement": "{}" },
            ] }, "cex": { "enabled": true } }] },
            "surplus": 1,
        });
        let read = read("3.4.0", config).unwrap();
        let mut warnings = codes(&read.warnings);
        warnings.sort();
        assert_eq!(
            warnings,
            [
                "lost-field storage.luks[0].clevis.tang[0].advertisement",
                "misspelt-field Storage",
                "newer-field storage.luks[0].cex",
                "unknown-field surplus",
            ]
        );
        let tang = json!([{ "url": "https://t/", "thumbprint": "t" }]);
        let luks = json!([{ "name": "l", "device": "/d", "clevis": { "tang": tang } }]);
        let want = json!({ "ignition": { "version": "3.5.0" }, "storage": { "luks": luks } });
        assert_eq!(read.document.into_json(), want);
        assert_eq!(read.spec, Spec::V3(SpecVersion::V3_4));
    }

    #[test]
    fn debug_shows_no_contents() {
        let users = json!([{ "name": "core", "passwordHash": "hunter2" }]);
        let read = read("3.5.0", json!({ "passwd": { "users": users } })).unwrap();
        assert!(read.document.as_json().to_string().contains("hunter2"));
        assert!(!format!("{read:?}").contains("hunter2"));
    }

    #[test]
    fn defaults_are_set_where_a_file_has_contents() {
        let source = json!({ "source": "data:,a" });
        let file = |path: &str, rest: Value| {
            let mut file = rest;
            file["path"] = json!(path);
            file
        };
        let config = json!({
            "ignition": { "version": "3.5.0" },
            "storage": { "files": [
                file("/source", json!({ "contents": source })),
                file("/empty", json!({ "contents": { "source": "" } })),
                file("/mode", json!({ "mode": 420 })),
                file("/append", json!({ "append": [source] })),
                file("/no", json!({ "contents": source, "overwrite": false })),
                file("/plain", json!({ "contents": { "source": "data:,a", "compression": "" } })),
                file("/gzip", json!({ "contents": { "source": "data:,a", "compression": "gzip" } })),
            ] },
        });
        let document = Document::read(&config).unwrap().document;
        let document = document.with_file_defaults().into_json();
        let files = document["storage"]["files"].as_array().unwrap();
        let overwrite: Vec<_> = files.iter().map(|file| file.get("overwrite")).collect();
        let (yes, no) = (Some(&json!(true)), Some(&json!(false)));
        assert_eq!(overwrite, [yes, yes, None, None, no, yes, yes]);
        assert_eq!(files[5]["contents"], source);
        assert_eq!(files[6]["contents"]["compression"], "gzip");
    }
}
