//! What the Secret of a Job on a machine has. It is read when the Secret is created, shared by the
//! Jobs of one pass, and part of no decision.

use std::collections::BTreeMap;

use super::job_request::NodeLogin;
use super::node_job::JobSecretContent;
use crate::lookup::Problem;
use crate::lookups::{MachineAccess, Resolver};
use mosb_image::Digest;
use mosb_registry::Secret;

/// What the Secrets of one pass are made of, once they have been read: all machines of a pool have
/// the same pull secrets and settings, and mostly one target.
#[derive(Debug, Default)]
pub(super) struct JobSecrets {
    access: Option<MachineAccess>,
    machine_parts: BTreeMap<Digest, Secret<Vec<u8>>>,
}

impl JobSecrets {
    pub async fn content(
        &mut self,
        resolver: &Resolver,
        login: &NodeLogin,
    ) -> Result<JobSecretContent, Problem> {
        let access = match self.access.take() {
            Some(read) => read,
            None => resolver.machine_access(login.pull_secret.as_deref()).await?,
        };
        let access = self.access.insert(access);
        let auth = access.login_for(&login.target.image).to_bytes();
        let pull_settings = access.settings_for(&login.target.image)?.to_json();
        let machine_part = self.machine_part(resolver, login).await?;
        Ok(JobSecretContent { auth, pull_settings, machine_part })
    }

    async fn machine_part(
        &mut self,
        resolver: &Resolver,
        login: &NodeLogin,
    ) -> Result<Option<Secret<Vec<u8>>>, Problem> {
        let Some(digest) = login.target.machine_part else {
            return Ok(None);
        };
        if let Some(read) = self.machine_parts.get(&digest) {
            return Ok(Some(read.clone()));
        }
        let read = resolver.machine_part_of(&login.target).await?;
        self.machine_parts.extend(read.iter().map(|part| (digest, part.clone())));
        Ok(read)
    }
}
