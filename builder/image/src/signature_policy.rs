//! `policy.json` (containers-policy.json(5)): the registries from which images may be read.
//! Signatures are not evaluated. A requirement for one is reported, so that users do not assume a
//! check.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The requirements of a policy for images in registries (transport `docker`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignaturePolicy {
    default: Requirement,
    /// By scope: `host/repository:tag`, `host/repository@digest`, a repository, a part of its path,
    /// a host, `*.domain`; or empty, for all of them.
    scopes: BTreeMap<String, Requirement>,
}

/// The requirement for an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    /// No signature is required.
    Accept,
    /// It must not be read.
    Reject,
    /// A signature, in the words of the policy: `signedBy`, `sigstoreSigned`.
    Signature(&'static str),
}

/// The scope that applies to an image, and its requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// As it is written; `default` where none is.
    pub scope: String,
    pub requirement: Requirement,
}

/// A policy that can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// No JSON, or of another shape.
    #[error("no policy of containers' tools: {0}")]
    Json(String),
    /// A `type` that is unknown, as podman refuses it.
    #[error(
        "{scope}: type {kind:?} is none of insecureAcceptAnything, reject, signedBy, sigstoreSigned"
    )]
    Type {
        scope: String,
        /// What is written.
        kind: String,
    },
    /// A scope without requirements, as podman refuses it.
    #[error("{0}: no requirements; write reject or insecureAcceptAnything")]
    Empty(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPolicy {
    default: Vec<RawRequirement>,
    #[serde(default)]
    transports: BTreeMap<String, BTreeMap<String, Vec<RawRequirement>>>,
}

/// Keys and identities are not read.
#[derive(Deserialize)]
struct RawRequirement {
    #[serde(rename = "type")]
    kind: String,
}

/// The scope of what no other scope is about.
pub const DEFAULT: &str = "default";

impl Default for SignaturePolicy {
    fn default() -> Self {
        Self { default: Requirement::Accept, scopes: BTreeMap::new() }
    }
}

impl SignaturePolicy {
    /// Reads a `policy.json`.
    ///
    /// # Errors
    /// The text is not a valid policy.
    pub fn parse(text: &[u8]) -> Result<Self, PolicyError> {
        let raw: RawPolicy =
            serde_json::from_slice(text).map_err(|error| PolicyError::Json(error.to_string()))?;
        let mut scopes = BTreeMap::new();
        for (transport, entries) in raw.transports {
            for (scope, all) in entries {
                let shown = format!("transports.{transport}.{scope:?}");
                let read = requirement(&shown, &all)?;
                if transport == "docker" {
                    scopes.insert(scope, read);
                }
            }
        }
        Ok(Self { default: requirement(DEFAULT, &raw.default)?, scopes })
    }

    /// Whether it accepts all images.
    pub fn accepts_all(&self) -> bool {
        let all = self.scopes.values().chain([&self.default]);
        all.into_iter().all(|one| *one == Requirement::Accept)
    }

    /// The requirement for `host/repository`, with a tag, a digest, or without.
    pub fn verdict(&self, image: &str) -> Verdict {
        let found =
            scopes_of(image).into_iter().find_map(|scope| Some((*self.scopes.get(&scope)?, scope)));
        match found {
            Some((requirement, scope)) => Verdict { scope, requirement },
            None => Verdict { scope: DEFAULT.to_owned(), requirement: self.default },
        }
    }

    /// A copy of this policy that also rejects all images outside of these scopes.
    #[must_use]
    pub fn only(&self, allowed: &[String]) -> Self {
        let allows = Self {
            default: Requirement::Reject,
            scopes: allowed.iter().map(|scope| (scope.clone(), Requirement::Accept)).collect(),
        };
        let all: BTreeSet<&String> = self.scopes.keys().chain(allows.scopes.keys()).collect();
        let both = |scope: &String| match allows.verdict(scope).requirement {
            Requirement::Accept => self.verdict(scope).requirement,
            other => other,
        };
        Self {
            default: Requirement::Reject,
            scopes: all.into_iter().map(|scope| (scope.clone(), both(scope))).collect(),
        }
    }

    /// The policy without signatures, as containers' tools read it. What is in no registry is
    /// accepted: mosb itself gives it to them.
    pub fn without_signatures(&self) -> String {
        self.text(|_| "insecureAcceptAnything")
    }

    /// The policy with its signatures named, without their keys: for [`Self::parse`].
    pub fn with_signatures(&self) -> String {
        self.text(|kind| kind)
    }

    fn text(&self, signature: fn(&'static str) -> &'static str) -> String {
        let list = |requirement: Requirement| {
            let kind = match requirement {
                Requirement::Reject => "reject",
                Requirement::Accept => "insecureAcceptAnything",
                Requirement::Signature(kind) => signature(kind),
            };
            json!([{ "type": kind }])
        };
        let docker: Map<String, Value> = self
            .scopes
            .iter()
            .map(|(scope, requirement)| (scope.clone(), list(*requirement)))
            .collect();
        let any = || json!({ "": list(Requirement::Accept) });
        let policy = json!({
            "default": list(self.default),
            "transports": {
                "containers-storage": any(), "dir": any(), "docker": docker, "oci": any(),
            },
        });
        format!("{policy:#}\n")
    }
}

/// All of them must hold.
fn requirement(scope: &str, all: &[RawRequirement]) -> Result<Requirement, PolicyError> {
    let mut strictest = Requirement::Accept;
    for one in all {
        let read = match &*one.kind {
            "insecureAcceptAnything" => Requirement::Accept,
            // Its meaning was never written, and containers' tools reject under it.
            "reject" | "signedBaseLayer" => Requirement::Reject,
            "signedBy" => Requirement::Signature("signedBy"),
            "sigstoreSigned" => Requirement::Signature("sigstoreSigned"),
            _ => {
                return Err(PolicyError::Type { scope: scope.to_owned(), kind: one.kind.clone() });
            }
        };
        strictest = match (strictest, read) {
            (Requirement::Reject, _) | (_, Requirement::Reject) => Requirement::Reject,
            (Requirement::Accept, read) => read,
            (signature, _) => signature,
        };
    }
    if all.is_empty() { Err(PolicyError::Empty(scope.to_owned())) } else { Ok(strictest) }
}

/// The scopes that an image (or a scope) is in, the narrowest first.
fn scopes_of(image: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut name = image.to_owned();
    // Containers' tools know Docker Hub by two names, and give its own images a namespace.
    if let Some(rest) = name.strip_prefix("index.docker.io/") {
        name = format!("docker.io/{rest}");
    }
    if let Some(rest) = name.strip_prefix("docker.io/")
        && !rest.contains('/')
    {
        name = format!("docker.io/library/{rest}");
    }
    all.push(name.clone());
    let path = name.find('/').unwrap_or(name.len());
    let reference = match name.find('@') {
        Some(at) => Some(at),
        None => name[path..].find(':').map(|at| path + at),
    };
    if let Some(end) = reference {
        name.truncate(end);
        // Without the digest, a tag may be left.
        if let Some(at) = name[path..].find(':') {
            name.truncate(path + at);
        }
        all.push(name.clone());
    }
    while let Some((parent, _)) = name.rsplit_once('/') {
        all.push(parent.to_owned());
        name.truncate(parent.len());
    }
    let mut host = &*name;
    while let Some((_, domain)) = host.split_once('.') {
        all.push(format!("*.{domain}"));
        host = domain;
    }
    all.push(String::new());
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use Requirement::{Accept, Reject, Signature};

    /// As OpenShift writes it for allowed registries and a ClusterImagePolicy.
    const OPENSHIFT: &str = r#"{
        "default": [{ "type": "reject" }],
        "transports": {
            "atomic": { "quay.io": [{ "type": "insecureAcceptAnything" }] },
            "docker": {
                "quay.io": [{ "type": "insecureAcceptAnything" }],
                "*.apps.example": [{ "type": "insecureAcceptAnything" }],
                "registry.example:5000/acme": [{ "type": "insecureAcceptAnything" }],
                "quay.io/openshift-release-dev/ocp-release": [{
                    "type": "sigstoreSigned",
                    "keyData": "LS0tLS1CRUdJTiBQVUJMSUMgS0VZLS0tLS0K",
                    "signedIdentity": { "type": "matchRepoDigestOrExact" }
                }],
                "registry.redhat.io": [{
                    "type": "signedBy", "keyType": "GPGKeys", "keyPath": "/etc/pki/rpm-gpg/RPM-GPG-KEY-redhat-release"
                }],
                "quay.io/evil": [{ "type": "sigstoreSigned", "keyData": "eA==" }, { "type": "reject" }]
            },
            "docker-daemon": { "": [{ "type": "insecureAcceptAnything" }] }
        }
    }"#;

    #[test]
    fn the_narrowest_scope_counts() {
        let policy = SignaturePolicy::parse(OPENSHIFT.as_bytes()).unwrap();
        for (image, scope, want) in [
            ("quay.io/acme/os:v1", "quay.io", Accept),
            ("quay.io/evil/os@sha256:00", "quay.io/evil", Reject),
            ("quay.io/evil", "quay.io/evil", Reject),
            ("quay.io/evilest/os", "quay.io", Accept),
            (
                "quay.io/openshift-release-dev/ocp-release:4.19@sha256:00",
                "quay.io/openshift-release-dev/ocp-release",
                Signature("sigstoreSigned"),
            ),
            ("registry.redhat.io/ubi9:latest", "registry.redhat.io", Signature("signedBy")),
            ("registry.example:5000/acme/os:v1", "registry.example:5000/acme", Accept),
            ("registry.example:5000/other/os", "default", Reject),
            ("registry.example/acme/os", "default", Reject),
            ("r.apps.example/x", "*.apps.example", Accept),
            ("apps.example/x", "default", Reject),
            ("docker.io/busybox", "default", Reject),
        ] {
            let verdict = policy.verdict(image);
            assert_eq!((&*verdict.scope, verdict.requirement), (scope, want), "{image}");
        }
        let hub = r#"{"default":[{"type":"reject"}],"transports":{"docker":{"docker.io/library":[{"type":"insecureAcceptAnything"}]}}}"#;
        let hub = SignaturePolicy::parse(hub.as_bytes()).unwrap();
        assert_eq!(hub.verdict("docker.io/busybox:1").requirement, Accept);
        assert_eq!(hub.verdict("docker.io/acme/x:1").requirement, Reject);
        assert_eq!(hub.verdict("index.docker.io/busybox:1").requirement, Accept);
    }

    #[test]
    fn policies_that_podman_rejects_are_rejected() {
        for (what, text) in [
            ("no JSON", "{"),
            ("no default", r#"{"transports":{}}"#),
            ("no requirements", r#"{"default":[]}"#),
            ("another type", r#"{"default":[{"type":"accept"}]}"#),
            ("another field", r#"{"default":[{"type":"reject"}],"transport":{}}"#),
            (
                "in another transport",
                r#"{"default":[{"type":"reject"}],"transports":{"dir":{"/x":[{"type":"maybe"}]}}}"#,
            ),
        ] {
            assert!(SignaturePolicy::parse(text.as_bytes()).is_err(), "{what}");
        }
    }

    #[test]
    fn allowed_registries_and_a_policy_both_hold() {
        let policy = SignaturePolicy::parse(OPENSHIFT.as_bytes()).unwrap();
        let allowed = ["quay.io/acme", "quay.io/evil/good", "other.example"].map(str::to_owned);
        let both = policy.only(&allowed);
        for (image, want) in [
            ("quay.io/acme/os:v1", Accept),
            ("quay.io/other/os:v1", Reject),
            ("quay.io/evil/good/x", Reject),
            ("quay.io/openshift-release-dev/ocp-release", Reject),
            ("other.example/x", Reject),
        ] {
            assert_eq!(both.verdict(image).requirement, want, "{image}");
        }
        let all = SignaturePolicy::default().only(&allowed);
        assert_eq!(all.verdict("other.example/x").requirement, Accept);
        assert_eq!(all.verdict("quay.io/evil/x").requirement, Reject);
    }

    #[test]
    fn other_tools_get_rejections_but_not_signatures() {
        let policy = SignaturePolicy::parse(OPENSHIFT.as_bytes()).unwrap();
        let text = policy.without_signatures();
        assert!(!text.contains("igned") && text.contains("containers-storage"), "{text}");
        let read = SignaturePolicy::parse(text.as_bytes()).unwrap();
        for (image, want) in [
            ("quay.io/evil/os", Reject),
            ("other.example/x", Reject),
            ("quay.io/openshift-release-dev/ocp-release", Accept),
            ("registry.redhat.io/ubi9", Accept),
        ] {
            assert_eq!(read.verdict(image).requirement, want, "{image}");
        }
        let named = SignaturePolicy::parse(policy.with_signatures().as_bytes());
        assert_eq!(named, Ok(policy));
    }
}
