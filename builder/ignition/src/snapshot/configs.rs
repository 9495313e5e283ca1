//! Resolves `ignition.config.merge` and `ignition.config.replace`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use ::url::Url;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::super::document::Document;
use super::super::error::Error;
use super::super::merge::Merger;
use super::super::version::Spec;
use super::reference::{Contents, Needs, Request};
use super::settings::Settings;
use super::source::{Source, without_credentials};
use super::{Resolution, check, contents};
use mosb_types::Finding;

/// The longest chain of references.
const MAX_DEPTH: usize = 16;
/// The most configs that a config may refer to, directly and indirectly.
const MAX_REFERENCED: usize = 256;

/// A config without references to other configs.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// The config, without `ignition.config`.
    pub document: Document,
    /// Those of the referenced configs, with the references that lead to them.
    pub warnings: Vec<Finding>,
}

/// Resolves the references of a config to other configs. `spec` is the version of the input.
///
/// As in Ignition, `replace` discards the whole config that has it, with its `merge`. The configs
/// of `merge` are resolved themselves and then merged over the config, one after the other. The
/// first is fetched with the config's own proxy, timeouts and authorities. After a config of
/// `merge` is fetched, the merged settings apply, after one of `replace` its own. So configs can
/// only be fetched one after the other.
///
/// # Errors
/// The problems of a reference, or of a config that it leads to: the object names the references.
pub fn configs(
    document: Document,
    spec: Spec,
    contents: &Contents,
) -> Result<Resolution<Resolved>, Error> {
    let mut resolver = Resolver {
        contents,
        spec,
        settings: Arc::default(),
        authorities: BTreeMap::new(),
        followed: 0,
        warnings: Vec::new(),
    };
    if !has_references(&document) {
        return Ok(resolver.done(document));
    }
    let top = Step::top();
    let resolved = resolver
        .apply_settings(document.as_json(), &top)
        .and_then(|()| resolver.resolve(document, &top));
    match resolved {
        Ok(document) => Ok(resolver.done(document)),
        Err(ResolveError::Needs(needs)) => Ok(Resolution::Needs(needs.into_references())),
        Err(ResolveError::Wrong(problems)) => Err(Error::Invalid { problems }),
    }
}

fn has_references(document: &Document) -> bool {
    document.as_json().pointer("/ignition/config").is_some()
}

/// Why a config isn't resolved.
#[derive(Debug)]
enum ResolveError {
    Needs(Needs),
    Wrong(Vec<Finding>),
}

/// A reference, and those that led to it.
#[derive(Debug)]
struct Step<'p> {
    before: Option<&'p Step<'p>>,
    field: String,
    /// Its URL, once it was followed.
    url: Option<Url>,
    depth: usize,
}

impl Step<'_> {
    fn top() -> Self {
        Step { before: None, field: String::new(), url: None, depth: 0 }
    }

    fn to(&self, field: String) -> Step<'_> {
        Step { before: Some(self), field, url: None, depth: self.depth + 1 }
    }

    fn wrong(&self, problem: Finding) -> ResolveError {
        ResolveError::Wrong(vec![self.place(problem)])
    }

    /// Places a finding about a field of the referenced config, or about the reference itself.
    fn place(&self, mut problem: Finding) -> Finding {
        if let Some(url) = &self.url {
            let url = without_credentials(url.as_str());
            problem.message = format!("{url}: {}", problem.message);
        }
        problem.object = match problem.object.take() {
            Some(field) if self.depth == 0 => Some(field),
            Some(field) => Some(format!("{self} > {field}")),
            None => Some(self.to_string()),
        };
        problem
    }

    fn has_followed(&self, url: &Url) -> bool {
        self.url.as_ref() == Some(url) || self.before.is_some_and(|before| before.has_followed(url))
    }
}

/// `ignition.config.merge[0] > ignition.config.replace`
impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.before {
            Some(before) if before.depth > 0 => write!(f, "{before} > {}", self.field),
            _ => f.write_str(&self.field),
        }
    }
}

