//! Files given by the user, which are read whole, up to a limit.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::error::Error;
use crate::Result;
use mosb_api::{RenderedConfig, yaml};
use mosb_plan::payload::{self, BuildSpec};

/// Where a config comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    Stdin,
    File(PathBuf),
}

impl Input {
    /// `-`, or a file.
    pub fn new(typed: &Path) -> Self {
        match typed.to_str() {
            Some("-") => Self::Stdin,
            _ => Self::File(typed.to_owned()),
        }
    }

    pub fn bytes(&self, what: &'static str, limit: usize) -> Result<Vec<u8>, Error> {
        let read = || -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            let most = limit as u64 + 1;
            match self {
                Self::Stdin => io::stdin().lock().take(most).read_to_end(&mut bytes)?,
                Self::File(path) => {
                    let file = File::open(path)?;
                    // One more byte than the file has, to see its end without another allocation.
                    let size = usize::try_from(file.metadata()?.len()).unwrap_or(limit);
                    bytes.reserve_exact(size.min(limit) + 1);
                    file.take(most).read_to_end(&mut bytes)?
                }
            };
            Ok(bytes)
        };
        let bytes = read().map_err(|source| Error::Read { file: self.to_string(), source })?;
        if bytes.len() > limit {
            return Err(Error::TooLarge { file: self.to_string(), what, limit });
        }
        Ok(bytes)
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdin => f.write_str("stdin"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// Limit of a Containerfile or a trust bundle: a ConfigMap holds less.
pub const FILE_LIMIT: usize = 4 * 1024 * 1024;

/// Reads a rendered config.
pub fn config(input: &Input) -> Result<RenderedConfig, Error> {
    let bytes = input.bytes("rendered MachineConfig", yaml::INPUT_LIMIT)?;
    let file = input.to_string();
    let value =
        yaml::parse_one(&bytes).map_err(|source| Error::Yaml { file: file.clone(), source })?;
    RenderedConfig::from_value(value).map_err(|source| Error::Config { file, source })
}

/// Reads a rendered config from its ConfigMaps as a pod has them mounted: each in a folder of its
/// own, `0`, `1`, and on, or the only one by itself.
pub fn mounted_config(folder: &Path) -> Result<RenderedConfig> {
    let part = |path: PathBuf| -> Result<String, Error> {
        let bytes = Input::File(path.clone()).bytes("part of a config", FILE_LIMIT)?;
        String::from_utf8(bytes).map_err(|_| Error::NotText {
            file: path.display().to_string(),
            what: "part of a config",
        })
    };
    let name = payload::MACHINE_CONFIG_KEY;
    let parts = (0..).map(|at: usize| folder.join(at.to_string()).join(name));
    let mut texts =
        parts.take_while(|path| path.exists()).map(part).collect::<Result<Vec<_>, _>>()?;
    if texts.is_empty() {
        texts.push(part(folder.join(name))?);
    }
    let bytes = payload::unpack_texts(&texts)?;
    let file = folder.display().to_string();
    let value =
        yaml::parse_one(&bytes).map_err(|source| Error::Yaml { file: file.clone(), source })?;
    Ok(RenderedConfig::from_value(value).map_err(|source| Error::Config { file, source })?)
}

/// Reads the inputs of a pod's build.
pub fn build_spec(path: &Path) -> Result<BuildSpec> {
    let bytes = Input::File(path.to_owned()).bytes("list of inputs", FILE_LIMIT)?;
    Ok(BuildSpec::from_json(&path.display().to_string(), &bytes)?)
}

/// Reads a Containerfile.
pub fn containerfile(path: &Path) -> Result<String, Error> {
    let input = Input::File(path.to_owned());
    let bytes = input.bytes("Containerfile", FILE_LIMIT)?;
    String::from_utf8(bytes)
        .map_err(|_| Error::NotText { file: input.to_string(), what: "Containerfile" })
}

/// Reads the file of `--http-headers-file`. Errors do not repeat its text, which contains
/// credentials.
pub fn headers(path: &Path) -> Result<serde_json::Value, Error> {
    let input = Input::File(path.to_owned());
    let bytes = input.bytes("list of headers", FILE_LIMIT)?;
    yaml::parse_one(&bytes).map_err(|_| Error::Headers { file: input.to_string() })
}

/// Reads certificates: PEM, at least one.
pub fn trust_bundle(path: &Path) -> Result<Vec<u8>, Error> {
    let input = Input::File(path.to_owned());
    let bytes = input.bytes("trust bundle", FILE_LIMIT)?;
    let marker = b"-----BEGIN CERTIFICATE-----";
    if !bytes.windows(marker.len()).any(|window| window == marker) {
        return Err(Error::NoCertificate { file: input.to_string() });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_types::Diagnostic as _;

    #[test]
    fn a_bad_file_is_named_with_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            Input::File(path)
        };
        let large = vec![b' '; yaml::INPUT_LIMIT + 1];
        for (what, input, want) in [
            ("missing", Input::File(folder.path().join("none")), "unreadable-file"),
            ("a folder", Input::File(folder.path().to_owned()), "unreadable-file"),
            ("too large", file("large", &large), "file-too-large"),
            ("not YAML", file("broken", b"a: [b"), "bad-file"),
            ("not text", file("binary", b"\xff\xfe"), "bad-file"),
            ("empty", file("empty", b""), "bad-file"),
            ("two documents", file("two", b"a: 1\n---\nb: 2\n"), "bad-file"),
            ("other kind", file("pod", b"kind: Pod\napiVersion: v1\n"), "bad-config"),
        ] {
            let error = config(&input).unwrap_err();
            assert_eq!(error.code(), want, "{what}");
            assert!(error.to_string().starts_with(&input.to_string()), "{what}: {error}");
        }
        assert!(matches!(
            trust_bundle(&folder.path().join("two")),
            Err(Error::NoCertificate { .. })
        ));
    }
}
