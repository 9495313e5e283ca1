//! The rendered config in ConfigMaps, and back.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::config_map::{ConfigMap, DATA_LIMIT};
use super::{Error, MACHINE_CONFIG_KEY, gzip};
use mosb_api::{BuildName, RENDERED_LIMIT, RenderedConfig};
use mosb_image::Digest;

/// Annotation: which part of how many, `2/3`.
const PART: &str = "mosb.dev/part";
/// Annotation: digest of the whole config, unpacked.
const DIGEST: &str = "mosb.dev/config-digest";

/// The rendered config as one ConfigMap `mc-<build name>`, or as several, `mc-<build name>-1` and
/// on, if one can't hold it.
pub fn pack(config: &RenderedConfig, build: &BuildName, namespace: Option<&str>) -> Vec<ConfigMap> {
    pack_within(config, build, namespace, DATA_LIMIT)
}

fn pack_within(
    config: &RenderedConfig,
    build: &BuildName,
    namespace: Option<&str>,
    limit: usize,
) -> Vec<ConfigMap> {
    let bytes = config.current_config();
    let digest = Digest::of(&bytes).to_string();
    let text = STANDARD.encode(gzip::packed(&bytes));
    let count = text.len().div_ceil(limit);
    let part = |(at, chunk): (usize, &[u8])| {
        let mut map = ConfigMap::new("mc", config, build, namespace);
        if count > 1 {
            map = map.numbered("mc", build, at + 1);
        }
        let chunk = std::str::from_utf8(chunk).expect("base64 is ASCII");
        map.metadata.annotations =
            [(DIGEST.to_owned(), digest.clone()), (PART.to_owned(), format!("{}/{count}", at + 1))]
                .into();
        map.text(MACHINE_CONFIG_KEY, chunk).expect("a chunk is within the limit")
    };
    text.as_bytes().chunks(limit).enumerate().map(part).collect()
}

/// The bytes that [`pack`] was given, from its ConfigMaps in any order.
///
/// # Errors
/// A part missing, doubled, damaged, or of another config; more bytes than a rendered config has.
pub fn unpack(maps: &[ConfigMap]) -> Result<Vec<u8>, Error> {
    let first = maps.first().ok_or_else(|| Error::Parts("there is none".to_owned()))?;
    let name = || first.metadata.name.clone();
    let content = |problem: String| Error::Content { name: name(), problem };
    let mut parts: Vec<Option<&str>> = vec![None; maps.len()];
    for map in maps {
        let (at, count) = part_of(map)?;
        if map.metadata.annotations.get(DIGEST) != first.metadata.annotations.get(DIGEST) {
            let (one, other) = (&map.metadata.name, name());
            return Err(Error::Parts(format!("{one} and {other} are of two configs")));
        }
        if count != maps.len() {
            let problem =
                format!("{} is one of {count}, and {} are here", map.metadata.name, maps.len());
            return Err(Error::Parts(problem));
        }
        let text = map.data.get(MACHINE_CONFIG_KEY).ok_or_else(|| Error::Content {
            name: map.metadata.name.clone(),
            problem: format!("it has no {MACHINE_CONFIG_KEY}"),
        })?;
        if parts[at].replace(text).is_some() {
            return Err(Error::Parts(format!("part {} is there twice", at + 1)));
        }
    }
    let text: String = parts.into_iter().flatten().collect();
    let bytes = decode(&name(), &text)?;
    let digest = first.metadata.annotations.get(DIGEST).map(String::as_str);
    if digest.is_some_and(|digest| digest != Digest::of(&bytes).to_string()) {
        return Err(content(format!("the config is not the one of annotation {DIGEST}")));
    }
    Ok(bytes)
}

/// The bytes that [`pack`] was given, from the texts of its ConfigMaps in their order, as a pod
/// finds them mounted.
///
/// # Errors
/// Texts that are not all of one config; more bytes than a rendered config has.
pub fn unpack_texts(texts: &[String]) -> Result<Vec<u8>, Error> {
    let text: String = texts.iter().map(|text| text.trim_ascii_end()).collect();
    decode("mc", &text)
}

fn decode(name: &str, text: &str) -> Result<Vec<u8>, Error> {
    let content = |problem: String| Error::Content { name: name.to_owned(), problem };
    let bomb = || Error::Bomb { name: name.to_owned(), limit: RENDERED_LIMIT };
    if text.len() > RENDERED_LIMIT * 2 {
        return Err(bomb());
    }
    let packed = STANDARD
        .decode(text.trim_ascii_end())
        .map_err(|e| content(format!("{MACHINE_CONFIG_KEY} is not base64 ({e})")))?;
    gzip::unpacked(&packed, RENDERED_LIMIT)
        .map_err(|e| content(format!("{MACHINE_CONFIG_KEY} is not gzip ({e})")))?
        .ok_or_else(bomb)
}

