//! `mosb logs`.

use std::io::Write as _;

use clap::Args;
use kube::Client;

use super::Cluster;
use super::rebuild::opted_in;
use mosb_api::image_checks::CheckRecord;
use mosb_api::{BuildName, MachineOsBuild};
use mosb_commands::error::Error;
use mosb_commands::{ExitCode, Result};
use mosb_controller::ClusterCache;
use mosb_controller::builds::{self, LogLine};
use mosb_image::PinnedRef;

/// Shows the log of a build's pod, container by container
///
/// The logs of its own checks follow. The pod of a build that succeeded, and that of a check that ended, are deleted;
/// their archived logs are shown.
///
/// Examples:
///
///   mosb logs -f worker
///   mosb logs worker-0123456789abcdef0123456789abcdef
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Logs {
    /// A pool, or a build's name
    #[arg(value_name = "POOL|BUILD")]
    pub of: String,
    /// Follow the log
    #[arg(short, long)]
    pub follow: bool,
    #[command(flatten)]
    pub cluster: Cluster,
}

impl Logs {
    pub async fn run(&self) -> Result<ExitCode> {
        let (client, namespaces) = self.cluster.connect().await?;
        let namespace = &*namespaces.own;
        let cache = ClusterCache::read(&client, &namespaces).await?;
        let build = match cache.builds.get(&self.of) {
            Some(build) => (*build).clone(),
            None => {
                let (view, _) = opted_in(&cache, &self.of)?;
                view.build.ok_or_else(|| Error::NoBuild { of: self.of.clone() })?
            }
        };
        let name: BuildName =
            build.metadata.name.parse().map_err(|error| Error::Usage(format!("{error}")))?;
        let jobs = check_jobs(&build);
        match self.print_build_log(&client, namespace, &name, build.metadata.uid()).await {
            Ok(()) => {}
            Err(failure) if jobs.is_empty() => return Err(failure),
            Err(failure) => tracing::info!("{}", failure.message()),
        }
        for job in jobs {
            let uid = build.metadata.uid();
            builds::check_logs(&client, namespace, uid, &job, self.follow, print).await?;
        }
        Ok(0)
    }

    async fn print_build_log(
        &self,
        client: &Client,
        namespace: &str,
        name: &BuildName,
        uid: &str,
    ) -> Result<()> {
        let live = builds::logs(client, namespace, name, self.follow, print).await;
        if matches!(live, Ok(Some(lines)) if lines > 0) {
            return Ok(());
        }
        let archived =
            builds::archived_logs(client, namespace, &builds::log_secret_name(name), uid).await?;
        let (why, (attempt, lines)) = match (live, archived) {
            (Err(error), Some(archived)) => (error.to_string(), archived),
            (Ok(None), Some(archived)) => (format!("{name} has no pod any more"), archived),
            (Ok(Some(_)), Some(archived)) => {
                ("its pod has written no log yet".to_owned(), archived)
            }
            (Err(error), None) => return Err(error.into()),
            (Ok(Some(_)), None) => return Ok(()),
            (Ok(None), None) => {
                let build = name.to_string();
                return Err(Error::NoPod { build }.into());
            }
        };
        tracing::info!("{why}; the archived log of attempt {attempt} follows");
        lines.into_iter().for_each(print);
        Ok(())
    }
}

/// The Jobs of own checks of a build's image, whose results are recorded or outstanding.
fn check_jobs(build: &MachineOsBuild) -> Vec<String> {
    let image = build.status.image().and_then(|image| image.parse::<PinnedRef>().ok());
    let record = image.and_then(|image| CheckRecord::of(&build.metadata, image.digest()));
    let results = record.into_iter().flat_map(|record| record.results);
    results.filter_map(|result| result.job).collect()
}

fn print(line: LogLine) {
    match line {
        LogLine::Container(container) => tracing::info!("{container}:"),
        LogLine::Text(text) => {
            if !print_line(&text) {
                tracing::debug!("nobody reads");
            }
        }
    }
}

/// Prints a log line; returns whether stdout is still open.
fn print_line(line: &str) -> bool {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).is_ok()
}
