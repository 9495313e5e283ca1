use serde_json::json;

use super::*;

const REPOSITORY: &str = "quay.io/fedora/fedora-coreos-kubevirt";

fn new() -> String {
    let stream: Stream = serde_json::from_str(FEDORA).unwrap();
    let kubevirt = stream.architectures["x86_64"].images.kubevirt.clone().unwrap();
    kubevirt.digest_ref.unwrap()
}

fn template(disks: Value, volumes: Value, data_volumes: Value) -> Value {
    json!({"template": {"spec": {"virtualMachineTemplate": {"spec": {
        "dataVolumeTemplates": data_volumes,
        "runStrategy": "Always",
        "template": {"spec": {
            "domain": {"devices": {"disks": disks}, "memory": {"guest": "4Gi"}},
            "volumes": volumes,
        }},
    }}}}})
}

fn container_disk(name: &str, image: &str) -> Value {
    json!({"name": name, "containerDisk": {"image": image, "imagePullPolicy": "IfNotPresent"}})
}

fn data_volume(source: Value) -> Value {
    let disks = json!([{"name": "root", "disk": {"bus": "virtio"}}]);
    let volumes = json!([{"name": "root", "dataVolume": {"name": "os"}}]);
    let spec =
        json!({"source": source, "storage": {"resources": {"requests": {"storage": "20Gi"}}}});
    let other = json!({"metadata": {"name": "data"}, "spec": {"source": {"blank": {}}}});
    template(disks, volumes, json!([other, {"metadata": {"name": "os"}, "spec": spec}]))
}

#[test]
fn container_disks() {
    let (new, digest) = (new(), format!("{REPOSITORY}@sha256:{}", "a".repeat(64)));
    let change = format!("{digest} → {new}");
    let tag = format!("{REPOSITORY}:stable");
    let elsewhere = digest.replace("quay.io/fedora", "registry.example:5000/mirror");
    let kubevirt = "/architectures/x86_64/images/kubevirt";
    let without = |path: &str| Fixture::fedora().without(FEDORA, &format!("{kubevirt}{path}"));
    let fedora = Fixture::fedora;
    let cases = [
        ("by digest", fedora(), digest.clone(), change.clone()),
        (
            "tag and digest",
            fedora(),
            digest.replace('@', ":stable@"),
            change.replacen('@', ":stable@", 1),
        ),
        ("current", fedora(), new.clone(), format!("current {new}")),
        ("by tag", fedora(), tag.clone(), "skip looked-up-image".to_owned()),
        ("without a tag", fedora(), REPOSITORY.to_owned(), "skip looked-up-image".to_owned()),
        ("by tag, vouched", fedora().vouched(), tag.clone(), format!("{tag} → {new}")),
        ("another repository", fedora(), elsewhere.clone(), "skip custom-image".to_owned()),
        (
            "another repository, proven",
            fedora().proven(&elsewhere),
            elsewhere.clone(),
            format!("{elsewhere} → {new}"),
        ),
        (
            "a repository that begins so",
            fedora(),
            digest.replace('@', "-x@"),
            "skip custom-image".to_owned(),
        ),
        ("no digest in the stream", without("/digest-ref"), tag.clone(), format!("current {tag}")),
        (
            "a digest, but none in the stream",
            without("/digest-ref"),
            digest.clone(),
            format!("{digest} → {tag}"),
        ),
        ("none in the stream", without(""), digest.clone(), "skip not-in-stream".to_owned()),
        (
            "an architecture without",
            fedora().on(Architecture::Aarch64),
            digest,
            "skip not-in-stream".to_owned(),
        ),
        ("empty", fedora(), String::new(), "error boot-image-field-missing".to_owned()),
    ];
    for (what, fixture, image, want) in cases {
        let disks = json!([{"name": "root"}, {"name": "cloudinit"}]);
        let with = |image: &str| {
            let volumes = json!([
                {"name": "cloudinit", "cloudInitConfigDrive": {}},
                container_disk("root", image),
            ]);
            template(disks.clone(), volumes, json!([]))
        };
        let outcome = fixture.cluster_api(TemplateKind::KubeVirt, &with(&image));
        assert_eq!(outcome.line, want, "{what}");
        let after = want.split_once(" → ").map_or(&*image, |(_, to)| to);
        assert_eq!(outcome.after, with(after), "{what}");
    }
}

