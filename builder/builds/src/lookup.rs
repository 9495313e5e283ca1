//! Lookups: facts that a decision needs and the watches don't show. A decision returns them as
//! values, the [`Resolver`](mosb_cluster::resolver::Resolver) resolves them, and their results are used for
//! one reconcile.

use std::collections::{BTreeMap, BTreeSet};

use mosb_api::image_checks::CheckName;
use mosb_api::{BuildName, BuildOn, ImageBuilderType, PoolName, RecordedBase, RenderedName};
use mosb_build::{JobMethod, JobResult};
use mosb_image::{Digest, PinnedRef, Platform, RepoRef};
use mosb_plan::image_checks::Verdict;
use mosb_plan::plan::{BaseName, BaseRelease};
use mosb_reconcile::Problem;
use mosb_registry::Confirmed;
use mosb_types::Finding;

/// A fact to look up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// Plan what would be built, and how. Result: [`LookupResults::plan`].
    Plan(Box<PlanLookup>),
    /// Whether a registry still has an image. Result: [`LookupResults::exists`].
    Exists {
        image: PinnedRef,
        /// The secret in our namespace that it was pushed with.
        secret: String,
        /// Additional pull credentials, for an image outside the push repository.
        pull: Pull,
        policy: RequiredPolicy,
    },
    /// Whether the registry has the image that a direct build would make. Result:
    /// [`LookupResults::existing`].
    Existing(Box<ExistingLookup>),
    /// What the checks of an image find. Result: [`LookupResults::checks`].
    Checks(Box<ChecksLookup>),
    /// Sign an image, unless it is signed. Result: [`LookupResults::signed`].
    Sign(Box<SignLookup>),
    /// Which OS image a rendered config names. Result: [`LookupResults::os_image`].
    OsImage { rendered: RenderedName },
    /// The result that the pod of a build reported, even if the watch has not shown it yet. Result:
    /// [`LookupResults::results`].
    Result { build: BuildName },
}

impl Lookup {
    /// Whether more than the API server is asked.
    pub fn leaves_cluster(&self) -> bool {
        match self {
            Self::Plan(_)
            | Self::Exists { .. }
            | Self::Existing(_)
            | Self::Checks(_)
            | Self::Sign(_) => true,
            Self::OsImage { .. } | Self::Result { .. } => false,
        }
    }
}

/// Pull credentials in addition to the push secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pull {
    /// None: the image is in the push repository.
    Not,
    Global,
    /// A secret in our namespace, and `global-pull-secret-copy`.
    Own(String),
}

/// The signature policy that must accept an image before anything refers to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequiredPolicy {
    /// None: it was verified before, or is verified before it comes into service.
    Unchecked,
    /// That of the settings.
    Settings,
    /// That of the settings, and that of this rendered config.
    Pool(RenderedName),
}

/// Inputs of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanLookup {
    pub pool: PoolName,
    pub rendered: RenderedName,
    /// The administrator's Containerfile for this platform.
    pub containerfile: Option<String>,
    pub push: RepoRef,
    pub push_secret: String,
    /// The pull secret; `None` means `global-pull-secret-copy`.
    pub pull_secret: Option<String>,
    /// The platform of the pool's nodes; `None` if the pool has no node: then the base decides.
    pub platform: Option<Platform>,
    /// The base that an earlier plan pinned.
    pub base: Option<PinnedRef>,
    /// The base that was recorded for the pool: it is used if the config, or the settings, name its
    /// tag.
    pub recorded: Option<RecordedBase>,
    /// The replacement base if the config names a pre-built image.
    pub instead: Option<BaseInstead>,
    /// Whether every config gets an image, which then brings files below `/var` to machines.
    pub build_on: BuildOn,
    /// Decides the form in which the rendered config is passed to the build.
    pub builder: ImageBuilderType,
    /// Set to `Containerfile` once a Job found that something must be run.
    pub method: Option<JobMethod>,
    /// The rendered config in service, to compare what of the change machines can apply themselves,
    /// and what they can't take on at all.
    pub compare: Option<String>,
    /// The pre-built image in service, to check whether the plan would build the same image.
    pub recognise: Option<PinnedRef>,
}

/// A direct build whose image the registry may have already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExistingLookup {
    pub build: BuildName,
    /// What it was planned with; the base is pinned.
    pub plan: PlanLookup,
}

/// What an image is checked with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChecksLookup {
    pub image: PinnedRef,
    pub push: RepoRef,
    /// The secret that it was pushed with.
    pub push_secret: String,
    /// The pull secret; `None` means `global-pull-secret-copy`.
    pub pull_secret: Option<String>,
    /// What it was built on; none if it was built elsewhere.
    pub base: Option<PinnedRef>,
    /// The base or prepared base that its one layer is on; none if a Containerfile was run as a whole.
    pub lower: Option<Digest>,
    /// The image with the tree of that, as a build recorded it.
    pub tree: Option<PinnedRef>,
    /// The platform of the pool's nodes.
    pub platform: Option<Platform>,
    /// The config that it brings to machines.
    pub rendered: Option<RenderedName>,
    /// The checks to make.
    pub checks: BTreeSet<CheckName>,
}

/// An image in the push repository that is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignLookup {
    pub image: PinnedRef,
    pub kind: ImageKind,
    /// Name of the build that made it, or that is made on it.
    pub build: String,
    /// What that was planned with; the base is pinned.
    pub plan: PlanLookup,
    /// Name of the Secret with the key.
    pub secret: String,
}

