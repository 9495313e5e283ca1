//! `signedIdentity`: which name a signature must have been made for. As containers/image compares
//! them, with the name of the image as it is written, before mirrors.

use serde::{Deserialize, Serialize};

use crate::ImageRef;
use crate::reference::is_host_or_name;

/// The names that are accepted in a signature.
///
/// Variants without fields are structs, because serde refuses unknown fields in these only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum SignedIdentity {
    /// The image's own name with the same tag or digest.
    MatchExact {},
    /// The same; for an image that is named by digest only, each name in its repository.
    MatchRepoDigestOrExact {},
    /// Each name in the image's repository.
    MatchRepository {},
    /// This name, with its tag or digest.
    ExactReference { docker_reference: NamedReference },
    /// Each name in this repository.
    ExactRepository { docker_repository: SignedReference },
    /// As [`Self::MatchRepoDigestOrExact`], after a prefix of the image's name was replaced.
    RemapIdentity { prefix: NamePrefix, signed_prefix: NamePrefix },
}

impl Default for SignedIdentity {
    fn default() -> Self {
        Self::MatchRepoDigestOrExact {}
    }
}

impl SignedIdentity {
    /// Whether a signature for `signed` counts for an image that is pulled by the name `image`.
    /// Without tag and digest, `latest` is pulled.
    pub fn accepts(&self, image: &ImageRef, signed: &str) -> bool {
        let Ok(signed) = SignedReference::parse(signed) else {
            return false;
        };
        let intended = || SignedReference::parse(&with_tag(image));
        match self {
            Self::MatchExact {} => intended().is_ok_and(|image| image.is_exactly(&signed)),
            Self::MatchRepoDigestOrExact {} => {
                intended().is_ok_and(|image| image.is_exactly_or_by_digest(&signed))
            }
            Self::MatchRepository {} => {
                intended().is_ok_and(|image| image.0.repo() == signed.0.repo())
            }
            Self::ExactReference { docker_reference } => docker_reference.0.is_exactly(&signed),
            Self::ExactRepository { docker_repository } => {
                docker_repository.0.repo() == signed.0.repo()
            }
            Self::RemapIdentity { prefix, signed_prefix } => intended()
                .and_then(|image| image.remapped(&prefix.0, &signed_prefix.0))
                .is_ok_and(|image| image.is_exactly_or_by_digest(&signed)),
        }
    }
}

fn with_tag(image: &ImageRef) -> String {
    match (image.tag(), image.digest()) {
        (None, None) => format!("{image}:latest"),
        _ => image.to_string(),
    }
}

/// A name as signatures and policies write it: Docker Hub needs no host there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SignedReference(ImageRef);

impl SignedReference {
    fn parse(text: &str) -> Result<Self, String> {
        docker_hub_name(text).parse().map(Self).map_err(|_| format!("{text:?} is not an image"))
    }

    fn is_name_only(&self) -> bool {
        self.0.tag().is_none() && self.0.digest().is_none()
    }

    fn is_exactly(&self, signed: &Self) -> bool {
        !signed.is_name_only() && self == signed
    }

    fn is_exactly_or_by_digest(&self, signed: &Self) -> bool {
        match self.0.tag() {
            None => !signed.is_name_only() && self.0.repo() == signed.0.repo(),
            Some(_) => self.is_exactly(signed),
        }
    }

    fn remapped(&self, prefix: &str, signed_prefix: &str) -> Result<Self, String> {
        let name = self.0.repo().to_string();
        let rest = name.strip_prefix(prefix);
        if !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            return Ok(self.clone());
        }
        let text = self.0.to_string();
        let text = format!("{signed_prefix}{}", &text[prefix.len()..]);
        // Unlike in a signature, the host must be written here.
        text.parse().map(Self).map_err(|_| format!("{text:?} is not an image"))
    }
}

impl TryFrom<String> for SignedReference {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl From<SignedReference> for String {
    fn from(value: SignedReference) -> Self {
        value.0.to_string()
    }
}

/// The same with a tag or a digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NamedReference(SignedReference);

impl TryFrom<String> for NamedReference {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        match SignedReference::parse(&text)? {
            named if named.is_name_only() => Err(format!("{text:?} has neither tag nor digest")),
            named => Ok(Self(named)),
        }
    }
}

impl From<NamedReference> for String {
    fn from(value: NamedReference) -> Self {
        value.0.into()
    }
}

/// A host, or a repository with its host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NamePrefix(String);

impl TryFrom<String> for NamePrefix {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        if is_host_or_name(&text) {
            Ok(Self(text))
        } else {
            Err(format!("{text:?} is not a prefix"))
        }
    }
}

