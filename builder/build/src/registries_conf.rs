//! Mirrors, blocked and insecure registries as the file that our own client and buildah read:
//! `registries.conf`, version 2.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use mosb_api::ClusterSettings;
use mosb_api::cluster_settings::{MirrorBy, MirrorSourcePolicy};
use mosb_registry::registries_conf::covers;

/// All settings of one source.
#[derive(Debug, Clone, Default)]
struct Source {
    blocked: bool,
    /// Location, and which references it serves.
    mirrors: Vec<(String, &'static str)>,
}

/// The text of a `registries.conf`; `None` if it would be empty. Several entries of one source are
/// merged, their mirrors in order; if one of them excludes the source itself, it is excluded.
pub fn registries_conf(settings: &ClusterSettings) -> Option<String> {
    let registries = &settings.registry_sources;
    let among = |scopes: &[String], name: &str| scopes.iter().any(|s| covers(s, name).is_some());
    let is_blocked = |name: &str| among(&registries.blocked_registries, name);
    let is_insecure = |name: &str| among(&registries.insecure_registries, name);
    let mut sources = mirrored(settings);
    let mirrored = sources.clone();
    let scopes = registries.blocked_registries.iter();
    for scope in scopes.chain(&registries.insecure_registries) {
        // Only the entry with the longest prefix applies, so it repeats what a wider one has.
        let inherited = || inherited(scope, &mirrored);
        sources.entry(scope.clone()).or_insert_with(inherited);
    }
    let mut text = String::new();
    for (source, what) in &sources {
        // A wildcard has no location of its own: the matching images stay where they are.
        let key = if source.starts_with("*.") { "prefix" } else { "location" };
        write!(text, "[[registry]]\n{key} = \"{source}\"\n").expect("a String takes it");
        if what.blocked || is_blocked(source) {
            text.push_str("blocked = true\n");
        }
        if is_insecure(source) {
            text.push_str("insecure = true\n");
        }
        for (mirror, serves) in what.mirrors.iter().filter(|(mirror, _)| !is_blocked(mirror)) {
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

/// The settings of the narrowest of these sources that covers one.
fn inherited(scope: &str, sources: &BTreeMap<String, Source>) -> Source {
    let covering =
        sources.iter().filter_map(|(source, what)| Some((source, what, covers(source, scope)?)));
    let Some((_, what, covered)) = covering.max_by_key(|(source, ..)| source.len()) else {
        return Source::default();
    };
    let below = |(mirror, serves): &(String, &'static str)| {
        (format!("{mirror}{}", &scope[covered..]), *serves)
    };
    Source { blocked: what.blocked, mirrors: what.mirrors.iter().map(below).collect() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use mosb_registry::registries_conf::{By, RegistriesConf};

    use super::*;

    #[test]
    fn mirrors_are_read_back_by_our_own_client() {
        let text = r"
mirrors:
  - {source: quay.io/acme, mirrors: [mirror.example/acme, second.example:5000/a]}
  - {source: quay.io/acme, mirrors: [tags.example/acme], by: tag}
  - {source: '*.internal.example', mirrors: [mirror.example/internal]}
  - {source: only.example/os, mirrors: [mirror.example/os], mirrorSourcePolicy: NeverContactSource}
";
        let settings = ClusterSettings::parse(text).unwrap();
        let text = registries_conf(&settings).unwrap();
        let mut conf = RegistriesConf::default();
        conf.add(&text, Path::new("registries.conf")).unwrap();
        for (image, by, want) in [
            (
                "quay.io/acme/os",
                By::Digest,
                vec!["mirror.example/acme/os", "second.example:5000/a/os", "quay.io/acme/os"],
            ),
            ("quay.io/acme/os", By::Tag, vec!["tags.example/acme/os", "quay.io/acme/os"]),
            ("quay.io/other/os", By::Digest, vec!["quay.io/other/os"]),
            (
                "a.internal.example/x",
                By::Digest,
                vec!["mirror.example/internal/x", "a.internal.example/x"],
            ),
            ("only.example/os", By::Digest, vec!["mirror.example/os"]),
        ] {
            let places = conf.pull_sources(&image.parse().unwrap(), by).unwrap();
            let places: Vec<_> = places.iter().map(|place| place.repo.to_string()).collect();
            assert_eq!(places, want, "{image}");
        }
        let error = conf.pull_sources(&"only.example/os".parse().unwrap(), By::Tag);
        assert!(error.is_err(), "a source that is never asked, and no mirror for tags");
        assert_eq!(registries_conf(&ClusterSettings::default()), None);
    }

    #[test]
    fn blocked_and_insecure_registries_hold_beside_mirrors() {
        let text = r"
registrySources:
  blockedRegistries: [bad.example, quay.io/acme/secret, '*.evil.example']
  insecureRegistries: [plain.example:5000, quay.io/acme/lab, mirror.example]
mirrors:
  - {source: quay.io/acme, mirrors: [mirror.example/acme, bad.example/acme]}
  - {source: bad.example/os, mirrors: [plain.example:5000/os]}
";
        let settings = ClusterSettings::parse(text).unwrap();
        let text = registries_conf(&settings).unwrap();
        let mut conf = RegistriesConf::default();
        conf.add(&text, Path::new("registries.conf")).unwrap();
        for (image, want) in [
            ("bad.example/x", vec![]),
            ("bad.example/os/x", vec![("plain.example:5000/os/x", true)]),
            ("a.evil.example/x", vec![]),
            ("plain.example:5000/x", vec![("plain.example:5000/x", true)]),
            ("plain.example/x", vec![("plain.example/x", false)]),
            ("quay.io/acme/os", vec![("mirror.example/acme/os", true), ("quay.io/acme/os", false)]),
            (
                "quay.io/acme/lab/os",
                vec![("mirror.example/acme/lab/os", true), ("quay.io/acme/lab/os", true)],
            ),
            ("quay.io/acme/secret/os", vec![("mirror.example/acme/secret/os", true)]),
        ] {
            let repo = image.parse().unwrap();
            let places = conf.pull_sources(&repo, By::Digest);
            let places = places.unwrap_or_default();
            let places: Vec<_> = places.iter().map(|p| (p.repo.to_string(), p.insecure)).collect();
            let want: Vec<_> = want.iter().map(|(repo, tls)| ((*repo).to_owned(), *tls)).collect();
            assert_eq!(places, want, "{image}");
            let pushed = conf.push_insecure(&repo);
            let blocked =
                image.starts_with("bad") || image.contains("evil") || image.contains("secret");
            assert_eq!(pushed.is_err(), blocked, "{image}");
        }
    }
}
