//! Certificates as podman, skopeo and docker keep them (containers-certs.d(5)): a folder with CAs
//! in `*.crt`, client certificates in `*.cert`, each with its `*.key`.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::signature_policy::SettingNames;

/// Where certificates are.
#[derive(Debug, Clone)]
pub struct CertDirs {
    /// `--cert-dir`: these, for every registry.
    pub cert_dir: Option<PathBuf>,
    /// Folders with a folder `host[:port]` for each registry; the first that has one is used.
    pub per_host: Vec<PathBuf>,
    /// CAs for every registry beside those. They do not make a registry on loopback speak TLS, as
    /// those do.
    pub everywhere: Option<PathBuf>,
    /// What messages call the files.
    pub names: SettingNames,
}

impl Default for CertDirs {
    fn default() -> Self {
        Self {
            cert_dir: None,
            per_host: vec!["/etc/containers/certs.d".into(), "/etc/docker/certs.d".into()],
            everywhere: None,
            names: SettingNames::default(),
        }
    }
}

/// What one folder holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Certificates {
    pub authorities: Vec<reqwest::Certificate>,
    pub identity: Option<reqwest::Identity>,
}

impl CertDirs {
    /// The certificates for a registry; `None` without a folder for it.
    pub(crate) fn read(&self, host: &str) -> Result<Option<Certificates>, Error> {
        if let Some(dir) = &self.cert_dir {
            return read(dir, &self.names).map(Some);
        }
        match self.per_host.iter().map(|root| root.join(host)).find(|dir| dir.is_dir()) {
            Some(dir) => read(&dir, &self.names).map(Some),
            None => Ok(None),
        }
    }

    /// The CAs for every registry.
    pub(crate) fn read_everywhere(&self) -> Result<Certificates, Error> {
        match &self.everywhere {
            Some(dir) => read(dir, &self.names),
            None => Ok(Certificates::default()),
        }
    }
}

fn read(dir: &Path, names: &SettingNames) -> Result<Certificates, Error> {
    let wrong = |file: &Path, cause: &dyn ToString| Error::Certificate {
        file: names.of_file(file),
        cause: cause.to_string(),
    };
    let mut paths = std::fs::read_dir(dir)
        .and_then(|entries| entries.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>())
        .map_err(|e| wrong(dir, &e))?;
    paths.sort();
    let load = |path: &Path| std::fs::read(path).map_err(|e| wrong(path, &e));
    let mut all = Certificates::default();
    for path in &paths {
        match path.extension().and_then(|e| e.to_str()) {
            Some("crt") => {
                let found = reqwest::Certificate::from_pem_bundle(&load(path)?)
                    .map_err(|_| wrong(path, &"no certificate in it"))?;
                if found.is_empty() {
                    return Err(wrong(path, &"no certificate in it"));
                }
                all.authorities.extend(found);
            }
            Some("cert") => {
                let key = path.with_extension("key");
                let mut pem = load(path)?;
                pem.push(b'\n');
                pem.extend(load(&key)?);
                let identity = reqwest::Identity::from_pem(&pem)
                    .map_err(|_| wrong(path, &"no client certificate with its key"))?;
                // Which of several a server wants can't be known before it asks: the first, as
                // there is one slot.
                all.identity.get_or_insert(identity);
            }
            Some("key") => {
                let certificate = path.with_extension("cert");
                if !certificate.exists() {
                    return Err(wrong(path, &"a key without its certificate"));
                }
            }
            _ => {}
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_found_by_host_and_port() {
        let root = tempfile::tempdir().unwrap();
        let dirs = CertDirs {
            cert_dir: None,
            per_host: vec![root.path().join("none"), root.path().to_owned()],
            ..CertDirs::default()
        };
        assert!(dirs.read("reg.example:5000").unwrap().is_none());
        let dir = root.path().join("reg.example:5000");
        std::fs::create_dir(&dir).unwrap();
        assert!(dirs.read("reg.example:5000").unwrap().is_some());
        assert!(dirs.read("reg.example").unwrap().is_none());
        for (what, file, text) in [
            ("not PEM", "ca.crt", "hello"),
            ("no key", "client.cert", "hello"),
            ("no certificate", "other.key", "hello"),
        ] {
            std::fs::write(dir.join(file), text).unwrap();
            let error = dirs.read("reg.example:5000").unwrap_err();
            assert!(matches!(error, Error::Certificate { .. }), "{what}: {error}");
            std::fs::remove_file(dir.join(file)).unwrap();
        }
        let missing = CertDirs { cert_dir: Some(root.path().join("nothing")), ..dirs };
        assert!(missing.read("x").is_err());
    }
}
