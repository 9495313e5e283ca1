//! Objects of a cluster in files, directories and on stdin, sorted by kind.
//!
//! Input: operands. Output: [`Manifests`]. A bad file or object doesn't stop the others: all
//! problems are reported together. Invariant: files, bytes and objects are bounded, and no message
//! repeats a value.

mod files;

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::files::Content;
use super::input::Input;
use mosb_api::cluster_settings::CONFIG_MAP;
use mosb_api::{API_VERSION, foreign_config};
use mosb_bootstrap::Manifest;
use mosb_build::SecretObject;
use mosb_merge::Component;
use mosb_types::{Finding, Secret};

/// The maximum number of objects, far more than a cluster has.
const MOST: usize = 50_000;

/// The kinds of our API group that are read.
const KINDS: [&str; 6] = [
    "MachineConfig",
    "MachineConfigPool",
    "MachineOSConfig",
    "ControllerConfig",
    "KubeletConfig",
    "ContainerRuntimeConfig",
];

/// The purpose of reading the objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Purpose {
    /// Rendering: MachineConfigs and the objects that decide about them.
    #[default]
    Rendering,
    /// Installation: also the objects that set pre-built images and the access to them.
    Installing,
}

/// The manifests that were read.
#[derive(Debug, Default)]
pub struct Manifests {
    /// Sorted by kind.
    pub objects: mosb_bootstrap::Manifests,
    /// Errors of files and objects.
    pub problems: Vec<Finding>,
    /// The number of objects of each skipped kind, and the first of them.
    skipped: BTreeMap<String, (usize, String)>,
    /// Notices of files of a directory without an object.
    no_objects: Vec<Finding>,
    purpose: Purpose,
    count: usize,
}

impl Manifests {
    /// Reads the inputs of rendering; skips everything else.
    pub fn read(operands: &[Input]) -> Self {
        Self::read_for(operands, Purpose::Rendering)
    }

    /// Reads the manifests of an installation; skips everything else.
    pub fn of_installation(operands: &[Input]) -> Self {
        Self::read_for(operands, Purpose::Installing)
    }

    fn read_for(operands: &[Input], purpose: Purpose) -> Self {
        let mut manifests = Self { purpose, ..Self::default() };
        let mut remaining = files::RemainingBytes::default();
        for operand in operands {
            for file in files::of(operand, &mut manifests.problems) {
                let name = file.to_string();
                match file.objects(&mut remaining) {
                    Ok(Content::Objects(documents)) => {
                        manifests.documents(&name, documents, file.in_directory);
                    }
                    Ok(Content::NoObject(why)) => manifests.no_object(name, why),
                    Err(problem) => manifests.problems.push(problem),
                }
            }
        }
        manifests
    }

    fn documents(&mut self, file: &str, documents: Vec<Value>, in_directory: bool) {
        if documents.is_empty() {
            if in_directory {
                self.no_object(file.to_owned(), "it is empty");
            } else {
                let message = "it is empty; give MachineConfigs, or leave the file out";
                self.problems.push(Finding::new("bad-file", message).object(file));
            }
        }
        let several = documents.len() > 1;
        for (number, document) in documents.into_iter().enumerate() {
            let place = if several { vec![format!("document {}", number + 1)] } else { Vec::new() };
            if in_directory && is_no_object(&document) {
                let origin = origin(file, &place);
                self.no_object(origin, foreign_config(&document).unwrap_or("it has no kind"));
                continue;
            }
            self.object(file, place, document, "");
        }
    }

    /// A directory also holds files of other tools, such as kustomize and Helm.
    fn no_object(&mut self, origin: String, why: &str) {
        let message = format!("it is skipped: {why}");
        self.no_objects.push(Finding::new("object-skipped", message).object(origin));
    }

