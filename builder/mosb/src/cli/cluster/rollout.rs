//! `mosb rollout`: requests about the roll-out of a pool.

use clap::{Args, Subcommand};
use jiff::Timestamp;
use kube::Client;
use schemars::JsonSchema;
use serde::Serialize;

use super::confirm::Consent;
use super::rollout_status::RolloutWatch;
use super::{CONFLICT_TRIES, Cluster, OnePool, no_pool};
use mosb_commands::arguments::usage;
use mosb_commands::context::Session;
use mosb_commands::error::Error;
use mosb_commands::output::Object;
use mosb_commands::page::{Page, or_none};
use mosb_commands::{ExitCode, Result};
use mosb_controller::rollout::{
    self, DrainRecords, OwnPlace, RolloutRequest, RolloutSnapshot, UndoTo,
};
use mosb_controller::{ClusterCache, Namespaces};

/// Hex digits of a digest: enough to tell the images of a pool apart.
const DIGITS: usize = 12;

#[derive(Debug, Subcommand)]
pub enum Rollout {
    /// What it requests.
    #[command(flatten)]
    Request(RolloutCommand),
    /// Shows how far a pool's machines are
    ///
    /// Exit codes with --watch: 0 all machines run the image, or have staged it where nothing reboots; 1 machines failed;
    /// 2 somebody must change something first; 3 timed out. Without --watch: 0.
    ///
    /// Example:
    ///
    ///   mosb rollout status worker --watch --timeout 2h
    #[command(verbatim_doc_comment)]
    Status(RolloutWatch),
}

/// The commands of `mosb rollout` that change something.
#[derive(Debug, Subcommand)]
pub enum RolloutCommand {
    /// Rolls out the image in service once, and takes a pin away
    ///
    /// Machines that failed to boot it try again, each with one reboot: correct the cause first. That writes to their Nodes.
    ///
    /// With mosb.dev/rollout: automatic on the MachineOSConfig, the roll-out happens by itself. The annotation mosb.dev/rollout-once
    /// is set until all machines run the image. On a terminal, it asks before machines reboot.
    ///
    /// Example:
    ///
    ///   mosb rollout start worker && mosb rollout status worker --watch
    #[command(verbatim_doc_comment)]
    Start(RolloutStart),
    /// Lets no other machine begin, and cancels drains
    ///
    /// Sets spec.paused of the MachineConfigPool. A machine whose reboot has begun is finished. Images are not staged either.
    ///
    /// Example:
    ///
    ///   mosb rollout pause worker
    #[command(verbatim_doc_comment)]
    Pause(OnePool),
    /// Goes on after a pause
    ///
    /// On a terminal, it asks before machines reboot.
    ///
    /// Example:
    ///
    ///   mosb rollout resume worker --yes
    #[command(verbatim_doc_comment)]
    Resume(RolloutStart),
    /// Goes back to an earlier image, and pins the pool to it
    ///
    /// The pool stays pinned until `mosb rollout start`, whatever is built meanwhile. On a terminal, it asks before machines
    /// reboot.
    ///
    /// Examples:
    ///
    ///   mosb rollout undo worker
    ///   mosb rollout undo worker --to stock
    #[command(verbatim_doc_comment)]
    Undo(RolloutUndo),
}

#[derive(Debug, Args)]
pub struct RolloutStart {
    /// The pool
    pub pool: String,
    /// Don't ask
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub cluster: Cluster,
}

#[derive(Debug, Args)]
pub struct RolloutUndo {
    /// The pool
    pub pool: String,
    /// The image to go back to: a build of `mosb builds`, or the stock image [default: the last other one that machines ran]
    #[arg(long, value_name = "BUILD[@DIGEST]|stock[@DIGEST]", value_parser = undo_to)]
    pub to: Option<UndoTo>,
    /// Don't ask
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub cluster: Cluster,
}

fn undo_to(text: &str) -> Result<UndoTo> {
    text.parse().or_else(|cause: &str| {
        usage(format!(
            "--to {text:?}: {cause}; want a build as `mosb builds` lists it, BUILD@sha256:…, or stock"
        ))
    })
}

impl Rollout {
    pub async fn run(self, session: &Session) -> Result<ExitCode> {
        match self {
            Self::Request(command) => {
                let (client, namespaces) = command.cluster().connect().await?;
                session.print(&command.request().carry_out(&client, &namespaces).await?)
            }
            Self::Status(typed) => typed.run(session).await,
        }
    }
}

