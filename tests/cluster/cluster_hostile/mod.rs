//! An administrator's Containerfile that wants more than its image: it gets nothing, and harms
//! nothing.

mod found;

use std::io::Read as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzEncoder;
use serde_json::{Value, json};

use crate::part_node::pod;
use crate::test_cluster::{BUILD, Cluster, SOON, state};
use found::Found;
use mosb_tests::{BUSYBOX_IMAGE, Compression, Layout, Node, base_image, run};

/// The login of a registry that the build has nothing to do with, beside the one that it pulls
/// with.
const ELSEWHERE: &str = "elsewhere:b3RoZXJz";

/// What another pod of the namespace keeps to itself.
const NEIGHBOUR: &str = "neighbours-word-7d1c";

/// A `RUN` line with a script and its arguments; small, as a Containerfile has at most 4096 bytes.
fn runs(script: &str, arguments: &[&str]) -> String {
    let mut gzip = GzEncoder::new(script.as_bytes(), flate2::Compression::best());
    let mut bytes = Vec::new();
    gzip.read_to_end(&mut bytes).unwrap();
    let script = STANDARD.encode(bytes);
    format!(
        "FROM configs AS final\nRUN echo {script} | base64 -d | gzip -d > /usr/share/script && sh /usr/share/script {}\n",
        arguments.join(" ")
    )
}

/// The test's base with busybox and openssl: a base may be hostile, too.
fn armed_base(node: &Node) -> String {
    let folder = tempfile::tempdir().unwrap();
    let from = format!("{}/.", base_image().directory.display());
    run("cp", ["-a", &from, folder.path().to_str().unwrap()]);
    let layout = Layout::at(folder.path().to_owned());
    let mut tar = tar::Builder::new(Vec::new());
    for program in ["usr/bin/busybox", "usr/bin/openssl"] {
        tar.append_path_with_name(Path::new("/").join(program), program).unwrap();
    }
    layout.append("base", Compression::Plain, &tar.into_inner().unwrap());
    node.registry().push(&layout.reference("base"), "hostile-base:12");
    node.registry().repository("hostile-base:12")
}

/// Nothing that only others of the pod, the namespace or the node have.
#[track_caller]
fn holds_nothing(cluster: &Cluster, what: &str, text: &str) {
    let registry = cluster.node.registry();
    let auth =
        |config: &Value| config["auths"][&registry.host_port]["auth"].as_str().unwrap().to_owned();
    for (whose, secret) in [
        ("the push password", registry.password.clone()),
        ("the push credentials", auth(&registry.docker_config())),
        ("a token", "eyJhbGciOi".to_owned()),
        ("another registry's login", STANDARD.encode(ELSEWHERE)),
        ("the neighbour's word", NEIGHBOUR.to_owned()),
    ] {
        assert!(!text.contains(&secret), "{what} holds {whose}:\n{text}");
    }
}

/// What the registry answers for a tag.
fn digest_of(cluster: &Cluster, tag: &str) -> String {
    let registry = cluster.node.registry();
    let words = [
        "inspect".to_owned(),
        "--format={{.Digest}}".to_owned(),
        format!("--authfile={}", registry.authfile().display()),
        format!("--cert-dir={}", registry.certificates().display()),
        format!("docker://{}:{tag}", cluster.push),
    ];
    run("skopeo", words).text().trim().to_owned()
}

/// The digest in an image's name.
fn digest(image: &str) -> &str {
    image.rsplit_once('@').unwrap().1
}

