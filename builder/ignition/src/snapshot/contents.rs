//! Embeds remote contents: of files, of parts to append, of key files, of certificate authorities.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

use mosb_types::Finding;

use super::reference::{Contents, Needs, Request};
use super::settings::Settings;
use super::source::Source;
use super::{Resolution, check};
use crate::document::Document;
use crate::error::Error;

/// Embeds all remote contents of a config whose references to other configs are resolved.
///
/// Fetches use the config's own settings. Data URLs of the config are unchanged, but checked by
/// their compression and hash.
///
/// # Errors
/// All problems that are known before anything is fetched; then all contents that don't match the
/// config.
pub fn contents(document: Document, contents: &Contents) -> Result<Resolution<Document>, Error> {
    let mut embedding = Embedding {
        contents,
        settings: Arc::default(),
        needs: Needs::default(),
        problems: Vec::new(),
    };
    let mut config = document.into_json();
    let remote = embedding.check_sources(&mut config);
    embedding.fail_on_problems()?;
    let settings = Settings::of(&config, Vec::new()).map_err(invalid)?;
    embedding.settings = Arc::new(settings.clone());
    let authorities = embedding.authorities(&mut config);
    embedding.fail_on_problems()?;
    if embedding.needs.is_empty() {
        if remote {
            embedding.settings = Arc::new(Settings { authorities, ..settings });
        }
        each_content(&mut config, &mut |place, resource| {
            embedding.embed(place, resource);
        });
        embedding.fail_on_problems()?;
    }
    if !embedding.needs.is_empty() {
        return Ok(Resolution::Needs(embedding.needs.into_references()));
    }
    Ok(Resolution::Done(Document(config)))
}

fn invalid(problem: Finding) -> Error {
    Error::Invalid { problems: vec![problem] }
}

/// The place of contents in the config.
#[derive(Debug, Clone, Copy)]
enum Place<'v> {
    File(&'v str),
    Append(&'v str, usize),
    KeyFile(&'v str),
    Authority(usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "storage.files[{}].contents", path.escape_debug()),
            Self::Append(path, n) => {
                write!(f, "storage.files[{}].append[{n}]", path.escape_debug())
            }
            Self::KeyFile(name) => write!(f, "storage.luks[{}].keyFile", name.escape_debug()),
            Self::Authority(n) => write!(f, "ignition.security.tls.certificateAuthorities[{n}]"),
        }
    }
}

type Visit<'f> = dyn FnMut(Place<'_>, &mut Map<String, Value>) + 'f;

/// All contents but the certificate authorities, in the order of the config.
fn each_content(config: &mut Value, visit: &mut Visit<'_>) {
    for file in list(config, "/storage/files") {
        let path = name(file, "path");
        if let Some(resource) = file.get_mut("contents").and_then(Value::as_object_mut) {
            visit(Place::File(&path), resource);
        }
        let parts = file.get_mut("append").and_then(Value::as_array_mut);
        for (n, part) in parts.into_iter().flatten().enumerate() {
            if let Some(resource) = part.as_object_mut() {
                visit(Place::Append(&path, n), resource);
            }
        }
    }
    for volume in list(config, "/storage/luks") {
        let name = name(volume, "name");
        if let Some(resource) = volume.get_mut("keyFile").and_then(Value::as_object_mut) {
            visit(Place::KeyFile(&name), resource);
        }
    }
}

fn each_authority(config: &mut Value, visit: &mut Visit<'_>) {
    let all = list(config, "/ignition/security/tls/certificateAuthorities");
    for (n, authority) in all.iter_mut().enumerate() {
        if let Some(resource) = authority.as_object_mut() {
            visit(Place::Authority(n), resource);
        }
    }
}

fn list<'v>(config: &'v mut Value, at: &str) -> &'v mut [Value] {
    config.pointer_mut(at).and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
}

fn name(of: &Value, key: &str) -> String {
    of[key].as_str().unwrap_or_default().to_owned()
}

fn source_of(resource: &Map<String, Value>) -> Result<Source<'_>, Finding> {
    Source::read(resource.get("source").and_then(Value::as_str))
}

