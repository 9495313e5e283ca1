//! Mirrors as the file that our own client and buildah read: `registries.conf`, version 2.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::api::cluster_settings::{MirrorBy, MirrorSourcePolicy, Mirrors};

/// All that is said of one source.
#[derive(Default)]
struct Source<'a> {
    blocked: bool,
    mirrors: Vec<(&'a str, &'static str)>,
}

/// The text of a `registries.conf`; none without mirrors. Several entries of one source are one, their mirrors in order; if
/// one of them says that the source is never asked, it isn't.
pub fn registries_conf(mirrors: &[Mirrors]) -> Option<String> {
    let mut sources: BTreeMap<&str, Source<'_>> = BTreeMap::new();
    for entry in mirrors {
        let source = sources.entry(&entry.source).or_default();
        source.blocked |= entry.mirror_source_policy == MirrorSourcePolicy::NeverContactSource;
        let serves = match entry.by {
            MirrorBy::Digest => "digest-only",
            MirrorBy::Tag => "tag-only",
        };
        for mirror in &entry.mirrors {
            let mirror = (&**mirror, serves);
            if !source.mirrors.contains(&mirror) {
                source.mirrors.push(mirror);
            }
        }
    }
    let mut text = String::new();
    for (source, what) in &sources {
        // A wildcard has no location of its own: what it covers stays where it is.
        let key = match source.starts_with("*.") {
            true => "prefix",
            false => "location",
        };
        write!(text, "[[registry]]\n{key} = \"{source}\"\n").expect("a String takes it");
        if what.blocked {
            text.push_str("blocked = true\n");
        }
        for (mirror, serves) in &what.mirrors {
            write!(
                text,
                "[[registry.mirror]]\nlocation = \"{mirror}\"\npull-from-mirror = \"{serves}\"\n"
            )
            .expect("a String takes it");
        }
    }
    (!text.is_empty()).then_some(text)
}
