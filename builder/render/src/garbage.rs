//! Finds the rendered configs that are not used any more.

use super::snapshot::{RenderSnapshot, SeenRendered};

/// The newest unused configs of a pool are retained, so that in-flight references and rollbacks
/// still resolve.
pub const RETAINED: usize = 3;

/// Rendered configs that mosb created for this pool and that no pool or build names, except the
/// newest. Nodes are still to be checked.
pub(super) fn unused_configs(snapshot: &RenderSnapshot) -> Vec<&SeenRendered> {
    let unnamed =
        |one: &&SeenRendered| one.is_ours && !one.deleting && !snapshot.named.contains(&one.name);
    let mut unnamed: Vec<_> = snapshot.rendered.iter().filter(unnamed).collect();
    unnamed.sort_by(|a, b| (&b.created, &b.name).cmp(&(&a.created, &a.name)));
    unnamed.into_iter().skip(RETAINED).collect()
}
