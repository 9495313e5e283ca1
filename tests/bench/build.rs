//! A direct build through the library.

use mosb_api::RenderedConfig;
use mosb_build::direct::{self, Assembled};
use mosb_build::resolve::{given_base_name, layers};
use mosb_image::tree::BaseTree;
use mosb_plan::plan::{Base, BuildPlan, BuildRequest, Draft, MethodChoice};
use mosb_registry::cache::TreeCache;
use mosb_registry::{Client, Resolved, Source, Target, base_tree};
use tokio::task::spawn_blocking;

/// The config, base and target of a build.
#[derive(Debug)]
pub struct Job {
    pub cache: TreeCache,
    pub base: Source,
    pub config: RenderedConfig,
    pub target: Target,
}

/// An assembled image that is not pushed.
#[derive(Debug)]
pub struct Image {
    pub assembled: Assembled,
    pub base: Resolved,
    pub tags: [String; 2],
}

/// The bytes that a build transferred.
#[derive(Debug, Clone, Copy)]
pub struct TransferStats {
    pub all: u64,
    pub layer: u64,
}

/// Resolves the base.
async fn request(client: &Client, job: &Job, method: MethodChoice) -> (BuildRequest, Resolved) {
    let resolved = client.resolve(&job.base, None).await.unwrap();
    let name = given_base_name(&resolved);
    let (manifest, config) = (&resolved.manifest_bytes, &resolved.config_bytes);
    let image = job.base.to_string();
    let base = Base::new(name, image, resolved.index, manifest, config).unwrap();
    let request = BuildRequest {
        method,
        push: job.target.repo().cloned(),
        ..BuildRequest::new(job.config.clone(), base)
    };
    (request, resolved)
}

/// Resolves the base and plans the build.
async fn plan(client: &Client, job: Job) -> (BuildPlan, Resolved) {
    let (request, resolved) = request(client, &job, MethodChoice::Direct).await;
    let layers = layers(&request.base, &resolved);
    let (cache, blobs) = (Some(&job.cache), &resolved.store);
    let obtained = base_tree::obtain(cache, &resolved.manifest, blobs, &layers, None).await;
    let tree = obtained.unwrap().tree;
    let finish = move || Draft::new(request).unwrap().finish(&tree).unwrap();
    (spawn_blocking(finish).await.unwrap(), resolved)
}

/// Resolves the base and plans a build that needs buildah.
pub async fn containerfile_plan(client: &Client, job: Job) -> (BuildPlan, Resolved) {
    let (request, resolved) = request(client, &job, MethodChoice::Containerfile).await;
    let tree = BaseTree::from_entries([]);
    (Draft::new(request).unwrap().finish(&tree).unwrap(), resolved)
}

/// Assembles the image without a push.
pub async fn make(client: &Client, job: Job) -> Image {
    let (plan, base) = plan(client, job).await;
    Image { assembled: direct::assemble(&plan).unwrap(), base, tags: plan.tags }
}

/// Runs a complete build.
pub async fn build(client: &Client, job: Job) -> TransferStats {
    let target = job.target.clone();
    let client = client.with_new_stats();
    let (plan, base) = plan(&client, job).await;
    let built = direct::build(&client, &plan, &base, &target, None).await.unwrap();
    TransferStats {
        all: client.transfer_stats().pulled() + client.transfer_stats().pushed(),
        layer: built.layers[0].size,
    }
}
