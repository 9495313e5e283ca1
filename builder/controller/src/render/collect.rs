//! Which rendered configs nobody needs any more.

use super::snapshot::{SeenRendered, Snapshot};

/// So many of a pool's are kept though nobody names them: whoever rolls out may be about to name one that the pool had a moment
/// ago, and who goes back finds it.
pub const KEPT: usize = 3;

/// Those that mosb made for this very pool and that neither a pool nor a build names, but for the newest. Nodes are yet to be
/// asked.
pub(super) fn superfluous(world: &Snapshot) -> Vec<&SeenRendered> {
    let unnamed =
        |one: &&SeenRendered| one.is_ours && !one.deleting && !world.named.contains(&one.name);
    let mut unnamed: Vec<_> = world.rendered.iter().filter(unnamed).collect();
    unnamed.sort_by(|a, b| (&b.created, &b.name).cmp(&(&a.created, &a.name)));
    unnamed.into_iter().skip(KEPT).collect()
}