#[test]
fn the_disk_that_boots() {
    let digest = format!("{REPOSITORY}@sha256:{}", "a".repeat(64));
    let (boot, other) = (container_disk("a", &digest), container_disk("b", "x.example/tools:1"));
    let both = json!([other, boot]);
    let change = format!("{digest} → {}", new());
    let cases = [
        (
            "by order",
            json!([{"name": "b", "bootOrder": 2}, {"name": "a", "bootOrder": 1}]),
            both.clone(),
            &*change,
        ),
        (
            "order before none",
            json!([{"name": "b"}, {"name": "a", "bootOrder": 9}]),
            both.clone(),
            &change,
        ),
        ("the first of the disks", json!([{"name": "a"}, {"name": "b"}]), both.clone(), &change),
        ("the first, another's", json!([{"name": "b"}, {"name": "a"}]), both, "skip custom-image"),
        ("no disks", json!([]), json!([boot, other]), &change),
        ("no volumes", json!([]), json!([]), "error boot-image-field-missing"),
        (
            "a disk without a volume",
            json!([{"name": "x"}]),
            json!([boot]),
            "error boot-image-field-missing",
        ),
        ("a disk without a name", json!([{}]), json!([boot]), "error boot-image-field-missing"),
        ("disks as a text", json!("x"), json!([boot]), "error boot-image-field-type"),
        (
            "a claim",
            json!([]),
            json!([{"name": "a", "persistentVolumeClaim": {"claimName": "x"}}]),
            "skip custom-image",
        ),
        ("an unknown volume", json!([]), json!([{"name": "a"}]), "skip custom-image"),
    ];
    for (what, disks, volumes, want) in cases {
        let template = template(disks, volumes, json!([]));
        let outcome = Fixture::fedora().cluster_api(TemplateKind::KubeVirt, &template);
        assert_eq!(outcome.line, want, "{what}");
    }
}

#[test]
fn data_volumes() {
    let (new, digest) = (new(), format!("{REPOSITORY}@sha256:{}", "a".repeat(64)));
    let registry = |image: &str| json!({"registry": {"url": format!("docker://{image}"), "pullMethod": "node"}});
    let archive = json!({"registry": {"url": "oci-archive://x"}});
    let cases = [
        ("a registry", registry(&digest), format!("{digest} → {new}")),
        ("current", registry(&new), format!("current {new}")),
        ("by tag", registry(&format!("{REPOSITORY}:stable")), "skip looked-up-image".to_owned()),
        ("an archive", archive, "skip custom-image".to_owned()),
        (
            "HTTP",
            json!({"http": {"url": "https://x.example/fcos.qcow2"}}),
            "skip custom-image".to_owned(),
        ),
        (
            "a claim",
            json!({"pvc": {"name": "x", "namespace": "y"}}),
            "skip custom-image".to_owned(),
        ),
        ("nothing", json!({}), "skip custom-image".to_owned()),
        ("a number", json!({"registry": {"url": 1}}), "error boot-image-field-type".to_owned()),
    ];
    for (what, source, want) in cases {
        let outcome =
            Fixture::fedora().cluster_api(TemplateKind::KubeVirt, &data_volume(source.clone()));
        assert_eq!(outcome.line, want, "{what}");
        let after = if want.contains('→') { registry(&new) } else { source };
        assert_eq!(outcome.after, data_volume(after), "{what}");
    }
    let existing =
        template(json!([]), json!([{"name": "a", "dataVolume": {"name": "x"}}]), json!([]));
    let outcome = Fixture::fedora().cluster_api(TemplateKind::KubeVirt, &existing);
    assert_eq!(outcome.line, "skip custom-image", "a data volume that the machine does not make");
}
