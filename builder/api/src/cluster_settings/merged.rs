//! What the cluster's own objects say, over our settings.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::check::{is_host, mirror};
use super::{
    ClusterSettings, MirrorBy, MirrorSourcePolicy, Mirrors, Proxy, ProxyUrl, RegistrySources,
};
use mosb_types::Finding;

/// The cluster's objects as the API serves them, where they exist.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClusterObjects<'a> {
    /// ControllerConfig `machine-config-controller`.
    pub controller_config: Option<&'a Value>,
    /// ConfigMap `machine-config-operator-images`.
    pub operator_images: Option<&'a Value>,
    /// ConfigMap `machine-config-osimageurl`.
    pub os_images: Option<&'a Value>,
    /// All ImageDigestMirrorSets, ImageTagMirrorSets and ImageContentSourcePolicies.
    pub mirror_sets: &'a [Value],
    /// Image `cluster` of `config.openshift.io`.
    pub image_config: Option<&'a Value>,
}

impl ClusterSettings {
    /// The settings, overridden by the cluster's objects: field by field, and mirrors as a whole.
    /// Only `machine-config-osimageurl` comes after them. A value that can't be read is reported and
    /// ignored, because one invalid object must not stop every build.
    #[must_use]
    pub fn merged(mut self, cluster: &ClusterObjects<'_>) -> (Self, Vec<Finding>) {
        let mut findings = Vec::new();
        if let Some(map) = cluster.os_images {
            let mut last = Self::default();
            last.take_base(&map["data"]);
            let (base, extensions) =
                (last.base_os_container_image, last.base_os_extensions_container_image);
            self.base_os_container_image = self.base_os_container_image.or(base);
            self.base_os_extensions_container_image =
                self.base_os_extensions_container_image.or(extensions);
        }
        if let Some(map) = cluster.operator_images {
            self.take_images(map, &mut findings);
        }
        if let Some(config) = cluster.controller_config {
            self.take_controller_config(&config["spec"], &mut findings);
        }
        if !cluster.mirror_sets.is_empty() {
            self.mirrors = mirrors(cluster.mirror_sets, &mut findings);
        }
        if let Some(config) = cluster.image_config {
            let theirs = RegistrySources::of_cluster(config, &mut findings);
            if !theirs.is_empty() {
                self.registry_sources = theirs;
            }
        }
        (self, findings)
    }

    /// `machineConfigOperator` is not read: it is the image of another builder.
    fn take_images(&mut self, map: &Value, findings: &mut Vec<Finding>) {
        let Some(text) = map["data"]["images.json"].as_str() else {
            return;
        };
        let Ok(images) = serde_json::from_str::<Value>(text) else {
            findings.push(odd(
                "ConfigMap/machine-config-operator-images",
                "images.json is not JSON; it is left out",
            ));
            return;
        };
        self.take_base(&images);
    }

    fn take_base(&mut self, images: &Value) {
        take(&mut self.base_os_container_image, &images["baseOSContainerImage"]);
        take(
            &mut self.base_os_extensions_container_image,
            &images["baseOSExtensionsContainerImage"],
        );
    }

    fn take_controller_config(&mut self, spec: &Value, findings: &mut Vec<Finding>) {
        self.take_base(spec);
        let proxy = &spec["proxy"];
        let mut theirs = Proxy::default();
        let url = |value: &Value| given(value).map(ProxyUrl::new);
        theirs.http_proxy = url(&proxy["httpProxy"]);
        theirs.https_proxy = url(&proxy["httpsProxy"]);
        theirs.no_proxy = given(&proxy["noProxy"]);
        if !theirs.is_empty() {
            self.proxy = Some(theirs);
        }
        if let Some(bundle) = certificates(spec, "additionalTrustBundle", findings) {
            self.additional_trust_bundle = Some(bundle);
        }
        if let Some(root) = certificates(spec, "rootCAData", findings) {
            self.registry_trust_bundle = Some(root);
        }
        let mut bundles = BTreeMap::new();
        for field in ["imageRegistryBundleData", "imageRegistryBundleUserData"] {
            for entry in spec[field].as_array().into_iter().flatten() {
                // A ConfigMap's key holds no colon.
                let host = given(&entry["file"]).unwrap_or_default().replace("..", ":");
                if is_host(&host) {
                    bundles.extend(certificates(entry, "data", findings).map(|pem| (host, pem)));
                } else {
                    let message = format!(
                        "spec.{field} has one for {host:?}, which is not a registry; it is left out"
                    );
                    findings.push(odd(CONTROLLER_CONFIG, &message));
                }
            }
        }
        if !bundles.is_empty() {
            self.image_registry_bundles = bundles;
        }
    }
}

