//! The release of a boot image, as far as it is known or its text says so.

use std::collections::BTreeMap;

use crate::{BootImage, Release};

/// More parts than any name of a published image has.
const MAX_PARTS: usize = 64;

/// The release of an image: from a list such as [`crate::Golden::releases`], else from its text.
/// Of several images, the oldest release. AMIs and digests say nothing, so they must be listed.
pub fn release_of(image: &BootImage, known: &BTreeMap<String, Release>) -> Option<Release> {
    let text = image.as_str();
    if let Some(release) = known.get(text).or_else(|| known.get(image.name())) {
        return Some(release.clone());
    }
    let is_separator = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '-');
    let words = text.split(is_separator).take(MAX_PARTS);
    let found = words.flat_map(in_word);
    // In days from 1970, so the oldest has the largest age.
    found.max_by_key(|release| release.age_in_days(0))
}

/// The release in a word such as `rhcos-9.6.20260210-0-metal.x86_64.raw.gz`, or
/// `rhcos-9-6-20260210-0-gcp-x86-64`, as GCP allows no dots, or an Azure version, which has no build.
fn in_word(word: &str) -> Option<Release> {
    let parts: Vec<&str> = word.split('-').take(MAX_PARTS).collect();
    let of_os = |text: String| text.parse::<Release>().ok().filter(Release::is_of_os);
    let azure = |text: &str| {
        let date = text.rsplit_once('.')?.1;
        let is_plain = date.len() == 8 && parts.len() == 1;
        is_plain.then(|| of_os(format!("{text}-0")).or_else(|| of_os(format!("{text}0000-0"))))?
    };
    let at = |start: usize| {
        let rest = &parts[start..];
        let dotted = match rest {
            [a, b, c, d, ..] => {
                of_os(format!("{a}.{b}.{c}-{d}")).or_else(|| of_os(format!("{a}.{b}.{c}.{d}")))
            }
            _ => None,
        };
        let two = match rest {
            [a, b, ..] => of_os(format!("{a}-{}", b.split('.').next().unwrap_or_default())),
            _ => None,
        };
        dotted.or(two).or_else(|| of_os(rest[0].to_owned())).or_else(|| azure(rest[0]))
    };
    (0..parts.len()).find_map(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_texts_say() {
        let known = [
            ("ami-1", "9.6.20260210-0"),
            ("rhcos", "9.4.20250101-0"),
            ("ami-rhcos-9.6.20260210-0", "9.2.20240101-0"),
        ];
        let known: BTreeMap<String, Release> = known
            .map(|(image, release)| (image.to_owned(), release.parse().unwrap()))
            .into_iter()
            .collect();
        let url = "https://builds.coreos.fedoraproject.org/prod/streams/stable/builds/x/x86_64";
        let cases = [
            ("an AMI in the list", "ami-1", Some("9.6.20260210-0")),
            ("an AMI", "ami-2", None),
            ("the list before the text", "ami-rhcos-9.6.20260210-0", Some("9.2.20240101-0")),
            (
                "GCP",
                "projects/rhcos-cloud/global/images/rhcos-9-6-20260210-0-gcp-x86-64",
                Some("9.6.20260210-0"),
            ),
            (
                "GCP of OpenShift 4.18",
                "projects/rhcos-cloud/global/images/rhcos-418-94-202511191518-0-gcp-x86-64",
                Some("418.94.202511191518-0"),
            ),
            (
                "GCP of Fedora",
                "projects/fedora-coreos-cloud/global/images/fedora-coreos-42-20250609-3-0-gcp-x86-64",
                Some("42.20250609.3.0"),
            ),
            (
                "the oldest of two",
                "p/rhcos-9-6-20260210-0-gcp,p/rhcos-9-4-20250210-0-gcp",
                Some("9.4.20250210-0"),
            ),
            ("Azure", "azureopenshift:aro4:9_6-v2:9.6.20260210", Some("9.6.20260210-0")),
            (
                "Azure of OpenShift 4.18",
                "azureopenshift:aro4:418-v2:418.94.20250122",
                Some("418.94.202501220000-0"),
            ),
            ("Azure of another kind", "redhat:rh-ocp-worker:x:413.92.2023101700", None),
            ("vSphere", "my template (9.6.20260210-0)", Some("9.6.20260210-0")),
            ("vSphere in the list", "rhcos (old)", None),
            (
                "a URL",
                &format!("{url}/fedora-coreos-42.20250609.3.0-metal.x86_64.raw.xz"),
                Some("42.20250609.3.0"),
            ),
            (
                "a URL of RHEL",
                "https://x/rhcos-9.6.20260210-0-metal.x86_64.raw.gz",
                Some("9.6.20260210-0"),
            ),
            ("ours", "mosb-boot-image-42.20250609.3.0-amd64", Some("42.20250609.3.0")),
            ("ours of RHEL", "mosb-boot-image-9.6.20260210-0-amd64", Some("9.6.20260210-0")),
            ("a digest", "quay.io/x/y@sha256:0123456789", None),
            ("a Kubernetes version", "ubuntu-2204-kube-v1.33.1", None),
            ("a cluster's version", "rhcos-4.18.3", None),
        ];
        for (what, text, want) in cases {
            let release = release_of(&text.parse().unwrap(), &known);
            assert_eq!(release.as_ref().map(Release::as_str), want, "{what}");
        }
    }
}
