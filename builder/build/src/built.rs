//! An image that was built and pushed, and everything that follows a push.

use std::time::Duration;

use mosb_image::{DiffId, Digest};
use mosb_registry::{MovedTag, PushPlan, Pushed};
use mosb_trust::Evidence;
use mosb_types::Finding;

/// An image that was built and pushed.
#[derive(Debug, Clone)]
pub struct Built {
    /// Where it is, under which digest and tags, as the place confirmed.
    pub pushed: Pushed,
    /// The names that it is signed for; none if it was not to be signed.
    pub signed_for: Vec<String>,
    /// The layers on top of the base's, the lowest first.
    pub layers: Vec<BuiltLayer>,
    /// Warnings of the build itself.
    pub warnings: Vec<Finding>,
    /// How long making the layers took.
    pub making: Duration,
    /// How long sending them took; for a direct build, what remained after the layer was written.
    pub pushing: Duration,
}

/// A layer that a build put on top of the base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltLayer {
    /// Digest of the compressed bytes.
    pub digest: Digest,
    /// Digest of the uncompressed tar.
    pub diff_id: DiffId,
    /// Size of the compressed bytes.
    pub size: u64,
    /// Paths that it adds or removes, without the parents that it repeats; only a direct build
    /// counts them.
    pub paths: Option<usize>,
}

impl Built {
    /// What follows a push, of whatever was built: the only place for it.
    pub(crate) fn after_push(
        plan: &PushPlan,
        evidence: Option<Evidence<'_>>,
        pushed: Pushed,
        layers: Vec<BuiltLayer>,
        making: Duration,
        pushing: Duration,
    ) -> Self {
        let mut moved = pushed.moved_tags.iter();
        let moved = moved.find(|moved| Some(&moved.tag) == plan.protected_tag.as_ref());
        let warnings = moved.map(tag_moved).into_iter().collect();
        let signed_for = evidence.map(|evidence| evidence.references).unwrap_or_default();
        Self { pushed, signed_for, layers, warnings, making, pushing }
    }
}

/// Warns that the tag with the build's name pointed to another image before.
fn tag_moved(moved: &MovedTag) -> Finding {
    let now = match &moved.former_tag {
        Some(tag) => format!("now has the tag {tag}"),
        None => "has no tag of mosb now".to_owned(),
    };
    let message = format!("named {}, which {now}", moved.former);
    Finding::new("tag-moved", message).object(moved.tag.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_named_only_if_the_former_image_got_it() {
        let former = Digest::of(b"former");
        for (former_tag, want) in [
            (
                Some("worker-0-1".to_owned()),
                format!("named {former}, which now has the tag worker-0-1"),
            ),
            (None, format!("named {former}, which has no tag of mosb now")),
        ] {
            let moved = MovedTag { tag: "worker-0".to_owned(), former, former_tag };
            let warning = tag_moved(&moved);
            assert_eq!((warning.code.as_ref(), warning.message), ("tag-moved", want));
            assert_eq!(warning.object.as_deref(), Some("worker-0"));
        }
    }
}
