//! Validates the manifests of an installation without contacting anything.

mod fields;
mod settings;

pub use fields::invalid_fields;

use std::collections::{BTreeMap, BTreeSet};

use mosb_api::rollout::VerifyOnMachines;
use mosb_api::{ClusterSettings, MachineOsConfig, PoolName, labels};
use mosb_build::{NamedSecret, pull_only_login, pull_permission};
use mosb_image::{PinnedRef, RepoRef};
use mosb_plan::plan;
use mosb_types::{Diagnostic as _, Finding};

use super::manifest::{Cluster, Error, Manifest, Manifests};
use super::secrets::{self, Secrets};

/// How to validate the manifests.
#[derive(Debug)]
pub struct ValidationOptions {
    pub cluster: Cluster,
    /// Replaces the cluster's pull secret.
    pub pull_secret: Option<NamedSecret>,
    /// Whether registries are checked next, so that logins are required.
    pub registries: bool,
}

/// The valid parts of an installation's manifests.
#[derive(Debug)]
pub struct ValidatedInstall {
    /// The pools whose images exist already, sorted by pool.
    pub seeds: Vec<Seed>,
    /// The registry settings: the ConfigMap's, merged with those of the cluster's objects.
    pub settings: ClusterSettings,
    /// The installed release, if there is a ControllerConfig.
    pub release: Option<String>,
    pub notices: Vec<Finding>,
}

/// A validated MachineOSConfig with a pre-built image.
#[derive(Debug, Clone)]
pub struct Seed {
    pub config: String,
    /// The file that contains it.
    pub origin: String,
    pub pool: PoolName,
    pub image: PinnedRef,
    /// The repository of later images: that of `spec.renderedImagePushSpec`.
    pub push: RepoRef,
    /// The logins that push later images; `None` if their Secret is not among the manifests.
    pub push_secret: Option<NamedSecret>,
    /// The logins that pull the image: the MachineOSConfig's own over the cluster's. Its name lists
    /// both for messages, as `secret a and secret b`; it is empty without logins.
    pub pull: NamedSecret,
    /// Whether machines must verify the signature of the image.
    pub verify: bool,
}

/// Pools that an OpenShift release creates itself, so they may be missing in the manifests.
const OF_RELEASE: [&str; 2] = ["master", "worker"];
const KIND: &str = "MachineOSConfig";

/// Validates the manifests without contacting a registry.
///
/// # Errors
/// All problems of the manifests.
pub fn check(
    manifests: &Manifests,
    options: &ValidationOptions,
) -> Result<ValidatedInstall, Error> {
    let (mut problems, mut notices) = (Vec::new(), Vec::new());
    let secrets = Secrets::of(manifests, options.cluster);
    let settings = settings::read(manifests, &secrets, options, &mut problems, &mut notices);
    report_duplicates(
        &manifests.pools,
        |pool| &pool.metadata.name,
        "MachineConfigPool",
        &mut problems,
    );
    report_duplicates(&manifests.os_configs, |config| &config.metadata.name, KIND, &mut problems);
    if manifests.os_configs.is_empty() {
        let message = "there is none among the manifests, so no pool has an image to begin with; `mosb seed new` prints one";
        problems.push(Finding::new("no-machine-os-config", message).object(KIND));
    }
    if options.cluster == Cluster::Kubernetes && settings.base_os_container_image.is_none() {
        let message = "the base OS image of later builds is not set; set baseOSContainerImage in config.yaml of ConfigMap mosb-config";
        notices.push(Finding::new("no-base-image", message).object("ConfigMap mosb-config"));
    }
    let global = match &options.pull_secret {
        Some(given) => given.clone(),
        None => global(&secrets, &settings, options, &mut problems, &mut notices),
    };
    let pools = Pools::of(manifests, options.cluster);
    let mut validator = Validator {
        options,
        settings: &settings,
        secrets,
        global,
        pools,
        first: BTreeMap::new(),
        problems,
        notices,
    };
    let configs = manifests.os_configs.iter();
    let mut seeds: Vec<Seed> = configs.filter_map(|config| validator.seed(config)).collect();
    seeds.sort_by(|a, b| a.pool.cmp(&b.pool));
    let Validator { problems, notices, .. } = validator;
    if !problems.is_empty() {
        return Err(Error::Invalid { problems });
    }
    Ok(ValidatedInstall { seeds, settings, release: settings::release(manifests), notices })
}

