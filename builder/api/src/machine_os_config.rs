//! The MachineOSConfig: that a pool's machines get an image, where it is pushed, and what the
//! administrator adds.

use serde::{Deserialize, Serialize};

use super::metadata::{Condition, Metadata};
use mosb_types::null_is_empty;

/// A MachineOSConfig (`machineconfiguration.openshift.io/v1`) as the API serves it.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineOsConfig {
    /// Name (the pool's, by the API's own rule), annotations, generation.
    pub metadata: Metadata,
    pub spec: MachineOsConfigSpec,
    /// What is in service.
    pub status: MachineOsConfigStatus,
}

/// `spec` of a MachineOSConfig.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineOsConfigSpec {
    /// The pool that it is for.
    pub machine_config_pool: NameRef,
    /// The type of the builder.
    pub image_builder: ImageBuilder,
    /// The secret that pulls the base, the extensions and what a Containerfile names; without,
    /// `global-pull-secret-copy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_image_pull_secret: Option<NameRef>,
    /// The secret that pushes.
    pub rendered_image_push_secret: NameRef,
    /// `host[:port]/repository:tag`; the tag is replaced.
    pub rendered_image_push_spec: String,
    /// The administrator's own instructions, at most one of an architecture.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub container_file: Vec<ContainerFile>,
}

/// A reference to an object by its name.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct NameRef {
    pub name: String,
}

#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageBuilder {
    /// `Job`, the only one that the API knows.
    pub image_builder_type: String,
}

/// One of `spec.containerFile`.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerFile {
    /// `ARM64`, `AMD64`, `PPC64LE`, `S390X`, or `NoArch` for every architecture; absent is
    /// `NoArch`.
    pub containerfile_arch: String,
    pub content: String,
}

/// `status` of a MachineOSConfig.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineOsConfigStatus {
    /// At most one of a type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The generation that the status speaks of; never decreases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The image in service: `host/repository@sha256:…`; empty before the first.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub current_image_pull_spec: String,
    /// The build that made it.
    #[serde(rename = "machineOSBuild", skip_serializing_if = "Option::is_none")]
    pub machine_os_build: Option<ObjectReference>,
}

/// A reference as statuses have it: the resource's plural name instead of the kind.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ObjectReference {
    /// API group; the API refuses an empty one.
    pub group: String,
    /// Plural name of the kind.
    pub resource: String,
    /// Namespace; none for what has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
}

impl MachineOsConfigSpec {
    /// Whether an architecture has instructions of its own, so that it must be known which one is
    /// built for.
    pub fn depends_on_architecture(&self) -> bool {
        self.container_file.iter().all(|one| !one.is_for_all()) && !self.container_file.is_empty()
    }

    /// The Containerfile in force on this architecture (`GOARCH`): the one for all, else the
    /// architecture's own; none if it has no instruction.
    pub fn containerfile(&self, architecture: &str) -> Option<&str> {
        let own = |one: &&ContainerFile| one.containerfile_arch.eq_ignore_ascii_case(architecture);
        let mut all = self.container_file.iter();
        let found =
            all.find(|one| one.is_for_all()).or_else(|| self.container_file.iter().find(own))?;
        let has_instruction = found.content.lines().any(|line| {
            let line = line.trim();
            !line.is_empty() && !line.starts_with('#')
        });
        has_instruction.then_some(&found.content)
    }
}

impl ContainerFile {
    /// For which architecture it is, as the API writes it.
    pub fn architecture(&self) -> &str {
        if self.containerfile_arch.is_empty() { "NoArch" } else { &self.containerfile_arch }
    }

    fn is_for_all(&self) -> bool {
        self.architecture() == "NoArch"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containerfile_for_all_precedes_the_architectures_own() {
        let spec = |files: &[(&str, &str)]| -> MachineOsConfigSpec {
            let files = files.iter().map(|(arch, content)| ContainerFile {
                containerfile_arch: (*arch).to_owned(),
                content: (*content).to_owned(),
            });
            MachineOsConfigSpec {
                container_file: files.collect(),
                ..MachineOsConfigSpec::default()
            }
        };
        for (what, files, want, depends) in [
            ("none", &[][..], None, false),
            ("for all", &[("NoArch", "RUN a")], Some("RUN a"), false),
            ("absent is for all", &[("", "RUN a")], Some("RUN a"), false),
            (
                "for all comes first",
                &[("ARM64", "RUN b"), ("NoArch", "RUN a")],
                Some("RUN a"),
                false,
            ),
            ("its own", &[("AMD64", "RUN c"), ("ARM64", "RUN b")], Some("RUN b"), true),
            ("another's", &[("S390X", "RUN c")], None, true),
            ("nothing but comments", &[("NoArch", "# a\n\n  # b\n")], None, false),
            ("empty", &[("NoArch", "")], None, false),
        ] {
            let spec = spec(files);
            assert_eq!(spec.containerfile("arm64"), want, "{what}");
            assert_eq!(spec.depends_on_architecture(), depends, "{what}");
        }
        let read: MachineOsConfig = serde_json::from_str(
            r#"{"metadata":{"name":"worker"},"spec":{"containerFile":null,"baseImagePullSecret":null},"status":null}"#,
        )
        .unwrap();
        assert_eq!(read.spec.container_file, []);
    }
}
