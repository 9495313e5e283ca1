//! The object that runs a build, of any kind.

use std::fmt;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use serde_json::{Value, json};

use super::pod::GATE;
use super::{JobRequest, job, openshift, pod};
use mosb_api::ImageBuilderType;
use mosb_api::openshift_build::OpenShiftBuild;
use mosb_cluster::object::workload_kind;
use mosb_reconcile::write::Target;

/// The object that runs a build. The MachineOSBuild owns it, and it owns the build's inputs.
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
    /// Creates the object. It does not start before all inputs in annotation `mosb.dev/needs`
    /// exist.
    ///
    /// # Panics
    /// The request is for an OpenShift Build and has no source.
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

    pub fn builder(&self) -> ImageBuilderType {
        match self {
            Self::Job(_) => ImageBuilderType::Job,
            Self::Pod(_) => ImageBuilderType::CustomPod,
            Self::Build(_) => ImageBuilderType::OpenShiftImage,
        }
    }

    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Job(job) => &job.metadata,
            Self::Pod(pod) => &pod.metadata,
            Self::Build(build) => &build.metadata,
        }
    }

    pub fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }

    /// Empty before it is created.
    pub fn uid(&self) -> &str {
        self.metadata().uid.as_deref().unwrap_or_default()
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        let annotations = self.metadata().annotations.as_ref()?;
        annotations.get(key).map(String::as_str)
    }

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

/// The patch (strategic merge) of a workload's `spec` that lets it start; gates of other
/// controllers stay. `None` for kinds that start by themselves once their inputs exist.
pub fn release(builder: ImageBuilderType) -> Option<Value> {
    match builder {
        ImageBuilderType::Job => Some(json!({ "suspend": false })),
        ImageBuilderType::CustomPod => Some(json!({
            "schedulingGates": [{ "$patch": "delete", "name": GATE }]
        })),
        ImageBuilderType::OpenShiftImage => None,
    }
}

/// The kind of the workload, as the API spells it.
pub fn kind(builder: ImageBuilderType) -> &'static str {
    workload_kind(builder).name
}

impl From<&Workload> for Target {
    fn from(workload: &Workload) -> Self {
        Self {
            kind: workload_kind(workload.builder()),
            name: workload.name().to_owned(),
            uid: workload.uid().to_owned(),
            version: workload.metadata().resource_version.clone(),
        }
    }
}
