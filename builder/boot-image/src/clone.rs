//! The clone of a machine template of Cluster API with another spec.
//!
//! Templates can't be changed, and changing one would change the machines of all sets that refer to
//! it. Input: the template, and its new spec. Output: the object to create. Invariant: the same
//! template and spec have the same name, so that creating it twice is creating it once.

use data_encoding::HEXLOWER;
use mosb_types::{Diagnostic, canonical_json};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// Label of clones, with the value `true`. Only what has it is ever deleted.
pub const CLONE_LABEL: &str = "mosb.dev/boot-image-clone";

/// Digits of the hash in a name.
const HASH_LEN: usize = 10;
const MAX_NAME_LEN: usize = 253;
/// An existing template that has the name and other contents gets out of the way by another hash.
const MAX_ATTEMPTS: u32 = 8;

/// Labels and annotations by which other tools find their objects: they would delete the clone, or
/// show it as theirs.
const TRACKING: [&str; 10] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "cluster.x-k8s.io/cloned-from-",
    "argocd.argoproj.io/",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "kustomize.toolkit.fluxcd.io/",
    "helm.toolkit.fluxcd.io/",
    "meta.helm.sh/",
    "objectset.rio.cattle.io/",
    "config.k8s.io/",
];

/// A template to create in the namespace of the original.
#[derive(Debug, Clone, PartialEq)]
pub struct TemplateClone {
    /// All but `metadata.name`.
    object: Value,
    base: String,
    spec: Vec<u8>,
}

/// Why a template can't be cloned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[diagnostic(class = InvalidInput)]
#[non_exhaustive]
pub enum CloneError {
    #[error("the template has no {field}; it is not an object of the API")]
    #[diagnostic(code = "bad-template")]
    Field { field: &'static str },
    #[error(
        "{MAX_ATTEMPTS} templates have the names that a clone of {base} can have, and other contents; delete those that nothing refers to"
    )]
    #[diagnostic(code = "no-clone-name")]
    Names { base: String },
}

impl TemplateClone {
    /// A clone of `template`, an object as the API serves it, with `spec`.
    ///
    /// # Errors
    /// The template lacks its kind, name or namespace.
    pub fn new(template: &Value, spec: &Value) -> Result<Self, CloneError> {
        let text = |pointer: &str, field| {
            let text = template.pointer(pointer).and_then(Value::as_str);
            text.filter(|text| !text.is_empty()).ok_or(CloneError::Field { field })
        };
        let name = text("/metadata/name", "metadata.name")?;
        let mut metadata = Map::new();
        let namespace = text("/metadata/namespace", "metadata.namespace")?;
        metadata.insert("namespace".to_owned(), json!(namespace));
        let mut labels = kept(template.pointer("/metadata/labels"));
        labels.insert(CLONE_LABEL.to_owned(), json!("true"));
        metadata.insert("labels".to_owned(), labels.into());
        let annotations = kept(template.pointer("/metadata/annotations"));
        if !annotations.is_empty() {
            metadata.insert("annotations".to_owned(), annotations.into());
        }
        let owners: Vec<Value> = clusters(template).collect();
        if !owners.is_empty() {
            metadata.insert("ownerReferences".to_owned(), owners.into());
        }
        let object = json!({
            "apiVersion": text("/apiVersion", "apiVersion")?,
            "kind": text("/kind", "kind")?,
            "metadata": metadata,
            "spec": spec,
        });
        Ok(Self { object, base: base(template, name).to_owned(), spec: canonical_json(spec) })
    }

    /// The object to create. `attempt` is 0, and one more after each object of that name with other
    /// contents.
    ///
    /// # Errors
    /// Too many attempts.
    pub fn object(&self, attempt: u32) -> Result<Value, CloneError> {
        let mut object = self.object.clone();
        object["metadata"]["name"] = json!(self.name(attempt)?);
        Ok(object)
    }

    /// The name of [`TemplateClone::object`].
    ///
    /// # Errors
    /// Too many attempts.
    pub fn name(&self, attempt: u32) -> Result<String, CloneError> {
        if attempt >= MAX_ATTEMPTS {
            return Err(CloneError::Names { base: self.base.clone() });
        }
        let mut hash = Sha256::new();
        hash.update(&self.spec);
        if attempt > 0 {
            hash.update(attempt.to_be_bytes());
        }
        let hash = HEXLOWER.encode(&hash.finalize());
        let longest = MAX_NAME_LEN - HASH_LEN - 1;
        let end = self.base.len().min(longest);
        // Names are ASCII; another one is refused by the API server.
        let base = self.base.get(..end).unwrap_or_default().trim_end_matches(['-', '.']);
        Ok(format!("{base}-{}", &hash[..HASH_LEN]))
    }

