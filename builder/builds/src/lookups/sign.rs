//! Signs an image that the registry confirmed: what must be attached is attached, read back and verified.
//!
//! Its build is planned again, for what the documents name. Invariant: an image gets the evidence of a
//! build only if it has the label with that build's inputs.

use tokio::task::spawn_blocking;

use super::direct_image::{DirectImage, direct_image};
use super::draft_again::{DraftAgain, context_of};
use super::os_packages::{of_layers, recorded_tree};
use super::plan::{builder_nodes, prepared_base};
use super::recognise::inputs_of;
use super::{LookupError, LookupPermit, Resolver};
use crate::lookup::{ImageKind, PlanLookup, SignLookup, Signed};
use crate::signing_keys::SigningKeys;
use mosb_api::ImageBuilderType;
use mosb_build::resolve::{self, PlanContext, ResolvedDraft, given_base_name, layers};
use mosb_build::{ConfigDescription, ConfigLayer, Description, Signing, Subject};
use mosb_cluster::resolver::{MAX_PLAN_HOLD, while_held};
use mosb_image::layer::Layer;
use mosb_image::packages::Installed;
use mosb_image::{BlobRef, Digest, PinnedRef};
use mosb_plan::plan::{Base, BuildPlan, Draft, Error as PlanError, Method, Prepared};
use mosb_reconcile::lease::Lease;
use mosb_registry::{Resolved, Source};
use mosb_trust::SigningKey;
use mosb_trust::spdx::OsPackages;
use mosb_types::Diagnostic;

/// The builder in the provenance of images that the controller signs.
const BUILDER: &str = "https://mosb.dev/builder/controller";

/// Why an image is not signed.
#[derive(Debug, thiserror::Error, Diagnostic)]
enum Error {
    #[error(
        "{image}: its label mosb.dev/inputs is not that of {build}, so the pod of the build reported another image; check who may push to the repository, and rebuild the pool (`mosb rebuild`)"
    )]
    #[diagnostic(code = "not-of-build", class = Rejected)]
    OtherImage { image: PinnedRef, build: String },
    #[error(
        "{image}: it is an index, and an image of one platform was built; check who may push to the repository, and rebuild the pool (`mosb rebuild`)"
    )]
    #[diagnostic(code = "not-of-build", class = Rejected)]
    Index { image: PinnedRef },
    #[error(
        "{image}: what its prepared base was made of changed since; rebuild the pool (`mosb rebuild`)"
    )]
    #[diagnostic(code = "not-of-build", class = Rejected)]
    NoPreparedBase { image: PinnedRef },
    #[error(transparent)]
    #[diagnostic(transparent)]
    Plan(#[from] PlanError),
}

/// Signs images, and only while the Lease is held: a registry does not refuse what another
/// controller writes.
#[derive(Debug)]
pub struct Signer {
    keys: SigningKeys,
    lease: Lease,
}

impl Signer {
    pub fn new(lease: Lease) -> Self {
        Self { keys: SigningKeys::default(), lease }
    }

    pub(super) async fn sign(
        &self,
        resolver: &Resolver,
        lookup: &SignLookup,
    ) -> Result<Signed, LookupError> {
        self.check_lease()?;
        let key = self.keys.get(resolver, &lookup.secret).await?;
        let plan_permit = resolver.limits.plan(false).await?;
        let signing = Box::pin(self.sign_with(resolver, &key, lookup));
        while_held(plan_permit, MAX_PLAN_HOLD, signing).await
    }

    fn check_lease(&self) -> Result<(), LookupError> {
        if self.lease.is_held() { Ok(()) } else { Err(self.lease.lost().into()) }
    }

