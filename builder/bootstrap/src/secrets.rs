//! The Secrets among the manifests, by name, and the logins in them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;

use super::manifest::{Cluster, Manifests};
use mosb_build::{DockerConfigJson, NamedSecret};
use mosb_types::{Diagnostic as _, Finding};

/// Namespace of the Secrets that OpenShift builds pull and push with.
const OPENSHIFT: &str = "openshift-machine-config-operator";
/// OpenShift's own pull secret: namespace and name.
const PULL_SECRET: (&str, &str) = ("openshift-config", "pull-secret");

/// The Secrets among the manifests.
#[derive(Debug)]
pub(super) struct Secrets<'a> {
    manifests: &'a Manifests,
    /// The namespace that the controller reads; `None` if no manifest sets it.
    namespace: Option<String>,
}

impl<'a> Secrets<'a> {
    pub fn of(manifests: &'a Manifests, cluster: Cluster) -> Self {
        let settings = manifests.settings.first();
        let namespace = match cluster {
            Cluster::Openshift => Some(OPENSHIFT.to_owned()),
            Cluster::Kubernetes => settings.and_then(|map| map.object.metadata.namespace.clone()),
        };
        Self { manifests, namespace }
    }

    /// Reports a Secret that `place` refers to and that is missing. `why` continues the sentence.
    pub fn missing(&self, name: &str, why: &str, place: &str) -> Finding {
        let namespace = match &self.namespace {
            Some(namespace) => format!(" (namespace {namespace})"),
            None => String::new(),
        };
        let message = format!("secret {name:?} is not among the manifests{namespace}{why}");
        Finding::new("missing-secret", message).object(place)
    }

    /// The Secret of this name that the controller would use.
    pub fn find(&self, name: &str, problems: &mut Vec<Finding>) -> Option<&'a v1::Secret> {
        let fits = |found: &str| match &self.namespace {
            Some(wanted) => found.is_empty() || found == wanted,
            None => true,
        };
        self.only(name, fits, problems)
    }

    /// The only Secret of this name. Two are an error: either could end up in the cluster.
    fn only(
        &self,
        name: &str,
        fits: impl Fn(&str) -> bool,
        problems: &mut Vec<Finding>,
    ) -> Option<&'a v1::Secret> {
        let mut found = self.manifests.secrets.iter().filter(|(_, secret)| {
            let metadata = &secret.expose().0.metadata;
            metadata.name.as_deref() == Some(name)
                && fits(metadata.namespace.as_deref().unwrap_or_default())
        });
        let (origin, first) = found.next()?;
        for (other, _) in found {
            let message = format!("another Secret has this name ({origin}); keep one of them");
            let place = format!("{other}: Secret {name}: metadata.name");
            let problem = Finding::new("duplicate-name", message).object(place);
            // Several MachineOSConfigs may name it.
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        Some(&first.expose().0)
    }

    /// The Secret with the logins that all machines pull with: of this name, or OpenShift's.
    pub fn global(&self, name: &str, problems: &mut Vec<Finding>) -> Option<&'a v1::Secret> {
        let (namespace, pull_secret) = PULL_SECRET;
        let found = self.find(name, problems);
        found.or_else(|| self.only(pull_secret, |found| found == namespace, problems))
    }
}

/// A `NamedSecret` without logins.
pub(super) fn none() -> NamedSecret {
    NamedSecret { name: String::new(), credentials: DockerConfigJson::empty() }
}

/// Names a Secret as messages refer to it.
pub(super) fn called(secret: NamedSecret) -> NamedSecret {
    NamedSecret { name: format!("secret {}", secret.name), ..secret }
}

/// Merges logins: those of `global` apply to registries that `own` does not contain.
pub(super) fn over(own: &NamedSecret, global: &NamedSecret) -> NamedSecret {
    let names = [&own.name, &global.name].into_iter();
    let names: Vec<&str> = names.map(String::as_str).filter(|it| !it.is_empty()).collect();
    NamedSecret {
        name: names.join(" and "),
        credentials: own.credentials.over(&global.credentials),
    }
}

/// The logins of a Secret; reports an invalid Secret as a problem.
pub(super) fn logins(secret: &v1::Secret, problems: &mut Vec<Finding>) -> Option<NamedSecret> {
    let mut secret = secret.clone();
    secret.data = Some(data(&secret));
    match DockerConfigJson::from_secret(&secret) {
        Ok(logins) => Some(NamedSecret {
            name: secret.metadata.name.unwrap_or_default(),
            credentials: logins,
        }),
        Err(error) => {
            let object = format!("secret {}", error.name);
            let problem = Finding::new(error.code(), error.problem.to_string()).object(object);
            // Several MachineOSConfigs may name it.
            if !problems.contains(&problem) {
                problems.push(problem);
            }
            None
        }
    }
}

/// The data of a Secret after it is applied: `stringData` over `data`.
pub(super) fn data(secret: &v1::Secret) -> BTreeMap<String, k8s_openapi::ByteString> {
    let mut data = secret.data.clone().unwrap_or_default();
    let texts = secret.string_data.clone().unwrap_or_default();
    data.extend(
        texts.into_iter().map(|(key, text)| (key, k8s_openapi::ByteString(text.into_bytes()))),
    );
    data
}
