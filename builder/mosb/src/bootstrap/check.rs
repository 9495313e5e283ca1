//! Everything that can be told of an installation by reading its manifests.

mod fields;
mod settings;

pub use fields::wrong as wrong_fields;

use std::collections::{BTreeMap, BTreeSet};

use mosb_build::NamedSecret;
use mosb_build::pull_permission;
use mosb_image::PinnedRef;
use mosb_plan::api::{ClusterSettings, MachineOsConfig, PoolName, labels};
use mosb_plan::plan;
use mosb_types::Finding;

use super::error::Error;
use super::manifest::{Manifest, Manifests};
use super::secrets::{self, Secrets};
use super::seed::Seed;

/// What is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cluster {
    /// A cluster that renders and names by itself.
    Openshift,
    /// Any other.
    Kubernetes,
}

/// How the manifests are to be judged.
#[derive(Debug)]
pub struct Asked {
    /// For what.
    pub cluster: Cluster,
    /// Logins to pull with, instead of the cluster's own Secret.
    pub pull_secret: Option<NamedSecret>,
    /// Whether registries are asked next, so that the logins must be there.
    pub registries: bool,
}

/// Manifests that hold.
#[derive(Debug)]
pub struct Checked {
    /// The pools whose images exist already, by pool.
    pub seeds: Vec<Seed>,
    /// How registries are reached: the settings, and what the cluster's objects say over them.
    pub settings: ClusterSettings,
    /// The release that is installed, where a ControllerConfig says so.
    pub release: Option<String>,
    /// What an administrator may want to know.
    pub notices: Vec<Finding>,
}

/// Pools that an OpenShift release brings itself, so that an installer's directory needn't have them.
const OF_RELEASE: [&str; 2] = ["master", "worker"];
const KIND: &str = "MachineOSConfig";

/// Judges all manifests.
///
/// # Errors
/// All that is wrong with them.
pub fn check(manifests: &Manifests, asked: &Asked) -> Result<Checked, Error> {
    let (mut problems, mut notices) = (Vec::new(), Vec::new());
    let secrets = Secrets::of(manifests, asked.cluster);
    let settings = settings::read(manifests, &secrets, asked, &mut problems, &mut notices);
    twice(&manifests.pools, |pool| &pool.metadata.name, "MachineConfigPool", &mut problems);
    twice(&manifests.os_configs, |config| &config.metadata.name, KIND, &mut problems);
    if manifests.os_configs.is_empty() {
        let message = "there is none among the manifests, so no pool has an image to begin with; `mosb seed new` prints one";
        problems.push(Finding::new("no-machine-os-config", message).object(KIND));
    }
    if asked.cluster == Cluster::Kubernetes && settings.base_os_container_image.is_none() {
        let message = "nobody says which base OS image later builds start from; set baseOSContainerImage in config.yaml of ConfigMap mosb-config";
        notices.push(Finding::new("no-base-image", message).object("ConfigMap mosb-config"));
    }
    let global = match &asked.pull_secret {
        Some(given) => given.clone(),
        None => global(&secrets, &settings, asked, &mut problems, &mut notices),
    };
    let pools = Pools::of(manifests, asked.cluster);
    let mut looked = Looked {
        asked,
        settings: &settings,
        secrets,
        global,
        pools,
        first: BTreeMap::new(),
        problems,
        notices,
    };
    let configs = manifests.os_configs.iter();
    let mut seeds: Vec<Seed> = configs.filter_map(|config| looked.seed(config)).collect();
    seeds.sort_by(|a, b| a.pool.cmp(&b.pool));
    let Looked { problems, notices, .. } = looked;
    if !problems.is_empty() {
        return Err(Error::Invalid { problems });
    }
    Ok(Checked { seeds, settings, release: settings::release(manifests), notices })
}

/// The logins that all machines pull with. Without a word in the settings there need be none.
fn global(
    secrets: &Secrets<'_>,
    settings: &ClusterSettings,
    asked: &Asked,
    problems: &mut Vec<Finding>,
    notices: &mut Vec<Finding>,
) -> NamedSecret {
    let name = &settings.global_pull_secret;
    if let Some(secret) = secrets.global(name, problems) {
        // What is wrong with it is told.
        return secrets::logins(secret, problems).map_or_else(secrets::none, secrets::called);
    }
    if *name != ClusterSettings::default().global_pull_secret {
        let why = "; add it, as new machines pull their image with it, or name the right one";
        let missing = secrets.missing(name, why, "ConfigMap mosb-config: globalPullSecret");
        let list = if asked.registries { problems } else { notices };
        list.push(missing);
    }
    secrets::none()
}