/// What an image that is signed was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageKind {
    /// A layer on the base, whose tree is this image in the push repository, if it is known.
    Direct { tree: Option<Digest> },
    /// The config on a prepared base in the push repository, whose tree is this image there, if it is
    /// known.
    OnPrepared { base: Digest, tree: Option<Digest> },
    /// A Containerfile that was run as a whole, on the base, whose tree is this image in the push
    /// repository, if it is known.
    Containerfile { tree: Option<Digest> },
    /// It is itself a prepared base. The images with its tree and with that of its base, if they are
    /// known.
    PreparedBase { tree: Option<Digest>, base_tree: Option<Digest> },
}

impl ImageKind {
    pub fn is_prepared_base(self) -> bool {
        matches!(self, Self::PreparedBase { .. })
    }
}

/// What became of an image that is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signed {
    /// The registry returned evidence that this key verifies.
    By(Digest),
    /// The inputs of its build changed meanwhile.
    InputsChanged,
}

/// A replacement for pre-built base images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseInstead {
    /// The pre-built images: a config with one of them as `osImageURL` is built on `stock`.
    pub of: BTreeSet<String>,
    /// The release's own base image, if it is known.
    pub stock: Option<String>,
}

/// Results of the lookups of this reconcile.
#[derive(Debug, Clone, Default)]
pub struct LookupResults {
    pub plan: Option<Result<Planned, Problem>>,
    pub exists: BTreeMap<PinnedRef, ImageStatus>,
    /// Of [`Lookup::Existing`]: the image; `None` if the registry has no such image.
    pub existing: BTreeMap<BuildName, Result<Option<Confirmed<PinnedRef>>, Problem>>,
    /// Of [`Lookup::Checks`].
    pub checks: BTreeMap<PinnedRef, Result<Vec<(CheckName, Verdict)>, Problem>>,
    /// Of [`Lookup::Sign`].
    pub signed: BTreeMap<PinnedRef, Result<Signed, Problem>>,
    /// Of [`Lookup::OsImage`]: the image, empty if the config names none.
    pub os_image: BTreeMap<RenderedName, Result<String, Problem>>,
    /// Of [`Lookup::Result`]: `None` if the pod reported nothing.
    pub results: BTreeMap<BuildName, Result<Option<JobResult>, Problem>>,
}

impl LookupResults {
    /// Makes this problem the result of a lookup.
    pub fn fail(&mut self, lookup: &Lookup, problem: &Problem) {
        let problem = problem.clone();
        match lookup {
            Lookup::Plan(_) => self.plan = Some(Err(problem)),
            Lookup::Exists { image, .. } => {
                self.exists.insert(image.clone(), ImageStatus::Unknown(problem));
            }
            Lookup::Existing(lookup) => {
                self.existing.insert(lookup.build.clone(), Err(problem));
            }
            Lookup::Checks(lookup) => {
                self.checks.insert(lookup.image.clone(), Err(problem));
            }
            Lookup::Sign(lookup) => {
                self.signed.insert(lookup.image.clone(), Err(problem));
            }
            Lookup::OsImage { rendered } => {
                self.os_image.insert(rendered.clone(), Err(problem));
            }
            Lookup::Result { build } => {
                self.results.insert(build.clone(), Err(problem));
            }
        }
    }
}

/// A summary of the plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// The name is derived from the inputs, so it identifies the build.
    pub build: BuildName,
    /// SHA-256 of the canonical inputs, 64 hex digits.
    pub inputs: String,
    pub base: PinnedRef,
    pub base_name: BaseName,
    pub base_release: BaseRelease,
    /// A direct Job may still find that something must be run.
    pub method: JobMethod,
    /// Why the build is not direct; empty if it is.
    pub reasons: Vec<Finding>,
    pub platform: Platform,
    pub warnings: Vec<Finding>,
    /// Why the administrator's Containerfile can't be built, as far as that is known without
    /// running it.
    pub containerfile_problem: Option<Problem>,
    /// Of [`PlanLookup::compare`]: whether fields differ that machines can't apply themselves, or
    /// can't be compared.
    pub os_changed: bool,
    /// Of [`PlanLookup::compare`]: whether nothing differs but the SSH keys and the password of
    /// `core`.
    pub is_login_change: bool,
    /// Of [`PlanLookup::compare`]: whether nothing differs but files that running machines can take
    /// on.
    pub is_live_change: bool,
    /// The digest of what machines need of the config beside the image.
    pub machine_part: Digest,
    /// Of [`PlanLookup::compare`]: what machines can't take on without a reinstallation; nothing if
    /// it can't be compared.
    pub unreconcilable: Vec<Finding>,
    /// Of [`PlanLookup::recognise`]: whether a direct build of the pool's MachineConfigs on the
    /// release's own base gives that image.
    pub is_recognised: bool,
    /// The inputs of the prepared base, if the build can be made on one.
    pub prepared: Option<Digest>,
    /// Whether the administrator's Containerfile has a part that runs on it with the config.
    pub has_last_part: bool,
}

/// Whether a registry has an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageStatus {
    Present(Confirmed<PinnedRef>),
    /// The registry reported that it has no such image.
    Missing,
    /// The registry rejected the request or did not answer, so earlier decisions remain.
    Unknown(Problem),
}

impl ImageStatus {
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Unknown(problem) => Some(problem),
            Self::Present(_) | Self::Missing => None,
        }
    }
}
