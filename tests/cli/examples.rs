//! The examples in `docs/examples`: each is rendered and planned with the commands of its page, and
//! its objects for a cluster are what the program reads there.

use std::collections::BTreeMap;
use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mosb_api::{ClusterSettings, MachineConfigPool, MachineOsConfig, yaml};
use mosb_tests::{
    Access, Example, Layout, Mosb, Registry, Server, Transport, build_fixture, repository,
};
use mosb_trust::provenance::SLSA_PROVENANCE;
use mosb_trust::spdx::SPDX_DOCUMENT;
use serde_json::{Value, json};

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

/// `policy.json` as the Machine Config Operator renders it from a ClusterImagePolicy with a public key.
fn rendered_policy(object: &Value) -> Value {
    let policy = &object["spec"]["policy"];
    assert_eq!(policy["rootOfTrust"]["policyType"], "PublicKey");
    let matching = policy["signedIdentity"]["matchPolicy"].as_str().unwrap();
    let identity = format!("m{}", matching.strip_prefix('M').unwrap());
    let requirement = json!([{
        "type": "sigstoreSigned", "keyData": policy["rootOfTrust"]["publicKey"]["keyData"],
        "signedIdentity": { "type": identity },
    }]);
    let scopes = object["spec"]["scopes"].as_array().unwrap().iter();
    let scopes = scopes.map(|scope| (scope.as_str().unwrap().to_owned(), requirement.clone()));
    let scopes: serde_json::Map<_, _> = scopes.collect();
    json!({ "default": [{ "type": "insecureAcceptAnything" }], "transports": { "docker": scopes } })
}

#[test]
fn image_policies_accept_only_their_key() {
    let (cluster, kyverno) = (yaml_of("cluster-image-policy.yaml"), yaml_of("kyverno-policy.yaml"));
    assert_eq!(cluster["apiVersion"], "config.openshift.io/v1");
    let mosb = Mosb::new();
    let file = |name: &str| mosb.home().join(name).display().to_string();
    let images = &kyverno["spec"]["rules"][0]["verifyImages"][0];
    let scope = cluster["spec"]["scopes"][0].as_str().unwrap().to_owned();
    assert_eq!(images["imageReferences"], json!([format!("{scope}/*")]));
    assert_eq!(images["type"], "Cosign");
    let keys = |attestors: &Value| attestors[0]["entries"][0]["keys"].clone();
    let of_image = keys(&images["attestors"]);
    assert_eq!(of_image["rekor"]["ignoreTlog"], true);
    assert_eq!(of_image["ctlog"]["ignoreSCT"], true);
    let attestations = images["attestations"].as_array().unwrap();
    for (attestation, kind) in attestations.iter().zip([SPDX_DOCUMENT, SLSA_PROVENANCE]) {
        assert_eq!(attestation["type"], kind);
        assert_eq!(keys(&attestation["attestors"]), of_image, "{kind}");
    }
    assert_eq!(attestations.len(), 2);
    // The key of both is the same, and one that mosb reads.
    let key_data = &cluster["spec"]["policy"]["rootOfTrust"]["publicKey"]["keyData"];
    let key = STANDARD.decode(key_data.as_str().unwrap()).unwrap();
    let of_image = of_image["publicKeys"].as_str().unwrap();
    assert_eq!(String::from_utf8_lossy(&key).trim_end(), of_image);
    fs::write(file("example.pub"), of_image).unwrap();
    mosb.run(["keys", "show", &file("example.pub")]).ok();

    // With a key of one's own, in a registry that is there.
    let registry = Registry::start(Server::Debian, Access::Anyone, Transport::Http);
    let layout = Layout::create(&mosb.home().join("layout"));
    for (tag, image) in [("v1", "os/worker:v1"), ("v2", "os/worker:v2"), ("v1", "other/worker:v1")]
    {
        layout.put(tag, &build_fixture::base().label("tag", tag));
        registry.push(&layout, tag, image);
    }
    for name in ["os.key", "other.key"] {
        mosb.run(["keys", "new", &file(name)]).ok();
    }
    let mut ours = cluster;
    let key = STANDARD.encode(fs::read(file("os.key.pub")).unwrap());
    ours["spec"]["policy"]["rootOfTrust"]["publicKey"]["keyData"] = json!(key);
    let host = registry.repository("os");
    ours["spec"]["scopes"] = json!([scope.replace("registry.example.com/os", &host)]);
    fs::write(file("policy.json"), rendered_policy(&ours).to_string()).unwrap();
    let verify = |image: &str| {
        let (image, policy) = (registry.repository(image), file("policy.json"));
        mosb.run(["verify", &image, "--signature-policy", &policy]).code()
    };
    let sign = |image: &str, key: &str| {
        mosb.run(["sign", &registry.repository(image), "--sign-key", &file(key)]).ok();
    };
    assert_eq!(verify("os/worker:v1"), Some(1), "not signed");
    sign("os/worker:v1", "other.key");
    assert_eq!(verify("os/worker:v1"), Some(1), "another key");
    sign("os/worker:v1", "os.key");
    assert_eq!(verify("os/worker:v1"), Some(0));
    let by_digest = format!("os/worker@{}", layout.digest("v1"));
    assert_eq!(verify(&by_digest), Some(0));
    assert_eq!(verify("os/worker:v2"), Some(1), "another image");
    assert_eq!(verify("other/worker:v1"), Some(0), "outside of its scope");
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
