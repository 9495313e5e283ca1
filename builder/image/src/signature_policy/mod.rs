//! `policy.json` (containers-policy.json(5)): the registries from which images may be read, and the
//! signatures that they must have. The crate `trust` evaluates signatures.

mod identity;
mod requirement;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;

use mosb_types::{Diagnostic, JsonObject};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use identity::docker_hub_name;
pub use identity::{NamePrefix, NamedReference, SignedIdentity, SignedReference};
pub use requirement::{KeySource, SignatureCheck, SignatureRequirement};
use requirement::{ParsedRequirement, RawRequirement};

/// The requirements of a policy for images in registries (transport `docker`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignaturePolicy {
    default: Requirement,
    /// By scope: `host/repository:tag`, `host/repository@digest`, a repository, a part of its path,
    /// a host, `*.domain`; or empty, for all of them.
    scopes: BTreeMap<String, Requirement>,
}

/// The requirement for an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requirement {
    /// No signature is required.
    Accept,
    /// It must not be read.
    Reject,
    /// All of these must hold; at least one.
    Signatures(Vec<SignatureRequirement>),
}

impl Requirement {
    fn and(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Reject, _) | (_, Self::Reject) => Self::Reject,
            (Self::Accept, one) | (one, Self::Accept) => one.clone(),
            (Self::Signatures(ours), Self::Signatures(others)) => {
                let added = others.iter().filter(|one| !ours.contains(one));
                Self::Signatures(ours.iter().chain(added).cloned().collect())
            }
        }
    }
}

/// The scope that applies to an image, and its requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict<'p> {
    /// As it is written; `default` where none is.
    pub scope: String,
    pub requirement: &'p Requirement,
}

/// A policy that can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[diagnostic(code = "bad-signature-policy", class = InvalidInput)]
pub enum PolicyError {
    /// More bytes than a policy has.
    #[error("more than {LIMIT} bytes; no policy is that large")]
    TooLarge,
    /// No JSON, or of another shape than podman takes.
    #[error("not a policy of containers' tools: {0}")]
    Json(String),
    /// A requirement that podman refuses.
    #[error("{scope}: {cause}")]
    Requirement { scope: String, cause: &'static str },
    /// A scope without requirements, as podman refuses it.
    #[error("{0}: no requirements; write reject or insecureAcceptAnything")]
    Empty(String),
}

/// Most bytes of a policy: enough for thousands of keys.
pub const LIMIT: usize = 4 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPolicy {
    default: Vec<JsonObject<RawRequirement>>,
    #[serde(default)]
    transports: UniqueMap<UniqueMap<Vec<JsonObject<RawRequirement>>>>,
}

/// A map in which a key that is written twice is an error, as it is for podman.
struct UniqueMap<V>(BTreeMap<String, V>);

impl<V> Default for UniqueMap<V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for UniqueMap<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Unique<V>(PhantomData<V>);

