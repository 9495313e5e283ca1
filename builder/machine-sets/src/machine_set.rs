//! What a decision reads of a machine set: references, owners, strategy. Pure.

use std::fmt;

use serde_json::Value;

use super::obstacle::{Failure, Obstacle};
use mosb_api::boot_images::ManagedKind;
use mosb_boot_image::{SetKind, SetRef, Skip, TemplateKind};
use mosb_cluster::cluster_cache::{BootImageKind, SeenObject, object_key};

/// Label of the MachineSets of a MachineDeployment.
const DEPLOYMENT_NAME: &str = "cluster.x-k8s.io/deployment-name";
/// Where the value with the image is in a set of the machine API, as a JSON pointer.
const PROVIDER_SPEC: &str = "/spec/template/spec/providerSpec/value";
const CONTROL_PLANE_PROVIDER_SPEC: &str =
    "/spec/template/machines_v1beta1_machine_openshift_io/spec/providerSpec/value";
/// Where the name of the Secret with user data is in that value.
const USER_DATA: &str = "/userDataSecret/name";
/// The same in a set of Cluster API.
const DATA_SECRET: &str = "/spec/template/spec/bootstrap/dataSecretName";
/// Where the name of the template is in a set of Cluster API.
pub(super) const TEMPLATE_NAME: &str = "/spec/template/spec/infrastructureRef/name";

/// A machine set of one of the four kinds.
#[derive(Debug, Clone, Copy)]
pub(super) struct MachineSet<'a> {
    pub object: &'a SeenObject,
    pub kind: ManagedKind,
}

/// The template that a set of Cluster API refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TemplateRef {
    pub kind: BootImageKind,
    pub template: TemplateKind,
    pub namespace: String,
    pub name: String,
}

/// The kind of machine set of a watched kind.
pub(super) fn managed_kind(kind: BootImageKind) -> Option<ManagedKind> {
    match kind {
        BootImageKind::MachineApiMachineSet => Some(ManagedKind::MachineApiMachineSets),
        BootImageKind::ControlPlaneMachineSet => Some(ManagedKind::ControlPlaneMachineSets),
        BootImageKind::ClusterApiMachineSet => Some(ManagedKind::ClusterApiMachineSets),
        BootImageKind::MachineDeployment => Some(ManagedKind::MachineDeployments),
        _ => None,
    }
}

/// The kinds of machine sets, in the order in which they are reported.
pub(super) const SET_KINDS: [BootImageKind; 4] = [
    BootImageKind::MachineApiMachineSet,
    BootImageKind::ControlPlaneMachineSet,
    BootImageKind::ClusterApiMachineSet,
    BootImageKind::MachineDeployment,
];

impl<'a> MachineSet<'a> {
    pub fn new(object: &'a SeenObject) -> Option<Self> {
        Some(Self { object, kind: managed_kind(object.kind)? })
    }

    /// As commands, statuses and messages name it.
    pub fn reference(self) -> SetRef {
        SetRef {
            namespace: Some(self.object.namespace.clone()),
            kind: match self.kind {
                ManagedKind::MachineApiMachineSets => SetKind::MachineApiMachineSet,
                ManagedKind::ControlPlaneMachineSets => SetKind::ControlPlaneMachineSet,
                ManagedKind::ClusterApiMachineSets => SetKind::ClusterApiMachineSet,
                ManagedKind::MachineDeployments => SetKind::MachineDeployment,
            },
            name: self.object.name.clone(),
        }
    }

    pub fn is_machine_api(self) -> bool {
        matches!(
            self.kind,
            ManagedKind::MachineApiMachineSets | ManagedKind::ControlPlaneMachineSets
        )
    }

    pub fn is_deployment(self) -> bool {
        self.kind == ManagedKind::MachineDeployments
    }