/// The logins that all machines pull with. The Secret is required only if the settings name one.
fn global(
    secrets: &Secrets<'_>,
    settings: &ClusterSettings,
    options: &ValidationOptions,
    problems: &mut Vec<Finding>,
    notices: &mut Vec<Finding>,
) -> NamedSecret {
    let name = &settings.global_pull_secret;
    if let Some(secret) = secrets.global(name, problems) {
        // Its errors are already among the problems.
        return secrets::logins(secret, problems).map_or_else(secrets::none, secrets::called);
    }
    if *name != ClusterSettings::default().global_pull_secret {
        let why = "; add it, as new machines pull their image with it, or name the right one";
        let missing = secrets.missing(name, why, "ConfigMap mosb-config: globalPullSecret");
        let list = if options.registries { problems } else { notices };
        list.push(missing);
    }
    secrets::none()
}

/// Reports objects with the same name.
fn report_duplicates<T>(
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

/// The pools of the installed cluster.
struct Pools<'a>(BTreeSet<&'a str>);

impl<'a> Pools<'a> {
    fn of(manifests: &'a Manifests, cluster: Cluster) -> Self {
        let pools = manifests.pools.iter();
        let mut names: BTreeSet<&str> = pools.map(|pool| &*pool.object.metadata.name).collect();
        // With a ControllerConfig, the manifests are complete.
        if cluster == Cluster::Openshift && manifests.controller_configs.is_empty() {
            names.extend(OF_RELEASE);
        }
        Self(names)
    }

    fn describe(&self) -> String {
        if self.0.is_empty() {
            return "there is none".to_owned();
        }
        let names: Vec<&str> = self.0.iter().copied().take(20).collect();
        format!("there are {}", names.join(", "))
    }
}

/// Validates one MachineOSConfig after the other and collects the findings.
struct Validator<'a> {
    options: &'a ValidationOptions,
    settings: &'a ClusterSettings,
    secrets: Secrets<'a>,
    global: NamedSecret,
    pools: Pools<'a>,
    /// The first MachineOSConfig of each pool.
    first: BTreeMap<&'a str, &'a Manifest<MachineOsConfig>>,
    problems: Vec<Finding>,
    notices: Vec<Finding>,
}

impl<'a> Validator<'a> {
    fn report(
        &mut self,
        config: &Manifest<MachineOsConfig>,
        field: &str,
        code: &'static str,
        message: String,
    ) {
        let place = config.place(KIND, &config.object.metadata.name, field);
        self.problems.push(Finding::new(code, message).object(place));
    }

