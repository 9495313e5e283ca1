//! The ways to build, and the reasons for the slower ones.

use std::fmt;
use std::str::FromStr;

use mosb_types::Finding;

use mosb_api::{BuildOn, RenderedConfig, labels};
use mosb_merge::RENDERER;

/// How an image is built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Method {
    /// One layer, written here and pushed on top of the base's manifest.
    Direct,
    /// The same on top of a prepared base, which has what must be run because of these reasons; never
    /// empty.
    Prepared(Vec<Reason>),
    /// The same, and the administrator's last part that buildah runs on it.
    LastPart(Vec<Reason>),
    /// A Containerfile that buildah runs, because of these reasons; never empty.
    Containerfile(Vec<Reason>),
}

impl Method {
    /// The word for scripts; `--method` has `direct` and `containerfile`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Prepared(_) => "prepared",
            Self::LastPart(_) => "last-part",
            Self::Containerfile(_) => "containerfile",
        }
    }

    /// Why something must be run; empty if nothing must.
    pub fn reasons(&self) -> &[Reason] {
        match self {
            Self::Direct => &[],
            Self::Prepared(reasons) | Self::LastPart(reasons) | Self::Containerfile(reasons) => {
                reasons
            }
        }
    }
}

/// The value of `--method`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MethodChoice {
    /// Direct if it can be, else the Containerfile.
    #[default]
    Auto,
    /// Direct, or an error with the reasons why not.
    Direct,
    /// The Containerfile, even where nothing needs it.
    Containerfile,
}

impl FromStr for MethodChoice {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        match s {
            "auto" => Ok(Self::Auto),
            "direct" => Ok(Self::Direct),
            "containerfile" => Ok(Self::Containerfile),
            _ => Err(format!("{s:?} is none of auto, direct, containerfile")),
        }
    }
}

/// Why something must be run to build an image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// `--method containerfile`.
    Requested,
    /// The administrator's own Containerfile.
    CustomContainerfile,
    /// `spec.extensions`: packages to install.
    Extensions(Vec<String>),
    /// `spec.kernelType`: another kernel to install.
    KernelType(&'static str),
    /// A trust bundle, or certificates that the config writes: the trust store must be compiled.
    CaTrust(Option<String>),
    /// A part is appended to a file of the base, whose content isn't known here.
    AppendToBase(String),
    /// Mode or owner of a file of the base change: a layer would have to repeat its content.
    KeepsBaseContent(String),
    /// A hard link to a file of the base: a layer would have to repeat its content.
    HardLinkToBase(String),
    /// What enabling or disabling a unit means can't be decided without running systemctl.
    Unit { unit: String, why: String },
}

impl Reason {
    /// The word for scripts; `docs/direct-build.md` lists them all.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::CustomContainerfile => "custom-containerfile",
            Self::Extensions(_) => "extensions",
            Self::KernelType(_) => "kernel-type",
            Self::CaTrust(_) => "ca-trust",
            Self::AppendToBase(_) => "append-to-base",
            Self::KeepsBaseContent(_) => "keeps-base-content",
            Self::HardLinkToBase(_) => "hard-link-to-base",
            Self::Unit { .. } => "unit",
        }
    }

    /// With code, path and object apart.
    pub fn finding(&self) -> Finding {
        let finding = Finding::new(self.code(), self.to_string());
        match self {
            Self::Requested | Self::CustomContainerfile => finding,
            Self::Extensions(_) => finding.object("spec.extensions"),
            Self::KernelType(_) => finding.object("spec.kernelType"),
            Self::CaTrust(None) => finding.object("--trust-bundle"),
            Self::CaTrust(Some(path)) => finding.path(path),
            Self::AppendToBase(path)
            | Self::KeepsBaseContent(path)
            | Self::HardLinkToBase(path) => finding.path(path),
            Self::Unit { unit, .. } => finding.object(unit),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requested => write!(f, "the Containerfile was requested"),
            Self::CustomContainerfile => {
                write!(f, "the administrator's Containerfile has instructions to run")
            }
            Self::Extensions(names) => {
                write!(f, "extensions are to be installed: {}", names.join(", "))
            }
            Self::KernelType(name) => write!(f, "the {name} kernel is to be installed"),
            Self::CaTrust(None) => {
                write!(f, "a trust bundle is given, so the trust store must be compiled")
            }
            Self::CaTrust(Some(path)) => {
                write!(f, "{path} adds to the trust store, which must be compiled")
            }
            Self::AppendToBase(path) => {
                write!(f, "{path}: something is appended to a file of the base")
            }
            Self::KeepsBaseContent(path) => {
                write!(
                    f,
                    "{path}: mode or owner of a file of the base change and its content stays"
                )
            }
            Self::HardLinkToBase(path) => write!(f, "{path} is a hard link to a file of the base"),
            Self::Unit { unit, why } => write!(f, "{unit}: {why}"),
        }
    }
}