/// Index from 0, and count. Without the annotation it is the only one, as the Machine Config
/// Operator's builder writes it.
fn part_of(map: &ConfigMap) -> Result<(usize, usize), Error> {
    let Some(text) = map.metadata.annotations.get(PART) else {
        return Ok((0, 1));
    };
    text.split_once('/')
        .and_then(|(at, count)| Some((at.parse::<usize>().ok()?, count.parse::<usize>().ok()?)))
        .filter(|(at, count)| (1..=*count).contains(at))
        .map(|(at, count)| (at - 1, count))
        .ok_or_else(|| Error::Content {
            name: map.metadata.name.clone(),
            problem: format!("annotation {PART} is {text:?}, want for example 1/2"),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_types::Diagnostic as _;
    use serde_json::json;

    const HEX: &str = "0123456789abcdef0123456789abcdef";

    fn config(pool: &str) -> RenderedConfig {
        let noise: String = (0..200).map(|i| Digest::of(&[i]).hex()).collect();
        RenderedConfig::from_value(json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": { "name": format!("rendered-{pool}-{HEX}") },
            "spec": { "config": { "ignition": { "version": "3.5.0" }, "x": noise } },
        }))
        .unwrap()
    }

    fn build(config: &RenderedConfig) -> BuildName {
        BuildName::new(config.pool(), HEX).unwrap()
    }

    #[test]
    fn one_config_map_as_existing_builder_has_it() {
        let config = config("worker");
        let maps = pack(&config, &build(&config), Some("ns"));
        let [map] = &maps[..] else { panic!("{}", maps.len()) };
        assert_eq!(map.metadata.name, format!("mc-worker-{HEX}"));
        assert_eq!(map.metadata.namespace.as_deref(), Some("ns"));
        assert_eq!(unpack(&maps).unwrap(), config.current_config());
        let mut theirs = maps.clone();
        theirs[0].metadata.annotations.clear();
        assert_eq!(unpack(&theirs).unwrap(), config.current_config());
    }

    #[test]
    fn several_give_the_same_bytes_in_any_order() {
        let config = config("worker");
        for limit in [1, 100, 999, 5000] {
            let mut maps = pack_within(&config, &build(&config), None, limit);
            assert!(maps.len() > 1, "{limit}");
            assert_eq!(maps[1].metadata.name, format!("mc-worker-{HEX}-2"));
            maps.reverse();
            assert_eq!(unpack(&maps).unwrap(), config.current_config(), "{limit}");
        }
    }

    #[test]
    fn long_names_are_valid_and_stay_apart() {
        let config = config(&"p".repeat(200));
        let maps = pack_within(&config, &build(&config), None, 1000);
        let mut names: Vec<_> = maps.iter().map(|map| &map.metadata.name).collect();
        names.dedup();
        assert_eq!(names.len(), maps.len());
        for map in &maps {
            assert!(map.metadata.name.len() <= 253);
            assert!(map.metadata.labels.values().all(|value| value.len() <= 63));
        }
    }

    #[test]
    fn missing_duplicate_and_damaged_parts_are_errors() {
        type Change = fn(&mut Vec<ConfigMap>);
        let config = config("worker");
        let maps = pack_within(&config, &build(&config), None, 5000);
        let bomb = STANDARD.encode(gzip::packed(&vec![0; RENDERED_LIMIT + 1]));
        for (what, change, reason) in [
            ("none", (|m| m.clear()) as Change, "payload-parts"),
            ("missing", |m| drop(m.pop()), "payload-parts"),
            ("doubled", |m| m[0] = m[1].clone(), "payload-parts"),
            ("other config", |m| drop(m[0].metadata.annotations.remove(DIGEST)), "payload-parts"),
            ("no key", |m| m[0].data.clear(), "payload-content"),
            (
                "swapped",
                |m| {
                    let first = m[0].data.clone();
                    m[0].data = std::mem::replace(&mut m[1].data, first);
                },
                "payload-content",
            ),
            (
                "number",
                |m| drop(m[0].metadata.annotations.insert(PART.to_owned(), "0/2".to_owned())),
                "payload-content",
            ),
        ] {
            let mut maps = maps.clone();
            change(&mut maps);
            assert_eq!(unpack(&maps).unwrap_err().code(), reason, "{what}");
        }
        let texts: Vec<_> = maps.iter().map(|map| map.data[MACHINE_CONFIG_KEY].clone()).collect();
        assert_eq!(unpack_texts(&texts).unwrap(), config.current_config());
        for wrong in [&texts[1..], &texts[..texts.len() - 1], &[]] {
            assert_eq!(unpack_texts(wrong).unwrap_err().code(), "payload-content");
        }
        let mut single = pack(&config, &build(&config), None);
        single[0].data.insert(MACHINE_CONFIG_KEY.to_owned(), bomb);
        assert_eq!(unpack(&single).unwrap_err().code(), "payload-bomb");
        let other = pack(
            &RenderedConfig::from_value(json!({
                "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
                "metadata": { "name": format!("rendered-worker-{HEX}") }, "spec": {},
            }))
            .unwrap(),
            &build(&config),
            None,
        );
        single[0].data = other[0].data.clone();
        assert_eq!(unpack(&single).unwrap_err().code(), "payload-content");
    }
}
