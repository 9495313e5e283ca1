//! The two patterns that the API's own validation has for images. Passing them does not make a
//! valid OCI reference.

/// The most characters of either.
const LIMIT: usize = 447;

/// `host[:port]/…`: the part before the first slash, and the rest.
fn host_and_path(text: &str) -> Option<(&str, &str)> {
    let (host, path) = text.split_once('/')?;
    let (name, port) = match host.split_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (host, None),
    };
    let label = |label: &str| {
        !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let number =
        |port: &str| (2..=5).contains(&port.len()) && port.bytes().all(|b| b.is_ascii_digit());
    let good = name.contains('.') && name.split('.').all(label) && port.is_none_or(number);
    good.then_some((host, path))
}

fn is_component(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
}

fn is_name(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

/// Whether the API takes it as `spec.renderedImagePushSpec` (ImageTagFormat).
pub fn is_tag_format(text: &str) -> bool {
    (1..=LIMIT).contains(&text.chars().count()) && (is_plain_tag(text) || is_service_tag(text))
}

fn is_plain_tag(text: &str) -> bool {
    let Some((_, path)) = host_and_path(text) else {
        return false;
    };
    let mut components: Vec<&str> = path.split('/').collect();
    let Some((name, tag)) = components.pop().and_then(|last| last.split_once(':')) else {
        return false;
    };
    let namespace = |one: &&str| (1..=61).contains(&one.len()) && is_component(one);
    components.iter().all(namespace)
        && !name.is_empty()
        && is_name(name)
        && !tag.is_empty()
        && is_name(tag)
}

/// `<service>.<namespace>.svc:<port>/<one>/<name>:<tag>`, which takes nearly anything.
fn is_service_tag(text: &str) -> bool {
    let Some((host, path)) = text.split_once('/') else {
        return false;
    };
    let dots: Vec<&str> = host.split('.').collect();
    let [service, namespace, svc] = dots[..] else {
        return false;
    };
    let port = svc.strip_prefix("svc:").unwrap_or_default();
    let Some((one, last)) = path.split_once('/') else {
        return false;
    };
    let tagged = last.split_once(':');
    !service.is_empty()
        && !namespace.is_empty()
        && !port.is_empty()
        && port.bytes().all(|b| b.is_ascii_digit())
        && !one.is_empty()
        && !last.contains('/')
        && tagged.is_some_and(|(name, tag)| !name.is_empty() && !tag.is_empty())
}

/// Whether the API takes it as an image with a digest (ImageDigestFormat); `nested` where more than
/// one component before the name passes, as in mosb's own CRDs.
pub fn is_digest_format(text: &str, nested: bool) -> bool {
    let Some((image, digest)) = text.split_once('@') else {
        return false;
    };
    let hex = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
    let digest = digest
        .strip_prefix("sha256:")
        .is_some_and(|rest| rest.len() == 64 && rest.bytes().all(hex));
    let Some((_, path)) = host_and_path(image) else {
        return false;
    };
    let mut components: Vec<&str> = path.split('/').collect();
    let name = components.pop().unwrap_or_default();
    let most = if nested { usize::MAX } else { 1 };
    let namespace = |one: &&str| one.len() <= 61 && is_component(one);
    digest
        && text.chars().count() <= LIMIT
        && components.len() <= most
        && components.iter().all(namespace)
        && is_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_takes_these_push_specs_and_no_others() {
        let long = format!("quay.io/{}/os:v1", "a".repeat(62));
        let longest = format!("quay.io/{}:v1", "a".repeat(447 - 11));
        for (what, text, want) in [
            // Row 2 of docs/reference/behaviours.md.
            ("a port", "registry.test.example.local:5000/test/custom-os-image:v0.1", true),
            ("no repository", "foo.bar", false),
            ("no dot in the host", "localhost:5000/os:v1", false),
            ("an address", "127.0.0.1:5000/os:v1", true),
            ("no tag", "quay.io/acme/os", false),
            ("nested", "quay.io/a/b/c/os:v1", true),
            ("a dot in a namespace", "quay.io/my.team/os:v1", false),
            ("a dot in the name", "quay.io/team/my.os:v1", true),
            ("62 characters in a namespace", &long, false),
            ("447 characters", &longest, true),
            ("448 characters", &format!("{longest}x"), false),
            ("a port of one digit", "quay.io:5/os:v1", false),
            ("a service", "image-registry.openshift-image-registry.svc:5000/team/os:v1", true),
            ("a service without a port", "a.b.svc/team/os:v1", true),
            ("a service, blanks and a digest", "a.b.svc:1/te am/os@sha256:00", true),
            ("a service, two components", "a.b.svc:1/x x/y/os:v1", false),
            ("upper case, which OCI refuses", "quay.io/Acme/OS:v1", true),
            ("with a digest", "quay.io/acme/os:v1@sha256:00", false),
            ("nothing", "", false),
        ] {
            assert_eq!(is_tag_format(text), want, "{what}: {text}");
        }
    }

    #[test]
    fn the_api_takes_these_digests_and_no_others() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        for (what, image, strict, nested) in [
            ("one namespace", "quay.io/acme/os", true, true),
            ("no namespace", "quay.io:5000/os", true, true),
            ("two namespaces", "quay.io/acme/team/os", false, true),
            ("a tag", "quay.io/acme/os:v1", false, false),
            ("a dot in a namespace", "quay.io/my.team/os", false, false),
            ("no dot in the host", "localhost:5000/os", false, false),
            ("empty namespace", "quay.io//os", true, true),
            ("no name", "quay.io/acme/", true, true),
        ] {
            let text = format!("{image}@{digest}");
            assert_eq!(is_digest_format(&text, false), strict, "{what}: {text}");
            assert_eq!(is_digest_format(&text, true), nested, "{what}: {text}");
        }
        let upper = format!("quay.io/os@sha256:{}", "0A".repeat(32));
        for bad in ["quay.io/os", "quay.io/os@sha256:00", &upper] {
            assert!(!is_digest_format(bad, true), "{bad}");
        }
        let name = "a".repeat(447 - 72 - "quay.io/".len() + 1);
        assert!(!is_digest_format(&format!("quay.io/{name}@{digest}"), true));
    }
}
