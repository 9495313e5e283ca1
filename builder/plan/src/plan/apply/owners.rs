//! Owners by name, looked up in the base as it is at that moment.

use super::{Applier, ApplyError};
use mosb_ignition::Owner;
use mosb_image::overlay::Content;
use mosb_image::path::TreePath;

/// Where names are, in the order they are asked: the second ones are those of `nss-altfiles`, as
/// CoreOS has them.
const USERS: [&str; 2] = ["/etc/passwd", "/usr/lib/passwd"];
const GROUPS: [&str; 2] = ["/etc/group", "/usr/lib/group"];

impl Applier<'_> {
    /// The numbers of an owner; the current ones where the config sets none.
    pub(super) fn owners(
        &self,
        path: &str,
        user: &Owner,
        group: &Owner,
        there: (u32, u32),
    ) -> Result<(u32, u32), ApplyError> {
        let unknown = |what, file, name: &str| ApplyError::UnknownOwner {
            path: path.to_owned(),
            what,
            file,
            name: name.to_owned(),
        };
        let uid = match user {
            Owner::Unset => there.0,
            Owner::Id(id) => *id,
            Owner::Name(name) => {
                self.look_up(&USERS, name).ok_or_else(|| unknown("user", "passwd", name))?
            }
        };
        let gid = match group {
            Owner::Unset => there.1,
            Owner::Id(id) => *id,
            Owner::Name(name) => {
                self.look_up(&GROUPS, name).ok_or_else(|| unknown("group", "group", name))?
            }
        };
        Ok((uid, gid))
    }

    fn look_up(&self, files: &[&str], name: &str) -> Option<u32> {
        files.iter().find_map(|file| {
            let path = self.paths.real(&self.tree, file).ok()??;
            number_in(&self.content_of(&path)?, name)
        })
    }

    /// The bytes of a file, if they are known.
    pub(super) fn content_of(&self, path: &TreePath) -> Option<bytes::Bytes> {
        match self.tree.content(path) {
            Content::Known(bytes) => Some(bytes),
            Content::NotRetained | Content::NoFile => None,
        }
    }
}

/// The third field of the first line with this name (passwd(5), group(5)).
pub(crate) fn number_in(file: &[u8], name: &str) -> Option<u32> {
    let text = String::from_utf8_lossy(file);
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let found = fields.next() == Some(name);
        found.then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::number_in;

    #[test]
    fn the_third_field_is_the_number() {
        let file = b"root:x:0:0:root:/root:/bin/sh\nbroken\n#core:x:1:1::/:\ncore:x:1000:1000::/:\ncore:x:1:1::/:\nodd:x:y:\n";
        for (name, want) in
            [("root", Some(0)), ("core", Some(1000)), ("odd", None), ("none", None), ("", None)]
        {
            assert_eq!(number_in(file, name), want, "{name}");
        }
    }
}
