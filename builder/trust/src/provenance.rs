//! Provenance of an image: SLSA v1, with sorted keys. It has digests and names of inputs, never their
//! texts, and no time: the same inputs give the same document.

use std::collections::BTreeMap;
use std::fmt;

use mosb_image::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::image_name::ImageName;

/// The type of the statement.
pub const SLSA_PROVENANCE: &str = "https://slsa.dev/provenance/v1";
/// `buildType`: what the parameters mean, in docs/signing.md.
const BUILD_TYPE: &str = "https://mosb.dev/build/v1";

/// What was built, of what.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildDefinition {
    build_type: &'static str,
    external_parameters: Parameters,
    internal_parameters: Parameters,
    resolved_dependencies: Vec<Dependency>,
}

/// Parameters by their names.
pub type Parameters = BTreeMap<&'static str, Value>;

impl BuildDefinition {
    /// `external` is what was asked for, `internal` what follows from it.
    pub fn new(external: Parameters, internal: Parameters, inputs: Vec<Dependency>) -> Self {
        Self {
            build_type: BUILD_TYPE,
            external_parameters: external,
            internal_parameters: internal,
            resolved_dependencies: inputs,
        }
    }
}

/// An input, by its digest.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Dependency {
    digest: DigestSet,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct DigestSet {
    sha256: String,
}

impl Dependency {
    /// A text; only its digest is in the provenance.
    pub fn text(name: &str, digest: Digest) -> Self {
        Self { digest: DigestSet { sha256: digest.hex() }, name: name.to_owned(), uri: None }
    }

    pub fn image(name: &str, image: &ImageName) -> Self {
        Self { uri: image.purl(), ..Self::text(name, image.digest) }
    }
}

/// What built an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builder {
    /// A URI: who is to be trusted that the provenance is true.
    pub id: &'static str,
    /// Of mosb.
    pub version: &'static str,
}

/// The predicate of a statement.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Provenance<'a> {
    build_definition: &'a BuildDefinition,
    run_details: RunDetails<'a>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct RunDetails<'a> {
    builder: BuilderInfo,
    metadata: Metadata<'a>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct BuilderInfo {
    id: &'static str,
    version: BTreeMap<&'static str, &'static str>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    invocation_id: &'a str,
}

impl<'a> Provenance<'a> {
    /// `build` is the name of the build.
    pub fn new(definition: &'a BuildDefinition, builder: Builder, build: &'a str) -> Self {
        let version = [("mosb", builder.version)].into();
        Self {
            build_definition: definition,
            run_details: RunDetails {
                builder: BuilderInfo { id: builder.id, version },
                metadata: Metadata { invocation_id: build },
            },
        }
    }
}

/// What is shown of provenance that was read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Described {
    build_definition: DescribedDefinition,
    run_details: DescribedRun,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DescribedDefinition {
    #[serde(default)]
    resolved_dependencies: Vec<DescribedInput>,
}

#[derive(Deserialize)]
struct DescribedInput {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct DescribedRun {
    builder: DescribedBuilder,
}

#[derive(Deserialize)]
struct DescribedBuilder {
    id: String,
}

/// `by https://…, of rendered-worker-…, base`.
impl fmt::Display for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 20;
        let inputs = self.build_definition.resolved_dependencies.iter();
        let names: Vec<_> = inputs.map(|input| &*input.name).filter(|it| !it.is_empty()).collect();
        write!(f, "by {}", self.run_details.builder.id)?;
        if !names.is_empty() {
            write!(f, ", of {}", names[..names.len().min(SHOWN)].join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;
    use mosb_image::RepoRef;
    use mosb_types::canonical_json;
    use serde_json::json;

    use super::*;

    #[test]
    fn provenance_has_digests_and_sorted_keys() {
        let repo = RepoRef::try_from("quay.io/acme/base".to_owned()).unwrap();
        let base = ImageName { repo: Some(repo), digest: Digest::of(b"base") };
        let inputs = vec![
            Dependency::text("rendered-worker-0", Digest::of(b"config")),
            Dependency::image("base", &base),
        ];
        let external = [("method", json!("direct")), ("buildArgs", json!(["A"]))].into();
        let definition = BuildDefinition::new(external, [("inputs", json!("0"))].into(), inputs);
        let builder = Builder { id: "https://mosb.dev/builder/test", version: "0.1.0" };
        let text = serde_json::to_string(&Provenance::new(&definition, builder, "w-0")).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(text.as_bytes(), canonical_json(&value), "its keys are sorted");
        let described: Described = serde_json::from_str(&text).unwrap();
        let want = "by https://mosb.dev/builder/test, of rendered-worker-0, base";
        assert_eq!(described.to_string(), want);
        let text = serde_json::to_string_pretty(&value).unwrap() + "\n";
        expect_file!["../../../testdata/trust/provenance.json"].assert_eq(&text);
    }
}
