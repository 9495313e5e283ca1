//! The oldest version of spec 3 that has everything of a config.
//!
//! Input: a [`Document`]. Output: the same config with that version, for machines with an old
//! Ignition. Invariant: read again, it is the same document.

use serde_json::{Value, json};

use super::document::Document;
use super::version::SpecVersion;

/// What of a mode has an effect before 3.6.0.
const PERMISSIONS: u64 = 0o777;

impl Document {
    /// The same config in the oldest version of spec 3 that has all of it.
    ///
    /// ```
    /// use mosb_ignition::Document;
    /// use serde_json::json;
    /// let read = |config| Document::read(&config).map(|read| read.document.into_oldest_version());
    /// let plain = read(json!({ "ignition": { "version": "3.5.0" } }))?;
    /// assert_eq!(plain["ignition"]["version"], "3.0.0");
    /// let arguments = json!({ "shouldExist": ["quiet"] });
    /// let newer = json!({ "ignition": { "version": "3.5.0" }, "kernelArguments": arguments });
    /// assert_eq!(read(newer)?["ignition"]["version"], "3.3.0");
    /// # Ok::<(), mosb_ignition::Error>(())
    /// ```
    pub fn into_oldest_version(self) -> Value {
        let own = self.version();
        if own >= SpecVersion::V3_6 && has_special_bits(&self.0) {
            return self.0;
        }
        let older = SpecVersion::ALL.into_iter().filter(|version| *version < own);
        let mut fitting = older.filter_map(|version| {
            let mut older = self.0.clone();
            older["ignition"]["version"] = json!(version.as_str());
            // Fields that this version has not are left out, and defaults that it has are set.
            let mut again = Self::read(&older).ok()?.document;
            again.0["ignition"]["version"] = json!(own.as_str());
            (again == self).then_some(older)
        });
        let oldest = fitting.next();
        oldest.unwrap_or(self.0)
    }
}

/// Whether setuid, setgid or sticky would lose their effect in an older version.
fn has_special_bits(config: &Value) -> bool {
    let entries = ["/storage/files", "/storage/directories"].into_iter().filter_map(|list| {
        let list = config.pointer(list)?;
        list.as_array()
    });
    let mut modes = entries.flatten().filter_map(|entry| entry.get("mode")?.as_u64());
    modes.any(|mode| mode & !PERMISSIONS != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_needs_the_version_that_has_it() {
        let luks = |field: &str, value: Value| json!({ "storage": { "luks": [{ "name": "l", "device": "/d", field: value }] } });
        let user = |field: &str, value: Value| json!({ "passwd": { "users": [{ "name": "u", field: value }] } });
        let tang = |advertisement: Value| {
            luks(
                "clevis",
                json!({ "tang": [{ "url": "https://t/", "thumbprint": "t", "advertisement": advertisement }] }),
            )
        };
        let mode = |mode: u32| json!({ "storage": { "directories": [{ "path": "/var/d", "mode": mode }] } });
        let custom = |custom: Value| luks("clevis", json!({ "custom": custom }));
        let pin = json!({ "pin": "tpm2", "config": "{}" });
        for (what, version, config, want) in [
            ("nothing", "3.5.0", json!({}), "3.0.0"),
            ("a user", "3.4.0", user("sshAuthorizedKeys", json!(["k"])), "3.0.0"),
            ("a user that is removed", "3.5.0", user("shouldExist", json!(false)), "3.2.0"),
            (
                "headers",
                "3.5.0",
                json!({ "storage": { "files": [{ "path": "/a", "contents": {
                "source": "https://a/", "httpHeaders": [{ "name": "A", "value": "b" }] } }] } }),
                "3.1.0",
            ),
            ("a volume", "3.5.0", luks("label", json!("a")), "3.2.0"),
            ("a custom pin", "3.5.0", custom(pin), "3.2.0"),
            (
                "kernel arguments",
                "3.5.0",
                json!({ "kernelArguments": { "shouldExist": ["a"] } }),
                "3.3.0",
            ),
            ("discard", "3.5.0", luks("discard", json!(true)), "3.4.0"),
            // Ignition loses it in a config of 3.4.0.
            ("an advertisement", "3.5.0", tang(json!("{}")), "3.5.0"),
            ("a mode", "3.6.0", mode(0o755), "3.0.0"),
            ("a sticky bit that counts", "3.6.0", mode(0o1777), "3.6.0"),
            ("one that does not", "3.5.0", mode(0o1777), "3.0.0"),
        ] {
            let mut config = config;
            config["ignition"]["version"] = json!(version);
            let read = Document::read(&config).unwrap().document;
            let oldest = read.clone().into_oldest_version();
            assert_eq!(oldest["ignition"]["version"], want, "{what}");
            let mut again = Document::read(&oldest).unwrap().document;
            again.0["ignition"]["version"] = json!(read.version().as_str());
            assert_eq!(again, read, "{what}");
        }
    }
}