impl From<NamePrefix> for String {
    fn from(value: NamePrefix) -> Self {
        value.0
    }
}

/// The full name of an image of Docker Hub, which has two hosts, needs none, and has a namespace for
/// its own images. Others stay as they are.
pub(super) fn docker_hub_name(name: &str) -> String {
    let has_host = name.split_once('/').is_some_and(|(host, _)| {
        host.contains(['.', ':']) || host == "localhost" || host.chars().any(char::is_uppercase)
    });
    let path = match name.strip_prefix("index.docker.io/").or(name.strip_prefix("docker.io/")) {
        Some(path) => path,
        None if has_host => return name.to_owned(),
        None => name,
    };
    let namespace = if path.contains('/') { "" } else { "library/" };
    format!("docker.io/{namespace}{path}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Digest;

    #[test]
    fn names_match_as_in_containers_image() {
        let digest = Digest::of(b"x");
        let pinned = format!("host.example/a/os@{digest}");
        let (tagged, other_tag, bare) =
            ("host.example/a/os:1", "host.example/a/os:2", "host.example/a/os");
        let exact = json!({ "type": "matchExact" });
        let default = json!({ "type": "matchRepoDigestOrExact" });
        let repository = json!({ "type": "matchRepository" });
        let reference = |name: &str| json!({ "type": "exactReference", "dockerReference": name });
        let exact_repository =
            |name: &str| json!({ "type": "exactRepository", "dockerRepository": name });
        let remap = |from: &str, to: &str| json!({ "type": "remapIdentity", "prefix": from, "signedPrefix": to });
        for (policy, image, signed, want) in [
            (&exact, tagged, tagged, true),
            (&exact, tagged, other_tag, false),
            (&exact, tagged, bare, false),
            (&exact, &pinned, &pinned, true),
            (&exact, &pinned, tagged, false),
            (&exact, bare, "host.example/a/os:latest", true),
            (&default, tagged, tagged, true),
            (&default, tagged, &pinned, false),
            (&default, tagged, bare, false),
            (&default, &pinned, tagged, true),
            (&default, &pinned, &pinned, true),
            (&default, &pinned, bare, false),
            (&default, &pinned, "host.example/a/other:1", false),
            (&repository, tagged, bare, true),
            (&repository, tagged, &pinned, true),
            (&repository, tagged, "host.example/a:1", false),
            (&repository, tagged, "not an image", false),
            (&repository, "docker.io/busybox:1", "busybox", true),
            (&repository, "index.docker.io/library/busybox:1", "docker.io/busybox", true),
            (&reference(other_tag), tagged, other_tag, true),
            (&reference(other_tag), tagged, tagged, false),
            (&exact_repository("other.example/x"), tagged, "other.example/x:9", true),
            (&exact_repository("other.example/x"), tagged, tagged, false),
            (&remap("host.example", "up.example"), tagged, "up.example/a/os:1", true),
            (&remap("host.example/a", "up.example/b"), tagged, "up.example/b/os:1", true),
            (&remap("host.example/a/os", "up.example/b"), &pinned, "up.example/b:7", true),
            (&remap("host.example/a/o", "up.example/b"), tagged, "up.example/bs:1", false),
            (&remap("other.example", "up.example"), tagged, tagged, true),
            (&remap("host.example", "up.example"), tagged, tagged, false),
        ] {
            let read: SignedIdentity = serde_json::from_value(policy.clone()).unwrap();
            let parsed = image.parse().unwrap();
            assert_eq!(read.accepts(&parsed, signed), want, "{policy} {image} {signed}");
            assert_eq!(&serde_json::to_value(&read).unwrap(), policy);
        }
    }

    #[test]
    fn identities_that_podman_rejects_are_rejected() {
        for bad in [
            json!({}),
            json!({ "type": "any" }),
            json!({ "type": "matchExact", "dockerReference": "quay.io/a:1" }),
            json!({ "type": "exactReference" }),
            json!({ "type": "exactReference", "dockerReference": "quay.io/a" }),
            json!({ "type": "exactReference", "dockerReference": "quay.io/A:1" }),
            json!({ "type": "exactRepository", "dockerRepository": "" }),
            json!({ "type": "remapIdentity", "prefix": "quay.io" }),
            json!({ "type": "remapIdentity", "prefix": "quay.io/", "signedPrefix": "quay.io" }),
            json!({ "type": "remapIdentity", "prefix": "quay.io/a:1", "signedPrefix": "quay.io" }),
        ] {
            assert!(serde_json::from_value::<SignedIdentity>(bad.clone()).is_err(), "{bad}");
        }
    }
}
