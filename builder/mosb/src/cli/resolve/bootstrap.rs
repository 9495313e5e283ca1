//! The validated arguments of `mosb bootstrap`, and those that it shares with `mosb preflight`.

use std::path::PathBuf;

use crate::bootstrap::Cluster;
use crate::cli::Result;
use crate::cli::args::{self, ClusterKind, Common};
use crate::cli::input::Input;

/// The manifests of an installation, and the output folder.
#[derive(Debug)]
pub struct Bootstrap {
    /// Files, directories, stdin.
    pub manifests: Vec<Input>,
    pub output: PathBuf,
    pub cluster: Option<Cluster>,
    pub pull_secret: Option<PathBuf>,
    pub check_registry: bool,
}

pub(super) fn manifests(typed: &[PathBuf]) -> Result<Vec<Input>> {
    let manifests: Vec<Input> = typed.iter().map(|path| Input::new(path)).collect();
    let stdin = manifests.iter().filter(|input| **input == Input::Stdin);
    match stdin.count() {
        0 | 1 => Ok(manifests),
        _ => super::usage("--manifests: stdin can be read once; give - once"),
    }
}

/// `--for`.
pub(super) fn cluster(typed: ClusterKind) -> Cluster {
    match typed {
        ClusterKind::Openshift => Cluster::Openshift,
        ClusterKind::Kubernetes => Cluster::Kubernetes,
    }
}

/// Rejects options that machines of an installation will not have, because the checks would then be
/// meaningless.
pub(super) fn machines_own(common: &Common, with_logins: bool) -> Result<()> {
    let mirrors =
        "put mirrors into ConfigMap mosb-config, or an ImageDigestMirrorSet among the manifests";
    let authority = "put the CA into imageRegistryBundles of ConfigMap mosb-config, or into the ControllerConfig";
    let login = "put the login into the Secret that spec.renderedImagePushSecret names";
    for (is_given, flag, instead) in [
        (with_logins && common.authfile.is_some(), "--authfile", "give --pull-secret"),
        (common.push_authfile.is_some(), "--push-authfile", login),
        (common.cert_dir.is_some(), "--cert-dir", authority),
        (!common.tls_verify, "--tls-verify=false", authority),
        (common.registries_conf.is_some(), "--registries-conf", mirrors),
        (
            common.signature_policy.is_some(),
            "--signature-policy",
            "put it into signaturePolicy of ConfigMap mosb-config",
        ),
    ] {
        if is_given {
            return super::usage(format!(
                "{flag}: an installation is checked with what its machines will have; {instead}"
            ));
        }
    }
    Ok(())
}

pub(super) fn bootstrap(typed: args::Bootstrap) -> Result<Bootstrap> {
    let manifests = manifests(&typed.manifests)?;
    if typed.output.file_name().is_none() {
        let output = typed.output.display();
        return super::usage(format!(
            "--output {output}: a directory with a name is replaced as a whole; write it without . or .. at its end"
        ));
    }
    Ok(Bootstrap {
        manifests,
        output: typed.output,
        cluster: typed.cluster.map(cluster),
        pull_secret: typed.pull_secret,
        check_registry: typed.check_registry,
    })
}
