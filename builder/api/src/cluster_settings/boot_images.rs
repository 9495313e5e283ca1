//! Which machine sets get current boot images, and what the controller can't know by itself.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Deserialize;

use super::selector_fields::SelectorFields;
use crate::boot_images::{ManagedKind, Selection};

/// Which machine sets get current boot images, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct BootImageSettings {
    /// The machine sets that are managed, at most one entry for each kind. Without the list, or for kinds without
    /// an entry, OpenShift's MachineConfiguration decides; an empty list turns all off.
    pub machine_managers: Option<Vec<MachineManager>>,
    /// Whether machine sets keep the Secret with their user data, or get the one that an operator keeps current.
    pub stub: StubReference,
    /// CAs (PEM) that new machines trust for their config. A Secret with user data that has the annotation
    /// `mosb.dev/user-data-ca: "true"` and none of these CAs gets them before the next image of its machine set.
    pub user_data_trust_bundle: Option<String>,
    /// Images, as machine sets name them, that were installed as stock and may be replaced.
    pub stock_images: Vec<String>,
    /// Names of images that you uploaded, by release: of vSphere's templates and Azure's own images.
    pub images: BTreeMap<String, String>,
    /// The oldest release of a boot image that may be in use; older ones are reported.
    pub oldest: Option<String>,
}

impl BootImageSettings {
    /// Whether nothing is managed, whatever the cluster's own objects have.
    pub fn are_off(&self) -> bool {
        self.machine_managers.as_ref().is_some_and(Vec::is_empty)
    }
}

/// Which Secret with user data machine sets refer to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StubReference {
    /// The one that they have.
    #[default]
    Keep,
    /// `<pool>-user-data-managed` with their next image for those that have `<pool>-user-data`, if it exists, has
    /// Ignition spec 3 and is for the same pool.
    Managed,
}

/// The machine sets of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "ManagerFields")]
#[schemars(with = "ManagerFields")]
pub struct MachineManager {
    pub kind: ManagedKind,
    pub selection: Selection,
}

/// The machine sets of one kind.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "MachineManager")]
struct ManagerFields {
    /// Plural name of the kind.
    resource: MachineResource,
    /// API group of the kind.
    api_group: MachineApiGroup,
    /// Which of them are managed.
    selection: SelectionFields,
}

/// Plural name of a kind of machine set.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum MachineResource {
    /// Of both API groups.
    MachineSets,
    /// Of `machine.openshift.io`.
    ControlPlaneMachineSets,
    /// Of `cluster.x-k8s.io`.
    MachineDeployments,
}

/// API group of a kind of machine set.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
enum MachineApiGroup {
    /// OpenShift.
    #[serde(rename = "machine.openshift.io")]
    MachineApi,
    /// Cluster API.
    #[serde(rename = "cluster.x-k8s.io")]
    ClusterApi,
}

/// Which machine sets of a kind are managed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "MachineSelection")]
struct SelectionFields {
    mode: SelectionMode,
    /// Required with `Partial` and `CustomConfig`.
    #[serde(default)]
    partial: Option<PartialFields>,
}

/// Which machine sets of a kind are managed.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
enum SelectionMode {
    /// All of them.
    All,
    /// The same as `All`.
    Enabled,
    /// Those with matching labels.
    Partial,
    /// The same as `Partial`.
    CustomConfig,
    /// None of them.
    None,
    /// The same as `None`.
    Disabled,
}

/// Machine sets with matching labels.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "PartialSelection")]
struct PartialFields {
    /// Labels of the machine sets. An empty selector matches all.
    machine_resource_selector: SelectorFields,
}

impl TryFrom<ManagerFields> for MachineManager {
    type Error = String;

    fn try_from(fields: ManagerFields) -> Result<Self, Self::Error> {
        let (resource, group) = (fields.resource.as_str(), fields.api_group.as_str());
        let kind = ManagedKind::of(resource, group)
            .ok_or_else(|| format!("{group} has no {resource}; want one of {}", kinds()))?;
        let selector = fields.selection.partial.map(|one| one.machine_resource_selector.into());
        let selection = Selection::new(kind, fields.selection.mode.as_str(), selector.as_ref())
            .map_err(|error| error.to_string())?;
        Ok(Self { kind, selection })
    }
}

impl MachineResource {
    fn as_str(self) -> &'static str {
        match self {
            Self::MachineSets => "machinesets",
            Self::ControlPlaneMachineSets => "controlplanemachinesets",
            Self::MachineDeployments => "machinedeployments",
        }
    }
}

impl MachineApiGroup {
    fn as_str(self) -> &'static str {
        match self {
            Self::MachineApi => "machine.openshift.io",
            Self::ClusterApi => "cluster.x-k8s.io",
        }
    }
}

impl SelectionMode {
    /// The mode in the spelling of MachineConfiguration.
    fn as_str(self) -> &'static str {
        match self {
            Self::All | Self::Enabled => "All",
            Self::Partial | Self::CustomConfig => "Partial",
            Self::None | Self::Disabled => "None",
        }
    }
}

fn kinds() -> String {
    ManagedKind::ALL.map(|kind| kind.to_string()).join(", ")
}

/// The longest name of an image: a URL of Metal3, a path of vSphere, a resource id of Azure.
const MAX_IMAGE_LEN: usize = 512;
/// `418.94.202511191518-0` has 21.
const MAX_RELEASE_LEN: usize = 64;

impl BootImageSettings {
    /// The error is the field, and its problem.
    pub(super) fn check(&self) -> Result<(), (String, String)> {
        let mut kinds = BTreeSet::new();
        for (at, manager) in self.machine_managers.iter().flatten().enumerate() {
            if !kinds.insert(manager.kind) {
                let problem = format!("{} has an entry already; leave one", manager.kind);
                return Err((format!("bootImages.machineManagers[{at}]"), problem));
            }
        }
        let image = |field: String, text: &str| {
            let fine = |c: char| !c.is_whitespace() && !c.is_control();
            if text.is_empty() || text.len() > MAX_IMAGE_LEN || !text.chars().all(fine) {
                let want =
                    format!("want the name of an image: 1 to {MAX_IMAGE_LEN} bytes without blanks");
                return Err((field, want));
            }
            Ok(())
        };
        for (at, text) in self.stock_images.iter().enumerate() {
            image(format!("bootImages.stockImages[{at}]"), text)?;
        }
        for (release, name) in &self.images {
            let field = format!("bootImages.images.{release}");
            self::release(&field, release)?;
            image(field, name)?;
        }
        self.oldest.as_deref().map_or(Ok(()), |oldest| release("bootImages.oldest", oldest))
    }
}

/// Numbers between dots, as in `9.6.20260210-0`. Which of two is the older one is known to the crate
/// `boot-image`.
fn release(field: &str, text: &str) -> Result<(), (String, String)> {
    let (version, build) = text.split_once('-').unwrap_or((text, "0"));
    let number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let parts = version.split('.').count();
    if text.len() <= MAX_RELEASE_LEN
        && (3..=4).contains(&parts)
        && version.split('.').all(number)
        && number(build)
    {
        return Ok(());
    }
    let want =
        "want a release, such as 9.6.20260210-0, 418.94.202511191518-0, 41.20250105.3.0 or 4.18.3";
    Err((field.to_owned(), want.to_owned()))
}
