//! Which rendered configs nobody needs any more.

use super::snapshot::{RenderSnapshot, SeenRendered};

/// So many of a pool's are kept though nobody names them: whoever rolls out may be about to name one that the pool had a moment
/// ago, and who goes back finds it.
pub const RETAINED: usize = 3;

/// Those that mosb made for this very pool and that neither a pool nor a build names, but for the newest. Nodes are yet to be
/// asked.
pub(super) fn unused_configs(snapshot: &RenderSnapshot) -> Vec<&SeenRendered> {
    let unnamed =
        |one: &&SeenRendered| one.is_ours && !one.deleting && !snapshot.named.contains(&one.name);
    let mut unnamed: Vec<_> = snapshot.rendered.iter().filter(unnamed).collect();
    unnamed.sort_by(|a, b| (&b.created, &b.name).cmp(&(&a.created, &a.name)));
    unnamed.into_iter().skip(RETAINED).collect()
}
