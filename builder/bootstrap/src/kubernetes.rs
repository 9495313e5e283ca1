//! The objects of a Kubernetes cluster without OpenShift: everything that an OpenShift installation
//! would have made, and the Ignition configs of the machines.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::check::{Seed, ValidatedInstall};
use super::file::{File, by_hand};
use super::manifest::{Error, Manifests};
use super::openshift::os_configs;
use mosb_api::{self as api, API_VERSION, MachineConfigPool, PoolName, Selector, labels};
use mosb_build::new_machine::{self, PullFiles};
use mosb_merge::{Component, Rendered, Request, is_rendered_one};
use mosb_types::Finding;

/// The MachineConfigs of the cluster, with component MachineConfigs, sorted by name.
#[derive(Debug)]
pub struct Configs {
    /// Without rendered ones.
    pub all: Vec<Component>,
    /// The input MachineConfigs that are left out, with the reason.
    pub notices: Vec<Finding>,
}

/// A pool that was rendered.
#[derive(Debug)]
pub struct RenderedPool {
    pub rendered: Rendered,
    /// The digest of each image with a tag.
    pub pins: BTreeMap<String, String>,
}

/// The output files, and what is reported about them.
#[derive(Debug)]
pub struct Output {
    /// Sorted by path.
    pub files: Vec<File>,
    /// Sorted by name.
    pub pools: Vec<PoolOutput>,
    /// Notices for the administrator.
    pub notices: Vec<Finding>,
}

/// The output for a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolOutput {
    pub pool: PoolName,
    /// The name of its rendered config.
    pub rendered: String,
    /// The path of the Ignition config of its machines; `None` for a pool without a pre-built
    /// image.
    pub ignition: Option<String>,
    /// Whether the Ignition config contains logins.
    pub has_logins: bool,
}

/// The input MachineConfigs, and the component MachineConfigs that set the pools' images.
pub fn configs(manifests: &Manifests, checked: &ValidatedInstall) -> Configs {
    let (mut all, mut notices) = (Vec::new(), Vec::new());
    let mut rendered: Vec<&Component> = Vec::new();
    for given in &manifests.configs {
        if is_rendered(given) {
            rendered.push(given);
            continue;
        }
        let mut given = given.clone();
        if let Some(pool) = api::component_pool(given.name()) {
            let name = api::component_name(&pool);
            if checked.seeds.iter().any(|seed| seed.pool == pool) {
                let message = "the MachineOSConfig of its pool says which image that is, so it is written anew";
                notices.push(Finding::new("component-replaced", message).object(at(&given)));
                continue;
            }
            given.config.metadata.name = name;
        }
        all.push(given);
    }
    let component = |seed: &Seed| Component {
        origin: seed.origin.clone(),
        config: api::component(&seed.pool, &seed.image.to_string()),
    };
    all.extend(checked.seeds.iter().map(component));
    all.sort_by(|a, b| a.name().cmp(b.name()));
    if let Some(first) = rendered.first() {
        let message = match rendered.len() {
            1 => "is rendered already, and skipped".to_owned(),
            more => format!("and {} more are rendered already, and skipped", more - 1),
        };
        notices.push(Finding::new("rendered-skipped", message).object(at(first)));
    }
    Configs { all, notices }
}

fn at(one: &Component) -> String {
    format!("{}: {}", one.origin, one.name())
}

fn is_rendered(one: &Component) -> bool {
    let metadata = &one.config.metadata;
    let kinds = metadata.owner_references.iter();
    let role = metadata.labels.get(labels::ROLE);
    is_rendered_one(
        &metadata.name,
        kinds.map(|owner| owner.kind.as_str()),
        role.map(String::as_str),
    )
}

/// The render request of each pool, sorted by pool: the same as the controller's once everything is
/// applied.
///
/// # Errors
/// A pool has an invalid name.
pub fn requests(
    manifests: &Manifests,
    checked: &ValidatedInstall,
    configs: &Configs,
) -> Result<Vec<Request>, Error> {
    let controller_config = manifests.controller_config();
    let controller_config = controller_config.map(|config| config.object.clone());
    let settings = &checked.settings;
    // The controller uses the images of the settings only without a ControllerConfig.
    let (os_image, extensions_image) = match &controller_config {
        Some(_) => (None, None),
        None => (
            settings.base_os_container_image.clone(),
            settings.base_os_extensions_container_image.clone(),
        ),
    };
    let (mut requests, mut problems) = (Vec::new(), Vec::new());
    for pool in &manifests.pools {
        let name = &pool.object.metadata.name;
        match name.parse() {
            Ok(name) => requests.push(Request {
                pool: name,
                pool_object: Some(pool.object.clone()),
                controller_config: controller_config.clone(),
                pool_settings: manifests.pool_settings.clone(),
                os_image: os_image.clone(),
                extensions_image: extensions_image.clone(),
                pins: BTreeMap::new(),
                configs: configs.all.clone(),
                explain: true,
            }),
            Err(error) => {
                let error: api::NameError = error;
                let place = pool.place("MachineConfigPool", name, "metadata.name");
                problems.push(Finding::new("bad-pool-name", error.to_string()).object(place));
            }
        }
    }
    requests.sort_by(|a, b| a.pool.cmp(&b.pool));
    if problems.is_empty() { Ok(requests) } else { Err(Error::Invalid { problems }) }
}

