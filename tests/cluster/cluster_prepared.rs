//! A pool that must run something: a pod makes its prepared base once, and each config after that is
//! built directly on it, without buildah and without privileges.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::{Value, json};

use crate::test_cluster::build_pod::{assert_direct, containers, names, recorded};
use crate::test_cluster::{BUILD, Cluster};
use mosb_tests::{Certificate, package_images, wait};

/// Instructions that find the packages and not the config, and others that find both.
const BOTH: &str = "\
FROM base
RUN test ! -e /etc/story && cp /usr/lib/systemd/system/usbguard.service /usr/share/before
FROM configs
RUN test -e /usr/share/before && cp /etc/story /etc/copied && ostree container commit
";

/// Instructions that need no config. Their result differs each time.
const OWN: &str = "FROM base\nRUN cp /proc/sys/kernel/random/uuid /usr/share/uuid\n";

/// What a pool's machines have before the files of its config.
struct Os {
    base: &'static str,
    extensions: &'static [&'static str],
}

const WITH_PACKAGES: Os = Os { base: "package-base:1", extensions: &["usbguard"] };
const PLAIN: Os = Os { base: "story-base:12", extensions: &[] };

/// The pool's rendered config number `n`, with these files.
fn render(cluster: &Cluster, pool: &str, os: &Os, n: u32, files: &[(&str, &str)]) {
    let registry = cluster.node.registry();
    let files: Vec<Value> = files
        .iter()
        .map(|(path, content)| {
            let source = format!("data:;base64,{}", base64(content));
            json!({ "path": path, "mode": 420, "contents": { "source": source } })
        })
        .collect();
    let name = format!("rendered-{pool}-{n:032x}");
    let config = json!({ "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": name, "annotations": {
            "machineconfiguration.openshift.io/generated-by-controller-version": "test",
            "machineconfiguration.openshift.io/release-image-version": "4.20.0" } },
        "spec": { "osImageURL": registry.repository(os.base),
            "baseOSExtensionsContainerImage": registry.repository("package-extensions:1"),
            "config": { "ignition": { "version": "3.5.0" }, "storage": { "files": files } },
            "kernelArguments": [], "extensions": os.extensions, "fips": false, "kernelType": "default" } });
    cluster.node.apply(&config.to_string());
    let change = json!({ "spec": { "configuration": { "name": name } } });
    cluster.patch(&format!("machineconfigpool/{pool}"), &change);
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// Waits for another image of a pool. Returns it, and the pods that ran meanwhile. `seen` has the UIDs
/// of those before, which may still end.
#[track_caller]
fn built(
    cluster: &Cluster,
    seen: &mut BTreeSet<String>,
    pool: &str,
    before: &str,
) -> (String, Vec<Value>) {
    let [built] = all_built(cluster, seen, [(pool, before)]);
    built
}

/// The same of several pools.
#[track_caller]
fn all_built<const N: usize>(
    cluster: &Cluster,
    seen: &mut BTreeSet<String>,
    pools: [(&str, &str); N],
) -> [(String, Vec<Value>); N] {
    let mut pods = [(); N].map(|()| BTreeMap::new());
    let images = wait(&format!("other images of {pools:?}"), BUILD, || {
        let images = std::array::from_fn(|at| {
            let (pool, before) = pools[at];
            let label =
                format!("machineconfiguration.openshift.io/target-machine-config-pool={pool}");
            for pod in cluster.namespace.list_labelled("pods", &label) {
                let uid = pod["metadata"]["uid"].to_string();
                if !seen.contains(&uid) {
                    pods[at].insert(uid, pod);
                }
            }
            let config = cluster.namespace.get(&format!("machineosconfig/{pool}"));
            let image = config["status"]["currentImagePullSpec"].as_str().unwrap_or_default();
            if image == before { String::new() } else { image.to_owned() }
        });
        (!images.iter().any(String::is_empty)).then_some(images)
    });
    seen.extend(pods.iter().flat_map(BTreeMap::keys).cloned());
    let mut pods = pods.into_iter();
    images.map(|image| (image, pods.next().unwrap_or_default().into_values().collect()))
}

#[track_caller]
fn only(pods: &[Value]) -> &Value {
    let [pod] = pods else { panic!("{} pods: {pods:#?}", pods.len()) };
    pod
}

