//! Reads what a bundle has of a cluster: objects, versions and logs. What can't be read is recorded
//! in the bundle.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::logs::archived_logs_of;
use super::redaction::redacted;
use super::scope::{OBJECTS, REQUESTS, Scope, name};
use mosb_build::Redactor;
use mosb_commands::bundle::Bundle;
use mosb_controller::{Kind, kinds};

/// Type of a Secret with a token of a ServiceAccount, and its keys that are not secrets.
const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";
const OPEN_KEYS: [&str; 2] = ["ca.crt", "namespace"];

/// What was read.
#[derive(Debug)]
pub struct Collected {
    pub bundle: Bundle,
    /// Whether any list could be read.
    pub is_any_read: bool,
    /// Names of pools; none if they could not be read.
    pub pools: Option<Vec<String>>,
    /// The images in service.
    pub images: BTreeSet<String>,
}

/// Reads objects, versions and logs.
pub async fn collect(scope: &Scope<'_>) -> Collected {
    let sources = scope.sources();
    let lists = stream::iter(sources).map(|(kind, namespace)| scope.list(kind, namespace));
    let lists = lists.buffered(REQUESTS).collect::<Vec<_>>();
    let secrets =
        join_all(scope.own_namespaces().into_iter().map(|namespace| scope.secrets(namespace)));
    let (lists, secrets, versions) = tokio::join!(lists, secrets, scope.versions());

    let has_all_secrets = secrets.iter().all(Result::is_ok);
    let readable: Vec<&Secret> = secrets.iter().flatten().flatten().collect();
    let mut bundle = Bundle::new(redactor(&readable));
    let mut is_any_read = secrets.iter().any(Result::is_ok);
    for error in secrets.iter().filter_map(|found| found.as_ref().err()) {
        bundle.add_missing("secrets", error);
    }
    if !has_all_secrets {
        let why = "Secrets could not be read; look for credentials in texts yourself";
        bundle.add_missing("redaction of known credentials", why);
    }
    for secret in &readable {
        let object = serde_json::to_value(secret).unwrap_or_default();
        add_object(&mut bundle, kinds::SECRET, object);
    }
    let mut found = Vec::new();
    for (what, list) in lists {
        match list {
            Ok((listed, is_whole)) => {
                is_any_read = true;
                if !is_whole {
                    bundle.add_cut(what, format!("the first {OBJECTS} objects only"));
                }
                found.push(listed);
            }
            Err(None) => {}
            Err(Some(why)) => bundle.add_missing(what, why),
        }
    }
    let of = |kind: Kind| found.iter().filter(move |list| list.kind == kind);
    let pools = of(kinds::MACHINE_CONFIG_POOL).next();
    let pool_names = pools.map(|list| list.objects.iter().map(name).collect());
    let images = of(kinds::MACHINE_OS_CONFIG).flat_map(|list| &list.objects);
    let images = images.filter_map(|config| {
        config["status"]["currentImagePullSpec"].as_str().filter(|image| !image.is_empty())
    });
    let images = images.map(str::to_owned).collect();
    let rendered = pools.into_iter().flat_map(|list| &list.objects);
    let rendered: BTreeSet<String> = rendered
        .filter_map(|pool| pool["spec"]["configuration"]["name"].as_str())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    let rendered = scope.rendered_configs(rendered).await;
    let whole: BTreeMap<String, Value> =
        rendered.iter().flatten().map(|object| (name(object), object.clone())).collect();
    rendered
        .into_iter()
        .filter_map(Result::err)
        .for_each(|(what, why)| bundle.add_missing(what, why));
    let pods: Vec<(String, Value)> = of(kinds::POD)
        .flat_map(|list| {
            let namespace = list.namespace.clone().unwrap_or_default();
            list.objects.iter().map(move |pod| (namespace.clone(), pod.clone()))
        })
        .collect();
    for list in found {
        for object in list.objects {
            let object = match (list.kind, whole.get(&name(&object))) {
                (kinds::MACHINE_CONFIG, Some(whole)) => whole.clone(),
                _ => object,
            };
            add_object(&mut bundle, list.kind, object);
        }
    }
    match versions {
        Ok(versions) => bundle.add_json("versions.json", &versions),
        Err(why) => bundle.add_missing("versions", why),
    }
    scope.add_logs(&mut bundle, pods, &readable, has_all_secrets).await;
    Collected { bundle, is_any_read, pools: pool_names, images }
}

fn add_object(bundle: &mut Bundle, kind: Kind, object: Value) {
    let mut object = redacted(kind.name, object);
    let resource = kind.resource();
    object["apiVersion"] = json!(resource.api_version);
    object["kind"] = json!(kind.name);
    let name = name(&object);
    let path = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{}/{namespace}/{name}.yaml", kind.plural),
        None => format!("{}/{name}.yaml", kind.plural),
    };
    bundle.add_yaml(&path, &object);
}

/// Redacts everything in Secrets but archived logs, which were redacted when they were archived.
fn redactor(secrets: &[&Secret]) -> Redactor {
    let values = secrets.iter().filter(|secret| archived_logs_of(secret).is_none()).map(|secret| {
        let mut data = secret.data.clone().unwrap_or_default();
        if secret.type_.as_deref() == Some(TOKEN_TYPE) {
            data.retain(|key, _| !OPEN_KEYS.contains(&&**key));
        }
        data
    });
    let values: Vec<_> = values.collect();
    // JSON and YAML write these characters in another way.
    let escaped: Vec<String> = values
        .iter()
        .flat_map(BTreeMap::values)
        .flat_map(|value| {
            String::from_utf8_lossy(&value.0).lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .filter(|line| line.contains(['"', '\\', '\'']))
        .flat_map(|line| {
            let quoted = Value::from(line.trim()).to_string();
            [quoted.trim_matches('"').to_owned(), line.trim().replace('\'', "''")]
        })
        .collect();
    Redactor::from_secrets(values).with_lines(escaped.iter().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_secrets_are_redacted_in_any_writing() {
        let secret = |kind: &str, data: Value| -> Secret {
            serde_json::from_value(json!({ "type": kind, "metadata": {}, "data": data })).unwrap()
        };
        let quoted = k8s_openapi::ByteString(b"can\"ary-1".to_vec());
        let open = k8s_openapi::ByteString(b"mosb-system".to_vec());
        let secrets = [
            secret("Opaque", json!({ "a": quoted })),
            secret(TOKEN_TYPE, json!({ "namespace": open })),
        ];
        let redactor = redactor(&secrets.iter().collect::<Vec<_>>());
        for text in ["can\"ary-1".to_owned(), json!("can\"ary-1").to_string()] {
            assert!(redactor.redact(&text).contains("[secret]"), "{text}");
        }
        assert_eq!(redactor.redact("mosb-system"), "mosb-system");
    }
}
