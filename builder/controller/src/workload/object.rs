//! The object that runs a build, whichever kind it is of.

use std::fmt;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use serde_json::{Value, json};

use super::pod::GATE;
use super::{JobRequest, job, openshift, pod};
use mosb_plan::api::ImageBuilderType;
use mosb_plan::api::openshift_build::OpenShiftBuild;

/// The object that runs a build: the MachineOSBuild owns it, and it owns everything that the build needs.
#[derive(Debug, Clone, PartialEq)]
pub enum Workload {
    /// A Job, whose pod builds.
    Job(Box<Job>),
    /// A Pod of its own.
    Pod(Box<Pod>),
    /// A Build of OpenShift's API.
    Build(Box<OpenShiftBuild>),
}

impl Workload {
    /// What is to run the build, which does not begin before all is there that annotation `mosb.dev/needs` lists.
    ///
    /// # Panics
    /// A request for an OpenShift Build without its source.
    pub fn new(request: &JobRequest) -> Self {
        match request.builder {
            ImageBuilderType::Job => job(request).into(),
            ImageBuilderType::CustomPod => pod(request).into(),
            ImageBuilderType::OpenShiftImage => {
                let source = request.openshift.as_ref();
                let source = source.expect("whoever asks for a Build has made it");
                openshift::build(request, source).into()
            }
        }
    }

    /// Its kind.
    pub fn builder(&self) -> ImageBuilderType {
        match self {
            Self::Job(_) => ImageBuilderType::Job,
            Self::Pod(_) => ImageBuilderType::CustomPod,
            Self::Build(_) => ImageBuilderType::OpenShiftImage,
        }
    }

    /// Its metadata.
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Job(job) => &job.metadata,
            Self::Pod(pod) => &pod.metadata,
            Self::Build(build) => &build.metadata,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }

    /// Given by the API server; empty before.
    pub fn uid(&self) -> &str {
        self.metadata().uid.as_deref().unwrap_or_default()
    }

    /// An annotation of it.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        let annotations = self.metadata().annotations.as_ref()?;
        annotations.get(key).map(String::as_str)
    }

    /// Whether its deletion was asked for.
    pub fn is_being_deleted(&self) -> bool {
        self.metadata().deletion_timestamp.is_some()
    }
}

impl From<Job> for Workload {
    fn from(job: Job) -> Self {
        Self::Job(Box::new(job))
    }
}

impl From<Pod> for Workload {
    fn from(pod: Pod) -> Self {
        Self::Pod(Box::new(pod))
    }
}

impl From<OpenShiftBuild> for Workload {
    fn from(build: OpenShiftBuild) -> Self {
        Self::Build(Box::new(build))
    }
}

/// `Job build-x`.
impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", kind(self.builder()), self.name())
    }
}

/// The change of a workload's `spec` (strategic merge patch) that lets it begin; what others hold it back by stays. None of one that
/// begins by itself once all is there that it needs.
pub fn release(builder: ImageBuilderType) -> Option<Value> {
    match builder {
        ImageBuilderType::Job => Some(json!({ "suspend": false })),
        ImageBuilderType::CustomPod => Some(json!({
            "schedulingGates": [{ "$patch": "delete", "name": GATE }]
        })),
        ImageBuilderType::OpenShiftImage => None,
    }
}

/// Whether an owner is of a kind that runs builds.
pub fn is_workload_owner(owner: &OwnerReference) -> bool {
    let mut all = ImageBuilderType::ALL.into_iter();
    all.any(|builder| kind(builder) == owner.kind)
}

/// The kind of the object that runs a build, as the API spells it.
pub fn kind(builder: ImageBuilderType) -> &'static str {
    match builder {
        ImageBuilderType::Job => "Job",
        ImageBuilderType::CustomPod => "Pod",
        ImageBuilderType::OpenShiftImage => "Build",
    }
}
