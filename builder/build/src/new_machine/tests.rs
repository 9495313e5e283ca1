//! Ignition configs of new machines: included and omitted parts.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::*;
use crate::{DOCKER_CONFIG_KEY, DockerConfigJson};
use mosb_api::cluster_settings::CONFIG_KEY;
use mosb_api::{ClusterObjects, ClusterSettings, labels};
use mosb_image::ImageRef;

fn rendered(config: &Value) -> RenderedConfig {
    RenderedConfig::from_value(json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": "rendered-worker-0123456789abcdef0123456789abcdef" },
        "spec": { "config": config, "kernelArguments": ["a=b quiet", "x"], "fips": true },
    }))
    .unwrap()
}

#[test]
fn only_what_no_image_holds_is_written() {
    let disks = json!([{ "device": "/dev/vdb", "wipeTable": true }]);
    let users = json!([{ "name": "core", "sshAuthorizedKeys": ["key"] }]);
    let from = json!({
        "ignition": { "version": "3.5.0", "timeouts": { "httpTotal": 1 } },
        "kernelArguments": { "shouldExist": ["x"], "shouldNotExist": ["y"] },
        "passwd": { "users": users, "groups": [] },
        "storage": {
            "disks": disks, "links": [{ "path": "/etc/l", "target": "x" }],
            "files": [{ "path": "/etc/a" }, { "path": "/var/lib/b" }, { "path": "/opt/c" }, { "path": "/variant/d" }],
        },
        "systemd": { "units": [{ "name": "a.service", "enabled": true }] },
    });
    let made = config(&rendered(&from), &pull_files()).unwrap();
    assert_eq!(made["ignition"], json!({ "version": "3.5.0" }));
    assert_eq!(made["passwd"], json!({ "users": users }));
    assert_eq!(made["storage"]["disks"], disks);
    assert_eq!(
        made["kernelArguments"],
        json!({ "shouldExist": ["x", "a=b", "quiet"], "shouldNotExist": ["y"] })
    );
    assert!(made["storage"].get("links").is_none());
    let units = made["systemd"]["units"].as_array().unwrap();
    assert_eq!((units.len(), &units[0]["name"]), (1, &json!(UNIT)));
    // Enabling it by Ignition would write a file that images have.
    assert!(units[0].get("enabled").is_none());
    for file in made["storage"]["files"].as_array().unwrap() {
        let path = file["path"].as_str().unwrap();
        let known = [ENCAPSULATED, PRESET].contains(&path) || path.starts_with(FIRST_BOOT);
        assert!(known, "{path}");
    }
    let codes: Vec<String> = left_out(&rendered(&from)).into_iter().map(|it| it.code).collect();
    assert_eq!(codes, ["var-at-installation", "fips"]);
}

/// A pool's machines with logins for a registry, a mirror and others.
fn pull_files() -> PullFiles {
    let text = include_bytes!("../../../../testdata/bootstrap/three-pools/manifests.yaml");
    let objects = mosb_api::yaml::parse_all(text, mosb_api::yaml::Limits::LIST).unwrap();
    let object = |kind: &str, name: &str| {
        let found = objects.iter().find(|it| it["kind"] == kind && it["metadata"]["name"] == name);
        found.unwrap()
    };
    let settings = object("ConfigMap", "mosb-config")["data"][CONFIG_KEY].as_str().unwrap();
    let mirror_sets = [object("ImageDigestMirrorSet", "mirrors").clone()];
    let cluster = ClusterObjects { mirror_sets: &mirror_sets, ..ClusterObjects::default() };
    let (settings, _) = ClusterSettings::parse(settings).unwrap().merged(&cluster);
    let logins = object("Secret", "pull");
    let text = logins["stringData"][DOCKER_CONFIG_KEY].as_str().unwrap().to_owned();
    let mut secret: Secret = serde_json::from_value(logins.clone()).unwrap();
    let data = [(DOCKER_CONFIG_KEY.to_owned(), ByteString(text.into_bytes()))];
    secret.data = Some(data.into());
    let image = object("MachineOSConfig", "worker")["metadata"]["annotations"]
        [labels::PRE_BUILT_IMAGE]
        .as_str()
        .unwrap();
    let image: ImageRef = image.parse().unwrap();
    let image = image.repo().pinned(image.digest().unwrap());
    PullFiles::new(&image, &DockerConfigJson::from_secret(&secret).unwrap(), &settings)
}