/// One pod made a prepared base with buildah.
#[track_caller]
fn assert_made(pods: &[Value]) {
    assert_eq!(names(only(pods)), ["wait-for-done", "image-build", "image-push"]);
}

/// One pod fetched a prepared base, and ran buildah without the push credentials.
#[track_caller]
fn assert_last_part(pods: &[Value]) {
    let pod = only(pods);
    let has_push_credentials = containers(pod).filter(|container| {
        let mounts = container["volumeMounts"].as_array().into_iter().flatten();
        mounts.clone().any(|mount| mount["name"] == "final-image-push-creds")
    });
    let names: Vec<&Value> = has_push_credentials.map(|container| &container["name"]).collect();
    assert_eq!(names, ["image-fetch", "image-push"]);
}

/// The only image that was recorded since.
#[track_caller]
fn newly_recorded(cluster: &Cluster, before: &[String]) -> String {
    wait("another recorded prepared base", BUILD, || {
        let mut new = recorded(cluster);
        new.retain(|image| !before.contains(image));
        match &new[..] {
            [] => None,
            [image] => Some(image.clone()),
            more => panic!("{more:?}"),
        }
    })
}

fn label(cluster: &Cluster, image: &str, key: &str) -> Option<String> {
    let (_, digest) = image.split_once('@').unwrap();
    let blob = |digest: &str| -> Value {
        serde_json::from_reader(cluster.node.registry().blob(digest)).unwrap()
    };
    let config = blob(blob(digest)["config"]["digest"].as_str().unwrap());
    config["config"]["Labels"][key].as_str().map(str::to_owned)
}

/// Another pool with the instructions [`OWN`] that pushes to the same repository.
fn another_pool(cluster: &Cluster, name: &str, pull_secret: Option<&str>) -> String {
    let pool = format!("{}-{name}", cluster.pool);
    let object = json!({ "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfigPool", "metadata": { "name": pool },
        "spec": { "nodeSelector": { "matchLabels": { "pool": name } } } });
    cluster.node.apply(&object.to_string());
    render(cluster, &pool, &PLAIN, 1, &[("/etc/story", name)]);
    let mut config = json!({ "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineOSConfig", "metadata": { "name": pool },
        "spec": { "machineConfigPool": { "name": pool }, "imageBuilder": { "imageBuilderType": "Job" },
            "renderedImagePushSecret": { "name": "push" },
            "renderedImagePushSpec": format!("{}:latest", cluster.push),
            "containerFile": [{ "containerfileArch": "NoArch", "content": OWN }] } });
    if let Some(name) = pull_secret {
        config["spec"]["baseImagePullSecret"] = json!({ "name": name });
    }
    cluster.node.apply(&config.to_string());
    pool
}

