//! The input of a decision about what new machines boot with.

use std::collections::{BTreeMap, BTreeSet};

use crate::ignition_server::ServerKeys;
use crate::user_data::{ClusterInfo, MachineInputs};
use mosb_api::cluster_settings::Endpoint;
use mosb_api::rollout::{History, NodeTarget};
use mosb_api::{MachineOsBuild, MachineOsConfig, labels};
use mosb_cluster::secret_ref::SecretRef;
use mosb_cluster::user_data_secret::FoundSecret;
use mosb_cluster::versions::Versions;
use mosb_ignition_server::ServingCertificate;
use mosb_reconcile::Problem;
use mosb_reconcile::driver::InputsHash;

/// Everything observed for a key.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// mosb's namespace.
    pub namespace: String,
    /// Where machines fetch their config; without it, user data has the whole config, and nothing is
    /// served. Else why the settings can't be read.
    pub endpoint: Result<Option<Endpoint>, String>,
    pub subject: Subject,
    /// A pass found the Secrets as they should be, not long ago, with the same inputs.
    pub is_checked: bool,
    pub lookup_results: LookupResults,
}

/// What a key is about.
#[derive(Debug, Clone)]
pub enum Subject {
    UserData(Box<UserData>),
    Server(Server),
}

/// The user data of a MachineOSConfig.
#[derive(Debug, Clone)]
pub struct UserData {
    pub config: MachineOsConfig,
    pub builds: Vec<MachineOsBuild>,
    /// Other MachineOSConfigs of the same pool, by name.
    pub rivals: Vec<String>,
    /// Other MachineOSConfigs that name the same Secret, by name.
    pub sharing: Vec<String>,
    /// A controller that gives machines their images.
    pub other_controller: Option<String>,
    /// resourceVersions of what the config is made of.
    pub versions: Versions,
}

/// The Secrets of `mosb serve-ignition`.
#[derive(Debug, Clone)]
pub struct Server {
    /// The pools with user data.
    pub pools: BTreeSet<String>,
    /// resourceVersion of the Secret with the CA, as the watch shows it.
    pub authority_version: Option<String>,
}

/// A fact that the watches don't show, or that is random.
#[derive(Debug, Clone, PartialEq)]
pub enum Lookup {
    /// A Secret. Result: its entry in `secrets`.
    Secret(SecretRef),
    /// What the config of machines with this image is made of. Result: `inputs`.
    Inputs(Box<NodeTarget>),
    /// The bootstrap tokens that are alive. Result: `cluster_info`.
    ClusterInfo,
    /// Keys of the server, of which some are new. Result: `keys`.
    Keys,
    /// A new certificate for this host. Result: `certificate`.
    Certificate { host: String },
}

/// Results of the lookups of this pass.
#[derive(Debug, Clone, Default)]
pub struct LookupResults {
    pub secrets: BTreeMap<SecretRef, FoundSecret>,
    /// What the config is made of, or why it can't be read.
    pub inputs: Option<Result<MachineInputs, Problem>>,
    pub cluster_info: Option<ClusterInfo>,
    /// The keys of the Secret, with new ones where needed.
    pub keys: Option<ServerKeys>,
    pub certificate: Option<ServingCertificate>,
}

impl Snapshot {
    /// The MachineOSConfig; none for the server.
    pub fn config(&self) -> Option<&MachineOsConfig> {
        match &self.subject {
            Subject::UserData(user_data) => Some(&user_data.config),
            Subject::Server(_) => None,
        }
    }

    /// A hash of everything that the content of the Secrets follows from, without the Secrets, which
    /// no watch shows.
    pub fn inputs(&self) -> InputsHash {
        match &self.subject {
            Subject::UserData(user_data) => {
                let UserData { config, builds, rivals, sharing, other_controller, versions } =
                    &**user_data;
                let annotation = |key: &str| config.metadata.annotation(key);
                let builds =
                    builds.iter().map(|build| (&build.metadata.name, build.status.image()));
                let history = History::of(&config.metadata);
                let images = history.entries().iter();
                let images =
                    images.map(|entry| (&entry.image, &entry.config, entry.confirmed.is_some()));
                InputsHash::of(&(
                    (
                        annotation(labels::USER_DATA),
                        annotation(labels::ROLLOUT_BUILD),
                        annotation(labels::ROLLOUT),
                    ),
                    (&config.metadata.uid, &config.spec),
                    (&config.status.current_image_pull_spec, &config.status.machine_os_build),
                    builds.collect::<Vec<_>>(),
                    images.collect::<Vec<_>>(),
                    (rivals, sharing, other_controller),
                    versions,
                    &self.endpoint,
                ))
            }
            Subject::Server(Server { pools, authority_version }) => {
                InputsHash::of(&(&self.endpoint, pools, authority_version))
            }
        }
    }
}
