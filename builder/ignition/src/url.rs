//! Parses URLs as Go's `net/url`, as far as Ignition uses it: whether they are valid, and their
//! scheme.

use std::net::Ipv6Addr;

/// The scheme in lower case, empty for a relative reference; `None` if the URL is invalid.
pub(super) fn scheme(url: &str) -> Option<String> {
    let (url, fragment) = url.split_once('#').unwrap_or((url, ""));
    if !escapes_are_whole(fragment) || url.bytes().any(|b| b < b' ' || b == 0x7f) {
        return None;
    }
    let (scheme, rest) = split_scheme(url)?;
    let rest = rest.split_once('?').map_or(rest, |(before, _)| before);
    let readable = if let Some(hierarchy) = rest.strip_prefix("//") {
        let (authority, path) =
            hierarchy.find('/').map_or((hierarchy, ""), |slash| hierarchy.split_at(slash));
        authority_is_readable(&scheme, authority) && escapes_are_whole(path)
    } else if rest.starts_with('/') {
        escapes_are_whole(rest)
    } else {
        // With a scheme the rest is opaque; without one a colon in the first segment looks like a
        // scheme.
        !scheme.is_empty()
            || (!rest.split('/').next().unwrap_or_default().contains(':')
                && escapes_are_whole(rest))
    };
    readable.then_some(scheme)
}

/// The host, without user, password and port; `None` if the URL has none.
pub(super) fn host(url: &str) -> Option<&str> {
    let (_, rest) = split_scheme(url)?;
    let rest = rest.strip_prefix("//")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (_, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let end = match host.find(']') {
        Some(bracket) => bracket + 1,
        None => host.find(':').unwrap_or(host.len()),
    };
    Some(&host[..end]).filter(|host| !host.is_empty())
}

/// Whether the query has an empty `versionId`, which S3 rejects.
pub(super) fn names_empty_version(url: &str) -> bool {
    let url = url.split('#').next().unwrap_or_default();
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let mut versions = query.split('&').filter_map(|pair| match pair.split_once('=') {
        Some(("versionId", value)) => Some(value),
        None if pair == "versionId" => Some(""),
        _ => None,
    });
    versions.next() == Some("")
}

/// Whether this is the name of an object in S3: `arn:partition:s3:region:account:bucket/key`.
pub(super) fn is_s3_arn(url: &str) -> bool {
    let name = url.split(['#', '?']).next().unwrap_or_default();
    let parts: Vec<&str> = name.splitn(6, ':').collect();
    let [_, _, "s3", _, _, resource] = parts[..] else {
        return false;
    };
    let slashes = name.matches('/').count();
    slashes >= if resource.starts_with("accesspoint/") { 2 } else { 1 }
}

fn split_scheme(url: &str) -> Option<(String, &str)> {
    let end = url.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')));
    match end {
        Some(0) if url.starts_with(':') => None,
        Some(end)
            if url[end..].starts_with(':')
                && url.starts_with(|c: char| c.is_ascii_alphabetic()) =>
        {
            Some((url[..end].to_ascii_lowercase(), &url[end + 1..]))
        }
        _ => Some((String::new(), url)),
    }
}

fn authority_is_readable(scheme: &str, authority: &str) -> bool {
    match authority.rsplit_once('@') {
        None => host_is_readable(scheme, authority),
        Some((user, host)) => {
            let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&b);
            host_is_readable(scheme, host) && user.bytes().all(allowed) && escapes_are_whole(user)
        }
    }
}

fn host_is_readable(scheme: &str, host: &str) -> bool {
    if let Some(bracket) = host.rfind('[') {
        let Some(end) = host.rfind(']').filter(|end| bracket == 0 && *end > 0) else {
            return false;
        };
        let address = host[1..end].split_once("%25").map_or(&host[1..end], |(address, _)| address);
        return port_is_readable(&host[end + 1..]) && address.parse::<Ipv6Addr>().is_ok();
    }
    // Go takes the last colon for the port's, except with http and https.
    let colon = if matches!(scheme, "http" | "https") { host.find(':') } else { host.rfind(':') };
    let (name, port) = colon.map_or((host, ""), |at| host.split_at(at));
    let allowed =
        |b: u8| b >= 0x80 || b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:[]<>\"%".contains(&b);
    // In a host only bytes beyond ASCII may be escaped, and the percent sign.
    let escapes = name.match_indices('%').all(|(at, _)| {
        let digits = name.as_bytes().get(at + 1..at + 3);
        digits.is_some_and(|d| {
            d.iter().all(u8::is_ascii_hexdigit)
                && (d == b"25" || !d[0].is_ascii_digit() || d[0] >= b'8')
        })
    });
    port_is_readable(port) && name.bytes().all(allowed) && escapes
}

fn port_is_readable(port: &str) -> bool {
    port.strip_prefix(':')
        .map_or(port.is_empty(), |digits| digits.bytes().all(|b| b.is_ascii_digit()))
}

fn escapes_are_whole(text: &str) -> bool {
    text.match_indices('%').all(|(at, _)| {
        text.as_bytes()
            .get(at + 1..at + 3)
            .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn schemes_are_found_as_go_finds_them() {
        for (url, want) in [
            ("", Some("")),
            ("HTTP://x/", Some("http")),
            ("http:x", Some("http")),
            ("http://[::1]:80/", Some("http")),
            ("http://u:p@h:1/%20?%", Some("http")),
            ("http://x/%", None),
            ("http://x y/", None),
            ("http://x:p/", None),
            ("http://a:1:2/", None),
            ("gs://a:1:2/", Some("gs")),
            ("http://[::1", None),
            ("http://[1.2.3.4]/", None),
            ("http://h%20/", None),
            ("http://h%c3/", Some("http")),
            ("x y", Some("")),
            (":x", None),
            ("1:x", None),
            ("/a:b", Some("")),
            ("a\tb", None),
            ("arn:aws:s3:::b/k", Some("arn")),
            ("data:,%", Some("data")),
            ("data:,a#%", None),
        ] {
            assert_eq!(scheme(url).as_deref(), want, "{url:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(https?:|s3:|arn:)?(//)?[@:%\\[\\]/?#a-f0-9\u{e9}]{0,20}") {
            scheme(&text);
            names_empty_version(&text);
            host(&text);
            is_s3_arn(&text);
        }
    }

    #[test]
    fn hosts_are_shown_without_possible_secrets() {
        for (url, want) in [
            ("http://user:secret@a.example:8080/p?token=x#y", Some("a.example")),
            ("https://a?token=x", Some("a")),
            ("https://u:p@w@a/", Some("a")),
            ("tftp://[::1]:69/x", Some("[::1]")),
            ("https:secret@a", None),
            ("https:x://secret", None),
            ("https:///x", None),
            ("arn:aws:s3:::b/k", None),
        ] {
            assert_eq!(host(url), want, "{url:?}");
        }
    }

    #[test]
    fn names_in_s3() {
        for (arn, want) in [
            ("arn:aws:s3:::bucket/key", true),
            ("arn:aws:s3:::bucket", false),
            ("arn:aws:s3:r:1:accesspoint/a/object/k", true),
            ("arn:aws:s3:r:1:accesspoint/a", false),
            ("arn:aws:ec2:::bucket/key", false),
            ("arn:aws:s3", false),
        ] {
            assert_eq!(is_s3_arn(arn), want, "{arn}");
        }
        assert!(names_empty_version("s3://b/k?versionId="));
        assert!(names_empty_version("s3://b/k?a=b&versionId"));
        assert!(!names_empty_version("s3://b/k?versionId=1"));
        assert!(!names_empty_version("s3://b/k"));
    }
}
