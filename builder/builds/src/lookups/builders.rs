//! Checks the requested builder.

use super::invalid_input;
use mosb_api::cluster_settings::UserNamespaces;
use mosb_api::{ClusterSettings, ImageBuilderType};
use mosb_reconcile::Problem;

/// Checks that the settings permit a builder. An annotation must not weaken the settings: the pod
/// of an OpenShift Build is privileged, has no user namespace and holds the push credentials beside
/// `RUN` lines. `serves_builds`: whether the controller can see OpenShift Builds.
pub(super) fn permitted(
    builder: ImageBuilderType,
    settings: &ClusterSettings,
    serves_builds: bool,
) -> Result<(), Problem> {
    if !settings.builders.contains(&builder) {
        let all: Vec<&str> = settings.builders.iter().map(|one| one.as_str()).collect();
        let message = format!(
            "mosb.dev/builder is {builder}, and builders of ConfigMap mosb-config permits {}; take one of these, or add {builder} there",
            all.join(", ")
        );
        return Err(invalid_input("builder-not-permitted", message));
    }
    if builder != ImageBuilderType::OpenShiftImage {
        return Ok(());
    }
    if settings.job.user_namespaces == UserNamespaces::Required {
        let message = format!(
            "mosb.dev/builder is {builder}, whose pods are privileged and have no user namespace, and job.userNamespaces of ConfigMap mosb-config is required; use another builder"
        );
        return Err(invalid_input("no-user-namespace", message));
    }
    if !serves_builds {
        let message = format!(
            "mosb.dev/builder is {builder}, and the cluster does not serve build.openshift.io/v1 to the controller; use another builder, or enable OpenShift's capability Build and apply deploy/openshift-builds"
        );
        return Err(invalid_input("no-builds-api", message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_annotation_chooses_among_what_the_settings_permit() {
        use ImageBuilderType::{CustomPod, Job, OpenShiftImage};
        let all = ImageBuilderType::ALL;
        let auto = UserNamespaces::Auto;
        let required = UserNamespaces::Required;
        let default = ClusterSettings::default().builders;
        for (what, builder, builders, namespaces, serves, want) in [
            ("a Job", Job, &*default, required, true, None),
            ("a Pod", CustomPod, &default, required, true, None),
            (
                "a Build, by default",
                OpenShiftImage,
                &default,
                auto,
                true,
                Some("builder-not-permitted"),
            ),
            ("a Build that is permitted", OpenShiftImage, &all, auto, true, None),
            (
                "not with `never`: its pod is the cluster's",
                OpenShiftImage,
                &all,
                UserNamespaces::Never,
                true,
                None,
            ),
            (
                "a Build where user namespaces are required",
                OpenShiftImage,
                &all,
                required,
                true,
                Some("no-user-namespace"),
            ),
            (
                "a Build without the API or the right to it",
                OpenShiftImage,
                &all,
                auto,
                false,
                Some("no-builds-api"),
            ),
            (
                "a Job where only Pods are",
                Job,
                &[CustomPod],
                auto,
                true,
                Some("builder-not-permitted"),
            ),
        ] {
            let mut settings =
                ClusterSettings { builders: builders.to_vec(), ..ClusterSettings::default() };
            settings.job.user_namespaces = namespaces;
            let refused = permitted(builder, &settings, serves).err();
            assert_eq!(refused.as_ref().map(|problem| &*problem.reason), want, "{what}");
        }
    }
}