    /// Adds an object or a list of objects. `kind` is the kind of the entries of a typed list that
    /// omit it.
    fn object(&mut self, file: &str, place: Vec<String>, mut object: Value, kind: &str) {
        let origin = origin(file, &place);
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
        let is_typed = text("apiVersion").is_empty() && text("kind").is_empty();
        if is_typed && !kind.is_empty() && object.is_object() {
            object["apiVersion"] = API_VERSION.into();
            object["kind"] = kind.into();
        }
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
        let (version, kind) = (text("apiVersion").to_owned(), text("kind").to_owned());
        let is_part = object.pointer("/metadata/continue").and_then(Value::as_str);
        let is_part = is_part.is_some_and(|token| !token.is_empty());
        if let Some(items) = items(&mut object, &kind) {
            if is_part {
                let message = "it is a part of a list: its metadata.continue says that more follow; read the list to its end, as `kubectl get -o yaml` does";
                self.problems.push(Finding::new("bad-object", message).object(origin));
            }
            let of = kind.strip_suffix("List").unwrap_or_default();
            for (number, item) in items.into_iter().enumerate() {
                let item_place = [place.clone(), vec![format!("item {}", number + 1)]].concat();
                self.object(file, item_place, item, of);
            }
            return;
        }
        self.count += 1;
        if self.count > MOST {
            if self.count == MOST + 1 {
                let message = format!("it is one object more than {MOST}; give fewer");
                self.problems.push(Finding::new("too-many-objects", message).object(origin));
            }
            return;
        }
        let problem = |message: String| Finding::new("bad-object", message).object(origin.clone());
        match kind.as_str() {
            "" => {
                let message = foreign_config(&object);
                let message =
                    message.unwrap_or("it is not an object with a kind; give MachineConfigs");
                self.problems.push(problem(message.to_owned()));
            }
            "MachineConfig" | "MachineOSConfig"
                if version != API_VERSION && self.is_wanted(&kind) =>
            {
                let message = format!("it is a {kind} of {version:?}; want {API_VERSION}");
                self.problems.push(problem(message));
            }
            _ if version == API_VERSION => self.of_our_group(&kind, origin, object),
            _ if self.purpose == Purpose::Installing => {
                self.of_other_groups(&version, &kind, origin, object);
            }
            _ => self.skip(&kind, origin),
        }
    }

    fn is_wanted(&self, kind: &str) -> bool {
        kind == "MachineConfig" || self.purpose == Purpose::Installing
    }

    fn of_our_group(&mut self, kind: &str, origin: String, object: Value) {
        match kind {
            "MachineConfig" => {
                if let Some(config) = self.shaped(&origin, kind, object) {
                    self.objects.configs.push(Component { origin, config });
                }
            }
            "MachineConfigPool" => {
                let pool = self.manifest(origin, kind, object);
                self.objects.pools.extend(pool);
            }
            "ControllerConfig" => {
                let config = self.manifest(origin, kind, object);
                self.objects.controller_configs.extend(config);
            }
            "KubeletConfig" | "ContainerRuntimeConfig" => {
                let settings = self.shaped(&origin, kind, object);
                self.objects.pool_settings.extend(settings);
            }
            "MachineOSConfig" if self.is_wanted(kind) => {
                let config = self.manifest(origin, kind, object);
                self.objects.os_configs.extend(config);
            }
            _ => self.unknown(kind, origin),
        }
    }

    /// Reports a kind of our API group that is not read, because a misspelt kind would be missed.
    fn unknown(&mut self, kind: &str, origin: String) {
        let is_meant = |known: &&&str| known.eq_ignore_ascii_case(kind) && **known != kind;
        match KINDS.iter().find(is_meant) {
            Some(known) if self.is_wanted(known) => {
                let message = format!("its kind is {kind}; write {known}");
                self.problems.push(Finding::new("bad-object", message).object(origin));
            }
            _ => self.skip(kind, origin),
        }
    }

