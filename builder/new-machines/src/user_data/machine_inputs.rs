//! What the Ignition config of new machines is made of.

use super::content::{JoinConfig, MachineInputs};
use mosb_api::rollout::NodeTarget;
use mosb_api::{ClusterSettings, MachineOsConfig, PoolName};
use mosb_build::new_machine::PullFiles;
use mosb_cluster::resolver::{MachineSecrets, Resolver, get_rendered_config, invalid_input};
use mosb_reconcile::Problem;
use mosb_types::Secret;

/// The key of the Secret that joins machines of every pool without a key of its own.
const JOIN_KEY: &str = "ignition";

/// Reads the config that an image was built of, the login that pulls the image, and what joins
/// machines to the cluster.
pub async fn new_machine(
    resolver: &Resolver,
    config: &MachineOsConfig,
    target: &NodeTarget,
) -> Result<MachineInputs, Problem> {
    let name = target.config.as_ref().ok_or_else(|| {
        let message = format!("{}: not built of a rendered config; rebuild the pool", target.image);
        invalid_input("no-rendered-config", message)
    })?;
    let rendered = get_rendered_config(resolver, name.as_str()).await?;
    let access = resolver.machine_access(&MachineSecrets::of(config)).await?;
    let (settings, image) = (&access.settings, &target.image);
    let login = access.pull_only_login_for(image);
    Ok(MachineInputs {
        join: join_config(resolver, settings, rendered.pool()).await?,
        pull_files: login.map(|login| {
            let files = PullFiles::new(image, &login, settings);
            if target.verify { files.verified_by(&rendered) } else { files }
        }),
        rendered,
    })
}

/// The config of the settings' Secret for this pool.
async fn join_config(
    resolver: &Resolver,
    settings: &ClusterSettings,
    pool: &PoolName,
) -> Result<Option<JoinConfig>, Problem> {
    let Some(name) = &settings.user_data.join_secret else {
        return Ok(None);
    };
    let namespace = &resolver.cache.namespace;
    let Some(secret) = resolver.read_secret(name).await? else {
        let message = format!(
            "secret {namespace}/{name} (userData.joinSecret of ConfigMap mosb-config): there is none; create it, or take the field out"
        );
        return Err(invalid_input("no-secret", message));
    };
    let own = format!("{JOIN_KEY}.{pool}");
    let mut data = secret.data.unwrap_or_default();
    let found = [own.as_str(), JOIN_KEY].into_iter().find_map(|key| Some((key, data.remove(key)?)));
    let Some((key, value)) = found else {
        let message = format!(
            "secret {namespace}/{name} (userData.joinSecret of ConfigMap mosb-config): it has neither the key {own} nor {JOIN_KEY}; add one with an Ignition config"
        );
        return Err(invalid_input("no-join-config", message));
    };
    let origin = format!("secret {namespace}/{name}: {key}");
    Ok(Some(JoinConfig { origin, bytes: Secret::new(value.0) }))
}