impl RolloutCommand {
    /// What is requested, and whether it asks before.
    pub fn request(&self) -> PoolRequest<'_> {
        let (pool, request, yes) = match self {
            Self::Start(typed) => (&typed.pool, RolloutRequest::Start, typed.yes),
            // A pause disturbs nothing.
            Self::Pause(typed) => (&typed.pool, RolloutRequest::Pause, true),
            Self::Resume(typed) => (&typed.pool, RolloutRequest::Resume, typed.yes),
            Self::Undo(typed) => (&typed.pool, RolloutRequest::Undo(typed.to.clone()), typed.yes),
        };
        PoolRequest { pool, request, yes }
    }

    fn cluster(&self) -> &Cluster {
        match self {
            Self::Start(typed) | Self::Resume(typed) => &typed.cluster,
            Self::Pause(typed) => &typed.cluster,
            Self::Undo(typed) => &typed.cluster,
        }
    }
}

/// The pool, its image and its machines.
pub fn snapshot(cache: &ClusterCache, pool: &str) -> Result<RolloutSnapshot, Error> {
    // Neither the place of the controller nor what it was refused is shown.
    let found = rollout::observe(cache, pool, &OwnPlace::default(), &DrainRecords::default());
    found.filter(|found| !found.is_pool_missing).ok_or_else(|| no_pool(pool))
}

/// A request about a pool's roll-out.
#[derive(Debug, PartialEq, Eq)]
pub struct PoolRequest<'p> {
    pub pool: &'p str,
    pub request: RolloutRequest,
    /// Nothing is asked.
    pub yes: bool,
}

impl PoolRequest<'_> {
    /// Reads, decides, asks and writes, again if the object was changed meanwhile.
    pub async fn carry_out(
        &self,
        client: &Client,
        namespaces: &Namespaces,
    ) -> Result<RolloutResult> {
        let mut consent = Consent::new(self.yes);
        for left in (0..CONFLICT_TRIES).rev() {
            let cache = ClusterCache::read_machines(client, namespaces).await?;
            let snapshot = snapshot(&cache, self.pool)?;
            let change = rollout::decide_request(client, &snapshot, &self.request).await??;
            if let Some(question) = &change.question {
                consent.obtain(question).await?;
            }
            match rollout::write_request(client, &snapshot, &change).await {
                Err(error) if error.status_code() == Some(409) && left > 0 => {
                    tracing::debug!("{error}; deciding again");
                }
                Err(error) => return Err(error.into()),
                Ok(()) => {
                    return Ok(RolloutResult {
                        pool: self.pool.to_owned(),
                        action: action(&self.request).to_owned(),
                        changed: !change.is_empty(),
                        build: change.build.map(|build| build.to_string()),
                        notes: change.notes,
                    });
                }
            }
        }
        unreachable!("the last try returns")
    }
}

fn action(request: &RolloutRequest) -> &'static str {
    match request {
        RolloutRequest::Start => "start",
        RolloutRequest::Pause => "pause",
        RolloutRequest::Resume => "resume",
        RolloutRequest::Undo(_) => "undo",
        RolloutRequest::Adopt => "adopt",
    }
}

/// What a request about a roll-out changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutResult {
    /// The pool.
    pub pool: String,
    /// `start`, `pause`, `resume`, `undo` or `adopt`.
    pub action: String,
    /// Whether something was written.
    pub changed: bool,
    /// What the machines get, `NAME@sha256:…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// Further sentences for the person.
    pub notes: Vec<String>,
}

impl Object for RolloutResult {
    const KIND: &'static str = "RolloutRequest";

    fn text(&self) -> String {
        let mut page = Page::default();
        let pool = &self.pool;
        let build = self.build.as_deref().unwrap_or("the image in service");
        let follow = format!("follow it with mosb rollout status {pool} --watch");
        page.line(&match &*self.action {
            _ if !self.changed => format!("{pool}: nothing was changed"),
            "start" => format!("{pool}: {build} is rolled out; {follow}"),
            "undo" => format!("{pool}: the machines go back to {build}; {follow}"),
            "pause" => format!("{pool}: paused"),
            _ => format!("{pool}: resumed; {follow}"),
        });
        for note in &self.notes {
            page.line(&format!("  {note}"));
        }
        page.into_text()
    }
}

/// `42s`, `7m`, `3h`, `5d`, as kubectl shows ages.
pub fn age(since: Option<Timestamp>, now: Timestamp) -> String {
    let Some(since) = since else {
        return or_none(None);
    };
    let seconds = now.duration_since(since).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// The digest of an image, shortened; the whole text if it has none.
pub fn short(image: Option<&str>) -> String {
    let Some(image) = image else {
        return or_none(None);
    };
    match image.rsplit_once("@sha256:") {
        Some((_, hex)) => hex.chars().take(DIGITS).collect(),
        None => image.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_one_unit() {
        let now = Timestamp::from_second(10_000_000).unwrap();
        for (seconds, want) in [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (7199, "119m"),
            (7200, "2h"),
            (172_799, "47h"),
            (172_800, "2d"),
        ] {
            let since = Timestamp::from_second(10_000_000 - seconds).unwrap();
            assert_eq!(age(Some(since), now), want, "{seconds}");
        }
    }
}
