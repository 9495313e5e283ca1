//! cosign, with keys and without the internet.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::child::{Finished, finish, limited};
use super::parts::Part;

/// A cosign whose keys and other files are in a directory.
#[derive(Debug, Clone, Copy)]
pub struct Cosign<'a> {
    pub part: &'static Part,
    pub directory: &'a Path,
}

/// Signs as `.sig` and `.att` manifests, and in no transparency log.
const SIGN: [&str; 6] = [
    "--yes",
    "--key",
    "cosign.key",
    "--new-bundle-format=false",
    "--use-signing-config=false",
    "--tlog-upload=false",
];

impl Cosign<'_> {
    /// The password of its private key.
    pub const PASSWORD: &'static str = "not-a-secret";

    fn run(&self, arguments: &[&str]) -> Finished {
        let mut command = limited(self.part.program());
        finish(self.surround(command.args(arguments)), &[])
    }

    fn surround<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.current_dir(self.directory).env_clear();
        command.env("HOME", self.directory).env("COSIGN_PASSWORD", Self::PASSWORD)
    }

    /// Makes `cosign.key`, which is encrypted, and `cosign.pub`.
    #[track_caller]
    pub fn generate_key_pair(&self) {
        self.run(&["generate-key-pair"]).ok();
    }

    /// A command that signs with that key.
    pub fn sign(&self, image: &str) -> Command {
        let mut command = Command::new(self.part.program());
        self.surround(command.arg("sign").args(SIGN).arg(image));
        command
    }

    /// Attaches a provenance by the builder `https://example.com/builder`.
    #[track_caller]
    pub fn attest(&self, image: &str) {
        // Version 2 rejects a predicate without either of them.
        let predicate = json!({
            "buildDefinition": { "buildType": "https://example.com/build" },
            "runDetails": { "builder": { "id": "https://example.com/builder" } },
        });
        fs::write(self.directory.join("predicate"), predicate.to_string()).unwrap();
        let kind = ["--type", "slsaprovenance1", "--predicate", "predicate", image];
        self.run(&[&["attest"], &SIGN[..], &kind].concat()).ok();
    }

    /// The exit code of `cosign verify`.
    pub fn verify(&self, image: &str, key: &str) -> Option<i32> {
        self.run(&["verify", "--key", key, "--insecure-ignore-tlog", image]).code()
    }

    /// Looks for signatures among the referrers of the image, and only then by their tag.
    pub fn verify_referrers(&self, image: &str, key: &str) -> Option<i32> {
        let arguments = ["verify", "--experimental-oci11", "--key", key];
        self.run(&[&arguments[..], &["--insecure-ignore-tlog", image]].concat()).code()
    }

    pub fn verify_attestation(&self, kind: &str, image: &str, key: &str) -> Option<i32> {
        let arguments = ["verify-attestation", "--type", kind, "--key", key];
        self.run(&[&arguments[..], &["--insecure-ignore-tlog", image]].concat()).code()
    }
}
