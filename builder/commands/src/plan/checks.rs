//! `mosb plan --checks`: what the checks of a cluster find in the image, as far as that is known before it
//! is built.

use std::path::Path;

use tokio::task::spawn_blocking;

use crate::error::Error;
use crate::{Result, settings_file};
use mosb_api::image_checks::CheckResult;
use mosb_build::direct::assemble;
use mosb_image::Platform;
use mosb_image::tree::BaseTree;
use mosb_plan::image_checks::{Cluster, Contents, Facts, Verdict, by_hand};
use mosb_plan::plan::{self, Base, BaseName, BuildPlan, Method};

/// Why the release is not known.
const NO_OS_IMAGE: &str =
    "what the cluster's own OS image is, is not known: the settings have no baseOSContainerImage";
const STOCK_UNREAD: &str =
    "the cluster's OS image is not read here; mosb preflight --base reads it";
/// Why nothing is known of an image.
const RUNS_PROGRAMS: &str = "programs are run to make the image, so it is known once it is built; check it with mosb preflight then";

/// Makes the checks with the settings in a file: ConfigMap `mosb-config`, or its `config.yaml`. `tree` is
/// that of the base, or of the prepared base that the layer is put on.
///
/// # Errors
/// The settings can't be read.
pub async fn checks(
    plan: &BuildPlan,
    tree: Option<&BaseTree>,
    platform: Option<&Platform>,
    file: &Path,
) -> Result<Vec<CheckResult>> {
    let settings = settings_file::read(file).await?;
    let image = match plan.method {
        Method::Direct | Method::Prepared(_) => Ok(planned_image(plan).await?),
        Method::LastPart(_) | Method::Containerfile(_) => Err(RUNS_PROGRAMS),
    };
    let contents = match tree.cloned() {
        Some(tree) => {
            // It may have 100,000 paths.
            let read = spawn_blocking(move || Contents::of(&tree)).await;
            Ok(read.map_err(Error::stopped("reading packages"))?)
        }
        None => Err("the tree of its base is not read"),
    };
    let base = settings.base_os_container_image.as_ref();
    let cluster = Cluster { base: base.and_then(|base| base.parse().ok()), release: None };
    let signature = "the image is signed once it is pushed; check it with mosb preflight then";
    let signature = Verdict::Unknown(signature.to_owned());
    let facts = image.as_ref().map_err(|why| *why).map(|image| Facts {
        image,
        base: Ok(&plan.request.base),
        contents: contents.as_ref().map_err(|why| *why),
        platform: platform.map(|platform| (platform, "--platform says")).ok_or("give --platform"),
        cluster: &cluster,
        stock: Err(if cluster.base.is_some() { STOCK_UNREAD } else { NO_OS_IMAGE }),
        kubernetes: Err("no cluster is asked"),
        held_packages: &settings.checks.held_packages,
        max_size_mib: settings.checks.max_size_mib,
        signature: &signature,
    });
    let made = by_hand(facts, &settings.checks).into_iter();
    Ok(made.map(|made| made.verdict.result(&made.name, made.mode)).collect())
}

/// The image of a plan whose one layer is written without running anything.
async fn planned_image(plan: &BuildPlan) -> Result<Base> {
    let name = plan.build_name.to_string();
    let plan = plan.clone();
    let made = spawn_blocking(move || assemble(&plan)).await;
    let edited = made.map_err(Error::stopped("writing the layer"))??.edited;
    let base = BaseName::from_layout(edited.digest());
    let image = Base::new(base, name, None, &edited.manifest, &edited.config);
    Ok(image.map_err(plan::Error::from)?)
}
