//! Pre-built images in the fake cluster: the renderer of pools, and MachineConfigs.

use super::fake_cluster::FakeCluster;
use super::server::{Versions, next_version};
use crate::*;
use mosb_api::*;
use mosb_image::Digest;
use mosb_reconcile::write::{Patch, Target};

/// The pre-built image, and the release's own.
pub const SEED: &str = "registry.example/golden/os@sha256:5eed5eed5eed5eed5eed5eed5eed5eed5eed5eed5eed5eed5eed5eed5eed5eed";
pub const STOCK: &str =
    "quay.io/release/os@sha256:0101010101010101010101010101010101010101010101010101010101010101";

impl FakeCluster {
    /// A pool with a request for [`SEED`], right after its manifests were applied and before the
    /// component exists.
    pub fn to_be_seeded() -> Self {
        let mut fake = Self::opted_in();
        fake.images.insert(SEED.parse().unwrap());
        fake.snapshot.cluster.stock_base = Some(STOCK.to_owned());
        fake.annotate(labels::PRE_BUILT_IMAGE, SEED);
        fake.content = Some(1);
        fake.rerender();
        fake
    }

    /// A pool that was seeded with [`SEED`].
    pub fn seeded() -> Self {
        let mut fake = Self::to_be_seeded();
        fake.settle();
        fake
    }

    /// Renders the pool.
    pub fn rerender(&mut self) {
        let Some(content) = self.content else {
            return;
        };
        self.collect();
        let components = self.snapshot.components.iter();
        let mut components: Vec<_> = components.filter(|one| !one.deleting).collect();
        components.sort_by(|a, b| a.name.cmp(&b.name));
        let image = components.last().map_or(STOCK, |one| &*one.image).to_owned();
        let hash = Digest::of(format!("{content} {image}").as_bytes()).hex();
        let name = format!("rendered-worker-{}", &hash[..32]);
        let names = components.iter().map(|one| one.name.clone());
        let source = names.map(|name| ConfigurationSource { name }).collect();
        let version = self.id();
        let pool = self.pool();
        if pool.spec.configuration.name != name {
            pool.spec.configuration.name.clone_from(&name);
            pool.metadata.resource_version = Some(version);
        }
        self.pool().spec.configuration.source = source;
        self.os_images.insert(name, image);
        self.collect();
    }

    /// One write and the events before it; then the controller is killed.
    pub fn one_write(&mut self) -> Decision {
        let actions = self.decide().actions;
        let write = actions.iter().position(|action| !matches!(action, Action::Event(_)));
        self.round(write.map_or(usize::MAX, |at| at + 1))
    }

    /// Whether nothing may be built yet.
    pub fn is_waiting_for_its_seed(&self) -> bool {
        let config = self.snapshot.config.as_ref();
        config.is_some_and(|config| {
            let metadata = &config.metadata;
            metadata.annotation(labels::PRE_BUILT_IMAGE).is_some()
                && metadata.annotation(labels::CURRENT_MACHINE_OS_BUILD).is_none()
                && config.status.current_image_pull_spec.is_empty()
        })
    }

    /// Adds a component MachineConfig that a user created.
    pub fn add_component(&mut self, name: &str, image: &str, claim: Option<&str>) {
        let component = SeenComponent {
            name: name.to_owned(),
            uid: format!("uid-{}", self.id()),
            resource_version: self.id(),
            pool: component_pool(name).unwrap(),
            image: image.to_owned(),
            claim: claim.map(str::to_owned),
            is_claim_good: false,
            is_wanted: false,
            deleting: false,
        };
        self.snapshot.components.push(component);
        self.collect();
    }

    pub fn is_of_the_config(&self, metadata: &Metadata) -> bool {
        let config = self.snapshot.config.as_ref();
        config.is_some_and(|config| metadata.is_controlled_by(config.metadata.uid()))
    }

    /// Updates which components are needed, and which the pool's config was rendered from.
    pub fn collect_components(&mut self) {
        self.snapshot.components.retain(|one| !one.deleting);
        for one in &mut self.snapshot.components {
            let config = self.snapshot.config.as_ref().map(|config| &config.metadata.name);
            one.is_wanted = config.is_some() && one.pool.as_str() == "worker";
            one.is_claim_good = one.is_wanted && one.claim.as_ref() == config;
        }
        if let (Some(_), Some(pool)) = (self.content, &self.snapshot.pool) {
            let source = &pool.spec.configuration.source;
            let listed = |one: &&SeenComponent| source.iter().any(|from| from.name == one.name);
            let listed = self.snapshot.components.iter().filter(listed);
            self.snapshot.prebuilt = listed.map(|one| one.image.clone()).collect();
            let is_there = |name: &&String| {
                let mut components = self.snapshot.components.iter();
                components.any(|one| one.name == **name)
            };
            let names = source.iter().map(|from| &from.name);
            let lost = names.filter(|name| !is_there(name)).cloned().collect();
            self.snapshot.lost_components = lost;
        }
    }

    pub fn component(&mut self, target: &Target) -> Option<&mut SeenComponent> {
        self.snapshot.components.iter_mut().find(|one| one.uid == target.uid)
    }

    /// As [`FakeCluster::act`].
    pub fn create_component(&mut self, config: &MachineConfig) -> Option<()> {
        let name = &config.metadata.name;
        if self.snapshot.components.iter().any(|one| one.name == *name) {
            return None;
        }
        let image = component_image(config);
        assert!(self.confirmed.contains(&image.parse().unwrap()), "unconfirmed");
        self.add_component(name, image, config.metadata.annotation(labels::SERVES));
        Some(())
    }

    /// As [`FakeCluster::act`].
    pub fn patch_component(
        &mut self,
        target: &Target,
        patch: &Patch,
        versions: &mut Versions,
    ) -> Option<()> {
        let new = self.id();
        let confirmed = self.confirmed.clone();
        let component = self.component(target)?;
        let version = next_version(target, &component.resource_version, new, versions)?;
        component.resource_version = version;
        component.claim = patch.annotations[labels::SERVES].clone();
        if let Some(image) = patch.spec["osImageURL"].as_str() {
            assert!(confirmed.contains(&image.parse().unwrap()), "unconfirmed");
            assert!(!component.name.contains("prebuild"), "never written");
            component.image = image.to_owned();
        }
        Some(())
    }
}
