//! Writes the ConfigMap `mosb-base-trees`, whose entries are images with the trees of bases. It is a
//! cache: a failed write is logged, and later builds read the layers of the base again.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ObjectMeta, Patch};
use serde_json::{Map, Value, json};

use super::BuildExecutor;
use crate::base_trees::BaseTreeKey;
use crate::observe::base_trees;
use crate::snapshot::{base_of, prepared_base_of};
use mosb_cluster::cluster_names::BASE_TREES;
use mosb_image::Digest;
use mosb_reconcile::write::{patch_params, post_params};
use mosb_reconcile::{Error, error};

impl BuildExecutor {
    /// Adds an entry, and removes those of bases that no build uses, or that can't be read.
    pub(super) async fn record_base_tree(&self, key: &BaseTreeKey, image: &Digest) {
        let builds = self.cache.builds.list();
        let mut used: BTreeSet<Digest> = builds.iter().filter_map(|b| base_of(b)).collect();
        used.extend(builds.iter().filter_map(|build| prepared_base_of(build)));
        used.insert(key.base());
        let mut kept = base_trees(&self.cache);
        kept.retain(|key, _| used.contains(&key.base()));
        let kept: BTreeSet<String> = kept.keys().map(BaseTreeKey::data_key).collect();
        let data = self.cache.named(BASE_TREES).and_then(|map| map.data.clone());
        let unused = data.into_iter().flatten().map(|(key, _)| key);
        let unused = unused.filter(|key| !kept.contains(key)).collect();
        if let Err(error) = self.write_base_trees(&key.data_key(), image, unused).await {
            let base = key.base();
            tracing::warn!(
                "{error}: the tree of base {base} is not recorded, so the next build on it reads its layers again; \
                 delete the ConfigMap if it is immutable"
            );
        }
    }

    async fn write_base_trees(
        &self,
        key: &str,
        image: &Digest,
        unused: Vec<String>,
    ) -> Result<(), Error> {
        let api: Api<ConfigMap> =
            Api::namespaced(self.writes.client.clone(), &self.cache.namespace);
        let object = format!("configmap {}/{BASE_TREES}", self.cache.namespace);
        let mut data = Map::new();
        data.extend(unused.into_iter().map(|key| (key, Value::Null)));
        data.insert(key.to_owned(), json!(image));
        let change = json!({ "data": data });
        match api.patch(BASE_TREES, &patch_params(), &Patch::Merge(&change)).await {
            Ok(_) => Ok(()),
            Err(error) if error::is_not_found(&error) => {
                let map = ConfigMap {
                    metadata: ObjectMeta {
                        name: Some(BASE_TREES.to_owned()),
                        ..ObjectMeta::default()
                    },
                    data: Some(BTreeMap::from([(key.to_owned(), image.to_string())])),
                    ..ConfigMap::default()
                };
                let created = api.create(&post_params(), &map).await;
                created.map(drop).map_err(Error::api(object, "create"))
            }
            Err(error) => Err(Error::api(object, "patch")(error)),
        }
    }
}
