//! The Secrets among the manifests, by name, and the logins in them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;

use super::check::Cluster;
use super::manifest::Manifests;
use crate::backend::job::{DockerConfigJson, NamedSecret};
use crate::report::Finding;

/// Where OpenShift has what builds pull and push with.
const OPENSHIFT: &str = "openshift-machine-config-operator";
/// OpenShift's own pull secret: namespace and name.
const PULL_SECRET: (&str, &str) = ("openshift-config", "pull-secret");

/// The Secrets among the manifests.
#[derive(Debug)]
pub(super) struct Secrets<'a> {
    manifests: &'a Manifests,
    /// Where the controller looks for them; none if the manifests don't tell.
    namespace: Option<String>,
}

impl<'a> Secrets<'a> {
    pub fn of(manifests: &'a Manifests, cluster: Cluster) -> Self {
        let settings = manifests.settings.first();
        let namespace = match cluster {
            Cluster::Openshift => Some(OPENSHIFT.to_owned()),
            Cluster::Kubernetes => settings.and_then(|map| map.object.metadata.namespace.clone()),
        };
        Self {
            manifests,
            namespace,
        }
    }

    /// Where they have to be, for a message.
    pub fn place(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!(" (namespace {namespace})"),
            None => String::new(),
        }
    }

    /// The one of this name that the controller would find.
    pub fn find(&self, name: &str) -> Option<&'a v1::Secret> {
        let fits = |found: &str| match &self.namespace {
            Some(wanted) => found.is_empty() || found == wanted,
            None => true,
        };
        self.first(name, fits)
    }

    fn first(&self, name: &str, fits: impl Fn(&str) -> bool) -> Option<&'a v1::Secret> {
        let mut secrets = self
            .manifests
            .secrets
            .iter()
            .map(|(_, secret)| secret.expose());
        secrets.find(|secret| {
            let metadata = &secret.metadata;
            metadata.name.as_deref() == Some(name)
                && fits(metadata.namespace.as_deref().unwrap_or_default())
        })
    }

    /// The logins that all machines pull with: of this name, or OpenShift's.
    pub fn global(&self, name: &str, problems: &mut Vec<Finding>) -> NamedSecret {
        let (namespace, pull_secret) = PULL_SECRET;
        let found = self
            .find(name)
            .or_else(|| self.first(pull_secret, |found| found == namespace));
        let logins = found.and_then(|secret| logins(secret, problems));
        logins.map_or_else(none, called)
    }
}

/// No logins at all.
fn none() -> NamedSecret {
    NamedSecret {
        name: String::new(),
        credentials: DockerConfigJson::empty(),
    }
}

/// A Secret by the name that messages use beside files.
pub(super) fn called(secret: NamedSecret) -> NamedSecret {
    NamedSecret {
        name: format!("secret {}", secret.name),
        ..secret
    }
}

/// These logins, and those of `global` for registries that these don't name.
pub(super) fn over(own: &NamedSecret, global: &NamedSecret) -> NamedSecret {
    let names = [&own.name, &global.name].into_iter();
    let names: Vec<&str> = names
        .map(String::as_str)
        .filter(|it| !it.is_empty())
        .collect();
    NamedSecret {
        name: names.join(" and "),
        credentials: own.credentials.over(&global.credentials),
    }
}

/// The logins of a Secret, or what is wrong with it.
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
            let problem = Finding::new(error.reason(), error.problem.to_string()).on(object);
            // Several MachineOSConfigs may name it.
            if !problems.contains(&problem) {
                problems.push(problem);
            }
            None
        }
    }
}

/// What a Secret holds once it is applied: `stringData` over `data`.
pub(super) fn data(secret: &v1::Secret) -> BTreeMap<String, k8s_openapi::ByteString> {
    let mut data = secret.data.clone().unwrap_or_default();
    let texts = secret.string_data.clone().unwrap_or_default();
    data.extend(
        texts
            .into_iter()
            .map(|(key, text)| (key, k8s_openapi::ByteString(text.into_bytes()))),
    );
    data
}
