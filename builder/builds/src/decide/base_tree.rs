//! What the layer of a build is on, and the tree of that, which later builds on it use.

use super::DecisionBuilder;
use super::annotations::method_of;
use crate::action::BuildEffect;
use crate::base_trees::BaseTreeKey;
use crate::snapshot::{base_of, made_on};
use mosb_api::MachineOsBuild;
use mosb_build::JobMethod;
use mosb_build::result::{BaseTreeImage, Outcome, PreparedImage};
use mosb_image::{Digest, ImageRef};
use mosb_workload::{Workload, is_confined_to};

impl DecisionBuilder<'_> {
    /// Records what a build pushed beside its image.
    pub(super) fn record_for_later(
        &mut self,
        build: &MachineOsBuild,
        workload: &Workload,
        outcome: &Outcome,
    ) {
        let (base_tree, prepared) = match outcome {
            Outcome::Succeeded { method, base_tree, prepared, .. }
                if *method == method_of(build) =>
            {
                (base_tree, prepared.as_deref())
            }
            Outcome::Prepared { prepared, base_tree, .. } => (base_tree, Some(&**prepared)),
            Outcome::Succeeded { .. }
            | Outcome::NeedsContainerfile { .. }
            | Outcome::Failed { .. } => return,
        };
        if let Some(tree) = base_tree
            && self.is_own_tree(build, workload, tree, prepared)
            && let Ok(push) = build.spec.rendered_image_push_spec.parse::<ImageRef>()
        {
            let key = BaseTreeKey::new(&tree.base, push.repo(), &self.snapshot.build_nodes);
            // The pod read the base, because what is recorded is missing or of another version.
            if self.snapshot.cluster.base_trees.get(&key) != Some(&tree.image) {
                self.actions.push(BuildEffect::RecordBaseTree { key, image: tree.image }.into());
            }
        }
        self.record_prepared_base(build, workload, prepared);
    }

    /// Whether a tree that a build pushed is of what its layer is on: one of another base would change
    /// the images of later builds on that base.
    fn is_own_tree(
        &self,
        build: &MachineOsBuild,
        workload: &Workload,
        tree: &BaseTreeImage,
        prepared: Option<&PreparedImage>,
    ) -> bool {
        self.made_on(build, prepared) == Some(tree.base)
            && is_confined_to(workload, &self.snapshot.build_nodes)
    }

    /// What the layer of a build with an image is on, and the image with the tree of that, recorded or
    /// about to be.
    pub(super) fn lower_of(&self, build: &MachineOsBuild) -> (Option<Digest>, Option<Digest>) {
        let result = self.snapshot.results.get(&build.metadata.name);
        let workload = self.workloads_of(build).next();
        let mut lower = made_on(build);
        if let (Some(result), Some(seen)) = (result, workload)
            && let Outcome::Succeeded { method, base_tree, prepared, .. } = &result.outcome
            && *method == method_of(build)
        {
            let prepared = prepared.as_deref();
            if let Some(tree) = base_tree
                && self.is_own_tree(build, &seen.workload, tree, prepared)
            {
                return (Some(tree.base), Some(tree.image));
            }
            // What it is on is recorded only when the build ends.
            lower = lower.or_else(|| self.made_on(build, prepared));
        }
        let Some(lower) = lower else {
            return (None, None);
        };
        let key = BaseTreeKey::new(&lower, &self.desired.push, &self.snapshot.build_nodes);
        (Some(lower), self.snapshot.cluster.base_trees.get(&key).copied())
    }

    /// What the layer of a build was put on: its base, or a prepared base.
    fn made_on(&self, build: &MachineOsBuild, made: Option<&PreparedImage>) -> Option<Digest> {
        match (self.prepared_base_of(build, made), method_of(build)) {
            (Some((_, base)), _) => Some(base.image),
            (None, JobMethod::Direct) => base_of(build),
            (None, JobMethod::Containerfile) => None,
        }
    }
}