#[test]
fn machines_get_logins_and_authorities_of_their_image() {
    let files = pull_files().files();
    let names: Vec<&str> = files.iter().map(|file| &*file.name).collect();
    let want = [
        "auth.json",
        "containers/certs.d/mirror.example.net/mosb-first-boot.crt",
        "containers/certs.d/registry.example.com:5000/mosb-first-boot.crt",
        "containers/registries.conf.d/zz-mosb-first-boot.conf",
        "copy-containers",
        "environment",
        "image",
        "rebase",
    ];
    assert_eq!(names, want);
    let text = |name: &str| {
        let file = files.iter().find(|file| file.name == name).unwrap();
        String::from_utf8(file.bytes.clone()).unwrap()
    };
    let logins: Value = serde_json::from_str(&text("auth.json")).unwrap();
    let hosts: Vec<&String> = logins["auths"].as_object().unwrap().keys().collect();
    assert_eq!(hosts, ["mirror.example.net/acme", "registry.example.com:5000"]);
    assert_eq!(text(want[2]).matches("BEGIN CERTIFICATE").count(), 2);
    assert!(text("environment").contains("\nhttps_proxy=\"http://proxy.example.com:3128\"\n"));
}

#[test]
fn machines_that_verify_get_the_policy_of_their_config() {
    let signed = r#"[{"type":"sigstoreSigned","keyPath":"/os.pub"}]"#;
    let any = r#"[{"type":"insecureAcceptAnything"}]"#;
    let policy = |default: &str| format!(r#"{{"default":{default}}}"#);
    let file = |path: &str, text: &str| {
        let source = format!("data:;base64,{}", STANDARD.encode(text));
        json!({ "path": path, "contents": { "source": source } })
    };
    let with = |files: Vec<Value>| {
        rendered(&json!({ "ignition": { "version": "3.5.0" }, "storage": { "files": files } }))
    };
    let attachments = || file("/etc/containers/registries.d/os.yaml", "docker: {}");
    let of = |text: &str| with(vec![file("/etc/containers/policy.json", text), attachments()]);
    let strict = of(&policy(signed));
    let files = pull_files().verified_by(&strict);
    assert!(config(&strict, &files).is_ok() && files.without_policy().is_none());
    let names: Vec<String> = files.files().into_iter().map(|file| file.name).collect();
    for name in ["verify", "containers/policy.json", "containers/registries.d/os.yaml"] {
        assert!(names.iter().any(|one| one == name), "{name}: {names:?}");
    }
    let lax = of(&policy(any));
    let error = config(&lax, &pull_files().verified_by(&lax)).unwrap_err();
    assert_eq!(error.code(), "policy-accepts-unsigned", "{error}");
    assert!(config(&lax, &pull_files()).is_ok(), "it need not be verified");
    let none = with(Vec::new());
    let files = pull_files().verified_by(&none);
    assert!(config(&none, &files).is_ok());
    assert_eq!(files.without_policy().unwrap().code, "first-boot-policy");
}

fn unit(name: &str) -> Value {
    json!({ "name": name, "contents": "[Service]\nExecStart=/bin/true\n" })
}

fn own(config: &Value) -> OwnConfig {
    OwnConfig::parse("secret join: ignition", config.to_string().as_bytes()).unwrap()
}

/// The config of a machine, with these configs of its own.
fn with_own(from: &Value, configs: &[Value]) -> Result<Value, OwnConfigError> {
    let config = config(&rendered(from), &pull_files()).unwrap();
    let merged = merge("worker", &config, configs.iter().map(own).collect())?;
    Ok(merged.expose().clone())
}

#[test]
fn a_later_config_of_its_own_takes_precedence() {
    let from = json!({ "ignition": { "version": "3.5.0" } });
    let hostname = |name: &str| {
        let source = format!("data:,{name}");
        let file = json!({ "path": "/etc/hostname", "contents": { "source": source } });
        json!({ "ignition": { "version": "3.2.0" }, "storage": { "files": [file] } })
    };
    let join = json!({ "ignition": { "version": "3.4.0" }, "systemd": { "units": [unit("join.service")] } });
    let merged = with_own(&from, &[join, hostname("first"), hostname("second")]).unwrap();
    let units = merged["systemd"]["units"].as_array().unwrap();
    let names: Vec<&str> = units.iter().map(|unit| unit["name"].as_str().unwrap()).collect();
    assert_eq!(names, [UNIT, "join.service"]);
    let files = merged["storage"]["files"].as_array().unwrap();
    let sources: Vec<&Value> = files
        .iter()
        .filter(|file| file["path"] == "/etc/hostname")
        .map(|file| &file["contents"]["source"])
        .collect();
    assert_eq!(sources, ["data:,second"]);
    assert!(files.iter().any(|file| file["path"] == ENCAPSULATED));
}

#[test]
fn spec_is_the_oldest_that_suffices() {
    let from = json!({ "ignition": { "version": "3.5.0" } });
    // The rendered config of these tests has kernel arguments.
    assert_eq!(with_own(&from, &[]).unwrap()["ignition"]["version"], "3.3.0");
    let discard = json!({ "ignition": { "version": "3.5.0" }, "storage": { "luks": [
        { "name": "l", "device": "/dev/vdb", "discard": true, "clevis": { "tpm2": true } }] } });
    assert_eq!(with_own(&from, &[discard]).unwrap()["ignition"]["version"], "3.4.0");
    let special = json!({ "ignition": { "version": "3.6.0" }, "storage": { "directories": [
        { "path": "/var/shared", "mode": 0o1777 }] } });
    assert_eq!(with_own(&from, &[special]).unwrap()["ignition"]["version"], "3.6.0");
}

#[test]
fn unmergeable_own_config_is_refused_and_not_quoted() {
    let from = json!({ "ignition": { "version": "3.5.0" } });
    let source = json!({ "source": "https://hunter2.example.com/" });
    let links = |config: Value| json!({ "ignition": { "version": "3.5.0" }, "storage": { "links": [config] } });
    for (what, text, want) in [
        ("no JSON", "{ \"a\": hunter2 }".to_owned(), "line 1, column 8: not JSON"),
        ("no object", "\"hunter2\"".to_owned(), "must be an object"),
        (
            "invalid",
            links(json!({ "path": "/etc/l", "target": "" , "hard": "hunter2" })).to_string(),
            "storage.links[0].hard",
        ),
        (
            "another config instead",
            json!({ "ignition": { "version": "3.5.0", "config": { "replace": source } } })
                .to_string(),
            "ignition.config.replace",
        ),
    ] {
        let error = OwnConfig::parse("FILE", text.as_bytes()).unwrap_err();
        let message = format!("{error} {error:?}");
        assert!(error.to_string().starts_with("FILE: "), "{what}: {message}");
        assert!(message.contains(want) && !message.contains("hunter2"), "{what}: {message}");
    }
    // Each is valid, and both together are not.
    let below = links(json!({ "path": "/var/lib", "target": "/elsewhere" }));
    let error = with_own(&from, &[below]).unwrap_err();
    assert_eq!(error.code(), "bad-own-config");
    assert!(error.to_string().contains("pool worker"), "{error}");
}
