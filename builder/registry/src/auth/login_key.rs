//! The keys by which logins are filed: `host`, `host/namespace`, or URLs of old.

use std::borrow::Cow;

use mosb_image::RepoRef;

/// The path of a repository below `/v2/`; Docker Hub's own images are filed under `library/`.
pub(crate) fn path_in_registry(repo: &RepoRef) -> Cow<'_, str> {
    let name = repo.repository();
    match normal_host(repo.host()) {
        "docker.io" if !name.contains('/') => format!("library/{name}").into(),
        _ => name.into(),
    }
}

/// How many bytes of `host/repository` the key of a login covers; none if the login is not for this
/// repository. The one that covers most is used.
pub fn covers(key: &str, repo: &RepoRef) -> Option<usize> {
    covered(key, &format!("{}/{}", normal_host(repo.host()), path_in_registry(repo)))
}

/// [`covers`], for a name as `path_in_registry` writes it.
pub(crate) fn covered(key: &str, name: &str) -> Option<usize> {
    let key = normal_key(key);
    let rest = name.strip_prefix(&*key)?;
    (!key.is_empty() && (rest.is_empty() || rest.starts_with('/'))).then_some(key.len())
}

/// The one name of Docker Hub among its many.
pub(crate) fn normal_host(host: &str) -> &str {
    match host {
        "index.docker.io" | "registry-1.docker.io" | "registry.hub.docker.com" => "docker.io",
        other => other,
    }
}

/// Keys are `host`, `host/namespace`, or URLs of old (`https://index.docker.io/v1/`), of which only
/// the host counts.
pub(crate) fn normal_key(key: &str) -> String {
    let url = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://"));
    match url {
        Some(rest) => normal_host(rest.split('/').next().unwrap_or(rest)).to_owned(),
        None => {
            let key = key.trim_end_matches('/');
            match key.split_once('/') {
                Some((host, "v1" | "v2")) => normal_host(host).to_owned(),
                Some((host, path)) => format!("{}/{path}", normal_host(host)),
                None => normal_host(key).to_owned(),
            }
        }
    }
}