    /// The seed of a MachineOSConfig; `None` if it is in service already or invalid.
    fn seed(&mut self, config: &'a Manifest<MachineOsConfig>) -> Option<Seed> {
        let before = self.problems.len();
        let object = &config.object;
        let nested = self.options.cluster == Cluster::Kubernetes;
        for (field, message) in fields::invalid_fields(object, nested) {
            self.report(config, field, "bad-machine-os-config", message);
        }
        let pool = &*object.spec.machine_config_pool.name;
        self.pool(config, pool);
        if let Some(why) = in_service(object) {
            if !object.metadata.annotation(labels::PRE_BUILT_IMAGE).unwrap_or_default().is_empty() {
                self.not_seeded(config, &why);
                return None;
            }
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
        let verifies = VerifyOnMachines::of(&object.metadata);
        if let Err(error) = &verifies {
            let (field, message) = ("metadata.annotations", error.to_string());
            self.report(config, field, "bad-machine-os-config", message);
        }
        if self.problems.len() > before {
            return None;
        }
        let seed = Seed {
            config: object.metadata.name.clone(),
            origin: config.origin.clone(),
            pool: pool.parse::<PoolName>().ok()?,
            image: image?,
            push: plan::push_repository(&object.spec.rendered_image_push_spec, nested).ok()?,
            push_secret,
            pull: self.pull(own),
            verify: verifies == Ok(VerifyOnMachines::Required),
        };
        self.pull_login(config, &seed);
        Some(seed)
    }

    /// Reports a login that new machines would get and that can push, and one that nothing can be
    /// pulled with.
    fn pull_login(&mut self, config: &Manifest<MachineOsConfig>, seed: &Seed) {
        let (pull, push) = (&seed.pull.credentials, seed.push_secret.as_ref());
        match pull_only_login(&seed.image, pull, push, self.settings) {
            Err(error) => {
                let place = config.place(KIND, &seed.config, "spec.renderedImagePushSecret.name");
                self.notices.push(Finding::from(&error).object(place));
            }
            // Where a registry is asked, that reports it.
            Ok(_) if self.options.registries => {}
            Ok(login) => self.notices.extend(login.unreadable().map(|registry| {
                let message = format!(
                    "{registry:?}.auth: is not user:password in base64, so nothing is pulled with it; log in anew"
                );
                Finding::new("bad-registry-secret", message).object(seed.pull.name.clone())
            })),
        }
    }

    /// Reports a Secret that the controller would not use for pulls.
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

    /// The logins that machines pull with. OpenShift machines use the cluster's logins only; a
    /// MachineOSConfig's own are for builds there.
    fn pull(&self, own: Option<NamedSecret>) -> NamedSecret {
        let machines_have_it =
            self.options.cluster == Cluster::Kubernetes || self.global.credentials.is_empty();
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
            self.report(config, field, "pool-twice", message);
        } else if !self.pools.0.contains(pool) {
            let message = format!(
                "no MachineConfigPool among the manifests is called {pool:?} ({}); add it, or correct the name",
                self.pools.describe()
            );
            self.report(config, field, "unknown-pool", message);
        }
    }

    /// Reports a pre-built image that no installation takes: its controller skips what says that it
    /// is in service, and nothing of a cluster that does not exist yet is.
    fn not_seeded(&mut self, config: &Manifest<MachineOsConfig>, why: &str) {
        let image = self.image(config);
        let image = image.map_or_else(|| "the image".to_owned(), |image| image.to_string());
        let message = format!(
            "{why}, so the machines would not begin with {image}; remove annotation {} and the status, or leave the pre-built image out",
            labels::CURRENT_MACHINE_OS_BUILD
        );
        let field = format!("metadata.annotations.{}", labels::PRE_BUILT_IMAGE);
        self.report(config, &field, "pre-built-image-not-used", message);
    }

    fn image(&mut self, config: &Manifest<MachineOsConfig>) -> Option<PinnedRef> {
        let annotation = config.object.metadata.annotation(labels::PRE_BUILT_IMAGE);
        let field = format!("metadata.annotations.{}", labels::PRE_BUILT_IMAGE);
        let nested = self.options.cluster == Cluster::Kubernetes;
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
                self.report(config, &field, error.code(), message);
                None
            }
            Err(error) => {
                self.report(config, &field, error.code(), error.to_string());
                None
            }
        }
    }

    /// The logins of a referenced Secret; `None` if it isn't among the manifests.
    fn named(
        &mut self,
        config: &Manifest<MachineOsConfig>,
        field: &str,
        name: &str,
    ) -> Option<NamedSecret> {
        if name.is_empty() {
            // Reported as an invalid field.
            return None;
        }
        if let Some(secret) = self.secrets.find(name, &mut self.problems) {
            return secrets::logins(secret, &mut self.problems);
        }
        let place = config.place(KIND, &config.object.metadata.name, field);
        let (list, why) = if self.options.registries {
            (
                &mut self.problems,
                ", so what it may do can't be checked; add it, or --check-registry=false and create it in the cluster yourself",
            )
        } else {
            (
                &mut self.notices,
                ", so create it in the cluster yourself; without it the image is not taken over",
            )
        };
        list.push(self.secrets.missing(name, why, &place));
        None
    }
}

/// The reason why the MachineOSConfig needs no pre-built image: it has an image already.
fn in_service(config: &MachineOsConfig) -> Option<String> {
    let mut conditions = config.status.conditions.iter();
    if conditions.any(|condition| condition.kind == "Seeded" && condition.is_true()) {
        return Some("it says Seeded=True".to_owned());
    }
    let build = config.metadata.annotation(labels::CURRENT_MACHINE_OS_BUILD);
    let build = build.filter(|name| !name.is_empty())?;
    Some(format!("it has the build {build}"))
}