/// The choice for a config, if nobody states one.
pub fn default_build_on(config: &RenderedConfig) -> BuildOn {
    match sign_of_operator(config) {
        Some(_) => BuildOn::OsChange,
        None => BuildOn::EveryConfig,
    }
}

/// Why the image of a config is built with this choice: a sentence.
pub fn build_on_reason(config: &RenderedConfig, build_on: BuildOn) -> String {
    match (build_on, sign_of_operator(config)) {
        (BuildOn::EveryConfig, None) => {
            "No Machine Config Operator rendered the config, so its files reach machines by the image alone.".to_owned()
        }
        (BuildOn::OsChange, Some(sign)) => format!(
            "The config was rendered for a cluster of the Machine Config Operator ({sign}), whose daemon applies it."
        ),
        (BuildOn::EveryConfig, Some(sign)) => format!(
            "It was requested, although the config was rendered for a cluster of the Machine Config Operator ({sign})."
        ),
        (BuildOn::OsChange, None) => {
            "It was requested, although no Machine Config Operator rendered the config.".to_owned()
        }
    }
}

/// What shows that a config was rendered for a cluster of the Machine Config Operator: the renderer,
/// or the release, which only its ControllerConfig has.
fn sign_of_operator(config: &RenderedConfig) -> Option<String> {
    let release = config.annotation(labels::RELEASE_IMAGE_VERSION);
    let renderer = config.annotation(labels::GENERATED_BY_CONTROLLER_VERSION);
    let signs = [
        (labels::RELEASE_IMAGE_VERSION, release),
        (labels::GENERATED_BY_CONTROLLER_VERSION, renderer.filter(|by| *by != RENDERER)),
    ];
    signs.into_iter().find_map(|(key, value)| {
        let value = value.filter(|value| !value.is_empty())?;
        Some(format!("annotation {key} is {value:?}"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_default_follows_from_who_rendered_the_config() {
        use BuildOn::{EveryConfig, OsChange};
        let by = labels::GENERATED_BY_CONTROLLER_VERSION;
        let release = labels::RELEASE_IMAGE_VERSION;
        for (what, annotations, want) in [
            ("written by hand", json!({}), EveryConfig),
            ("mosb", json!({ by: RENDERER }), EveryConfig),
            ("nothing stated", json!({ by: "", release: "" }), EveryConfig),
            ("the operator", json!({ by: "0f1e2d", release: "4.20.1" }), OsChange),
            ("no release", json!({ by: "0f1e2d" }), OsChange),
            (
                "mosb, for an OpenShift cluster",
                json!({ by: RENDERER, release: "4.20.1" }),
                OsChange,
            ),
        ] {
            let config = json!({
                "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
                "metadata": { "name": "rendered-worker-0123456789abcdef0123456789abcdef", "annotations": annotations },
                "spec": {},
            });
            let config = RenderedConfig::from_value(config).unwrap();
            assert_eq!(default_build_on(&config), want, "{what}");
            for build_on in [EveryConfig, OsChange] {
                let is_requested = build_on_reason(&config, build_on).contains("requested");
                assert_eq!(is_requested, build_on != want, "{what}: {build_on}");
            }
        }
    }
}