#[test]
fn run_lines_get_nothing_and_harm_nothing() {
    let mut cluster = Cluster::new("hostile");
    let more = json!({ "containers": [{ "name": "main", "image": BUSYBOX_IMAGE, "imagePullPolicy": "IfNotPresent",
        "env": [{ "name": "WORD", "value": NEIGHBOUR }], "volumeMounts": [{ "name": "work", "mountPath": "/work" }],
        "command": ["/bin/sh", "-c", "echo $WORD > /work/word; sleep 600"] }], "volumes": [{ "name": "work", "emptyDir": {} }] });
    cluster.namespace.apply(&pod("neighbour", "", more));
    let mut pulls = cluster.node.registry().pull_config();
    pulls["auths"]["elsewhere.test"] = json!({ "auth": STANDARD.encode(ELSEWHERE) });
    cluster.secret("global-pull-secret-copy", &pulls);
    cluster.render_on(&armed_base(cluster.node), "one");
    cluster.start();

    // There is an image before, whose digest a forger can name: the registry would answer for it.
    cluster.opt_in(None);
    let honest = cluster.image_after("");
    let address = cluster.node.address().to_string();
    let arguments = [&*address, &address, &cluster.namespace.name, digest(&honest)];
    cluster.opt_in(Some(&runs(include_str!("run.sh"), &arguments)));
    let image = cluster.image_after(&honest);
    let found = Found::of(&cluster, &image);

    // What it may have was found, so the search works: the pull credentials of the container that
    // it broke out into.
    let registry = cluster.node.registry();
    let pulls = registry.pull_config()["auths"][&registry.host_port]["auth"].clone();
    let secrets = found.read("secrets");
    assert!(secrets.contains(pulls.as_str().unwrap()), "{secrets}");
    holds_nothing(&cluster, "the image", &found.all());
    for other in ["job push", "wait-for-done", "kubelet", "containerd"] {
        let processes = found.read("processes");
        assert!(!processes.contains(other), "{processes}");
    }
    let map = found.read("uid_map");
    let words: Vec<_> = map.split_whitespace().collect();
    assert!(words[0] == "0" && words[1] != "0", "{map}");
    for device in ["sd", "vd", "nvme", "loop", "mem", "kmsg", "fuse"] {
        let devices = found.table("devices");
        assert!(!devices.iter().any(|it| it.starts_with(device)), "{devices:?}");
    }

    // Nobody answers but who asks everybody for a version.
    let requests = found.table("asked");
    assert_eq!(requests.len(), 16, "{requests:#?}");
    for line in requests {
        let want = match line.split(' ').next().unwrap() {
            "stranger" => "403",
            "forger" => "401",
            "alive" => "200",
            other => panic!("{other}: {line}"),
        };
        assert_eq!(line.split(' ').nth(1), Some(want), "{line}");
    }
    assert_eq!(cluster.namespace.find("configmap/forged"), None);
    for line in found.table("tried") {
        assert!(line.ends_with(": refused"), "{line}");
    }

    // It named a digest that the registry has. It is not believed.
    let build = cluster.current();
    let name = build["metadata"]["name"].as_str().unwrap();
    let forged = found.read("forged");
    assert_eq!(forged.matches(digest(&honest)).count(), 2, "{forged}");
    assert!(forged.contains(name), "{forged}");
    assert_eq!(state(&build), "Succeeded");
    assert_ne!(digest(&image), digest(&honest));
    assert_eq!(digest_of(&cluster, name), digest(&image));

    change_after_the_run(&cluster, &image);
    holds_nothing(&cluster, "the controller's log", &cluster.log());
    let requests = cluster.node.audit();
    let strangers = requests.iter().filter(|event| event["user"]["username"] == "system:anonymous");
    let ours = strangers.filter(|event| event["requestURI"].as_str().unwrap().contains("/v1/"));
    let codes: Vec<_> =
        ours.map(|event| event["responseStatus"]["code"].as_u64().unwrap()).collect();
    assert!(codes.len() >= 7 && codes.iter().all(|code| *code == 403), "{codes:?}");
}

/// It may end either way, with what is true.
fn change_after_the_run(cluster: &Cluster, before: &str) {
    let text = runs(include_str!("swap.sh"), &[digest(before)]);
    let last = cluster.current()["metadata"]["name"].clone();
    cluster.opt_in(Some(&text));
    let another = |config: &Value| {
        let named = &config["metadata"]["annotations"]["machineconfiguration.openshift.io/current-machine-os-build"];
        named.is_string() && *named != last
    };
    cluster.node.wait(&format!("machineosconfig/{}", cluster.pool), SOON, another);
    let name = cluster.current()["metadata"]["name"].as_str().unwrap().to_owned();
    let over = |build: &Value| ["Succeeded", "Failed"].contains(&&*state(build));
    let build = cluster.node.wait(&format!("machineosbuild/{name}"), BUILD, over);
    holds_nothing(cluster, "the build", &build.to_string());
    println!("what was swapped: {}", build["status"]["conditions"]);
    match &*state(&build) {
        "Succeeded" => {
            let image = build["status"]["digestedImagePushSpec"].as_str().unwrap();
            assert_ne!(digest(image), digest(before));
            assert_eq!(digest_of(cluster, &name), digest(image));
            let found = Found::of(cluster, image);
            assert!(found.read("swap").contains("failure"));
            holds_nothing(cluster, "the image", &found.all());
        }
        _ => {
            let logs = cluster.mosb(&["logs", &cluster.pool]).ok().text();
            holds_nothing(cluster, "the log", &logs);
            let message = cluster.message(&build, "Failed");
            assert!(message.starts_with("image-"), "which container: {message}");
            let config = cluster.config();
            assert_eq!(config["status"]["currentImagePullSpec"], before, "still in service");
        }
    }
}