    /// A value of the whole object, which has only its spec.
    fn at(self, pointer: &str) -> Option<&'a Value> {
        self.object.spec.pointer(pointer.strip_prefix("/spec")?).filter(|value| !value.is_null())
    }

    fn text(self, pointer: &str) -> Option<&'a str> {
        self.at(pointer)?.as_str().filter(|text| !text.is_empty())
    }

    /// Where the value of the machine API is in the object, and the value.
    pub fn provider_spec(self) -> Result<(&'static str, &'a Value), Failure> {
        let pointer = match self.kind {
            ManagedKind::ControlPlaneMachineSets => CONTROL_PLANE_PROVIDER_SPEC,
            _ => PROVIDER_SPEC,
        };
        let value = self.at(pointer).ok_or_else(|| Failure::missing(pointer))?;
        Ok((pointer, value))
    }

    /// The name of the template of a set of Cluster API.
    pub fn template_name(self) -> Option<&'a str> {
        self.text(TEMPLATE_NAME)
    }

    /// The template of a set of Cluster API.
    pub fn template(self) -> Result<TemplateRef, Obstacle> {
        let field =
            |name: &str| self.text(&format!("/spec/template/spec/infrastructureRef/{name}"));
        let name = self.template_name().ok_or_else(|| Failure::missing(TEMPLATE_NAME))?;
        // `apiGroup` since v1beta2, `apiVersion` before.
        let group = field("apiGroup").or_else(|| Some(field("apiVersion")?.split_once('/')?.0));
        let kind = field("kind").unwrap_or_default();
        let namespace = field("namespace").unwrap_or(&self.object.namespace);
        if namespace != self.object.namespace {
            return Err(Failure::new(
                "template-namespace",
                format!(
                    "its template is in namespace {namespace}; Cluster API wants it in the set's"
                ),
            )
            .into());
        }
        let known = group.and_then(|group| BootImageKind::find(group, kind));
        let template = TemplateKind::from_kind(kind);
        let (Some(known), Some(template)) = (known.filter(|one| one.is_template()), template)
        else {
            let platform: String = kind.chars().take(64).collect();
            return Err(Skip::Platform { platform }.into());
        };
        Ok(TemplateRef {
            kind: known,
            template,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }

    /// Key of the Cluster that a set of Cluster API belongs to.
    pub fn cluster(self) -> Option<String> {
        let name = self.text("/spec/clusterName")?;
        Some(object_key(&self.object.namespace, name))
    }

    /// Where the name of the Secret of [`stub`](Self::stub) is, as a JSON pointer.
    pub fn stub_pointer(self) -> String {
        match self.kind {
            ManagedKind::MachineApiMachineSets => format!("{PROVIDER_SPEC}{USER_DATA}"),
            ManagedKind::ControlPlaneMachineSets => {
                format!("{CONTROL_PLANE_PROVIDER_SPEC}{USER_DATA}")
            }
            ManagedKind::ClusterApiMachineSets | ManagedKind::MachineDeployments => {
                DATA_SECRET.to_owned()
            }
        }
    }

    /// The Secret with the Ignition config of its machines: its namespace and name. None if a
    /// bootstrap provider makes one for each machine.
    pub fn stub(self) -> Result<Option<(&'a str, &'a str)>, Failure> {
        let pointer = self.stub_pointer();
        let name = self.text(&pointer);
        if name.is_none() && self.is_machine_api() {
            return Err(Failure::missing(&pointer));
        }
        Ok(name.map(|name| (&*self.object.namespace, name)))
    }

    /// Whether a change of its template replaces machines only when somebody deletes them.
    pub fn replaces_on_delete(self) -> bool {
        let strategy =
            self.text("/spec/rollout/strategy/type").or_else(|| self.text("/spec/strategy/type"));
        strategy == Some("OnDelete")
    }

    /// The MachineDeployment that made a MachineSet.
    pub fn deployment(self) -> Option<&'a str> {
        if self.kind != ManagedKind::ClusterApiMachineSets {
            return None;
        }
        let mut owners = self.object.owners.iter();
        let owner = owners.find(|owner| owner.kind == "MachineDeployment");
        let label = || self.object.labels.get(DEPLOYMENT_NAME).map(String::as_str);
        owner.map(|owner| &*owner.name).or_else(label)
    }

    /// An owner that may put back what mosb changes. Cluster API's `Cluster` owns every set.
    pub fn foreign_owner(self) -> Option<String> {
        let is_cluster = |api_version: &str, kind: &str| {
            !self.is_machine_api()
                && kind == "Cluster"
                && api_version.starts_with("cluster.x-k8s.io/")
        };
        let mut owners = self.object.owners.iter();
        let owner = owners.find(|owner| !is_cluster(&owner.api_version, &owner.kind))?;
        Some(format!("{} {}", owner.kind, owner.name))
    }

    /// A label of the machines that it makes.
    pub fn machine_label(self, key: &str) -> Option<&'a str> {
        let labels = match self.kind {
            ManagedKind::ControlPlaneMachineSets => {
                self.at("/spec/template/machines_v1beta1_machine_openshift_io/metadata/labels")
            }
            _ => self.at("/spec/template/metadata/labels"),
        };
        labels?.get(key)?.as_str()
    }
}

/// `namespace/kind.group/name`, as the commands take it.
impl fmt::Display for MachineSet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reference().fmt(f)
    }
}