    async fn sign_with(
        &self,
        resolver: &Resolver,
        key: &SigningKey,
        lookup: &SignLookup,
    ) -> Result<Signed, LookupError> {
        let SignLookup { image, plan, .. } = lookup;
        let host = image.repo().host().to_owned();
        let permit = resolver.limits.hosts(LookupPermit::default(), [host].into()).await?;
        let push = resolver.secret(&plan.push_secret).await?;
        let again = DraftAgain::of(resolver, plan, push, permit).await?;
        let DraftAgain { ref registry_client, resolved_draft, .. } = again;
        if resolved_draft.draft.names().1.as_str() != lookup.build {
            return Ok(Signed::InputsChanged);
        }
        let context = context_of(registry_client);
        let client = context.client;
        let found = client.resolve(&Source::Registry(image.clone().into()), None).await?;
        if found.index.is_some() || found.manifest != image.digest() {
            return Err(Error::Index { image: image.clone() }.into());
        }
        let tags = match lookup.kind {
            ImageKind::PreparedBase { .. } => {
                let prepared = prepared_of(resolver, lookup, &resolved_draft.draft)?;
                // It is verified when something is built on it.
                prepared.check(as_base(&found)?).map_err(PlanError::from)?;
                vec![prepared.tag().to_string()]
            }
            ImageKind::Direct { .. }
            | ImageKind::OnPrepared { .. }
            | ImageKind::Containerfile { .. } => {
                let (inputs, _) = resolved_draft.draft.names();
                if inputs_of(&found).as_deref() != Some(&*inputs.hex()) {
                    let build = lookup.build.clone();
                    return Err(Error::OtherImage { image: image.clone(), build }.into());
                }
                pushed_tags(plan, &resolved_draft.draft)
            }
        };
        let manifest = BlobRef::of(&found.media_type, &found.manifest_bytes);
        let description = describe(resolver, context, lookup, resolved_draft, &found).await?;
        let signing = Signing { key, identities: &[], builder: BUILDER, below: None };
        let subject = Subject {
            repo: Some(image.repo()),
            manifest: &manifest,
            tags: &tags,
            config: &found.config_bytes,
        };
        let evidence = signing.evidence(subject, description).await;
        self.check_lease()?;
        if client.attach(image.repo(), &evidence).await? {
            tracing::info!("{image} is signed for {}", evidence.references.join(", "));
        }
        Ok(Signed::By(key.verifying_key().fingerprint()))
    }
}

/// The tags that the workload of a build pushes. An OpenShift Build has one.
fn pushed_tags(plan: &PlanLookup, draft: &Draft) -> Vec<String> {
    let [rendered, build] = draft.tags();
    match plan.builder {
        ImageBuilderType::Job | ImageBuilderType::CustomPod => vec![rendered, build],
        ImageBuilderType::OpenShiftImage => vec![rendered],
    }
}

fn as_base(found: &Resolved) -> Result<Base, Error> {
    let name = given_base_name(found);
    let (manifest, config) = (&found.manifest_bytes, &found.config_bytes);
    let base = Base::new(name, found.pinned_text(), found.index, manifest, config);
    Ok(base.map_err(PlanError::from)?)
}

fn prepared_of(resolver: &Resolver, lookup: &SignLookup, draft: &Draft) -> Result<Prepared, Error> {
    let plan = &lookup.plan;
    let nodes = builder_nodes(plan, &resolver.cache);
    let prepared = prepared_base(plan.builder, nodes, draft).and_then(Result::ok);
    prepared.ok_or_else(|| Error::NoPreparedBase { image: lookup.image.clone() })
}