#[test]
fn packages_are_installed_once_and_configs_written_often() {
    let mut cluster = Cluster::new("prepared");
    let pool = cluster.pool.clone();
    let seen = &mut BTreeSet::new();
    let registry = cluster.node.registry();
    registry.push(&package_images().reference("base"), WITH_PACKAGES.base);
    registry.push(&package_images().reference("extensions"), "package-extensions:1");
    let render = |cluster: &Cluster, n, files: &[_]| {
        render(cluster, &pool, &WITH_PACKAGES, n, files);
    };

    // The first build: one pod, two images.
    render(&cluster, 1, &[("/etc/story", "one")]);
    cluster.opt_in(None);
    cluster.start();
    let (first, pods) = built(&cluster, seen, &pool, "");
    assert_made(&pods);
    let prepared = newly_recorded(&cluster, &[]);
    assert_eq!(label(&cluster, &first, "mosb.dev/prepared"), Some(prepared.clone()));
    let own = |key| label(&cluster, &format!("x@{prepared}"), key);
    assert!(own("mosb.dev/prepared-inputs").is_some());
    assert_eq!(own("machineconfig"), None, "it belongs to no config");
    assert_eq!(cluster.file(&first, "/etc/story"), "one");
    let path = "/usr/lib/systemd/system/usbguard.service";
    assert!(cluster.file(&first, path).contains("[Service]"));

    // Another config: no buildah, no privileges.
    render(&cluster, 2, &[("/etc/story", "two")]);
    let (second, pods) = built(&cluster, seen, &pool, &first);
    assert_direct(only(&pods));
    assert_eq!(cluster.file(&second, "/etc/story"), "two");
    assert!(cluster.file(&second, path).contains("[Service]"));
    assert_eq!(label(&cluster, &second, "mosb.dev/prepared"), Some(prepared.clone()));
    let status = cluster.mosb(&["status", &pool]).ok().text();
    assert!(status.contains("on the prepared base of 20"), "{status}");

    // Another config, a CA and instructions at once. The CA is compiled into the trust store of the
    // prepared base, and the instructions before the config are run in it, in a pod of their own.
    cluster.stop();
    let directory = tempfile::tempdir().unwrap();
    let authority = Certificate::authority(directory.path(), "acme");
    let authority = fs::read_to_string(&authority.certificate).unwrap();
    let anchor = "/etc/pki/ca-trust/source/anchors/acme.crt";
    render(&cluster, 3, &[("/etc/story", "three"), (anchor, &authority)]);
    cluster.opt_in(Some(BOTH));
    let before = recorded(&cluster);
    cluster.start();
    let (third, pods) = built(&cluster, seen, &pool, &second);
    let with_own = newly_recorded(&cluster, &before);
    let (makes, runs): (Vec<Value>, Vec<Value>) =
        pods.into_iter().partition(|pod| !names(pod).contains(&"image-fetch"));
    assert_made(&makes);
    assert_last_part(&runs);
    assert_eq!(label(&cluster, &third, "mosb.dev/prepared"), Some(with_own.clone()));
    assert_eq!(cluster.file(&third, "/etc/copied"), "three");
    let prepared = format!("x@{with_own}");
    assert!(cluster.file(&prepared, "/usr/share/before").contains("[Service]"));
    for image in [&prepared, &third] {
        assert_eq!(cluster.file(image, anchor), authority);
    }
}

#[test]
#[ignore = "make test-all: unit tests have the decisions"]
fn pools_with_one_secret_share_a_base() {
    let mut cluster = Cluster::new("prepared-shared");
    let pool = cluster.pool.clone();
    let seen = &mut BTreeSet::new();
    let registry = cluster.node.registry();
    render(&cluster, &pool, &PLAIN, 1, &[("/etc/story", "one")]);
    cluster.opt_in(Some(OWN));
    cluster.start();
    let (first, pods) = built(&cluster, seen, &pool, "");
    assert_made(&pods);
    let prepared = newly_recorded(&cluster, &[]);

    // A pool with the same repository, Secret and inputs shares it; with another Secret it makes its own.
    let pull = registry.pull_config().to_string();
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
        "metadata": { "name": "own-pull", "labels": { "mosb.dev/pull-secret": "true" } },
        "stringData": { ".dockerconfigjson": pull } });
    cluster.namespace.apply(&secret.to_string());
    let same = another_pool(&cluster, "same", None);
    let other = another_pool(&cluster, "other", Some("own-pull"));
    let [(shared, of_same), (_, of_other)] = all_built(&cluster, seen, [(&same, ""), (&other, "")]);
    assert_direct(only(&of_same));
    assert_eq!(label(&cluster, &shared, "mosb.dev/prepared"), Some(prepared.clone()));
    assert_made(&of_other);
    wait("its record", BUILD, || (recorded(&cluster).len() == 2).then_some(()));
    for pool in [&same, &other] {
        for kind in ["machineosconfig", "machineconfigpool"] {
            cluster.node.kubectl(&["delete", kind, pool, "--wait=false"]).ok();
        }
    }

    // Gone from the registry, it is made anew. A config-only rebuild asks for it, too.
    let before = recorded(&cluster);
    registry.delete(&format!("{pool}@{prepared}"));
    cluster.mosb(&["rebuild", &pool, "--config-only"]).ok();
    let (second, pods) = built(&cluster, seen, &pool, &first);
    assert_made(&pods);
    let again = newly_recorded(&cluster, &before);
    assert_eq!(label(&cluster, &second, "mosb.dev/prepared"), Some(again));
    cluster.assert_events(&[("MachineOSBuild", "PreparedBaseMissing")]);
}