/// Resolves a config and everything that it refers to.
#[derive(Debug)]
struct Resolver<'c> {
    contents: &'c Contents,
    spec: Spec,
    /// The settings of the next fetch.
    settings: Arc<Settings>,
    /// The checked bytes by source: Ignition fetches each authority once, with the settings at that
    /// time.
    authorities: BTreeMap<String, Bytes>,
    followed: usize,
    warnings: Vec<Finding>,
}

impl Resolver<'_> {
    fn done(self, document: Document) -> Resolution<Resolved> {
        Resolution::Done(Resolved { document, warnings: self.warnings })
    }

    fn resolve(&mut self, document: Document, at: &Step<'_>) -> Result<Document, ResolveError> {
        let mut config = document.into_json();
        let references = config
            .get_mut("ignition")
            .and_then(Value::as_object_mut)
            .and_then(|ignition| ignition.remove("config"));
        let references = references.unwrap_or_default();
        let replace = references.get("replace").and_then(Value::as_object);
        if let Some(resource) = replace.filter(|resource| resource.contains_key("source")) {
            let mut step = at.to("ignition.config.replace".to_owned());
            let other = self.referenced(resource, &mut step)?;
            self.apply_settings(other.as_json(), &step)?;
            return self.resolve(other, &step);
        }
        let mut so_far = settings_only(&config);
        let mut merger = Merger::new();
        merger.add(0, Document(config));
        let merge = references.get("merge").and_then(Value::as_array);
        for (n, resource) in merge.into_iter().flatten().enumerate() {
            let mut step = at.to(format!("ignition.config.merge[{n}]"));
            let empty = Map::new();
            let other = self.referenced(resource.as_object().unwrap_or(&empty), &mut step)?;
            let together = merged(so_far.clone(), settings_only(other.as_json()));
            self.apply_settings(together.as_json(), &step)?;
            let other = self.resolve(other, &step)?;
            so_far = merged(so_far, settings_only(other.as_json()));
            merger.add(0, other);
        }
        Ok(merger.finish().document)
    }

    /// Uses the settings of this config for the next fetches.
    fn apply_settings(&mut self, config: &Value, at: &Step<'_>) -> Result<(), ResolveError> {
        let before = self.settings.authorities.clone();
        let settings = Settings::of(config, before).map_err(|problem| at.wrong(problem))?;
        self.settings = Arc::new(settings);
        let all = config.pointer("/ignition/security/tls/certificateAuthorities");
        let all = all.and_then(Value::as_array);
        let (mut opened, mut needs, mut problems) = (Vec::new(), Needs::default(), Vec::new());
        for (n, resource) in all.into_iter().flatten().enumerate() {
            let field = format!("ignition.security.tls.certificateAuthorities[{n}]");
            let empty = Map::new();
            let mut step = at.to(field);
            match self.authority(resource.as_object().unwrap_or(&empty), &mut step) {
                Ok(bytes) => opened.push(bytes),
                Err(ResolveError::Needs(more)) => needs.append(more),
                Err(ResolveError::Wrong(more)) => problems.extend(more),
            }
        }
        if !problems.is_empty() {
            return Err(ResolveError::Wrong(problems));
        }
        if !needs.is_empty() {
            return Err(ResolveError::Needs(needs));
        }
        // A config without authorities doesn't change them.
        if !opened.is_empty() {
            self.settings =
                Arc::new(Settings { authorities: opened, ..Settings::clone(&self.settings) });
        }
        Ok(())
    }

    fn authority(
        &mut self,
        resource: &Map<String, Value>,
        step: &mut Step<'_>,
    ) -> Result<Bytes, ResolveError> {
        let source = resource.get("source").and_then(Value::as_str);
        let source = source.unwrap_or_default();
        if let Some(opened) = self.authorities.get(source) {
            return Ok(opened.clone());
        }
        let bytes = self.bytes(resource, step)?;
        let bytes = contents::checked_authority(bytes).map_err(|problem| step.wrong(problem))?;
        self.authorities.insert(source.to_owned(), bytes.clone());
        Ok(bytes)
    }

    /// The config that a reference leads to.
    fn referenced(
        &mut self,
        resource: &Map<String, Value>,
        step: &mut Step<'_>,
    ) -> Result<Document, ResolveError> {
        self.followed += 1;
        if self.followed > MAX_REFERENCED {
            let message = format!(
                "more than {MAX_REFERENCED} configs are referred to, one by the other; refer to fewer"
            );
            return Err(step.wrong(Finding::new("many-references", message)));
        }
        if step.depth > MAX_DEPTH {
            let message = format!(
                "more than {MAX_DEPTH} configs refer to one another; refer to this directly"
            );
            return Err(step.wrong(Finding::new("deep-reference", message)));
        }
        let bytes = self.bytes(resource, step)?;
        let wrong = |message: String| step.wrong(Finding::new("bad-referenced-config", message));
        if bytes.is_empty() {
            return Err(wrong("the config is empty; give one".to_owned()));
        }
        let config: Value = serde_json::from_slice(&bytes)
            .map_err(|error| wrong(format!("the config is not JSON: {error}")))?;
        let read = Document::read(&config).map_err(|error| match error {
            Error::Invalid { problems } => {
                ResolveError::Wrong(problems.into_iter().map(|p| step.place(p)).collect())
            }
            other => step.wrong(Finding::from(&other)),
        })?;
        if std::mem::discriminant(&read.spec) != std::mem::discriminant(&self.spec) {
            let message = format!(
                "the config is of spec {}, and one of spec {} refers to it, which no Ignition reads together; give one of the same major version",
                read.spec, self.spec
            );
            return Err(step.wrong(Finding::new("other-family", message)));
        }
        let warnings = read.warnings.into_iter().map(|warning| step.place(warning));
        self.warnings.extend(warnings);
        Ok(read.document)
    }

    /// The checked bytes of a resource.
    fn bytes(
        &mut self,
        resource: &Map<String, Value>,
        step: &mut Step<'_>,
    ) -> Result<Bytes, ResolveError> {
        let source = resource.get("source").and_then(Value::as_str);
        let opened = match Source::read(source).map_err(|problem| step.wrong(problem))? {
            Source::Nothing => Err(Finding::new(
                "bad-source",
                "a reference needs a source; give one, or remove the reference",
            )),
            Source::Data(url) => check::open(resource, url),
            Source::Remote(url) => {
                if step.has_followed(&url) {
                    step.url = Some(url);
                    let problem = Finding::new(
                        "circular-reference",
                        "the config refers to one that refers to it; remove one of the references",
                    );
                    return Err(step.wrong(problem));
                }
                let request = Request::new(url.clone(), resource, Some(self.spec), &self.settings)
                    .map_err(|problem| step.wrong(problem))?;
                let Some(bytes) = self.contents.get(&request) else {
                    let mut needs = Needs::default();
                    needs.add(request, step);
                    return Err(ResolveError::Needs(needs));
                };
                let opened = check::open_fetched(resource, bytes, &request.shown())
                    .map_err(|problem| step.wrong(problem))?;
                step.url = Some(url);
                Ok(opened)
            }
        };
        opened.map_err(|problem| step.wrong(problem))
    }
}

/// A config with only the settings for fetching.
fn settings_only(config: &Value) -> Document {
    let mut all = json!({ "ignition": { "version": "3.5.0" } });
    for section in ["proxy", "security", "timeouts"] {
        if let Some(settings) = config.pointer(&format!("/ignition/{section}")) {
            all["ignition"][section] = settings.clone();
        }
    }
    Document(all)
}

fn merged(earlier: Document, later: Document) -> Document {
    let mut merger = Merger::new();
    merger.add(0, earlier);
    merger.add(1, later);
    merger.finish().document
}
