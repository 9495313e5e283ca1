//! `mosb preflight`.

use anyhow::Result;

use crate::bootstrap::preflight::{self, Cluster, Push, Remedies, Report, Wanted};
use crate::cli::resolve::{Preflight, Settings};
use crate::cli::world::options;
use crate::registry::{Client, Options};

/// Checks images that were named by hand.
///
/// # Errors
/// Logins, certificates or a registries.conf that can't be used. What a check finds is none.
pub async fn preflight(job: &Preflight, settings: &Settings) -> Result<Report> {
    let client = |authfile| {
        let hasty = preflight::options();
        Client::new(&Options {
            timeouts: hasty.timeouts,
            retry: hasty.retry,
            ..options(settings, authfile)
        })
    };
    let pull = client(settings.authfile.clone())?;
    let push = job.push.as_ref().map(|repo| {
        let client = client(settings.push_authfile.clone())?;
        let repo = repo.clone();
        Ok::<_, anyhow::Error>(Push { repo, client })
    });
    let push = push.transpose()?;
    let wanted = job.images.iter().map(|image| Wanted {
        what: String::new(),
        image: image.clone(),
        pull: pull.clone(),
        push: push.clone(),
        platform: job.platform.clone(),
        cluster: Cluster {
            base: job.base.clone(),
            release: None,
        },
    });
    Ok(preflight::check(wanted.collect(), Remedies::ByHand).await)
}