/// A pass over a config.
#[derive(Debug)]
struct Embedding<'c> {
    contents: &'c Contents,
    settings: Arc<Settings>,
    needs: Needs,
    problems: Vec<Finding>,
}

impl Embedding<'_> {
    fn fail_on_problems(&mut self) -> Result<(), Error> {
        match std::mem::take(&mut self.problems) {
            problems if problems.is_empty() => Ok(()),
            problems => Err(Error::Invalid { problems }),
        }
    }

    fn wrong(&mut self, place: Place<'_>, problem: Finding) {
        self.problems.push(problem.object(place.to_string()));
    }

    /// Checks the sources. Returns whether contents other than authorities must be fetched.
    fn check_sources(&mut self, config: &mut Value) -> bool {
        let mut remote = false;
        each_content(config, &mut |place, resource| {
            remote |= self.check_source(place, resource);
        });
        each_authority(config, &mut |place, resource| {
            self.check_source(place, resource);
        });
        remote
    }

    fn check_source(&mut self, place: Place<'_>, resource: &Map<String, Value>) -> bool {
        let request = match source_of(resource) {
            Ok(Source::Remote(url)) => Request::new(url, resource, None, &self.settings),
            Ok(Source::Nothing | Source::Data(_)) => return false,
            Err(problem) => Err(problem),
        };
        if let Err(problem) = request {
            self.wrong(place, problem);
        }
        true
    }

    /// Embeds the authorities, which don't apply to their own fetches, and returns their bytes.
    fn authorities(&mut self, config: &mut Value) -> Vec<Bytes> {
        let mut opened = Vec::new();
        each_authority(config, &mut |place, resource| {
            let Some(bytes) = self.embed(place, resource) else {
                return;
            };
            match checked_authority(bytes) {
                Ok(bytes) => opened.push(bytes),
                Err(problem) => self.wrong(place, problem),
            }
        });
        // Two sources may have the same bytes, but a config with duplicates is invalid.
        let at = "/ignition/security/tls/certificateAuthorities";
        if let Some(all) = config.pointer_mut(at).and_then(Value::as_array_mut) {
            let mut seen = BTreeSet::new();
            all.retain(|one| seen.insert(name(one, "source")));
        }
        opened
    }

    /// Embeds a resource, or records that it must be fetched. Returns the checked bytes of an
    /// authority.
    fn embed(&mut self, place: Place<'_>, resource: &mut Map<String, Value>) -> Option<Bytes> {
        let opened = match source_of(resource) {
            Ok(Source::Remote(url)) => {
                let request = match Request::new(url, resource, None, &self.settings) {
                    Ok(request) => request,
                    Err(problem) => {
                        self.wrong(place, problem);
                        return None;
                    }
                };
                let Some(bytes) = self.contents.get(&request) else {
                    self.needs.add(request, place);
                    return None;
                };
                let opened = check::open_fetched(resource, bytes, &request.shown());
                resource.insert("source".to_owned(), check::data_url(bytes).into());
                // Ignition rejects them with a data URL, and they may contain credentials.
                resource.remove("httpHeaders");
                opened
            }
            Ok(Source::Data(url)) => {
                if !matches!(place, Place::Authority(_)) && !check::has_checks(resource) {
                    return None;
                }
                check::open(resource, url)
            }
            Ok(Source::Nothing) => return None,
            Err(problem) => Err(problem),
        };
        match opened {
            Ok(bytes) => Some(bytes),
            Err(problem) => {
                self.wrong(place, problem);
                None
            }
        }
    }
}

/// Returns the bytes if they look like certificates in PEM. The TLS client checks each certificate.
pub(super) fn checked_authority(bytes: Bytes) -> Result<Bytes, Finding> {
    const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
    if bytes.windows(BEGIN.len()).any(|window| window == BEGIN) {
        Ok(bytes)
    } else {
        Err(Finding::new(
            "bad-authority",
            "holds no certificate in PEM; give the authority's certificate, not another file",
        ))
    }
}
