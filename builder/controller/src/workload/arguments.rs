//! Command lines of the containers. Credentials are passed as file names, never as values.

use super::names::{result_name, volumes};
use super::{JobRequest, PreparedImageUse};
use mosb_build::JobMethod;
use mosb_plan::payload::{CONTAINERFILE_KEY, TRUST_BUNDLE_KEY};
use mosb_plan::plan::BuilderNodes;

/// Where `job-templates/` mount volumes.
const RUN: &str = "/run/mosb";

/// Words of a command line.
#[derive(Default)]
struct Words(Vec<String>);

impl Words {
    /// The kubelet expands `$(NAME)`; `$$` is a literal `$`.
    fn word(mut self, text: &str) -> Self {
        self.0.push(text.replace('$', "$$"));
        self
    }

    fn flag(self, name: &str, value: impl AsRef<str>) -> Self {
        self.word(name).word(value.as_ref())
    }

    fn optional(self, name: &str, value: Option<impl AsRef<str>>) -> Self {
        match value {
            Some(value) => self.flag(name, value),
            None => self,
        }
    }

    /// Inputs of the image, and options to read the base.
    fn inputs(self, request: &JobRequest) -> Self {
        let has = |key: &str| {
            let mut maps = request.payload.iter();
            maps.any(|map| map.data.contains_key(key) || map.binary_data.contains_key(key))
        };
        let arguments = &request.arguments;
        let file = |there: bool, path: &str| there.then(|| format!("{RUN}/{path}"));
        let mut words = self
            .flag("--machine-config", format!("{RUN}/machine-config"))
            .optional(
                "--containerfile",
                file(has(CONTAINERFILE_KEY), &format!("containerfile/{CONTAINERFILE_KEY}")),
            )
            .optional(
                "--trust-bundle",
                file(has(TRUST_BUNDLE_KEY), &format!("trust-bundle/{TRUST_BUNDLE_KEY}")),
            )
            .flag("--base", arguments.base.to_string())
            .flag("--base-name", &arguments.base_name)
            .optional(
                "--extensions-image",
                arguments.extensions_image.as_ref().map(ToString::to_string),
            )
            .flag("--platform", arguments.platform.to_string())
            .flag("--build-name", request.build.as_str())
            .flag("--push", arguments.push.to_string())
            .flag("--authfile", format!("{RUN}/base-image-pull-creds/config.json"))
            .optional(
                "--registries-conf",
                file(request.registries_conf.is_some(), "registries/registries.conf"),
            )
            .optional(
                "--signature-policy",
                file(request.signature_policy.is_some(), "registries/policy.json"),
            )
            .optional("--base-tree", request.base_tree.as_ref().map(ToString::to_string));
        match &request.prepared {
            PreparedImageUse::Without => {}
            PreparedImageUse::Make => words = words.word("--prepare"),
            PreparedImageUse::On { image, tree } => {
                words = words
                    .flag("--prepared", image.to_string())
                    .optional("--prepared-tree", tree.as_ref().map(ToString::to_string));
            }
        }
        match arguments.nodes {
            BuilderNodes::ControlPlane if request.prepared != PreparedImageUse::Without => {
                words = words.word("--control-plane");
            }
            BuilderNodes::ControlPlane | BuilderNodes::Any => {}
        }
        words = words.flag("--build-on", arguments.build_on.as_str());
        for (key, value) in &arguments.build_args {
            words = words.flag("--build-arg", format!("{key}={value}"));
        }
        words
    }

    fn pushes(self) -> Self {
        self.flag("--push-authfile", format!("{RUN}/final-image-push-creds/config.json"))
            .flag("--result", format!("{RUN}/result"))
            .flag("--cache-dir", "/tmp/cache")
    }
}

/// `mosb job build`.
pub(super) fn build(request: &JobRequest) -> Vec<String> {
    let words = Words::default().inputs(request);
    match request.method {
        JobMethod::Direct => words.pushes().0,
        JobMethod::Containerfile => {
            let mut words = words
                .flag("--image", format!("{RUN}/image"))
                .flag("--failure", format!("{RUN}/failure"))
                .flag("--cache-dir", "/var/lib/mosb")
                .flag("--storage-driver", request.storage_driver().as_str());
            if request.user_namespaces {
                words = words.word("--require-user-namespace");
            }
            // Package managers write there, and packages may contain files there.
            for (there, volume, target) in [
                (&request.entitlement, volumes::ENTITLEMENT, "/etc/pki/entitlement"),
                (&request.repositories, volumes::REPOSITORIES, "/etc/yum.repos.d"),
                (&request.package_keys, volumes::PACKAGE_KEYS, "/etc/pki/rpm-gpg"),
            ] {
                let mount = there.as_ref().map(|_| format!("{RUN}/{volume}:{target}:copy"));
                words = words.optional("--volume", mount);
            }
            words.0
        }
    }
}

/// `mosb job push`.
pub(super) fn push(request: &JobRequest) -> Vec<String> {
    let words = Words::default().inputs(request).pushes();
    words.flag("--image", format!("{RUN}/image")).0
}

/// `mosb job fetch`.
pub(super) fn fetch(request: &JobRequest) -> Vec<String> {
    push(request)
}

/// `mosb job wait-for-done`.
pub(super) fn wait_for_done(request: &JobRequest) -> Vec<String> {
    let failure = match request.method {
        JobMethod::Direct => None,
        JobMethod::Containerfile => Some(format!("{RUN}/failure")),
    };
    // The Job's UID is in the environment of every container.
    Words::default()
        .flag("--result", format!("{RUN}/result"))
        .optional("--failure", failure)
        .flag("--config-map", result_name(&request.build))
        .flag("--namespace", &request.namespace)
        .flag("--build-name", request.build.as_str())
        .0
}
