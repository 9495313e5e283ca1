//! `mosb boot-images`, but for the command that needs no cluster: the boot images of machine sets.

use clap::{Args, Subcommand};
use kube::Client;
use schemars::JsonSchema;
use serde::Serialize;

use super::confirm::Consent;
use super::{CONFLICT_TRIES, Cluster};
use mosb_boot_image::Release;
use mosb_commands::context::Session;
use mosb_commands::output::{self, Object};
use mosb_commands::page::{Page, or_none};
use mosb_commands::{ExitCode, Result, arguments};
use mosb_controller::Namespaces;
use mosb_controller::machine_sets::{
    self, BootImageRequest as Request, BootImageRequestError, BootImagesView, HistoryView, SetView,
};

/// The ServiceAccount of the controller, as `deploy/` names it.
const ACCOUNT: &str = "mosb-controller";

/// The commands of `mosb boot-images` that use a cluster.
#[derive(Debug, Subcommand)]
pub enum BootImagesInCluster {
    /// Lists the selected machine sets, the boot image of each, and why it isn't the newest
    ///
    /// Example:
    ///
    ///   mosb boot-images status -o json
    #[command(verbatim_doc_comment)]
    Status(Sets),
    /// Shows what the controller would change, and why it leaves the other sets alone
    ///
    /// It needs no controller: try settings with it before deploy/boot-images is installed. Stubs are not read.
    ///
    /// Example:
    ///
    ///   mosb boot-images plan
    #[command(verbatim_doc_comment)]
    Plan(Sets),
    /// Lists the boot images that a machine set had, oldest first
    ///
    /// Example:
    ///
    ///   mosb boot-images history machineset.machine.openshift.io/worker-a
    #[command(verbatim_doc_comment)]
    History(OneSet),
    /// Puts an earlier boot image back, and pins the set to it
    ///
    /// A set of Cluster API gets its earlier template back. The machines of a MachineDeployment are then replaced, unless its
    /// strategy is OnDelete: on a terminal, it asks before that.
    ///
    /// Examples:
    ///
    ///   mosb boot-images restore machineset.machine.openshift.io/worker-a
    ///   mosb boot-images restore tenant/machinedeployment.cluster.x-k8s.io/workers --to 1 --until 9.6.20260210-0
    #[command(verbatim_doc_comment)]
    Restore(RestoreSet),
    /// Keeps the boot image that a machine set has
    ///
    /// Sets the annotation mosb.dev/boot-image-pin.
    ///
    /// Example:
    ///
    ///   mosb boot-images pin machineset.machine.openshift.io/worker-a
    #[command(verbatim_doc_comment)]
    Pin(PinSet),
    /// Lets the boot image of a machine set follow the release again
    ///
    /// A set that mosb gave up because another writer kept replacing its image is tried again, too.
    ///
    /// Example:
    ///
    ///   mosb boot-images unpin machineset.machine.openshift.io/worker-a
    #[command(verbatim_doc_comment)]
    Unpin(OneSet),
    /// Prints the Roles for the user-data Secrets of the selected sets, as a List for kubectl apply
    ///
    /// Each Role names its Secrets. Without it, a set whose stub must be converted is left alone.
    ///
    /// Example:
    ///
    ///   mosb boot-images rbac | kubectl apply -f -
    #[command(verbatim_doc_comment)]
    Rbac(Sets),
}

/// A command about all selected sets.
#[derive(Debug, Args)]
pub struct Sets {
    #[command(flatten)]
    pub cluster: Cluster,
}

/// A command about one set.
#[derive(Debug, Args)]
pub struct OneSet {
    /// The machine set
    #[arg(value_name = "[NAMESPACE/]KIND.GROUP/NAME")]
    pub set: String,
    #[command(flatten)]
    pub cluster: Cluster,
}

#[derive(Debug, Args)]
pub struct PinSet {
    /// The machine set
    #[arg(value_name = "[NAMESPACE/]KIND.GROUP/NAME")]
    pub set: String,
    /// The pin ends when the release has images newer than this one [default: it stays until `unpin`]
    #[arg(long, value_name = "RELEASE", value_parser = arguments::value::<Release>("--until"))]
    pub until: Option<Release>,
    #[command(flatten)]
    pub cluster: Cluster,
}

#[derive(Debug, Args)]
pub struct RestoreSet {
    /// The machine set
    #[arg(value_name = "[NAMESPACE/]KIND.GROUP/NAME")]
    pub set: String,
    /// The number in `mosb boot-images history` [default: the last other image]
    #[arg(long, value_name = "N")]
    pub to: Option<usize>,
    /// The pin ends when the release has images newer than this one [default: it stays until `unpin`]
    #[arg(long, value_name = "RELEASE", value_parser = arguments::value::<Release>("--until"))]
    pub until: Option<Release>,
    /// Don't ask
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub cluster: Cluster,
}

impl BootImagesInCluster {
    pub async fn run(self, session: &Session) -> Result<ExitCode> {
        let (set, request, yes, cluster) = match self {
            Self::Status(Sets { cluster }) => {
                let (client, namespaces) = cluster.connect().await?;
                let found = machine_sets::boot_images(&client, &namespaces).await?;
                return session.print(&BootImageList(found));
            }
            Self::Plan(Sets { cluster }) => {
                let (client, namespaces) = cluster.connect().await?;
                return session.print(&plan(&client, &namespaces).await?);
            }
            Self::History(OneSet { set, cluster }) => {
                let (client, namespaces) = cluster.connect().await?;
                return session.print(&history(&client, &namespaces, &set).await?);
            }
            Self::Rbac(Sets { cluster }) => {
                let (client, namespaces) = cluster.connect().await?;
                let list = machine_sets::boot_image_rbac(&client, &namespaces, ACCOUNT).await?;
                output::print_cluster_object(session.settings.format, &list)?;
                return Ok(0);
            }
            Self::Restore(RestoreSet { set, to, until, yes, cluster }) => {
                (set, Request::Restore { to, until }, yes, cluster)
            }
            Self::Pin(PinSet { set, until, cluster }) => {
                (set, Request::Pin { until }, true, cluster)
            }
            Self::Unpin(OneSet { set, cluster }) => (set, Request::Unpin, true, cluster),
        };
        let (client, namespaces) = cluster.connect().await?;
        session.print(&change(&client, &namespaces, (&set, &request), yes).await?)
    }
}