        impl<'de, V: Deserialize<'de>> Visitor<'de> for Unique<V> {
            type Value = UniqueMap<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut all = BTreeMap::new();
                while let Some((key, value)) = map.next_entry::<String, V>()? {
                    if all.contains_key(&key) {
                        return Err(A::Error::custom(format!("{key:?} is written twice")));
                    }
                    all.insert(key, value);
                }
                Ok(UniqueMap(all))
            }
        }

        deserializer.deserialize_map(Unique(PhantomData))
    }
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
        if text.len() > LIMIT {
            return Err(PolicyError::TooLarge);
        }
        let JsonObject(raw): JsonObject<RawPolicy> =
            serde_json::from_slice(text).map_err(|error| PolicyError::Json(error.to_string()))?;
        let mut scopes = BTreeMap::new();
        for (transport, entries) in raw.transports.0 {
            for (scope, all) in entries.0 {
                let shown = format!("transports.{transport}.{scope:?}");
                let read = requirement(&shown, all)?;
                if transport == "docker" {
                    scopes.insert(scope, read);
                }
            }
        }
        Ok(Self { default: requirement(DEFAULT, raw.default)?, scopes })
    }

    /// Why a machine with this `policy.json` could take `host/repository@digest` without a signature, or
    /// its tools refuse the policy where they must verify; `None` if it requires one. Ends a sentence
    /// that begins with the file.
    pub fn weakness(text: &[u8], image: &str) -> Option<String> {
        let policy = match Self::parse(text) {
            Ok(policy) => policy,
            Err(error) => return Some(format!("is not valid: {error}")),
        };
        let Verdict { scope, requirement } = policy.verdict(image);
        if *requirement == Requirement::Accept {
            return Some(format!("accepts it without a signature, by {scope:?}"));
        }
        // As ostree's importer checks it, for bootc and rpm-ostree.
        let is_lax = policy.default == Requirement::Accept;
        is_lax.then(|| {
            format!("accepts everything by {DEFAULT:?}, which bootc and rpm-ostree refuse")
        })
    }

    /// Whether it accepts all images.
    pub fn accepts_all(&self) -> bool {
        let all = self.scopes.values().chain([&self.default]);
        all.into_iter().all(|one| *one == Requirement::Accept)
    }

    /// Whether it requires a signature of any image.
    pub fn requires_signatures(&self) -> bool {
        let mut all = self.scopes.values().chain([&self.default]);
        all.any(|one| matches!(one, Requirement::Signatures(_)))
    }

    /// The requirement for `host/repository`, with a tag, a digest, or without.
    pub fn verdict(&self, image: &str) -> Verdict<'_> {
        let found =
            scopes_of(image).into_iter().find_map(|scope| Some((self.scopes.get(&scope)?, scope)));
        match found {
            Some((requirement, scope)) => Verdict { scope, requirement },
            None => Verdict { scope: DEFAULT.to_owned(), requirement: &self.default },
        }
    }

    /// A copy of this policy that also rejects all images outside of these scopes.
    #[must_use]
    pub fn only(&self, allowed: &[String]) -> Self {
        let allows = Self {
            default: Requirement::Reject,
            scopes: allowed.iter().map(|scope| (scope.clone(), Requirement::Accept)).collect(),
        };
        self.and(&allows)
    }

    /// The policy that accepts what both accept.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let all: BTreeSet<&String> = self.scopes.keys().chain(other.scopes.keys()).collect();
        let both =
            |scope: &String| self.verdict(scope).requirement.and(other.verdict(scope).requirement);
        Self {
            default: self.default.and(&other.default),
            scopes: all.into_iter().map(|scope| (scope.clone(), both(scope))).collect(),
        }
    }

    /// The policy without signatures, as containers' tools read it. What is in no registry is
    /// accepted: mosb itself gives it to them.
    pub fn without_signatures(&self) -> String {
        self.text(false)
    }

    /// The policy with its signatures, for [`Self::parse`].
    pub fn with_signatures(&self) -> String {
        self.text(true)
    }

    fn text(&self, has_signatures: bool) -> String {
        let accept = || json!([{ "type": "insecureAcceptAnything" }]);
        let list = |requirement: &Requirement| match requirement {
            Requirement::Reject => json!([{ "type": "reject" }]),
            Requirement::Signatures(all) if has_signatures => {
                all.iter().map(SignatureRequirement::to_json).collect()
            }
            Requirement::Accept | Requirement::Signatures(_) => accept(),
        };
        let docker: Map<String, Value> = self
            .scopes
            .iter()
            .map(|(scope, requirement)| (scope.clone(), list(requirement)))
            .collect();
        let any = || json!({ "": accept() });
        let policy = json!({
            "default": list(&self.default),
            "transports": {
                "containers-storage": any(), "dir": any(), "docker": docker, "oci": any(),
            },
        });
        format!("{policy:#}\n")
    }
}

/// All of them must hold.
fn requirement(
    scope: &str,
    all: Vec<JsonObject<RawRequirement>>,
) -> Result<Requirement, PolicyError> {
    if all.is_empty() {
        return Err(PolicyError::Empty(scope.to_owned()));
    }
    let (mut signatures, mut is_rejected) = (Vec::new(), false);
    for JsonObject(raw) in all {
        let wrong = |cause| PolicyError::Requirement { scope: scope.to_owned(), cause };
        match raw.parse().map_err(wrong)? {
            ParsedRequirement::Accept => {}
            ParsedRequirement::Reject => is_rejected = true,
            ParsedRequirement::Signature(signature) => signatures.push(*signature),
        }
    }
    Ok(match (is_rejected, signatures.is_empty()) {
        (true, _) => Requirement::Reject,
        (false, true) => Requirement::Accept,
        (false, false) => Requirement::Signatures(signatures),
    })
}

/// The scopes that an image (or a scope) is in, the narrowest first.
fn scopes_of(image: &str) -> Vec<String> {
    let mut all = Vec::new();
    // A scope may be anything; only Docker Hub has several names for one image.
    let is_hub = image.starts_with("docker.io/") || image.starts_with("index.docker.io/");
    let mut name = if is_hub { docker_hub_name(image) } else { image.to_owned() };
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
    // As in containers' tools, domains are without the port.
    let mut host = name.split(':').next().unwrap_or_default();
    while let Some((_, domain)) = host.split_once('.') {
        all.push(format!("*.{domain}"));
        host = domain;
    }
    all.push(String::new());
    all
}

#[cfg(test)]
mod tests;
