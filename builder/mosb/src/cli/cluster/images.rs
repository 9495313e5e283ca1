//! `mosb images`: the images that a pool's builds pushed, and the deletion of those that nothing needs.

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Subcommand};
use jiff::Timestamp;

use super::Cluster;
use super::rollout::{age, short};
use mosb_api::cluster_settings::Retention;
use mosb_commands::context::Session;
use mosb_commands::error::Error;
use mosb_commands::output::{Object, print_text};
use mosb_commands::page::{Page, or_none};
use mosb_commands::{ExitCode, Result};
use mosb_controller::retention::{
    self, ImageState, PolicyFormat, PoolImages, PruneMode, PruneRequest,
};

/// The exit code if the registry refuses to delete.
const REFUSED: ExitCode = 1;

#[derive(Debug, Subcommand)]
pub enum Images {
    /// Lists the images that builds of a pool pushed, and why each is kept
    ///
    /// The registry is asked with the push Secret of the pool, and only read.
    ///
    /// Example:
    ///
    ///   mosb images list worker
    #[command(verbatim_doc_comment)]
    List(List),
    /// Deletes the images of a pool that nothing needs from their registry
    ///
    /// Kept are the images that a machine booted, staged or can go back to, that are in service, in the history, pinned or new, and all
    /// that are not known to be made by this pool's own builds. At most ten are deleted at once.
    ///
    /// Examples:
    ///
    ///   mosb images prune worker --dry-run
    ///   mosb images prune worker --keep 10 --days 90
    ///   mosb images prune worker --print-policy quay
    #[command(verbatim_doc_comment)]
    Prune(Prune),
}

#[derive(Debug, Args)]
pub struct List {
    /// The pool
    pub pool: String,
    #[command(flatten)]
    pub limits: Limits,
    #[command(flatten)]
    pub cluster: Cluster,
}

#[derive(Debug, Args)]
pub struct Prune {
    /// The pool
    pub pool: String,
    /// Show what would be deleted, and delete nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print a policy with which the registry deletes the same images, and delete nothing: quay, harbor, zot
    #[arg(long, value_name = "REGISTRY", value_parser = format_parser(), hide_possible_values = true)]
    pub print_policy: Option<PolicyFormat>,
    #[command(flatten)]
    pub limits: Limits,
    #[command(flatten)]
    pub cluster: Cluster,
}

/// Which images are kept although nothing needs them.
#[derive(Debug, Args)]
pub struct Limits {
    /// Keep so many of the newest images [default: retention.keep of ConfigMap mosb-config, else 5]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=i64::from(Retention::MAX_KEEP)))]
    pub keep: Option<u16>,
    /// Keep images that were built in the last so many days [default: retention.days, else 30]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(0..=i64::from(Retention::MAX_DAYS)))]
    pub days: Option<u16>,
}

fn format_parser() -> impl clap::builder::TypedValueParser<Value = PolicyFormat> {
    let known = |word: String| {
        let format = PolicyFormat::ALL.into_iter().find(|(name, _)| *name == word);
        format.expect("a possible value").1
    };
    PossibleValuesParser::new(PolicyFormat::ALL.map(|(name, _)| name)).map(known)
}

impl Images {
    pub async fn run(self, session: &Session) -> Result<ExitCode> {
        let (pool, limits, cluster, dry_run, policy) = match self {
            Self::List(List { pool, limits, cluster }) => (pool, limits, cluster, true, None),
            Self::Prune(Prune { pool, dry_run, print_policy, limits, cluster }) => {
                (pool, limits, cluster, dry_run || print_policy.is_some(), print_policy)
            }
        };
        let (client, namespaces) = cluster.connect().await?;
        let request = PruneRequest {
            client: &client,
            namespaces: &namespaces,
            pool: &pool,
            keep: limits.keep,
            days: limits.days,
            mode: if dry_run { PruneMode::List } else { PruneMode::Delete },
            may_write: &|| true,
        };
        session.progress.step("reading the cluster and the registry");
        let images = Box::pin(retention::prune(&request)).await?;
        session.progress.end();
        if let Some(format) = policy {
            return print_policy(format, &images);
        }
        let refused = images.refused.is_some();
        session.print(&ImageList { images, now: Timestamp::now() })?;
        Ok(if refused { REFUSED } else { 0 })
    }
}

fn print_policy(format: PolicyFormat, images: &PoolImages) -> Result<ExitCode> {
    if let Some(held) = &images.held {
        return Err(Error::ImagesHeld { pool: images.pool.clone(), why: held.clone() }.into());
    }
    match retention::policy(format, images) {
        Some(policy) => {
            tracing::info!("{}", format.usage());
            let text = serde_json::to_string_pretty(&policy).expect("objects have text keys only");
            print_text(&(text + "\n"))?;
        }
        None => {
            tracing::info!("{}: a policy is not printed, because all tags are kept", images.pool)
        }
    }
    Ok(0)
}

/// The images of a pool.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct ImageList {
    #[serde(flatten)]
    pub images: PoolImages,
    /// What ages are counted from.
    #[serde(skip)]
    pub now: Timestamp,
}

impl Object for ImageList {
    const KIND: &'static str = "ImageList";

    fn text(&self) -> String {
        let mut page = Page::default();
        let list = &self.images;
        let head = ["IMAGE", "KIND", "AGE", "STATE", "BUILD", "WHY"];
        let rows = list.images.iter().map(|image| {
            vec![
                short(Some(&image.image)),
                image.kind.clone(),
                age(Some(image.time), self.now),
                image.state.as_str().to_owned(),
                some(&image.builds),
                some(&image.reasons),
            ]
        });
        if list.images.is_empty() {
            page.line(&format!("{}: no image of its builds is in {}", list.pool, list.repository));
        } else {
            page.headed_table(&head, rows);
        }
        let (pool, repository) = (&list.pool, &list.repository);
        if let Some(held) = &list.held {
            page.line(&format!("{pool}: nothing is deleted: {held}"));
        }
        if let Some(refused) = &list.refused {
            page.line(&format!(
                "{pool}: {repository} refuses deletion ({refused}); allow it there, or let the registry delete them: --print-policy"
            ));
        }
        let deleted = list.count(ImageState::Deleted);
        if list.prune {
            page.line(&format!("{pool}: {deleted} images were deleted from {repository}"));
        }
        page.into_text()
    }
}

/// The first of several, and how many there are beside it.
fn some(texts: &[String]) -> String {
    match texts {
        [] => or_none(None),
        [one] => one.clone(),
        [first, others @ ..] => format!("{first}, +{}", others.len()),
    }
}