/// An API server has one object of a name.
fn twice<T>(
    objects: &[Manifest<T>],
    name: impl Fn(&T) -> &str,
    kind: &str,
    problems: &mut Vec<Finding>,
) {
    let mut first: BTreeMap<&str, &Manifest<T>> = BTreeMap::new();
    for one in objects {
        let name = name(&one.object);
        if let Some(other) = first.insert(name, one) {
            let message =
                format!("another {kind} has this name ({}); keep one of them", other.origin);
            let place = one.place(kind, name, "metadata.name");
            problems.push(Finding::new("duplicate-name", message).object(place));
        }
    }
}

/// The pools that there will be.
struct Pools<'a>(BTreeSet<&'a str>);

impl<'a> Pools<'a> {
    fn of(manifests: &'a Manifests, cluster: Cluster) -> Self {
        let pools = manifests.pools.iter();
        let mut names: BTreeSet<&str> = pools.map(|pool| &*pool.object.metadata.name).collect();
        // With a ControllerConfig, these are all manifests that the cluster begins with.
        if cluster == Cluster::Openshift && manifests.controller_configs.is_empty() {
            names.extend(OF_RELEASE);
        }
        Self(names)
    }

    fn told(&self) -> String {
        match self.0.is_empty() {
            true => "there is none".to_owned(),
            false => {
                let names: Vec<&str> = self.0.iter().copied().take(20).collect();
                format!("there are {}", names.join(", "))
            }
        }
    }
}

/// What one look at a MachineOSConfig after the other finds.
struct Looked<'a> {
    asked: &'a Asked,
    settings: &'a ClusterSettings,
    secrets: Secrets<'a>,
    global: NamedSecret,
    pools: Pools<'a>,
    /// By pool, where the first MachineOSConfig of it was read.
    first: BTreeMap<&'a str, &'a Manifest<MachineOsConfig>>,
    problems: Vec<Finding>,
    notices: Vec<Finding>,
}

impl<'a> Looked<'a> {
    fn wrong(
        &mut self,
        config: &Manifest<MachineOsConfig>,
        field: &str,
        code: &'static str,
        message: String,
    ) {
        let place = config.place(KIND, &config.object.metadata.name, field);
        self.problems.push(Finding::new(code, message).object(place));
    }

    /// One that is to be seeded; none if it is in service already, or if something is wrong with it.
    fn seed(&mut self, config: &'a Manifest<MachineOsConfig>) -> Option<Seed> {
        let before = self.problems.len();
        let object = &config.object;
        let nested = self.asked.cluster == Cluster::Kubernetes;
        for (field, message) in fields::wrong(object, nested) {
            self.wrong(config, field, "bad-machine-os-config", message);
        }
        let pool = &*object.spec.machine_config_pool.name;
        self.pool(config, pool);
        if let Some(why) = in_service(object) {
            let place = config.place(KIND, &object.metadata.name, "");
            let message = format!("{why}, so it is left as it is and nothing is seeded for it");
            self.notices.push(Finding::new("already-seeded", message).object(place));
            return None;
        }
        let push_secret = self.named(
            config,
            "spec.renderedImagePushSecret",
            &object.spec.rendered_image_push_secret.name,
        );
        let own = object.spec.base_image_pull_secret.as_ref();
        let own = own.and_then(|own| self.named(config, "spec.baseImagePullSecret", &own.name));
        if let Some(own) = &object.spec.base_image_pull_secret {
            self.pull_permission(config, &own.name);
        }
        let image = self.image(config);
        if self.problems.len() > before {
            return None;
        }
        Some(Seed {
            config: object.metadata.name.clone(),
            origin: config.origin.clone(),
            pool: pool.parse::<PoolName>().ok()?,
            image: image?,
            push: plan::push_repository(&object.spec.rendered_image_push_spec, nested).ok()?,
            push_secret,
            pull: self.pull(own),
        })
    }