    /// Whether `existing`, an object of the same name, is this clone: it has its spec. What more an
    /// object of our own has (`is_ours`), the API server or a webhook added when it was created; in
    /// another one, a person may have.
    pub fn is(&self, existing: &Value, is_ours: bool) -> bool {
        let same = |field: &str| existing.get(field) == self.object.get(field);
        let own = &self.object["spec"];
        same("kind")
            && existing.pointer("/metadata/namespace") == self.object.pointer("/metadata/namespace")
            && existing.get("spec").is_some_and(|spec| spec == own || is_ours && covers(spec, own))
    }
}

/// Whether a value has everything of another; objects may have more fields.
fn covers(value: &Value, other: &Value) -> bool {
    match (value, other) {
        (Value::Object(value), Value::Object(other)) => other
            .iter()
            .all(|(key, other)| value.get(key).is_some_and(|value| covers(value, other))),
        (Value::Array(value), Value::Array(other)) => {
            value.len() == other.len()
                && value.iter().zip(other).all(|(one, other)| covers(one, other))
        }
        _ => value == other,
    }
}

/// The name without the hash of ours that a clone has.
fn base<'t>(template: &Value, name: &'t str) -> &'t str {
    let labels = template.pointer("/metadata/labels");
    let is_clone = labels.and_then(|labels| labels.get(CLONE_LABEL)).is_some_and(|it| it == "true");
    let hex = |hash: &str| {
        hash.len() == HASH_LEN && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    match name.rsplit_once('-') {
        Some((base, hash)) if is_clone && !base.is_empty() && hex(hash) => base,
        _ => name,
    }
}

