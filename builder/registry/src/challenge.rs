//! `WWW-Authenticate`: the challenges of an answer (RFC 9110, 11.6.1), several to a header and
//! several headers.

/// What a registry wants to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Challenge {
    /// User and password with each request.
    Basic,
    /// A token from this server.
    Bearer {
        /// URL of the token server.
        realm: String,
        /// The registry's name there.
        service: Option<String>,
        /// What the token must allow.
        scope: Option<String>,
    },
}

/// The challenges that we can meet, in the order in which they were written. Never fails: what
/// can't be read is skipped.
pub fn parse(header: &str) -> Vec<Challenge> {
    let mut found: Vec<(String, Vec<(String, String)>)> = Vec::new();
    let mut rest = header;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let end = rest.find(|c: char| !is_token(c)).unwrap_or(rest.len());
        if end == 0 {
            // Not a token: skip to the next comma, or stop.
            match rest.find(',') {
                Some(comma) => rest = &rest[comma..],
                None => break,
            }
            continue;
        }
        let word = &rest[..end];
        let after = rest[end..].trim_start_matches([' ', '\t']);
        match (after.strip_prefix('='), found.last_mut()) {
            (Some(value), Some((_, parameters))) => {
                let (value, tail) = read_value(value.trim_start_matches([' ', '\t']));
                parameters.push((word.to_ascii_lowercase(), value));
                rest = tail;
            }
            (Some(value), None) => rest = read_value(value).1,
            (None, _) => {
                found.push((word.to_ascii_lowercase(), Vec::new()));
                rest = after;
            }
        }
    }
    found.into_iter().filter_map(|(scheme, parameters)| challenge(&scheme, parameters)).collect()
}

fn challenge(scheme: &str, parameters: Vec<(String, String)>) -> Option<Challenge> {
    match scheme {
        "basic" => Some(Challenge::Basic),
        "bearer" => {
            let (mut realm, mut service, mut scope) = (None, None, None);
            for (name, value) in parameters {
                match &*name {
                    "realm" => realm = Some(value),
                    "service" => service = Some(value),
                    "scope" => scope = Some(value).filter(|s| !s.is_empty()),
                    _ => {}
                }
            }
            Some(Challenge::Bearer { realm: realm?, service, scope })
        }
        _ => None,
    }
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~/".contains(c)
}

/// A token or a quoted string, and what follows it.
fn read_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(|c: char| c == ',' || c.is_ascii_whitespace()).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
            _ => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Challenge {
        Challenge::Bearer {
            realm: realm.to_owned(),
            service: service.map(str::to_owned),
            scope: scope.map(str::to_owned),
        }
    }

    #[test]
    fn challenges_are_read_as_registries_send_them() {
        let hub = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:library/busybox:pull,push""#;
        for (what, header, want) in [
            (
                "docker hub",
                hub,
                vec![bearer(
                    "https://auth.docker.io/token",
                    Some("registry.docker.io"),
                    Some("repository:library/busybox:pull,push"),
                )],
            ),
            ("basic", r#"Basic realm="Registry""#, vec![Challenge::Basic]),
            ("basic, bare", "basic", vec![Challenge::Basic]),
            (
                "two in one header",
                r#"Basic realm="a, b", BEARER realm="https://t/", service=reg"#,
                vec![Challenge::Basic, bearer("https://t/", Some("reg"), None)],
            ),
            (
                "an unknown one, with a token68, between",
                r#"Negotiate YWJj==, Bearer  realm = "https://t/" , scope="""#,
                vec![bearer("https://t/", None, None)],
            ),
            (
                "quoted quote",
                r#"Bearer realm="https://t/\"x",error="invalid_token""#,
                vec![bearer("https://t/\"x", None, None)],
            ),
            ("no realm", r#"Bearer service="x""#, vec![]),
            (
                "unfinished quote",
                r#"Bearer realm="https://t"#,
                vec![bearer("https://t", None, None)],
            ),
            ("rubbish", "=,=\"\u{fc},;, ,", vec![]),
            ("nothing", "", vec![]),
        ] {
            assert_eq!(parse(header), want, "{what}");
        }
    }
}
