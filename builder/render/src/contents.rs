//! Contents of MachineConfigs: read when needed, and cached while the watch reports the same
//! version.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use kube::core::DynamicObject;
use kube::{Api, Client};

use super::snapshot::Member;
use mosb_api::MachineConfig;
use mosb_cluster::kinds;
use mosb_reconcile::write::ApplyError;
use mosb_reconcile::{Error, error};

const PARALLEL_READS: usize = 16;
/// Bytes of JSON to cache. MachineConfigs that all pools share are read once.
const MAX_CACHED_BYTES: usize = 64 << 20;

#[derive(Debug, Default)]
pub(super) struct Contents {
    cached: Mutex<CachedConfigs>,
}

#[derive(Debug, Default)]
struct CachedConfigs {
    configs: BTreeMap<String, Arc<MachineConfig>>,
    size: usize,
}

impl Contents {
    /// The contents of these MachineConfigs, as they were seen or newer.
    ///
    /// # Errors
    /// The API; or one was deleted, and the watch event is still to come.
    pub async fn read(
        &self,
        client: &Client,
        members: &[Member],
    ) -> Result<Vec<Arc<MachineConfig>>, ApplyError> {
        let read = members.iter().map(|member| async {
            match self.known(member) {
                Some(known) => Ok(known),
                None => self.fetch(client, &member.name).await,
            }
        });
        // Collected first: the lazy iterator is not `Send`.
        let read: Vec<_> = read.collect();
        stream::iter(read).buffered(PARALLEL_READS).try_collect().await
    }

    fn known(&self, member: &Member) -> Option<Arc<MachineConfig>> {
        let cached = self.lock();
        let known = cached.configs.get(&member.name)?;
        let metadata = &known.metadata;
        let labels = &metadata.labels;
        let annotations = &metadata.annotations;
        let role = labels.get(mosb_api::labels::ROLE);
        let same = metadata.uid() == member.uid
            && metadata.generation == Some(member.generation)
            && role.map(String::as_str).unwrap_or_default() == member.role
            && annotations.get(mosb_api::labels::GENERATED_BY_CONTROLLER_VERSION)
                == member.generated_by.as_ref();
        same.then(|| Arc::clone(known))
    }

    async fn fetch(&self, client: &Client, name: &str) -> Result<Arc<MachineConfig>, ApplyError> {
        let object = format!("machineconfig {name}");
        let Some(found) = find(client, name).await? else {
            return Err(ApplyError::Conflict(object));
        };
        let value = serde_json::to_value(found).expect("what came as JSON is JSON");
        let size = value.to_string().len();
        let config: MachineConfig = serde_json::from_value(value).map_err(|cause| {
            ApplyError::Api(Error::Unreadable { object, cause: cause.to_string() })
        })?;
        let config = Arc::new(config);
        let mut cached = self.lock();
        if cached.size + size > MAX_CACHED_BYTES {
            *cached = CachedConfigs::default();
        }
        // A replaced entry counts until the cache is cleared, which only makes the bound tighter.
        cached.size += size;
        cached.configs.insert(name.to_owned(), Arc::clone(&config));
        Ok(config)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, CachedConfigs> {
        self.cached.lock().expect("it is not poisoned: maps don't panic")
    }
}

/// The MachineConfig of this name, with its content.
///
/// # Errors
/// The API.
pub(super) async fn find(client: &Client, name: &str) -> Result<Option<DynamicObject>, Error> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kinds::MACHINE_CONFIG.resource());
    match api.get_opt(name).await {
        Ok(found) => Ok(found.map(|mut object| {
            object.metadata.managed_fields = None;
            object
        })),
        Err(error) if error::is_not_found(&error) => Ok(None),
        Err(error) => Err(Error::api(format!("machineconfig {name}"), "get")(error)),
    }
}