async fn plan(client: &Client, namespaces: &Namespaces) -> Result<BootImagePlan> {
    let BootImagesView { golden, errors, sets, .. } =
        machine_sets::boot_images(client, namespaces).await?;
    let (changes, unchanged) = sets.into_iter().partition(|set| set.state == "updating");
    Ok(BootImagePlan { golden, errors, changes, unchanged })
}

async fn history(client: &Client, namespaces: &Namespaces, set: &str) -> Result<BootImageHistory> {
    let images = machine_sets::boot_image_history(client, namespaces, set).await?;
    Ok(BootImageHistory { set: set.to_owned(), images })
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
        let change = machine_sets::boot_image_change(client, namespaces, set, request).await?;
        if let Some((_, error)) = conflict.take_if(|(image, _)| *image != change.image) {
            return Err(error.into());
        }
        if let Some(question) = &change.question {
            consent.obtain(question).await?;
        }
        match machine_sets::change_boot_image(client, &change).await {
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

/// What the controller would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootImagePlan {
    /// The ConfigMap with the images to follow, as `namespace/name`.
    pub golden: String,
    /// Problems that are not of one set.
    pub errors: Vec<String>,
    /// The sets that would get another image.
    pub changes: Vec<SetView>,
    /// The other selected sets.
    pub unchanged: Vec<SetView>,
}

/// The boot images that a machine set had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootImageHistory {
    /// The set, as it was named.
    pub set: String,
    /// Oldest first. The first is the image that mosb found.
    pub images: Vec<HistoryView>,
}

/// A change of one set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootImageRequest {
    /// The set, as it was named.
    pub set: String,
    /// `restore`, `pin` or `unpin`.
    pub action: String,
    /// The image that was put back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

fn problems(page: &mut Page, errors: &[String]) {
    for error in errors {
        page.line(&format!("error: {error}"));
    }
}

fn warnings(page: &mut Page, warnings: &[String]) {
    for warning in warnings {
        page.line(&format!("warning: {warning}"));
    }
}

fn reasons(page: &mut Page, sets: &[SetView]) {
    let rows = sets.iter().map(|set| {
        vec![
            set.set.clone(),
            or_none(set.image.as_deref()),
            set.state.to_owned(),
            or_none(set.pin.as_deref()),
            or_none(Some(&set.reason)),
        ]
    });
    page.headed_table(&["SET", "IMAGE", "STATE", "PIN", "REASON"], rows);
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct BootImageList(pub BootImagesView);

impl Object for BootImageList {
    const KIND: &'static str = "BootImageList";

    fn text(&self) -> String {
        let Self(shown) = self;
        let mut page = Page::default();
        problems(&mut page, &shown.errors);
        warnings(&mut page, &shown.warnings);
        for note in &shown.notes {
            page.line(&format!("note: {note}"));
        }
        if let Some(days @ 1..) = shown.days_behind {
            page.line(&format!(
                "the oldest image in use is {days} days older than the OS that it should have"
            ));
        }
        if shown.sets.is_empty() {
            page.line("no machine set is selected; bootImages.machineManagers of ConfigMap mosb-config selects them");
        } else {
            reasons(&mut page, &shown.sets);
        }
        page.into_text()
    }
}

impl Object for BootImagePlan {
    const KIND: &'static str = "BootImagePlan";

    fn text(&self) -> String {
        let mut page = Page::default();
        problems(&mut page, &self.errors);
        if self.changes.is_empty() {
            page.line("nothing would be changed");
        } else {
            let rows = self.changes.iter().map(|set| {
                vec![set.set.clone(), or_none(set.image.as_deref()), or_none(set.wanted.as_deref())]
            });
            page.headed_table(&["SET", "FROM", "TO"], rows);
        }
        if !self.unchanged.is_empty() {
            page.section("Left as they are");
            reasons(&mut page, &self.unchanged);
        }
        page.into_text()
    }
}

impl Object for BootImageHistory {
    const KIND: &'static str = "BootImageHistory";

    fn text(&self) -> String {
        let mut page = Page::default();
        if self.images.is_empty() {
            page.line(&format!("{}: no image was recorded yet", self.set));
            return page.into_text();
        }
        let rows = self.images.iter().map(|one| {
            let (number, count) = (one.number.to_string(), one.count.to_string());
            vec![
                number,
                one.image.clone(),
                or_none(one.template.as_deref()),
                one.since.clone(),
                count,
            ]
        });
        page.headed_table(&["NUMBER", "IMAGE", "TEMPLATE", "SINCE", "COUNT"], rows);
        page.into_text()
    }
}

impl Object for BootImageRequest {
    const KIND: &'static str = "BootImageRequest";

    fn text(&self) -> String {
        let mut page = Page::default();
        let set = &self.set;
        page.line(&match (&*self.action, &self.image) {
            ("restore", Some(image)) => format!("{set}: {image} is back, and pinned"),
            ("pin", _) => format!("{set}: pinned to its image"),
            _ => format!("{set}: follows the release"),
        });
        page.into_text()
    }
}
