//! `mosb boot-images`, but for the command that needs no cluster.

use kube::Client;

use super::confirm::Consent;
use super::{CONFLICT_TRIES, print};
use crate::cli::args::Format;
use crate::cli::objects::{
    BootImageHistory, BootImageList, BootImagePlan, BootImageRequest, BootImageSet,
    RecordedBootImage,
};
use crate::cli::resolve::{BootImagesJob, Settings};
use crate::cli::{ExitCode, Result, output};
use mosb_controller::Namespaces;
use mosb_controller::boot_images::{
    self, BootImageRequest as Request, BootImageRequestError, BootImagesView, HistoryView, SetView,
};

/// The ServiceAccount of the controller, as `deploy/` names it.
const ACCOUNT: &str = "mosb-controller";

async fn status(client: &Client, namespaces: &Namespaces) -> Result<BootImageList> {
    let BootImagesView { golden, errors, warnings, notes, days_behind, sets } =
        boot_images::boot_images(client, namespaces).await?;
    let sets = sets.into_iter().map(set).collect();
    Ok(BootImageList { golden, errors, warnings, notes, days_behind, sets })
}

async fn plan(client: &Client, namespaces: &Namespaces) -> Result<BootImagePlan> {
    let BootImageList { golden, errors, sets, .. } = status(client, namespaces).await?;
    let (changes, unchanged) = sets.into_iter().partition(|set| set.state == "updating");
    Ok(BootImagePlan { golden, errors, changes, unchanged })
}

fn set(view: SetView) -> BootImageSet {
    BootImageSet {
        set: view.set,
        image: view.image,
        wanted: view.wanted,
        state: view.result.to_owned(),
        code: view.code,
        reason: view.reason,
        pin: view.pin,
    }
}

async fn history(client: &Client, namespaces: &Namespaces, set: &str) -> Result<BootImageHistory> {
    let images = boot_images::boot_image_history(client, namespaces, set).await?;
    let image = |view: HistoryView| RecordedBootImage {
        number: view.number,
        image: view.image,
        template: view.template,
        since: view.since,
        count: view.count,
    };
    Ok(BootImageHistory { set: set.to_owned(), images: images.into_iter().map(image).collect() })
}

/// Carries out a request: reads, decides, asks and writes, again if the set was changed meanwhile
/// and the decision is still for the same image.
async fn change(
    client: &Client,
    namespaces: &Namespaces,
    (set, request): (&str, &Request),
    yes: bool,
) -> Result<BootImageRequest> {
    let mut consent = Consent::new(yes);
    let mut conflict: Option<(Option<String>, BootImageRequestError)> = None;
    for left in (0..CONFLICT_TRIES).rev() {
        let change = boot_images::boot_image_change(client, namespaces, set, request).await?;
        if let Some((_, error)) = conflict.take_if(|(image, _)| *image != change.image) {
            return Err(error.into());
        }
        if let Some(question) = &change.question {
            consent.obtain(question).await?;
        }
        match boot_images::change_boot_image(client, &change).await {
            Err(error @ BootImageRequestError::Changed { .. }) if left > 0 => {
                tracing::debug!("{error}; deciding again");
                conflict = Some((change.image, error));
            }
            Err(error) => return Err(error.into()),
            Ok(()) => {
                let action = match request {
                    Request::Restore { .. } => "restore",
                    Request::Pin { .. } => "pin",
                    Request::Unpin => "unpin",
                };
                let (set, action) = (set.to_owned(), action.to_owned());
                return Ok(BootImageRequest { set, action, image: change.image });
            }
        }
    }
    unreachable!("the last try returns")
}

/// Prints the Roles as `kubectl apply` takes them.
async fn rbac(client: &Client, namespaces: &Namespaces, format: Format) -> Result<ExitCode> {
    let list = boot_images::boot_image_rbac(client, namespaces, ACCOUNT).await?;
    output::print_cluster_object(format, &list)?;
    Ok(0)
}

/// Runs a command and prints its result.
pub async fn boot_images(
    client: &Client,
    namespaces: &Namespaces,
    job: &BootImagesJob,
    settings: &Settings,
) -> Result<ExitCode> {
    match job {
        BootImagesJob::Status => print(settings, &status(client, namespaces).await?),
        BootImagesJob::Plan => print(settings, &plan(client, namespaces).await?),
        BootImagesJob::History(set) => print(settings, &history(client, namespaces, set).await?),
        BootImagesJob::Change { set, request, yes } => {
            print(settings, &change(client, namespaces, (set, request), *yes).await?)
        }
        BootImagesJob::Rbac => rbac(client, namespaces, settings.format).await,
    }
}