const CONTROLLER_CONFIG: &str = "ControllerConfig/machine-config-controller";

fn odd(object: &str, message: &str) -> Finding {
    Finding::new("odd-cluster-object", message).object(object)
}

fn given(value: &Value) -> Option<String> {
    let text = value.as_str().map(str::trim).filter(|text| !text.is_empty())?;
    Some(text.to_owned())
}

fn take(ours: &mut Option<String>, theirs: &Value) {
    if let Some(theirs) = given(theirs) {
        *ours = Some(theirs);
    }
}

fn certificates(of: &Value, field: &str, findings: &mut Vec<Finding>) -> Option<String> {
    decoded(&of[field]).unwrap_or_else(|problem| {
        findings.push(odd(CONTROLLER_CONFIG, &format!("{field}: {problem}; it is left out")));
        None
    })
}

/// Decodes base64 with at least one certificate; `None` if it is empty.
fn decoded(value: &Value) -> Result<Option<String>, &'static str> {
    let Some(text) = given(value) else {
        return Ok(None);
    };
    // An API server ignores line breaks in base64.
    let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let bytes = STANDARD.decode(text).map_err(|_| "it is not base64")?;
    let text = String::from_utf8(bytes).map_err(|_| "it is not text")?;
    if text.contains("-----BEGIN CERTIFICATE-----") {
        Ok(Some(text))
    } else if text.trim().is_empty() {
        Ok(None)
    } else {
        Err("no certificate in it")
    }
}

/// The mirrors of all objects, sorted by name, so that their order in a list doesn't matter.
fn mirrors(objects: &[Value], findings: &mut Vec<Finding>) -> Vec<Mirrors> {
    let name = |object: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&object["kind"]), text(&object["metadata"]["name"]))
    };
    let mut sorted: Vec<&Value> = objects.iter().collect();
    sorted.sort_by_key(|object| name(object));
    let mut all = Vec::new();
    for object in sorted {
        for (list, by) in [
            ("imageDigestMirrors", MirrorBy::Digest),
            ("imageTagMirrors", MirrorBy::Tag),
            ("repositoryDigestMirrors", MirrorBy::Digest),
        ] {
            let entries = object["spec"][list].as_array().into_iter().flatten();
            for (at, entry) in entries.enumerate() {
                let (kind, name) = name(object);
                let read = from_entry(entry, by, format!("{kind} {name}"));
                if mirror(&read).is_ok() {
                    all.push(read);
                    continue;
                }
                let message = format!("spec.{list}[{at}] names no registry; it is left out");
                findings.push(odd(&format!("{kind}/{name}"), &message));
            }
        }
    }
    all
}

/// Slashes at the end of a place mean nothing, as in the `registries.conf` that a cluster makes of
/// it.
fn from_entry(entry: &Value, by: MirrorBy, object: String) -> Mirrors {
    let listed = entry["mirrors"].as_array().into_iter().flatten();
    let place = |value: &Value| Some(given(value)?.trim_end_matches('/').to_owned());
    Mirrors {
        source: place(&entry["source"]).unwrap_or_default(),
        mirrors: listed.filter_map(place).collect(),
        object,
        by,
        mirror_source_policy: match entry["mirrorSourcePolicy"].as_str() {
            Some("NeverContactSource") => MirrorSourcePolicy::NeverContactSource,
            _ => MirrorSourcePolicy::AllowContactingSource,
        },
    }
}