    fn of_other_groups(&mut self, version: &str, kind: &str, origin: String, object: Value) {
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let is_ours = |object: &Value| object.pointer("/metadata/name") == Some(&CONFIG_MAP.into());
        match (group, kind) {
            ("", "Secret") => {
                if let Some(object) = self.with_base64(&origin, kind, object, "data")
                    && let Some(secret) = self.shaped(&origin, kind, object)
                {
                    self.objects.secrets.push((origin, Secret::new(SecretObject(secret))));
                }
            }
            ("", "ConfigMap") if is_ours(&object) => {
                let object = self.with_base64(&origin, kind, object, "binaryData");
                let settings = object.and_then(|object| self.manifest(origin, kind, object));
                self.objects.settings.extend(settings);
            }
            ("config.openshift.io", "ImageDigestMirrorSet" | "ImageTagMirrorSet")
            | ("operator.openshift.io", "ImageContentSourcePolicy") => {
                self.objects.mirror_sets.push(Manifest { origin, object: (), raw: object });
            }
            ("config.openshift.io", "Image")
                if object.pointer("/metadata/name") == Some(&"cluster".into()) =>
            {
                self.objects.image_configs.push(Manifest { origin, object: (), raw: object });
            }
            _ => self.skip(kind, origin),
        }
    }

    fn manifest<T: DeserializeOwned>(
        &mut self,
        origin: String,
        kind: &str,
        raw: Value,
    ) -> Option<Manifest<T>> {
        let object = self.shaped(&origin, kind, raw.clone())?;
        Some(Manifest { origin, object, raw })
    }

    fn shaped<T: DeserializeOwned>(
        &mut self,
        origin: &str,
        kind: &str,
        object: Value,
    ) -> Option<T> {
        match serde_path_to_error::deserialize(object) {
            Ok(shaped) => Some(shaped),
            Err(error) => {
                let field = error.path().to_string();
                // The text before it may be a value.
                let text = error.into_inner().to_string();
                let problem = match text.rsplit_once("expected ") {
                    Some((_, expected)) => format!("must be {expected}"),
                    None => "its value can't be read".to_owned(),
                };
                let message = format!("it is not a valid {kind}: {field}: {problem}");
                self.problems.push(Finding::new("bad-object", message).object(origin));
                None
            }
        }
    }

    /// The object without line breaks in the base64 values of a field: an API server ignores them.
    /// Reports values that are not base64.
    fn with_base64(
        &mut self,
        origin: &str,
        kind: &str,
        mut object: Value,
        field: &str,
    ) -> Option<Value> {
        let before = self.problems.len();
        let values = object.get_mut(field).and_then(Value::as_object_mut);
        for (key, value) in values.into_iter().flatten() {
            if let Value::String(text) = value {
                text.retain(|c| !matches!(c, '\r' | '\n'));
            }
            if ByteString::deserialize(&*value).is_err() {
                let message = format!(
                    "it is not a valid {kind}: {field}[{key:?}]: must be base64; `base64 -w0` makes it of a file"
                );
                self.problems.push(Finding::new("bad-object", message).object(origin));
            }
        }
        (self.problems.len() == before).then_some(object)
    }

    /// Counts an object that is not read.
    pub fn skip(&mut self, kind: &str, origin: String) {
        // The number of kinds is limited, because the input may be hostile.
        let kind = if self.skipped.len() < 100 || self.skipped.contains_key(kind) {
            kind.chars().take(100).collect()
        } else {
            "other kinds".to_owned()
        };
        self.skipped.entry(kind).or_insert((0, origin)).0 += 1;
    }

    /// A notice for each kind that is not read.
    pub fn notices(&self) -> Vec<Finding> {
        let notices = self.skipped.iter().map(|(kind, (count, first))| {
            let message = match count {
                1 => format!("it is a {kind}, and skipped"),
                _ => format!("it and {} more of kind {kind} are skipped", count - 1),
            };
            Finding::new("object-skipped", message).object(first.clone())
        });
        notices.chain(self.no_objects.iter().cloned()).collect()
    }
}

/// The file, and the place in it.
fn origin(file: &str, place: &[String]) -> String {
    if place.is_empty() { file.to_owned() } else { format!("{file} ({})", place.join(", ")) }
}

/// Whether nothing says that it is meant as an object of Kubernetes.
fn is_no_object(document: &Value) -> bool {
    document.get("kind").is_none() && document.get("apiVersion") != Some(&API_VERSION.into())
}

/// The entries of a list; null or a missing list is empty.
fn items(object: &mut Value, kind: &str) -> Option<Vec<Value>> {
    if !kind.ends_with("List") {
        return None;
    }
    match object.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => Some(items),
        None | Some(Value::Null) => Some(Vec::new()),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests;
