//! Reads and validates the manifests of an installation, for `mosb bootstrap` and `mosb preflight`.

use std::path::Path;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1;

use super::Result;
use super::arguments::usage;
use super::input::{FILE_LIMIT, Input};
use super::manifests::Manifests;
use super::settings::Settings;
use mosb_bootstrap::{Cluster, ValidatedInstall, ValidationOptions};
use mosb_build::{DockerConfigJson, NamedSecret};
use mosb_types::{Diagnostic as _, Finding};

/// The manifests of an installation, after validation.
#[derive(Debug)]
pub struct Installation {
    /// Sorted by kind.
    pub objects: mosb_bootstrap::Manifests,
    pub checked: ValidatedInstall,
    pub cluster: Cluster,
}

/// Reads and validates all manifests. `registries`: whether images are looked up next.
///
/// # Errors
/// All problems of files and objects.
pub fn read(
    manifests: &[Input],
    pull_secret: Option<&Path>,
    cluster: Option<Cluster>,
    registries: bool,
) -> Result<Installation> {
    let mut read = Manifests::of_installation(manifests);
    let notices = read.notices();
    let has_release = !read.objects.controller_configs.is_empty();
    let cluster =
        cluster.unwrap_or(if has_release { Cluster::Openshift } else { Cluster::Kubernetes });
    let (pull_secret, wrong) = match pull_secret.map(logins).transpose() {
        Ok(logins) => (logins, None),
        Err(wrong) => (None, Some(wrong)),
    };
    let mut problems = std::mem::take(&mut read.problems);
    problems.extend(wrong);
    let asked = ValidationOptions { cluster, pull_secret, registries };
    let mut checked = match mosb_bootstrap::check(&read.objects, &asked) {
        Ok(checked) if problems.is_empty() => checked,
        Ok(_) => return Err(mosb_bootstrap::Error::Invalid { problems }.into()),
        Err(error) => {
            // A missing object may be one of the skipped ones.
            for notice in &notices {
                let object = notice.object.as_deref().unwrap_or_default();
                tracing::warn!("{object}: {}", notice.message);
            }
            // A missing object may be in a file that was not read.
            let hides = |finding: &Finding| {
                !matches!(
                    &*finding.code,
                    "unknown-pool" | "missing-secret" | "no-machine-os-config"
                )
            };
            let unread = !problems.is_empty();
            problems.extend(error.findings().into_iter().filter(|it| !unread || hides(it)));
            return Err(mosb_bootstrap::Error::Invalid { problems }.into());
        }
    };
    checked.notices.splice(0..0, notices);
    Ok(Installation { objects: read.objects, checked, cluster })
}

/// Reads logins from a file in the format of podman, docker and installers.
fn logins(file: &Path) -> Result<NamedSecret, Finding> {
    let input = Input::File(file.to_owned());
    let wrong = |code: &str, message: String| {
        let mut finding = Finding::new("bad-file", message).object(input.to_string());
        finding.code = code.to_owned();
        finding
    };
    let bytes = input.bytes("file of logins", FILE_LIMIT);
    let bytes = bytes.map_err(|error| wrong(error.code(), error.to_string()))?;
    let secret = v1::Secret {
        type_: Some("kubernetes.io/dockerconfigjson".to_owned()),
        data: Some([(".dockerconfigjson".to_owned(), ByteString(bytes))].into()),
        ..v1::Secret::default()
    };
    let credentials = DockerConfigJson::from_secret(&secret)
        .map_err(|error| wrong(error.code(), error.problem.to_string()))?;
    Ok(NamedSecret { name: input.to_string(), credentials })
}

/// Rejects a directory of `--bundle` that can't be replaced as a whole.
pub fn bundle_folder(folder: Option<&Path>) -> Result<()> {
    match folder {
        Some(folder) if folder.file_name().is_none() => usage(format!(
            "--bundle {}: a directory with a name is replaced as a whole; write it without . or .. at its end",
            folder.display()
        )),
        _ => Ok(()),
    }
}

/// Rejects options that machines of an installation will not have, because the checks would then be
/// meaningless.
pub fn only_machines_options(settings: &Settings, with_logins: bool) -> Result<()> {
    let mirrors =
        "put mirrors into ConfigMap mosb-config, or an ImageDigestMirrorSet among the manifests";
    let authority = "put the CA into imageRegistryBundles of ConfigMap mosb-config, or into the ControllerConfig";
    let login = "put the login into the Secret that spec.renderedImagePushSecret names";
    for (is_given, flag, instead) in [
        (with_logins && settings.authfile.is_some(), "--authfile", "give --pull-secret"),
        (settings.push_authfile.is_some(), "--push-authfile", login),
        (settings.cert_dir.is_some(), "--cert-dir", authority),
        (!settings.tls_verify, "--tls-verify=false", authority),
        (settings.registries_conf.is_some(), "--registries-conf", mirrors),
        (
            settings.signature_policy.is_some(),
            "--signature-policy",
            "put it into signaturePolicy of ConfigMap mosb-config",
        ),
    ] {
        if is_given {
            return usage(format!(
                "{flag}: an installation is checked with what its machines will have; {instead}"
            ));
        }
    }
    Ok(())
}
