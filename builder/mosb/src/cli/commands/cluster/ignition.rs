//! `mosb ignition`.

use kube::Client;
use tokio::task::spawn_blocking;

use crate::cli::Result;
use crate::cli::error::Error;
use crate::cli::input::{FILE_LIMIT, Input};
use crate::cli::objects::MachineIgnition;
use crate::cli::resolve::Ignition;
use mosb_build::new_machine::OwnConfig;
use mosb_controller::Namespaces;
use mosb_controller::user_data::{self, IgnitionRequest};

pub async fn ignition(
    client: &Client,
    namespaces: &Namespaces,
    wanted: &Ignition,
) -> Result<MachineIgnition> {
    let own = match wanted.merge.clone() {
        Some(file) => Some(read(file).await?),
        None => None,
    };
    let request = IgnitionRequest { pool: wanted.pool.clone(), build: wanted.build.clone(), own };
    let found = user_data::machine_ignition(client, namespaces, &request).await?;
    for notice in &found.notices {
        tracing::warn!("{}: {} [{}]", wanted.pool, notice.message, notice.code);
    }
    Ok(MachineIgnition {
        pool: request.pool,
        machine_os_config: found.machine_os_config,
        build: found.build,
        image: found.image,
        rendered_config: found.rendered_config,
        joins: found.joins,
        holds_credentials: found.has_logins,
        config: found.config.expose().clone(),
        notices: found.notices,
    })
}

async fn read(file: Input) -> Result<OwnConfig> {
    // Reading stdin may never end, so it must not delay a signal.
    let read = spawn_blocking(move || -> Result<OwnConfig> {
        let bytes = file.bytes("Ignition config", FILE_LIMIT)?;
        Ok(OwnConfig::parse(&file.to_string(), &bytes)?)
    });
    read.await.map_err(Error::stopped("reading"))?
}
