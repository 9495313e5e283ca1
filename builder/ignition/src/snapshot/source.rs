//! The source of a resource.

use ::url::Url;

use super::super::url;
use mosb_types::Finding;

/// The source of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source<'v> {
    /// Not set, or empty.
    Nothing,
    Data(&'v str),
    /// A URL of `http` or `https`.
    Remote(Url),
}

impl<'v> Source<'v> {
    /// Reads a source. The finding of an error has no object.
    pub fn read(text: Option<&'v str>) -> Result<Self, Finding> {
        let text = match text {
            None | Some("") => return Ok(Self::Nothing),
            Some(text) => text,
        };
        if text.starts_with("data:") {
            return Ok(Self::Data(text));
        }
        match url::scheme(text).as_deref() {
            Some("http" | "https") => remote(text).map(Self::Remote).ok_or_else(|| {
                let shown = without_credentials(text);
                let message =
                    format!("{shown:?} is not a URL of a server; write https://host/path");
                Finding::new("bad-source", message)
            }),
            Some(scheme @ ("s3" | "gs" | "tftp" | "arn")) => {
                let message = format!(
                    "{:?} can't be fetched while rendering: {scheme} is not supported; serve it by https, or give it as a data URL",
                    without_credentials(text)
                );
                Err(Finding::new("unsupported-source", message))
            }
            _ => Err(Finding::new(
                "bad-source",
                "is not a URL that can be read; write https://host/path, or give a data URL",
            )),
        }
    }
}

fn remote(text: &str) -> Option<Url> {
    // `http:path` and `http:///path` have no server, but the URL standard finds one in them.
    let (scheme, rest) = text.split_once("://")?;
    if scheme.len() > "https".len() || rest.starts_with(['/', '?', '#']) {
        return None;
    }
    let mut url = Url::parse(text).ok()?;
    url.set_fragment(None);
    url.has_host().then_some(url)
}

/// A URL for a message: without user, password, query and fragment, which may be secret.
pub fn without_credentials(url: &str) -> String {
    const LONGEST: usize = 200;
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let (plain, more) = (&url[..end], &url[end..]);
    let mut shown = match plain.split_once("://") {
        None => plain.to_owned(),
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}{path}")
        }
    };
    if let Some((cut, _)) = shown.char_indices().nth(LONGEST) {
        shown.truncate(cut);
        shown.push('…');
    } else if more.starts_with('?') {
        shown.push_str("?…");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_distinguished() {
        let remote = |url: &str| Ok(Source::Remote(Url::parse(url).unwrap()));
        for (text, want) in [
            ("", Ok(Source::Nothing)),
            ("data:,x", Ok(Source::Data("data:,x"))),
            ("https://h/p?q#f", remote("https://h/p?q")),
            ("HTTP://u:p@[::1]:80/", remote("http://u:p@[::1]/")),
            ("http:/h/p", Err("bad-source")),
            ("http:h", Err("bad-source")),
            ("https:x://h", Err("bad-source")),
            ("http://", Err("bad-source")),
            ("http:///p", Err("bad-source")),
            ("/p", Err("bad-source")),
            ("ftp://h/", Err("bad-source")),
            ("s3://b/k", Err("unsupported-source")),
            ("gs://b/k", Err("unsupported-source")),
            ("tftp://h/k", Err("unsupported-source")),
            ("arn:aws:s3:::b/k", Err("unsupported-source")),
        ] {
            let got = Source::read(Some(text)).map_err(|problem| problem.code);
            assert_eq!(got, want.map_err(str::to_owned), "{text:?}");
        }
        assert_eq!(Source::read(None), Ok(Source::Nothing));
    }

    #[test]
    fn possible_secrets_in_urls_are_not_shown() {
        let long = format!("https://h/{}", "é".repeat(300));
        for (url, want) in [
            ("https://h/p", "https://h/p"),
            ("https://h:1/p?token=x", "https://h:1/p?…"),
            ("https://h/p#x", "https://h/p"),
            ("https://u:p@h/p@q", "https://h/p@q"),
            ("https://u:p@x@h", "https://h"),
            ("s3://b/k?versionId=1", "s3://b/k?…"),
            ("arn:aws:s3:::b/k", "arn:aws:s3:::b/k"),
        ] {
            assert_eq!(without_credentials(url), want, "{url}");
        }
        assert_eq!(without_credentials(&long).chars().count(), 201);
        let problem = Source::read(Some("s3://u:hunter2@b/k?a=hunter2")).unwrap_err();
        assert!(problem.message.contains("\"s3://b/k?…\""), "{problem:?}");
    }
}
