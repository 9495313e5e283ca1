//! The examples in `docs/examples`: each is rendered and planned with the commands of its page, and
//! its objects for a cluster are what the program reads there.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;

use mosb_api::{ClusterSettings, MachineConfigPool, MachineOsConfig, yaml};
use mosb_tests::{Example, Layout, build_fixture, repository};

fn codes(plan: &Value, list: &str) -> Vec<String> {
    let findings = plan[list].as_array().into_iter().flatten();
    findings.map(|one| one["code"].as_str().unwrap().to_owned()).collect()
}

/// Each example: how its image is built, and what the plan warns of.
const EXAMPLES: [(&str, &str, &[&str]); 5] = [
    ("agent", "prepared", &[]),
    ("driver", "prepared", &[]),
    ("edge-mirror", "direct", &[]),
    ("kernel-hotfix", "prepared", &[]),
    ("kubeadm-node", "prepared", &[]),
];

#[test]
fn every_example_is_planned_as_its_page_says() {
    let folders = fs::read_dir(repository().join("docs/examples")).unwrap();
    let folders = folders.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let mut names: Vec<_> =
        folders.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    assert_eq!(names, EXAMPLES.map(|(name, ..)| name));
    let directory = tempfile::tempdir().unwrap();
    let base = Layout::create(&directory.path().join("base"));
    base.put("base", &build_fixture::base().label("containers.bootc", "1"));
    for (name, method, warnings) in EXAMPLES {
        let example = Example::new(name, &base, "base");
        // A key of the vendor, which the page downloads.
        if name == "agent" {
            fs::create_dir(example.at("keys")).unwrap();
        }
        example.render();
        let plan = example.run("plan", &[]);
        assert_eq!(plan["method"], method, "{name}");
        assert_eq!(codes(&plan, "warnings"), *warnings, "{name}");
        let base = plan["base"].to_string();
        assert!(base.contains("quay.io/fedora/fedora-coreos"), "{name}: {base}");
        if method == "direct" {
            let built = example.run("build", &[]);
            assert_eq!(built["method"], "direct", "{name}");
        }
    }
}

#[test]
fn every_example_fits_the_cluster() {
    let pool: MachineConfigPool = serde_json::from_value(yaml_of("trial-pool.yaml")).unwrap();
    assert_eq!(pool.metadata.name, "trial");
    for (name, method, _) in EXAMPLES {
        let folder = repository().join("docs/examples").join(name);
        let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap();
        for pool in ["worker", "trial"] {
            // As the page does it for one machine.
            let text = read("machineosconfig.yaml").replace("worker", pool);
            let object = yaml::parse_one(text.as_bytes()).unwrap();
            let config: MachineOsConfig = serde_json::from_value(object).unwrap();
            assert_eq!(config.metadata.name, pool, "{name}");
            assert_eq!(config.spec.machine_config_pool.name, pool, "{name}");
            let content = config.spec.containerfile("amd64").map(str::to_owned);
            let want = (method == "prepared").then(|| read("Containerfile"));
            let want = want.map(|text| text.replace("worker", pool));
            assert_eq!(content, want, "{name}: the same Containerfile by hand and in a cluster");
        }
    }
    let edge = repository().join("docs/examples/edge-mirror/mosb-config.yaml");
    let map = yaml::parse_one(&fs::read(edge).unwrap()).unwrap();
    let settings = ClusterSettings::parse(map["data"]["config.yaml"].as_str().unwrap()).unwrap();
    assert_eq!(settings.mirrors.len(), 2);
}

fn yaml_of(file: &str) -> Value {
    yaml::parse_one(&fs::read(repository().join("docs/examples").join(file)).unwrap()).unwrap()
}

/// What machines and mosb by hand use is one file.
#[test]
fn machines_of_the_edge_have_the_mirror_of_the_page() {
    let config = yaml_of("edge-mirror/machineconfigs/50-mirror.yaml");
    let files = config["spec"]["config"]["storage"]["files"].as_array().unwrap();
    let of: BTreeMap<&str, &str> = files
        .iter()
        .map(|file| {
            let source = file["contents"]["source"].as_str().unwrap();
            (file["path"].as_str().unwrap(), source.strip_prefix("data:,").unwrap())
        })
        .collect();
    let text = fs::read_to_string(repository().join("docs/examples/edge-mirror/registries.conf"));
    let found = decoded(of["/etc/containers/registries.conf.d/50-mirror.conf"]);
    assert_eq!(found, text.unwrap());
}

fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend(part[2..].bytes());
    }
    String::from_utf8(bytes).unwrap()
}