/// The output files for the rendered pools.
///
/// # Errors
/// Another MachineConfig overrides a pool's image, or an Ignition config is invalid.
pub fn output(
    manifests: &Manifests,
    checked: &ValidatedInstall,
    configs: &Configs,
    rendered: &[RenderedPool],
) -> Result<Output, Error> {
    let mut notices = configs.notices.clone();
    let mut problems = Vec::new();
    let mut files: Vec<File> = Vec::new();
    let mut pools = Vec::new();
    files.extend(configs.all.iter().map(|one| {
        let value = serde_json::to_value(&one.config).expect("a MachineConfig is JSON");
        File::of_object(&by_hand(&value))
    }));
    let settings = manifests.settings.iter().map(|map| &map.raw);
    let as_given = settings.chain(manifests.controller_config().map(|config| &config.raw));
    files.extend(as_given.map(|raw| File::of_object(&by_hand(raw))));
    files.extend(os_configs(manifests, checked));
    for one in rendered {
        let pool = one.rendered.config.pool().clone();
        let name = one.rendered.config.name().to_string();
        files.push(File::of_object(&by_hand(&one.rendered.object)));
        let found = manifests.pools.iter();
        let mut found = found.filter(|it| it.object.metadata.name == pool.as_str());
        let manifest = found.next().expect("it was rendered from these");
        files.push(pool_file(&manifest.raw, &manifest.object, &configs.all, &name, &one.pins));
        let seed = checked.seeds.iter().find(|seed| seed.pool == pool);
        notices.extend(one.rendered.warnings.iter().cloned());
        if let Some(seed) = seed
            && let Some(problem) = overridden(seed, &one.rendered)
        {
            problems.push(problem);
        }
        let mut out = PoolOutput { pool, rendered: name, ignition: None, has_logins: false };
        match seed {
            Some(seed) => {
                notices.extend(new_machine::left_out(&one.rendered.config));
                let mut pull_files =
                    PullFiles::new(&seed.image, &seed.pull.credentials, &checked.settings);
                if seed.verify {
                    pull_files = pull_files.verified_by(&one.rendered.config);
                }
                notices.extend(pull_files.without_policy());
                let config = new_machine::config(&one.rendered.config, &pull_files)?;
                let path = format!("ignition/{}.ign", api::shortened(out.pool.as_str(), 200));
                out.ignition = Some(path.clone());
                out.has_logins = pull_files.has_logins();
                let text = serde_json::to_string_pretty(&config).expect("JSON") + "\n";
                files.push(File { path, bytes: text.into_bytes(), is_private: true });
            }
            None => {
                let message = "no MachineOSConfig of it has an image to begin with, so there is no Ignition config for its new machines";
                let place = format!("MachineConfigPool {}", out.pool);
                notices.push(Finding::new("no-first-boot-config", message).object(place));
            }
        }
        pools.push(out);
    }
    if !problems.is_empty() {
        return Err(Error::Invalid { problems });
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Output { files, pools, notices })
}

/// The input pool, with the name of its rendered config.
fn pool_file(
    raw: &Value,
    pool: &MachineConfigPool,
    configs: &[Component],
    rendered: &str,
    pins: &BTreeMap<String, String>,
) -> File {
    let reference =
        |name: &str| json!({ "apiVersion": API_VERSION, "kind": "MachineConfig", "name": name });
    let selector = pool.spec.machine_config_selector.as_ref();
    let selector = selector.and_then(|wire| Selector::new(wire).ok());
    let is_source = |one: &&Component| {
        let labels = &one.config.metadata.labels;
        selector.as_ref().is_some_and(|selector| selector.matches(labels))
    };
    let sources = configs.iter().filter(is_source);
    let mut configuration = reference(rendered);
    configuration["source"] = sources.map(|one| reference(one.name())).collect();
    let mut object = by_hand(raw);
    object["spec"]["configuration"] = configuration;
    if !pins.is_empty() {
        object["metadata"]["annotations"][labels::PINS] = json!(json!(pins).to_string());
    }
    File::of_object(&object)
}

/// Reports a later MachineConfig that sets another image than the pre-built one.
fn overridden(seed: &Seed, rendered: &Rendered) -> Option<Finding> {
    let image = rendered.config.os_image_url.as_deref().unwrap_or_default();
    if image == seed.image.to_string() {
        return None;
    }
    let field = "spec.osImageURL";
    let message = format!(
        "it comes after {} and names {image}, so machines of pool {} would not get {}; take it out",
        api::component_name(&seed.pool),
        seed.pool,
        seed.image
    );
    let explanation = rendered.explanation.as_ref();
    let origins = explanation.map(|it| it.origins(field)).unwrap_or_default();
    let place = format!("{origins}: {field}");
    Some(Finding::new("image-overridden", message).object(place))
}