/// What the documents of an image have. The files of the layer of its config are known if the layer that
/// is made here once more is the one in the registry.
async fn describe(
    resolver: &Resolver,
    context: PlanContext<'_>,
    lookup: &SignLookup,
    resolved_draft: ResolvedDraft,
    found: &Resolved,
) -> Result<Description, LookupError> {
    let (image, push) = (&lookup.image, &lookup.plan.push);
    let draft = resolved_draft.draft.clone();
    let layers = layers(&as_base(found)?, found);
    let (method, on, tree) = match lookup.kind {
        ImageKind::PreparedBase { tree, base_tree } => {
            let prepared = prepared_of(resolver, lookup, &draft)?;
            let base = &prepared.request.base;
            let below = recorded_tree(context, lookup, base_tree, &base.manifest_digest).await;
            let (below, below_layers) = (below.as_ref(), &base.config.diff_ids);
            let packages = match recorded_tree(context, lookup, tree, &image.digest()).await {
                Some(tree) => Some(OsPackages {
                    installed: Installed::of(&tree),
                    of_base: below.map(|below| Installed::of(below).packages),
                }),
                None => of_layers(resolver, found, &layers, below_layers, below).await?,
            };
            let origin = prepared.origin();
            return Ok(Description::of_layers(origin, below_layers, None, &layers, packages));
        }
        ImageKind::Direct { tree } => (Method::Direct, None, tree),
        ImageKind::OnPrepared { base, tree } => {
            let prepared = prepared_of(resolver, lookup, &draft)?;
            let source = Source::Registry(push.pinned(base).into());
            let on = resolve::prepared_base(context, context.client, &prepared, &source).await?;
            let reasons = draft.reasons().to_vec();
            let method = if on.base.has_last {
                Method::LastPart(reasons)
            } else {
                Method::Prepared(reasons)
            };
            (method, Some(on), tree)
        }
        ImageKind::Containerfile { tree } => {
            (Method::Containerfile(draft.reasons().to_vec()), None, tree)
        }
    };
    let prepared = on.as_ref().map(|on| on.base.clone());
    let lower = prepared.as_ref().map_or(&draft.request().base, |on| &on.image);
    let tree = recorded_tree(context, lookup, tree, &lower.manifest_digest).await;
    let packages = match method {
        Method::Direct | Method::Prepared(_) => None,
        Method::LastPart(_) | Method::Containerfile(_) => {
            let below = &lower.config.diff_ids;
            of_layers(resolver, found, &layers, below, tree.as_ref()).await?
        }
    };
    if !matches!(method, Method::Containerfile(_))
        && let Some(tree) = tree
        && let Some(made) = direct_image(context, resolved_draft, on, tree).await?
    {
        let (digest, layers, packages) = (image.digest(), layers.clone(), packages.clone());
        let described = blocking(move || describe_made(&made, digest, &layers, packages)).await;
        if let Some(described) = described {
            return Ok(described);
        }
        tracing::warn!(
            "{image} is not what {} makes here, so its SBOM does not list files",
            lookup.build
        );
    }
    let planning = move || {
        let plan = BuildPlan { method, prepared, ..draft.finish_unread() };
        let below = &plan.lower().config.diff_ids;
        Description::of_layers(plan.origin(), below, None, &layers, packages)
    };
    Ok(blocking(planning).await)
}

/// What is known of an image with these layers; `None` if it is not the one that was made here, or is
/// not on that.
fn describe_made(
    made: &DirectImage,
    image: Digest,
    layers: &[Layer],
    packages: Option<OsPackages>,
) -> Option<Description> {
    let DirectImage { plan, assembled, tree } = made;
    let layer = &assembled.layer;
    match plan.method {
        Method::Direct | Method::Prepared(_) => (assembled.edited.digest() == image)
            .then(|| ConfigDescription::new(plan, Some(tree)).with_layer(layer.digest)),
        Method::LastPart(_) => {
            let below = &plan.lower().config.diff_ids;
            let found = layers.get(below.len())?;
            (found.digest == layer.digest).then(|| {
                let files = Some(plan.layer_files());
                let config = ConfigLayer { diff_id: layer.diff_id, files };
                Description::of_layers(plan.origin(), below, Some(config), layers, packages)
            })
        }
        Method::Containerfile(_) => None,
    }
}

/// Hashing and planning, which are not done on the async threads.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    spawn_blocking(work).await.expect("it does not panic and is not cancelled")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use mosb_cluster::cluster_cache::ClusterCache;
    use mosb_cluster::resolver::LookupLimits;
    use mosb_reconcile::fake_api::{FakeAnswer, FakeApi};
    use mosb_reconcile::lease::LeaseTimes;

    use super::super::plan::tests::plan_lookup;
    use super::*;

    #[tokio::test]
    async fn nothing_is_signed_without_the_lease() {
        // It has no Secret.
        let FakeApi { client, .. } = FakeApi::new(|_| FakeAnswer::failure(404));
        let resolver = Resolver {
            client: client.clone(),
            cache: Arc::new(ClusterCache::empty("mosb")),
            registries: Arc::default(),
            limits: Arc::new(LookupLimits::new(Duration::from_secs(1))),
        };
        let lease = Lease::new(client, "mosb", "mosb", "us", LeaseTimes::default());
        let signer = Signer::new(lease.clone());
        let image: PinnedRef = format!("quay.io/os@{}", Digest::of(b"x")).parse().unwrap();
        let lookup = SignLookup {
            image,
            kind: ImageKind::Direct { tree: None },
            build: "worker-0".to_owned(),
            plan: plan_lookup(),
            secret: "os-key".to_owned(),
        };
        let reason = async || match signer.sign(&resolver, &lookup).await.unwrap_err() {
            LookupError::Problem(problem) => problem.reason,
            LookupError::Busy(hosts) => panic!("{hosts:?}"),
        };
        assert_eq!(reason().await, "lost-lease");
        lease.hold_for_test();
        assert_eq!(reason().await, "no-signing-key");
    }
}
