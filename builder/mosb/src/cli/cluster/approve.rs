//! `mosb approve` and `mosb reject`: what a person decides about an image.

use clap::Args;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::{CONFLICT_TRIES, Cluster, no_pool};
use mosb_api::promotion::MAX_REASON;
use mosb_commands::arguments::usage;
use mosb_commands::context::Session;
use mosb_commands::output::Object;
use mosb_commands::page::Page;
use mosb_commands::{ExitCode, Result};
use mosb_controller::ClusterCache;
use mosb_controller::builds::{self, ApprovalRequest};

/// Approves the image of a build, so that it may come into service
///
/// Where annotation mosb.dev/promote of the MachineOSConfig is manual, an image comes into service only then. The digest
/// is approved: another image of the same build is not. Who decided, when and why is recorded in annotation
/// mosb.dev/approvals.
///
/// Examples:
///
///   mosb approve worker
///   mosb approve worker worker-0123456789abcdef0123456789abcdef --reason CHG-1234
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Approve {
    #[command(flatten)]
    pub decision: Decision,
}

/// Rejects the image of a build, so that it does not come into service
///
/// This holds for the digest, whatever annotation mosb.dev/promote is, until mosb approve. An image in service can't be
/// rejected: bring machines back with mosb rollout undo.
///
/// Example:
///
///   mosb reject worker --reason "kubelet crashes on arm64"
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Reject {
    #[command(flatten)]
    pub decision: Decision,
}

#[derive(Debug, Args)]
pub struct Decision {
    /// The pool
    pub pool: String,
    /// The build, as mosb builds lists it [default: the pool's newest image]
    #[arg(value_name = "BUILD[@DIGEST]")]
    pub build: Option<String>,
    /// Why; at most 500 characters
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Option<String>,
    #[command(flatten)]
    pub cluster: Cluster,
}

fn reason(text: &str) -> Result<String> {
    if text.chars().count() > MAX_REASON {
        return usage(format!("--reason has more than {MAX_REASON} characters; shorten it"));
    }
    Ok(text.to_owned())
}

impl Approve {
    pub async fn run(self, session: &Session) -> Result<ExitCode> {
        self.decision.run(session, true).await
    }
}

impl Reject {
    pub async fn run(self, session: &Session) -> Result<ExitCode> {
        self.decision.run(session, false).await
    }
}

impl Decision {
    /// Reads, decides and writes, again if the object was changed meanwhile.
    async fn run(self, session: &Session, approved: bool) -> Result<ExitCode> {
        let (client, namespaces) = self.cluster.connect().await?;
        let by = builds::own_user(&client).await?;
        let request = ApprovalRequest { approved, build: self.build, reason: self.reason };
        let pool = self.pool;
        for left in (0..CONFLICT_TRIES).rev() {
            let cache = ClusterCache::read(&client, &namespaces).await?;
            if cache.pools.get(&pool).is_none() {
                return Err(no_pool(&pool).into());
            }
            let now = Timestamp::now();
            let change = builds::decide_approval(&cache, &pool, &request, &by, now)?;
            match builds::write_approval(&client, &change).await {
                Err(error) if error.status_code() == Some(409) && left > 0 => {
                    tracing::debug!("{error}; deciding again");
                }
                Err(error) => return Err(error.into()),
                Ok(()) => {
                    return session.print(&ApprovalResult {
                        pool,
                        build: change.build.to_string(),
                        approved,
                        by,
                        changed: !change.is_empty(),
                        notes: change.note.into_iter().collect(),
                    });
                }
            }
        }
        unreachable!("the last try returns")
    }
}

/// A decision about an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalResult {
    /// The pool.
    pub pool: String,
    /// The build by name and digest, `NAME@sha256:…`.
    pub build: String,
    /// Whether it was approved, or rejected.
    pub approved: bool,
    /// The user, as the API server names it.
    pub by: String,
    /// Whether something was written; `false` if that was decided already.
    pub changed: bool,
    /// Further sentences for the person.
    pub notes: Vec<String>,
}

impl Object for ApprovalResult {
    const KIND: &'static str = "Approval";

    fn text(&self) -> String {
        let Self { pool, build, by, .. } = self;
        let mut page = Page::default();
        page.line(&match (self.approved, self.changed) {
            (true, true) => {
                format!("{pool}: {build} is approved by {by}; follow it with mosb wait {pool}")
            }
            (true, false) => format!("{pool}: {build} is approved already"),
            (false, true) => format!("{pool}: {build} is rejected by {by}"),
            (false, false) => format!("{pool}: {build} is rejected already"),
        });
        for note in &self.notes {
            page.line(&format!("  {note}"));
        }
        page.into_text()
    }
}
