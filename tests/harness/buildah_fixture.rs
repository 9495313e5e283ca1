//! The shared fixture for tests of Containerfile builds: a plan on the Debian root, and a build
//! with a store of its own.

use std::future::Future;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use mosb_api::RenderedConfig;
use mosb_build::buildah::{self, ContainerBuild};
use mosb_image::tree::BaseTree;
use mosb_plan::containerfile;
use mosb_plan::plan::{Base, BaseName, BuildPlan, BuildRequest, Draft, MethodChoice};
use mosb_registry::{Client, Resolved, Source, Target};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Layout, Snapshot, base_image, registry_fixture};

/// The name of every config in these tests.
pub const NAME: &str = "rendered-worker-0123456789abcdef0123456789abcdef";

/// A cache, a target, and a client without credentials.
#[derive(Debug)]
pub struct BuildahFixture {
    pub directory: TempDir,
    pub client: Client,
    pub options: buildah::Options,
}

/// What buildah builds for a plan.
pub fn container_build(plan: &BuildPlan) -> ContainerBuild {
    ContainerBuild::of_plan(plan, containerfile::render(plan).unwrap()).unwrap()
}

/// Blocks until a future is complete.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(future)
}

impl BuildahFixture {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = buildah::Options {
            cache_dir: directory.path().join("cache"),
            storage_driver: None,
            isolation: None,
            volumes: Vec::new(),
            context: None,
            authfile: None,
            cert_dir: None,
            tls_verify: true,
            registries_conf: None,
            signature_policy: None,
            limit: Duration::from_secs(300),
        };
        Self { directory, client: registry_fixture::anonymous_client(), options }
    }

    pub fn cache(&self) -> &Path {
        &self.options.cache_dir
    }

    /// The IDs of the containers in buildah's store.
    pub fn containers(&self) -> String {
        listed("containers", self.cache(), self.options.storage_driver.as_deref())
    }

    /// The image of the Debian root.
    pub fn base(&self) -> Resolved {
        self.resolve(&base_image().reference("base"))
    }

    pub fn resolve(&self, image: &str) -> Resolved {
        let source: Source = image.parse().unwrap();
        block_on(self.client.resolve(&source, None)).unwrap()
    }

    /// Builds until buildah writes this line, and then drops the build, as Ctrl-C does.
    pub fn interrupt(&self, plan: &BuildPlan, base: &Resolved, line: &str) {
        let target: Target =
            format!("oci:{}", self.directory.path().join("none").display()).parse().unwrap();
        let made = container_build(plan);
        let seen = tokio::sync::Notify::new();
        let on_line = |_, written: &str| {
            if written == line {
                seen.notify_one();
            }
        };
        let (client, options) = (&self.client, &self.options);
        let build = buildah::build(client, &made, base, &target, None, options, on_line);
        block_on(async {
            tokio::select! {
                ended = build => panic!("it ended: {ended:?}"),
                () = seen.notified() => {}
            }
        });
    }

    /// Builds into the layout `output` and returns the result.
    pub fn build(
        &self,
        plan: &BuildPlan,
        base: &Resolved,
        output: &str,
    ) -> Result<Image, mosb_build::Error> {
        let output = self.directory.path().join(output);
        let target: Target = format!("oci:{}", output.display()).parse().unwrap();
        let made = container_build(plan);
        let line = |_, line: &str| println!("{line}");
        let built = buildah::build(&self.client, &made, base, &target, None, &self.options, line);
        let built = block_on(built)?;
        let layout = Layout::at(output);
        let mut tree = Snapshot::default();
        for layer in layout.layers(NAME) {
            tree = tree.with_layer(layer).unwrap();
        }
        Ok(Image { built, layout, tree })
    }
}

/// The result of a build.
#[derive(Debug)]
pub struct Image {
    pub built: mosb_build::Built,
    pub layout: Layout,
    pub tree: Snapshot,
}

impl Image {
    pub fn digest(&self) -> String {
        self.built.pushed.digest.value().to_string()
    }
}

/// A plan with the Containerfile method for an Ignition config.
pub fn plan(ignition: &Value, containerfile: Option<&str>, base: &Resolved) -> BuildPlan {
    let config = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": NAME }, "spec": { "config": ignition },
    });
    let (name, image) = match base.pinned() {
        Some(image) => (BaseName::from_registry(image.repo(), base.manifest), image.to_string()),
        None => (BaseName::from_layout(base.manifest), format!("oci:dir@{}", base.manifest)),
    };
    let base = Base::new(name, image, base.index, &base.manifest_bytes, &base.config_bytes);
    let request = BuildRequest {
        containerfile: containerfile.map(str::to_owned),
        method: MethodChoice::Containerfile,
        ..BuildRequest::new(RenderedConfig::from_value(config).unwrap(), base.unwrap())
    };
    Draft::new(request).unwrap().finish(&BaseTree::default()).unwrap()
}

/// The IDs of the `containers` or `images` in buildah's store below a cache directory.
pub fn listed(what: &str, cache: &Path, driver: Option<&str>) -> String {
    let place = |kind| cache.join(format!("buildah/{kind}-{}", driver.unwrap_or("default")));
    let output = Command::new("buildah")
        .arg("--root")
        .arg(place("store"))
        .arg("--runroot")
        .arg(place("run"))
        .args(driver.iter().flat_map(|driver| ["--storage-driver", driver]))
        .args([what, "--quiet", "--all"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}
