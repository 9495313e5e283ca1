//! Which Secrets MachineOSConfigs may name for pulls.

use std::path::Path;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use mosb_api::{ClusterSettings, labels};
use mosb_image::{PinnedRef, RepoRef};
use mosb_registry::registries_conf::{By, RegistriesConf};
use mosb_types::Diagnostic;

use crate::{DockerConfigJson, NamedSecret, registries_conf};

/// Checks that MachineOSConfigs may name a Secret for pulls. The error has the reason and a remedy.
///
/// A user who can write MachineOSConfigs can read pull credentials in `RUN` lines, so a label of the
/// Secret or the settings must permit it. `pushes` are the MachineOSConfigs that push with the Secret;
/// they only affect the error.
pub fn pull_permission(
    secret: &ObjectMeta,
    settings: &ClusterSettings,
    pushes: &[&str],
) -> Result<(), String> {
    let name = secret.name.as_deref().unwrap_or_default();
    let label = secret.labels.as_ref().and_then(|all| all.get(labels::PULL_SECRET));
    let is_labelled = label.is_some_and(|value| value == "true");
    let is_listed = settings.pull_secrets.iter().any(|listed| listed == name);
    if is_labelled || is_listed || settings.global_pull_secret == name {
        return Ok(());
    }
    let label = labels::PULL_SECRET;
    let permit = format!(
        "label it {label}=true, or list it under pullSecrets in config.yaml of ConfigMap mosb-config"
    );
    Err(match pushes {
        [] => format!(
            "it is not permitted for pulls, and RUN lines may read what a build pulls with; if they may read this one, {permit}"
        ),
        pushes => format!(
            "it is not permitted for pulls, and MachineOSConfig {} pushes with it; name one that can only pull, or if RUN lines may read this one, {permit}",
            pushes.join(", ")
        ),
    })
}

/// The repositories that an image may be pulled from: its own, and those of its mirrors (`conf` is
/// a `registries.conf`).
pub fn pull_repositories(repo: &RepoRef, conf: Option<&str>, by: &[By]) -> Vec<RepoRef> {
    let mut all = RegistriesConf::default();
    let is_read = conf.is_some_and(|text| all.add(text, Path::new("mirrors")).is_ok());
    let by = by.iter().filter(|_| is_read);
    let places = by.filter_map(|by| all.pull_sources(repo, *by).ok()).flatten();
    // A source that is never asked may still be the one that a login is written for.
    let mut repos: Vec<RepoRef> = places.map(|place| place.repo).chain([repo.clone()]).collect();
    repos.sort();
    repos.dedup();
    repos
}

/// Machines would get a login that pushes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[error(
    "{image}: the login that pulls it is one that secret {secret} pushes with, and every machine would have it; give the pool a pull secret with a login that can only pull (spec.baseImagePullSecret, or globalPullSecret in ConfigMap mosb-config)"
)]
#[diagnostic(code = "push-login", class = InvalidInput)]
pub struct PushLogin {
    pub image: String,
    pub secret: String,
}

/// The login of machines for an image and its mirrors, and for nothing else.
///
/// # Errors
/// It is one that pushes.
pub fn pull_only_login(
    image: &PinnedRef,
    pull: &DockerConfigJson,
    push: Option<&NamedSecret>,
    settings: &ClusterSettings,
) -> Result<DockerConfigJson, PushLogin> {
    let conf = registries_conf(settings);
    let pulled = pull_repositories(image.repo(), conf.as_deref(), &[By::Digest]);
    let login = pull.used_for(&pulled);
    match push {
        Some(push) if login.has_login_of(&push.credentials) => {
            Err(PushLogin { image: image.to_string(), secret: push.name.clone() })
        }
        Some(_) | None => Ok(login),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secret_for_pulls_must_be_labelled_or_listed() {
        let settings = ClusterSettings {
            global_pull_secret: "everybodys".to_owned(),
            pull_secrets: vec!["listed".to_owned()],
            ..ClusterSettings::default()
        };
        for (what, name, is_labelled, pushes, want) in [
            ("neither", "other", false, &[][..], Some("label it mosb.dev/pull-secret=true")),
            (
                "another's push secret",
                "other",
                false,
                &["infra", "worker"],
                Some("MachineOSConfig infra, worker pushes with it"),
            ),
            ("it says so", "other", true, &[], None),
            ("it says so, and somebody named it for pushes", "other", true, &["infra"], None),
            ("listed", "listed", false, &[], None),
            ("listed, and somebody named it for pushes", "listed", false, &["infra"], None),
            ("the global one", "everybodys", false, &["infra"], None),
            ("the global one by default", "global-pull-secret-copy", false, &[], Some("label it")),
        ] {
            let labels = json!({ "mosb.dev/pull-secret": is_labelled.to_string() });
            let secret = json!({ "name": name, "labels": labels });
            let secret: ObjectMeta = serde_json::from_value(secret).unwrap();
            let got = pull_permission(&secret, &settings, pushes);
            match (got, want) {
                (Ok(()), None) => {}
                (Err(why), Some(want)) => assert!(why.contains(want), "{what}: {why}"),
                (got, want) => panic!("{what}: {got:?}, want {want:?}"),
            }
        }
    }
}
