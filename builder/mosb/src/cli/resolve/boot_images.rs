//! The validated arguments of `boot-images`.

use crate::cli::Result;
use crate::cli::args::{BootImagesInCluster, Cluster};
use crate::cli::error::Error;
use mosb_boot_image::Release;
use mosb_controller::boot_images::BootImageRequest;

/// A command about boot images in a cluster.
#[derive(Debug)]
pub enum BootImagesJob {
    Status,
    Plan,
    History(String),
    Change { set: String, request: BootImageRequest, yes: bool },
    Rbac,
}

pub fn boot_images(typed: BootImagesInCluster) -> Result<(BootImagesJob, Cluster)> {
    let change = |set, request, yes| BootImagesJob::Change { set, request, yes };
    Ok(match typed {
        BootImagesInCluster::Status(typed) => (BootImagesJob::Status, typed.cluster),
        BootImagesInCluster::Plan(typed) => (BootImagesJob::Plan, typed.cluster),
        BootImagesInCluster::History(typed) => (BootImagesJob::History(typed.set), typed.cluster),
        BootImagesInCluster::Restore(typed) => {
            let request = BootImageRequest::Restore { to: typed.to, until: until(typed.until)? };
            (change(typed.set, request, typed.yes), typed.cluster)
        }
        BootImagesInCluster::Pin(typed) => {
            let request = BootImageRequest::Pin { until: until(typed.until)? };
            (change(typed.set, request, true), typed.cluster)
        }
        BootImagesInCluster::Unpin(typed) => {
            (change(typed.set, BootImageRequest::Unpin, true), typed.cluster)
        }
        BootImagesInCluster::Rbac(typed) => (BootImagesJob::Rbac, typed.cluster),
    })
}

fn until(text: Option<String>) -> Result<Option<Release>, Error> {
    let parse =
        |text: String| text.parse().map_err(|cause| Error::Usage(format!("--until: {cause}")));
    text.map(parse).transpose()
}
