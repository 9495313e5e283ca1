//! Writes the ConfigMap `mosb-prepared-bases`. It is a record of what could be made again: a failed
//! write is logged, and the next build makes its prepared base anew.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ObjectMeta, Patch};
use serde_json::json;

use super::BuildExecutor;
use crate::prepared_bases::{PreparedBase, PreparedBaseKey, PreparedBases};
use mosb_cluster::cluster_names::PREPARED_BASES;
use mosb_reconcile::write::{patch_params, post_params};
use mosb_reconcile::{Error, error};

/// Another pool may create or delete it at the same time.
const TRIES: u32 = 3;

impl BuildExecutor {
    pub(super) async fn record_prepared_base(&self, key: &PreparedBaseKey, base: PreparedBase) {
        if let Err(error) = self.write_prepared_base(key, base).await {
            tracing::warn!(
                "{error}: the prepared base {} is not recorded, so the next build makes it anew; \
                 delete the ConfigMap if it is immutable",
                base.image
            );
        }
    }

    /// Reads what is there, and changes only this entry and those beyond the limit. It is not a conflict
    /// if another pool's entry was written meanwhile: many pools may end at once. The next write
    /// removes what such writes add beyond the limit.
    async fn write_prepared_base(
        &self,
        key: &PreparedBaseKey,
        base: PreparedBase,
    ) -> Result<(), Error> {
        let api: Api<ConfigMap> =
            Api::namespaced(self.writes.client.clone(), &self.cache.namespace);
        let object = || format!("configmap {}/{PREPARED_BASES}", self.cache.namespace);
        let mut tries = 1;
        loop {
            let there = api.get_opt(PREPARED_BASES).await.map_err(Error::api(object(), "get"))?;
            let data = there.as_ref().and_then(|map| map.data.clone()).unwrap_or_default();
            let mut bases = PreparedBases::from_data(&data);
            bases.insert(key, base);
            let change = bases.patch_of(&data);
            let (written, verb) = match &there {
                Some(_) if change.is_empty() => return Ok(()),
                Some(_) => {
                    let change = json!({ "data": change });
                    let written =
                        api.patch(PREPARED_BASES, &patch_params(), &Patch::Merge(&change)).await;
                    (written, "patch")
                }
                None => {
                    let name = Some(PREPARED_BASES.to_owned());
                    let text = |(key, value): (String, serde_json::Value)| {
                        Some((key, value.as_str()?.to_owned()))
                    };
                    let map = ConfigMap {
                        metadata: ObjectMeta { name, ..ObjectMeta::default() },
                        data: Some(change.into_iter().filter_map(text).collect()),
                        ..ConfigMap::default()
                    };
                    (api.create(&post_params(), &map).await, "create")
                }
            };
            match written {
                Err(error)
                    if tries < TRIES
                        && (error::is_conflict(&error) || error::is_not_found(&error)) =>
                {
                    tries += 1;
                }
                written => return written.map(drop).map_err(Error::api(object(), verb)),
            }
        }
    }
}
