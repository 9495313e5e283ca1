//! What a decision must know and can't see: asked as a value, answered by the runtime, kept for one reconcile.

use std::collections::{BTreeMap, BTreeSet};

use mosb_build::JobMethod;
use mosb_build::JobResult;
use mosb_image::{PinnedRef, Platform, RepoRef};
use mosb_plan::api::{BuildName, ImageBuilderType, PoolName, RenderedName};
use mosb_registry::Confirmed;
use mosb_types::{ErrorClass, Finding};

/// Something to find out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// What would be built, and how. The answer goes to [`LookupResults::plan`].
    Plan(Box<PlanLookup>),
    /// Whether a registry still has an image. The answer goes to [`LookupResults::exists`].
    Exists {
        /// The image.
        image: PinnedRef,
        /// The secret in our namespace that it was pushed with.
        secret: String,
        /// For an image elsewhere than where we push: what is pulled with, where the other secret has no login.
        pull: Pull,
    },
    /// Which OS image a rendered config names. The answer goes to [`LookupResults::os_image`].
    OsImage {
        /// The rendered config.
        rendered: RenderedName,
    },
    /// What the pod of a build reported, whether or not a watch has shown it. The answer goes to [`LookupResults::results`].
    Result {
        /// The build.
        build: BuildName,
    },
}

/// With what is pulled beside the secret that pushes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pull {
    /// With nothing: the image is where we push.
    Not,
    /// With `global-pull-secret-copy`.
    Global,
    /// With this secret in our namespace, and `global-pull-secret-copy`.
    Own(String),
}

/// What is to be planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanLookup {
    /// The pool.
    pub pool: PoolName,
    /// The rendered config.
    pub rendered: RenderedName,
    /// The administrator's instructions in force.
    pub containerfile: Option<String>,
    /// Where the image goes.
    pub push: RepoRef,
    /// The secret that pushes.
    pub push_secret: String,
    /// The secret that pulls; none for `global-pull-secret-copy`.
    pub pull_secret: Option<String>,
    /// The platform of the pool's nodes; none without a node, and then the base's own.
    pub platform: Option<Platform>,
    /// The base that an earlier round pinned: exactly this one.
    pub base: Option<PinnedRef>,
    /// Not on a pre-built image.
    pub instead: Option<BaseInstead>,
    /// What builds it, which decides in what form that is given the rendered config.
    pub builder: ImageBuilderType,
    /// What a Job found out that the plan can't know: something must be run.
    pub method: Option<JobMethod>,
    /// The rendered config in service: does the new one differ in OS image, kernel type, extensions
    /// or kernel arguments, which a machine-config-daemon can't apply?
    pub compare: Option<String>,
    /// The pre-built image in service: is that what would be built?
    pub recognise: Option<PinnedRef>,
}

/// A base that stands in for another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseInstead {
    /// If the config's `osImageURL` is one of these, a pre-built image, ...
    pub of: BTreeSet<String>,
    /// ... it is built on this one, the release's own; none if nobody says which that is.
    pub stock: Option<String>,
}

/// What was found out in this reconcile.
#[derive(Debug, Clone, Default)]
pub struct LookupResults {
    /// To [`Lookup::Plan`].
    pub plan: Option<Result<Planned, Problem>>,
    /// To [`Lookup::Exists`].
    pub exists: BTreeMap<PinnedRef, ImageStatus>,
    /// To [`Lookup::OsImage`]: the image, empty if the config names none.
    pub os_image: BTreeMap<RenderedName, Result<String, Problem>>,
    /// To [`Lookup::Result`]: none if the pod reported nothing.
    pub results: BTreeMap<BuildName, Result<Option<JobResult>, Problem>>,
}

/// What would be built.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// Its name, which is its identity.
    pub build: BuildName,
    /// What it would be called in older formats of images, the newest first.
    pub older: Vec<BuildName>,
    /// SHA-256 of the canonical inputs, 64 hex digits.
    pub inputs: String,
    /// The base, pinned.
    pub base: PinnedRef,
    /// How; a direct Job may yet find that something must be run.
    pub method: JobMethod,
    /// Why it isn't direct; empty if it is.
    pub reasons: Vec<Finding>,
    /// What is built for.
    pub platform: Platform,
    /// What the reader should know.
    pub warnings: Vec<Finding>,
    /// Why the administrator's Containerfile can't be built, known without trying.
    pub containerfile_problem: Option<Problem>,
    /// To [`PlanLookup::compare`]: whether what a machine can't apply itself differs, or can't be told.
    pub os_changed: bool,
    /// To [`PlanLookup::recognise`]: whether a direct build of the pool's MachineConfigs on the release's own base is that image.
    pub is_recognised: bool,
}

/// Of a [`Problem`]: a pool names a rendered config that isn't there. It may be on its way, or never come.
pub const NO_RENDERED_CONFIG: &str = "no-rendered-config";

/// Of a [`Problem`]: a lookup took longer than it may.
pub const LOOKUP_TIMEOUT: &str = "lookup-timeout";

/// Why something could not be found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What to do: `Retry` is asked again, anything else is told, and so is `no-rendered-config`.
    pub class: ErrorClass,
    /// The word for events and metrics, such as `denied`.
    pub reason: String,
    /// Object, cause, remedy.
    pub message: String,
}

impl Problem {
    /// Reason and object. The words after that may be others each time, as where a registry numbers its refusals.
    pub fn cause(&self) -> String {
        let object = self.message.split_once(": ").map(|(object, _)| object);
        format!("{} {}", self.reason, object.unwrap_or_default())
    }
}

/// Whether a registry has an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageStatus {
    /// It answered for it.
    Present(Confirmed<PinnedRef>),
    /// It said, in the words of its protocol, that it has none.
    Missing,
    /// It refused to answer, or did not: what was decided before stays.
    Unknown(Problem),
}

impl ImageStatus {
    /// Why it is unknown.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Unknown(problem) => Some(problem),
            Self::Present(_) | Self::Missing => None,
        }
    }
}
