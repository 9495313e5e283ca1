//! Keys and certificates from the `openssl` program. Most use elliptic curves, because RSA keys
//! take longer to generate.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::child::{finish, limited, run};

const ELLIPTIC: [&str; 4] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];

/// A certificate and its key.
#[derive(Debug)]
pub struct Certificate {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Certificate {
    /// A self-signed certificate of an authority.
    pub fn authority(directory: &Path, name: &str) -> Self {
        Self::make(directory, name, &format!("/CN={name}"), &ELLIPTIC)
    }

    /// A certificate with an RSA key for signing tokens.
    pub fn signer(directory: &Path, name: &str) -> Self {
        Self::make(directory, name, &format!("/CN={name}"), &["-newkey", "rsa:2048"])
    }

    /// A server certificate for this machine, signed by an authority.
    pub fn server(directory: &Path, name: &str, authority: &Self) -> Self {
        let subject = format!("/CN={name}");
        let names = "IP:127.0.0.1,DNS:localhost";
        Self::signed(directory, name, &subject, names, authority)
    }

    /// A certificate for a subject (`/CN=…`) and alternative names (`IP:…,DNS:…`), signed by an
    /// authority.
    pub fn signed(
        directory: &Path,
        name: &str,
        subject: &str,
        names: &str,
        authority: &Self,
    ) -> Self {
        let names = format!("subjectAltName={names}");
        let signed_by = [
            &ELLIPTIC[..],
            &[
                "-addext",
                &names,
                "-addext",
                "basicConstraints=critical,CA:FALSE",
                "-CA",
                authority.certificate.to_str().unwrap(),
                "-CAkey",
                authority.key.to_str().unwrap(),
            ],
        ];
        Self::make(directory, name, subject, &signed_by.concat())
    }

    fn make(directory: &Path, name: &str, subject: &str, more: &[&str]) -> Self {
        let made = Self {
            certificate: directory.join(format!("{name}.crt")),
            key: directory.join(format!("{name}.key")),
        };
        let mut arguments = vec!["req", "-x509", "-nodes", "-days", "2"];
        arguments.extend(["-subj", subject, "-keyout", made.key.to_str().unwrap()]);
        arguments.extend(["-out", made.certificate.to_str().unwrap()]);
        arguments.extend(more);
        run("openssl", arguments);
        made
    }

    /// The certificate in the format of a token's `x5c` header.
    pub fn x5c(&self) -> String {
        let text = fs::read_to_string(&self.certificate).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with("-----"));
        let encoded: String = lines.collect();
        assert!(STANDARD.decode(&encoded).is_ok(), "{text}");
        encoded
    }

    /// Signs a message with RSA PKCS #1 v1.5 and SHA-256 (`RS256` in tokens).
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        let mut command = limited("openssl");
        command.args(["dgst", "-sha256", "-sign"]).arg(&self.key);
        finish(&mut command, message).ok().stdout
    }
}
