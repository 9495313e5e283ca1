//! Mirrors, blocked and insecure registries as the file that our own client and buildah read: `registries.conf`, version 2.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::api::ClusterSettings;
use crate::api::cluster_settings::{MirrorBy, MirrorSourcePolicy};
use crate::registry::registries_conf::covers;

/// All that is said of one source.
#[derive(Debug, Clone, Default)]
struct Source {
    blocked: bool,
    /// Location, and which references it serves.
    mirrors: Vec<(String, &'static str)>,
}

/// The text of a `registries.conf`; none without anything to say. Several entries of one source are one, their mirrors in
/// order; if one of them says that the source is never asked, it isn't.
pub fn registries_conf(settings: &ClusterSettings) -> Option<String> {
    let registries = &settings.registry_sources;
    let among = |scopes: &[String], name: &str| scopes.iter().any(|s| covers(s, name).is_some());
    let is_blocked = |name: &str| among(&registries.blocked_registries, name);
    let is_insecure = |name: &str| among(&registries.insecure_registries, name);
    let mut sources = mirrored(settings);
    let mirrored = sources.clone();
    let scopes = registries.blocked_registries.iter();
    for scope in scopes.chain(&registries.insecure_registries) {
        // Only the entry with the longest prefix counts, so it says what a wider one says too.
        let inherited = || inherited(scope, &mirrored);
        sources.entry(scope.clone()).or_insert_with(inherited);
    }
    let mut text = String::new();
    for (source, what) in &sources {
        // A wildcard has no location of its own: what it covers stays where it is.
        let key = match source.starts_with("*.") {
            true => "prefix",
            false => "location",
        };
        write!(text, "[[registry]]\n{key} = \"{source}\"\n").expect("a String takes it");
        if what.blocked || is_blocked(source) {
            text.push_str("blocked = true\n");
        }
        if is_insecure(source) {
            text.push_str("insecure = true\n");
        }
        for (mirror, serves) in what
            .mirrors
            .iter()
            .filter(|(mirror, _)| !is_blocked(mirror))
        {
            write!(
                text,
                "[[registry.mirror]]\nlocation = \"{mirror}\"\npull-from-mirror = \"{serves}\"\n"
            )
            .expect("a String takes it");
            if is_insecure(mirror) {
                text.push_str("insecure = true\n");
            }
        }
    }
    (!text.is_empty()).then_some(text)
}

/// The sources that have mirrors.
fn mirrored(settings: &ClusterSettings) -> BTreeMap<String, Source> {
    let mut sources: BTreeMap<String, Source> = BTreeMap::new();
    for entry in &settings.mirrors {
        let source = sources.entry(entry.source.clone()).or_default();
        source.blocked |= entry.mirror_source_policy == MirrorSourcePolicy::NeverContactSource;
        let serves = match entry.by {
            MirrorBy::Digest => "digest-only",
            MirrorBy::Tag => "tag-only",
        };
        for mirror in &entry.mirrors {
            let mirror = (mirror.clone(), serves);
            if !source.mirrors.contains(&mirror) {
                source.mirrors.push(mirror);
            }
        }
    }
    sources
}

/// What the narrowest of these sources says about a part of it.
fn inherited(scope: &str, sources: &BTreeMap<String, Source>) -> Source {
    let covering = sources
        .iter()
        .filter_map(|(source, what)| Some((source, what, covers(source, scope)?)));
    let Some((_, what, covered)) = covering.max_by_key(|(source, ..)| source.len()) else {
        return Source::default();
    };
    let below = |(mirror, serves): &(String, &'static str)| {
        (format!("{mirror}{}", &scope[covered..]), *serves)
    };
    Source {
        blocked: what.blocked,
        mirrors: what.mirrors.iter().map(below).collect(),
    }
}