/// Labels or annotations without those of other tools.
fn kept(entries: Option<&Value>) -> Map<String, Value> {
    let entries = entries.and_then(Value::as_object).into_iter().flatten();
    let is_tracking = |key: &str| TRACKING.iter().any(|prefix| key.starts_with(prefix));
    entries
        .filter(|(key, _)| !is_tracking(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// The Clusters that own the template, as owners that control nothing.
fn clusters(template: &Value) -> impl Iterator<Item = Value> {
    let owners = template.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    owners.into_iter().flatten().filter_map(|owner| {
        let field = |name: &str| owner.get(name).and_then(Value::as_str);
        let version = field("apiVersion")?;
        let is_cluster = field("kind")? == "Cluster" && version.starts_with("cluster.x-k8s.io/");
        is_cluster.then(|| {
            json!({ "apiVersion": version, "kind": "Cluster", "name": field("name"), "uid": field("uid") })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn template(name: &str) -> Value {
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachineTemplate",
            "metadata": {
                "name": name, "namespace": "ns", "uid": "u", "resourceVersion": "1", "generation": 1,
                "creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["f"], "managedFields": [{}],
                "labels": { "a": "b", "app.kubernetes.io/instance": "gitops" },
                "annotations": {
                    "c": "d", "kubectl.kubernetes.io/last-applied-configuration": "{}",
                    "cluster.x-k8s.io/cloned-from-name": "x", "argocd.argoproj.io/tracking-id": "y",
                },
                "ownerReferences": [
                    { "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "uid": "1", "controller": true, "blockOwnerDeletion": true },
                    { "apiVersion": "v1", "kind": "ConfigMap", "name": "m", "uid": "2" },
                    { "apiVersion": "example.com/v1", "kind": "Cluster", "name": "e", "uid": "3" },
                ],
            },
            "spec": { "template": { "spec": { "ami": { "id": "ami-1" }, "unknown": { "x": null } } } },
            "status": { "capacity": {} },
        })
    }

    fn clone_of(name: &str, ami: &str) -> TemplateClone {
        let template = template(name);
        let mut spec = template["spec"].clone();
        spec["template"]["spec"]["ami"]["id"] = json!(ami);
        TemplateClone::new(&template, &spec).unwrap()
    }

    #[test]
    fn clone_has_spec_and_what_belongs_to_cluster() {
        let clone = clone_of("worker", "ami-2");
        let name = clone.name(0).unwrap();
        assert_eq!(
            clone.object(0).unwrap(),
            json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachineTemplate",
                "metadata": {
                    "name": name, "namespace": "ns",
                    "labels": { "a": "b", "mosb.dev/boot-image-clone": "true" },
                    "annotations": { "c": "d" },
                    "ownerReferences": [{ "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "uid": "1" }],
                },
                "spec": { "template": { "spec": { "ami": { "id": "ami-2" }, "unknown": { "x": null } } } },
            })
        );
        assert!(name.starts_with("worker-") && name.len() == "worker-".len() + HASH_LEN, "{name}");
    }

    #[test]
    fn the_name_follows_from_base_and_spec() {
        let name = |base: &str, ami: &str| clone_of(base, ami).name(0).unwrap();
        assert_eq!(name("worker", "ami-2"), name("worker", "ami-2"));
        assert_ne!(name("worker", "ami-2"), name("worker", "ami-3"));
        assert_ne!(name("worker", "ami-2"), clone_of("worker", "ami-2").name(1).unwrap());
        // A clone of a clone has one hash; what only looks like one is part of the name.
        for (what, label, old, base) in [
            ("a clone", true, "worker-0123456789", "worker-"),
            ("no clone", false, "worker-0123456789", "worker-0123456789-"),
            ("another suffix", true, "worker-012345678z", "worker-012345678z-"),
            ("only a hash", true, "-0123456789", "-0123456789-"),
        ] {
            let mut template = template(old);
            if label {
                template["metadata"]["labels"][CLONE_LABEL] = json!("true");
            }
            let name = TemplateClone::new(&template, &template["spec"]).unwrap().name(0).unwrap();
            let rest = name.strip_prefix(base);
            assert_eq!(rest.map(str::len), Some(HASH_LEN), "{what}: {name}");
        }
        let error = clone_of("worker", "ami-2").name(MAX_ATTEMPTS).unwrap_err();
        assert_eq!(error.code(), "no-clone-name");
        let error = TemplateClone::new(&json!({ "kind": "A" }), &json!({})).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the template has no metadata.name; it is not an object of the API"
        );
    }

    #[test]
    fn existing_object_with_whole_spec_is_the_clone() {
        let clone = clone_of("worker", "ami-2");
        let changed = |change: &dyn Fn(&mut Value)| {
            let mut object = clone.object(0).unwrap();
            change(&mut object);
            object
        };
        let at = "/spec/template/spec";
        let more = changed(&|o| o.pointer_mut(at).unwrap()["new"] = json!(1));
        assert!(!clone.is(&more, false), "with more, and somebody else's");
        for (what, object, want) in [
            ("itself", changed(&|_| {}), true),
            ("with metadata of the server", changed(&|o| o["metadata"]["uid"] = json!("9")), true),
            ("with a default", more, true),
            (
                "another image",
                changed(&|o| o.pointer_mut(at).unwrap()["ami"]["id"] = json!("ami-9")),
                false,
            ),
            ("without a field", changed(&|o| *o.pointer_mut(at).unwrap() = json!({})), false),
            ("without a spec", changed(&|o| o["spec"] = json!(null)), false),
            ("another kind", changed(&|o| o["kind"] = json!("GCPMachineTemplate")), false),
            ("another namespace", changed(&|o| o["metadata"]["namespace"] = json!("x")), false),
        ] {
            assert_eq!(clone.is(&object, true), want, "{what}");
        }
    }

    proptest! {
        #[test]
        fn name_is_valid_and_has_one_hash(
            base in "[a-z0-9]([a-z0-9.-]{0,249}[a-z0-9])?", ami in "[a-z0-9-]{1,20}", attempt in 0..MAX_ATTEMPTS,
        ) {
            let clone = clone_of(&base, &ami);
            let object = clone.object(attempt).unwrap();
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            prop_assert!(name.len() <= MAX_NAME_LEN);
            prop_assert!(name.starts_with(|c: char| c.is_ascii_alphanumeric()));
            let again = TemplateClone::new(&object, &object["spec"]).unwrap();
            prop_assert_eq!(again.name(attempt).unwrap(), name);
        }
    }
}
