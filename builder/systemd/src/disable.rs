//! Disabling: every link below `/etc/systemd/system` that has the unit's name or leads to it.

use std::collections::{BTreeSet, VecDeque};

use mosb_image::TreePath;
use mosb_image::overlay::Overlay;
use mosb_image::tree::Kind;

use super::chroot::{self, FinalComponent, resolve_path};
use super::dialect::{CONFIG, Dialect, path};
use super::error::{Unsupported, split_failure};
use super::name::UnitName;
use super::search::{Mode, Search};

/// What `systemctl disable` removes: the links of the unit and of those that it names in `Also=`,
/// but none of masked units.
pub(super) fn names(
    tree: &Overlay<'_>,
    dialect: &Dialect,
    unit: UnitName,
) -> Result<BTreeSet<UnitName>, Unsupported> {
    let search = Search { tree, dialect };
    let mode = Mode { load: true, follow_config: false };
    let mut known = vec![unit.clone()];
    let mut queue = VecDeque::from([unit]);
    let mut marked = BTreeSet::new();
    while let Some(name) = queue.pop_front() {
        let mut next = Vec::new();
        match split_failure(search.unit(&name, mode))? {
            // A name without a readable unit file may still have links.
            Err(_) => {
                marked.insert(name);
            }
            Ok(unit) if unit.name != name => next.push(unit.name),
            Ok(unit) if unit.masked => {}
            Ok(unit) => {
                next = unit.install.also;
                marked.insert(name);
            }
        }
        for name in next {
            if !known.contains(&name) {
                known.push(name.clone());
                queue.push_back(name);
            }
        }
    }
    Ok(marked)
}

/// Removes all links that have one of these names (for a template also its instances'), or lead to
/// a file of such a name or to a link removed before; and the directories that become empty.
pub(super) fn remove_links(
    tree: &mut Overlay<'_>,
    marked: &BTreeSet<UnitName>,
) -> Result<(), Unsupported> {
    let Some(config) = chroot::directory(tree, &path(CONFIG))? else {
        return Ok(());
    };
    let mut removing = Removing { tree, config: config.clone(), marked, removed: BTreeSet::new() };
    // Removing a link can orphan another one that led to it.
    while removing.directory(&config)? {}
    Ok(())
}

struct Removing<'t, 'b> {
    tree: &'t mut Overlay<'b>,
    config: TreePath,
    marked: &'t BTreeSet<UnitName>,
    removed: BTreeSet<TreePath>,
}

impl Removing<'_, '_> {
    fn directory(&mut self, directory: &TreePath) -> Result<bool, Unsupported> {
        let mut changed = false;
        for (child, found) in chroot::list(self.tree, directory)? {
            match (found.kind, found.target) {
                (Kind::Directory, _) => changed |= self.directory(&child)?,
                (Kind::Symlink, Some(target)) if self.is_marked(&child, &target)? => {
                    self.remove(child);
                    changed = true;
                }
                _ => {}
            }
        }
        Ok(changed)
    }

    fn is_marked(&self, link: &TreePath, target: &str) -> Result<bool, Unsupported> {
        let Ok(name) = link.name().parse::<UnitName>() else {
            return Ok(false);
        };
        if self.marked.contains(&name)
            || name.template().is_some_and(|template| self.marked.contains(&template))
        {
            return Ok(true);
        }
        let leads_to =
            resolve_path(self.tree, &chroot::absolute(link, target), FinalComponent::Follow)?
                .path();
        Ok(leads_to.is_some_and(|path| {
            self.removed.contains(&path)
                || path.name().parse().is_ok_and(|name| self.marked.contains(&name))
        }))
    }

    fn remove(&mut self, link: TreePath) {
        self.tree.remove(&link);
        let mut above = link.parent();
        self.removed.insert(link);
        while let Some(directory) = above.filter(|above| *above != self.config) {
            if !self.tree.children(&directory).is_empty() {
                break;
            }
            self.tree.remove(&directory);
            above = directory.parent();
        }
    }
}
