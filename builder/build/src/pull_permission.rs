//! Which Secrets MachineOSConfigs may name for pulls.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use mosb_plan::api::{ClusterSettings, labels};

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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_secret_is_for_pulls_only_if_it_or_the_settings_say_so() {
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
