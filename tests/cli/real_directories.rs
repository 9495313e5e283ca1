//! Directories as people have them: files of other tools beside the manifests, Secrets as they stand
//! in Git, settings that nobody needs here.

use serde_json::{Value, json};

use crate::render_commands::{Desk, file, machine_config};

const API: &str = "machineconfiguration.openshift.io/v1";
const DIGEST: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
/// `{"auths":{"registry.example.com":{"auth":"dTpw"},"fake":{"auth":"bar"}}}`, in two lines.
const LOGINS: &str = "eyJhdXRocyI6eyJyZWdpc3RyeS5leGFtcGxlLmNvbSI6eyJhdXRoIjoiZFRwdyJ9\n    LCJmYWtlIjp7ImF1dGgiOiJiYXIifX19";

fn os_config() -> Value {
    let image = format!("registry.example.com/os/master@{DIGEST}");
    json!({ "apiVersion": API, "kind": "MachineOSConfig",
            "metadata": { "name": "master", "annotations": { "machineconfiguration.openshift.io/pre-built-image": image } },
            "spec": { "machineConfigPool": { "name": "master" }, "imageBuilder": { "imageBuilderType": "Job" },
                      "renderedImagePushSecret": { "name": "push" },
                      "renderedImagePushSpec": "registry.example.com/os/master:latest" } })
}

/// The manifests of an OpenShift installation, with a Secret as `base64` prints it.
fn installation(desk: &Desk) {
    desk.write("manifests/mosc.yaml", os_config());
    desk.write(
        "manifests/secret.yaml",
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: push, namespace: openshift-machine-config-operator}}\n\
             type: kubernetes.io/dockerconfigjson\ndata:\n  .dockerconfigjson: |\n    {LOGINS}\n"
        ),
    );
    desk.write("manifests/kustomization.yaml", "resources: [mosc.yaml]\n");
    desk.write("manifests/install-config.yaml", "apiVersion: v1\nbaseDomain: example.com\n");
    desk.write("manifests/values.yaml", "");
}

#[test]
fn an_installation_is_read_from_a_real_directory() {
    let desk = Desk::new();
    installation(&desk);
    let line =
        "bootstrap --manifests manifests --output out --for openshift --check-registry=false";
    let made = desk.run(line).ok();
    assert!(desk.at("out/machineosconfig-master.yaml").exists(), "{made:?}");
}

#[test]
fn a_rejected_image_names_its_manifest_list() {
    let desk = Desk::new();
    installation(&desk);
    desk.write(
        "manifests/image.yaml",
        json!({ "apiVersion": "config.openshift.io/v1", "kind": "Image", "metadata": { "name": "cluster" },
                "spec": { "registrySources": { "allowedRegistries": ["registry.redhat.io"] } } }),
    );
    let line = "preflight --manifests manifests --for openshift --platform linux/amd64";
    let checked = desk.run(line);
    let all = format!("{}{}", checked.text(), checked.stderr);
    let list = "spec.registrySources.allowedRegistries of Image cluster (manifests/image.yaml) does not list its registry";
    assert_eq!(checked.code(), Some(1), "{all}");
    assert!(all.contains(list) && all.contains("add it there"), "{all}");
    assert!(!all.contains("policy.json"), "{all}");
}

#[test]
fn a_pool_is_rendered_from_a_real_directory() {
    let desk = Desk::new();
    desk.write("gitops/50-x.yaml", machine_config("50-x", "worker", file("/etc/a", "a")));
    desk.write("gitops/kustomization.yaml", "resources: [50-x.yaml]\n");
    desk.write("gitops/values.yaml", "replicas: 3\n");
    desk.write("gitops/worker.yaml", "");
    let rendered = desk.run("render --pool worker gitops").ok();
    let notices = rendered.stderr.lines().filter(|line| line.contains("[object-skipped]")).count();
    assert_eq!(notices, 3, "{}", rendered.stderr);

    let label = "pools.operator.machineconfiguration.openshift.io/worker";
    desk.write(
        "gitops/kubelet.yaml",
        json!({ "apiVersion": API, "kind": "KubeletConfig", "metadata": { "name": "max-pods" },
                "spec": { "machineConfigPoolSelector": { "matchLabels": { label: "" } }, "kubeletConfig": { "maxPods": 500 } } }),
    );
    let refused = desk.run("render --pool worker gitops -o json");
    let found = &refused.json()["findings"][0];
    assert_eq!((refused.code(), &found["code"]), (Some(2), &json!("not-completed")), "{found}");
    assert_eq!(found["object"], "KubeletConfig max-pods");
    // What was skipped may be the reason.
    let refused = desk.run("render --pool worker gitops").stderr;
    assert_eq!(refused.matches("[object-skipped]").count(), 3, "{refused}");
}

#[test]
fn the_last_line_break_stays_as_it_is() {
    let desk = Desk::new();
    let text = "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\nmetadata:\n  name: 50-x\n  labels:\n    \
                machineconfiguration.openshift.io/role: worker\nspec:\n  config:\n    ignition:\n      version: 3.4.0\n    \
                systemd:\n      units:\n      - name: example.service\n        contents: |\n          [Install]\n          \
                WantedBy=multi-user.target";
    for end in ["", "\n"] {
        desk.write("mc.yaml", format!("{text}{end}"));
        let rendered = desk.run("render --pool worker -o json mc.yaml").ok().json();
        let contents = &rendered["spec"]["config"]["systemd"]["units"][0]["contents"];
        assert_eq!(*contents, json!(format!("[Install]\nWantedBy=multi-user.target{end}")));
    }
}

/// Nobody means octal 1204 or 0620.
#[test]
fn render_and_plan_warn_of_decimal_modes() {
    let desk = Desk::new();
    let file = |path: &str, mode: u32| json!({ "path": path, "mode": mode, "contents": { "source": "data:,a" } });
    let files =
        [file("/etc/a", 644), file("/etc/b", 400), file("/etc/c", 755), file("/etc/d", 420)];
    let config = json!({ "ignition": { "version": "3.4.0" }, "storage": { "files": files } });
    desk.write("mc.yaml", machine_config("50-x", "worker", json!({ "config": config })));
    let rendered = desk.run("render --pool worker mc.yaml").ok();
    desk.write("rendered.yaml", rendered.text());
    mosb_tests::Layout::create(&desk.at("base")).put("base", &mosb_tests::Image::new());
    let planned = desk.run("plan rendered.yaml --base oci:base:base --platform linux/amd64").ok();
    for (what, shown) in [
        ("render", rendered.stderr.clone()),
        ("plan", format!("{}{}", planned.text(), planned.stderr)),
    ] {
        assert_eq!(shown.matches("is decimal, and octal").count(), 3, "{what}: {shown}");
        assert!(
            shown.contains("if octal 644 is meant, write 0644 in YAML or 420 in JSON"),
            "{shown}"
        );
        assert!(!shown.contains("special"), "{what}: {shown}");
    }
}