    /// Reports a Secret that the controller would not take for pulls.
    fn pull_permission(&mut self, config: &Manifest<MachineOsConfig>, name: &str) {
        // A Secret that is missing or broken is reported where its logins are read.
        let Some(secret) = self.secrets.find(name, &mut Vec::new()) else {
            return;
        };
        if let Err(why) = pull_permission(&secret.metadata, self.settings, &[]) {
            let field = "spec.baseImagePullSecret.name";
            let place = config.place(KIND, &config.object.metadata.name, field);
            let notice = Finding::new("pull-secret-not-permitted", format!("secret {name}: {why}"));
            self.notices.push(notice.object(place));
        }
    }

    /// The logins that machines pull with. OpenShift's have the cluster's own alone; a MachineOSConfig's are for builds there.
    fn pull(&self, own: Option<NamedSecret>) -> NamedSecret {
        let machines_have_it =
            self.asked.cluster == Cluster::Kubernetes || self.global.credentials.is_empty();
        match own.filter(|_| machines_have_it) {
            Some(own) => secrets::over(&secrets::called(own), &self.global),
            None => self.global.clone(),
        }
    }

    fn pool(&mut self, config: &'a Manifest<MachineOsConfig>, pool: &'a str) {
        let field = "spec.machineConfigPool.name";
        if let Some(other) = self.first.insert(pool, config) {
            let message = format!(
                "{} ({}) is for the pool {pool:?} too; a pool has one image, so keep one of them",
                other.object.metadata.name, other.origin
            );
            self.wrong(config, field, "pool-twice", message);
        } else if !self.pools.0.contains(pool) {
            let message = format!(
                "no MachineConfigPool among the manifests is called {pool:?} ({}); add it, or correct the name",
                self.pools.told()
            );
            self.wrong(config, field, "unknown-pool", message);
        }
    }

    fn image(&mut self, config: &Manifest<MachineOsConfig>) -> Option<PinnedRef> {
        let annotation = config.object.metadata.annotation(labels::PRE_BUILT_IMAGE);
        let field = format!("metadata.annotations.{}", labels::PRE_BUILT_IMAGE);
        let nested = self.asked.cluster == Cluster::Kubernetes;
        match plan::pre_built_image(annotation.unwrap_or_default(), nested) {
            Ok((image, notice)) => {
                let place = config.place(KIND, &config.object.metadata.name, &field);
                self.notices.extend(notice.map(|notice| notice.object(place)));
                Some(image)
            }
            Err(error @ plan::PreBuiltError::Missing) => {
                let message = format!(
                    "{error}, as every MachineOSConfig of an installation needs one, or leave the object out"
                );
                self.wrong(config, &field, error.reason(), message);
                None
            }
            Err(error) => {
                self.wrong(config, &field, error.reason(), error.to_string());
                None
            }
        }
    }

    /// The logins of a Secret that is named; none if it isn't among the manifests.
    fn named(
        &mut self,
        config: &Manifest<MachineOsConfig>,
        field: &str,
        name: &str,
    ) -> Option<NamedSecret> {
        if name.is_empty() {
            // That is told as a wrong field.
            return None;
        }
        if let Some(secret) = self.secrets.find(name, &mut self.problems) {
            return secrets::logins(secret, &mut self.problems);
        }
        let place = config.place(KIND, &config.object.metadata.name, field);
        let (list, why) = match self.asked.registries {
            true => (
                &mut self.problems,
                ", so what it may do can't be checked; add it, or --check-registry=false and create it in the cluster yourself",
            ),
            false => (
                &mut self.notices,
                ", so create it in the cluster yourself; without it the image is not taken over",
            ),
        };
        list.push(self.secrets.missing(name, why, &place));
        None
    }
}

/// Why it needs no pre-built image, if it doesn't: it has an image already.
fn in_service(config: &MachineOsConfig) -> Option<String> {
    let mut conditions = config.status.conditions.iter();
    if conditions.any(|condition| condition.kind == "Seeded" && condition.is_true()) {
        return Some("it says Seeded=True".to_owned());
    }
    let build = config.metadata.annotation(labels::CURRENT_MACHINE_OS_BUILD);
    let build = build.filter(|name| !name.is_empty())?;
    Some(format!("it has the build {build}"))
}
