//! Sets of OpenShift's machine API.

use serde_json::{Value, json};

use super::fake_cluster::FakeCluster;
use crate::plan::{BootImagePlan, Outcome};
use mosb_cluster::cluster_cache::BootImageKind::{
    AwsMachineTemplate, BootImageHistory, ClusterVersion, Infrastructure,
    MachineApiMachineSet as Sets, MachineConfiguration,
};

pub const OLD: &str = "projects/rhcos-cloud/global/images/rhcos-1";
pub const NEW: &str = "projects/rhcos-cloud/global/images/rhcos-2";

pub fn cluster() -> FakeCluster {
    let mut cluster = FakeCluster::new(NEW);
    cluster.golden["releaseVersion"] = json!("4.18.3");
    let singleton = |name: &str, fields: Value| {
        let mut object = json!({ "metadata": { "name": name } });
        for (key, value) in fields.as_object().unwrap() {
            object[key] = value.clone();
        }
        object
    };
    cluster.put(
        ClusterVersion,
        singleton(
            "version",
            json!({ "status": { "history": [
        { "state": "Completed", "version": "4.18.3" }] } }),
        ),
    );
    cluster.put(
        Infrastructure,
        singleton("cluster", json!({ "status": { "platformStatus": { "type": "GCP" } } })),
    );
    cluster
}

pub fn set(cluster: &mut FakeCluster, name: &str) {
    let value = json!({ "userDataSecret": { "name": "worker-user-data" }, "unknown": { "a": [1] },
        "disks": [{ "boot": true, "image": OLD, "sizeGb": 128 }, { "boot": false, "image": "data" }] });
    cluster.put(Sets, json!({ "metadata": { "name": name },
        "spec": { "replicas": 2, "template": { "spec": { "providerSpec": { "value": value } } } } }));
}

fn stub(cluster: &mut FakeCluster, version: &str) {
    stub_secret(cluster, "worker-user-data", version, "worker");
}

pub fn stub_secret(cluster: &mut FakeCluster, name: &str, version: &str, pool: &str) {
    let list = if version.starts_with('2') { "append" } else { "merge" };
    let source = json!([{ "source": format!("https://api-int.example:22623/config/{pool}") }]);
    let config = json!({ "ignition": { "version": version, "config": { list: source } } });
    let data = k8s_openapi::ByteString(config.to_string().into_bytes());
    let object = json!({
        "metadata": { "name": name, "namespace": "machines", "resourceVersion": "1" },
        "data": { "userData": data } });
    cluster.secrets.insert(format!("machines/{name}"), object);
}

pub fn spec<'c>(cluster: &'c FakeCluster, name: &str) -> &'c Value {
    let set = &cluster.objects[&(Sets, format!("machines/{name}"))];
    &set["spec"]["template"]["spec"]["providerSpec"]["value"]
}

pub fn codes(plan: &BootImagePlan) -> Vec<&str> {
    plan.sets.iter().map(|set| set.outcome.code()).collect()
}

#[test]
fn the_image_of_the_boot_disk_changes_and_nothing_else() {
    let mut cluster = cluster();
    stub(&mut cluster, "3.2.0");
    set(&mut cluster, "a");
    let plan = cluster.settle();
    assert_eq!(codes(&plan), ["current"]);
    let mut want = spec(&cluster, "a").clone();
    assert_eq!(want["disks"][0]["image"], NEW);
    want["disks"][0]["image"] = json!(OLD);
    let mut before = FakeCluster::new(NEW);
    set(&mut before, "a");
    assert_eq!(&want, spec(&before, "a"));
    let record = cluster.record("a.machineset.machine.openshift.io");
    assert_eq!(record, [(OLD.to_owned(), 0), (NEW.to_owned(), 1)]);
}

#[test]
fn the_controller_of_openshift_keeps_the_kinds_that_it_has() {
    for (runs, mode, want) in
        [(true, "All", "other-controller"), (true, "None", "current"), (false, "All", "current")]
    {
        let mut cluster = cluster();
        stub(&mut cluster, "3.2.0");
        set(&mut cluster, "a");
        cluster.other_controller =
            runs.then(|| "Deployment mco/machine-config-controller".to_owned());
        cluster.put(MachineConfiguration, json!({ "metadata": { "name": "cluster" },
            "status": { "managedBootImagesStatus": { "machineManagers": [
                { "resource": "machinesets", "apiGroup": "machine.openshift.io", "selection": { "mode": mode } }] } } }));
        let plan = cluster.settle();
        assert_eq!(codes(&plan), [want], "{runs} {mode}");
        assert_eq!(cluster.writes.is_empty(), want == "other-controller", "{runs} {mode}");
    }
}

/// The controller runs and manages the kind: what says so must not count as missing.
#[test]
fn nothing_is_written_while_what_decides_it_is_not_known() {
    let enrolled = || {
        json!({ "machineManagers": [
            { "resource": "machinesets", "apiGroup": "machine.openshift.io", "selection": { "mode": "All" } }] })
    };
    let whole = || {
        json!({ "metadata": { "name": "cluster", "generation": 2 },
            "status": { "managedBootImagesStatus": enrolled(), "observedGeneration": 2 } })
    };
    let mut unreadable = whole();
    unreadable["spec"] = json!({ "managedBootImages": { "machineManagers": "all" } });
    let mut large = whole();
    large["spec"] = json!({ "text": "x".repeat(300_000) });
    for (what, object, unread, part) in [
        (
            "no right",
            json!(null),
            Some(MachineConfiguration),
            "machineconfigurations.operator.openshift.io: ",
        ),
        (
            "no right to ClusterVersion",
            whole(),
            Some(ClusterVersion),
            "clusterversions.config.openshift.io: ",
        ),
        (
            "no right to Infrastructure",
            whole(),
            Some(Infrastructure),
            "no boot image of the machine API",
        ),
        ("no right to records", whole(), Some(BootImageHistory), "bootimagehistories"),
        ("unreadable", unreadable, None, "MachineConfiguration cluster: it can't be read"),
        ("too large", large, None, "cluster is larger than mosb reads"),
    ] {
        for settings in [None, Some("bootImages: {}")] {
            let mut cluster = cluster();
            stub(&mut cluster, "3.2.0");
            set(&mut cluster, "a");
            let runs = unread.is_none_or(|kind| kind == MachineConfiguration);
            cluster.other_controller = runs.then(|| "Deployment mco/x".to_owned());
            if !object.is_null() {
                cluster.put(MachineConfiguration, object.clone());
            }
            if let Some(settings) = settings {
                cluster.settings = settings.to_owned();
            }
            if let Some(kind) = unread {
                cluster.objects.retain(|(one, _), _| *one != kind);
                cluster.unread.insert(kind, "forbidden: cannot list".to_owned());
            }
            let plan = cluster.settle();
            assert_eq!(cluster.writes, [""; 0], "{what}");
            assert!(plan.sets.iter().all(|set| set.outcome.code() == "waiting"), "{what} {plan:?}");
            let errors: Vec<&str> = plan.errors.iter().map(|one| &*one.message).collect();
            // Without a choice in the settings, only the object of the cluster can be missed.
            if settings.is_none() || runs {
                assert!(errors.concat().contains(part), "{what}: {errors:?}");
                assert_eq!(errors.len(), 1, "{what}: {errors:?}");
            }
            if unread.is_some() && settings.is_none() {
                assert!(errors[0].contains("cannot list; apply deploy/boot-images"), "{errors:?}");
            }
        }
    }
}

#[test]
fn a_set_names_the_watch_that_failed() {
    let watch = || "machinesets.machine.openshift.io: connection refused".to_owned();
    for (what, kind, waits) in [
        ("the sets", Some(Sets), true),
        ("their pins", Some(BootImageHistory), true),
        ("other templates", Some(AwsMachineTemplate), false),
        ("the images", None, true),
    ] {
        let mut cluster = cluster();
        stub(&mut cluster, "3.2.0");
        set(&mut cluster, "a");
        match kind {
            Some(kind) => drop(cluster.doubtful.insert(kind, watch())),
            None => cluster.golden_doubt = Some(watch()),
        }
        let plan = cluster.settle();
        assert_eq!(plan.errors, [], "{what}: it may pass");
        let Outcome::Waiting(why) = &plan.sets[0].outcome else {
            assert!(!waits, "{what}: {plan:?}");
            continue;
        };
        assert!(waits && why.contains(&watch()), "{what}: {why}");
        assert_eq!(cluster.writes, [""; 0], "{what}");
    }
}

#[test]
fn what_is_turned_off_misses_nothing() {
    let mut cluster = cluster();
    set(&mut cluster, "a");
    cluster.settings = "bootImages: {machineManagers: []}".to_owned();
    cluster.unread.insert(MachineConfiguration, "forbidden".to_owned());
    assert_eq!(cluster.settle().errors, []);
}

/// The administrator has just enrolled the kind, and the Machine Config Operator has yet to take it.
#[test]
fn a_choice_that_the_operator_has_not_seen_is_waited_for() {
    for (observed, runs, want) in
        [(1, true, "waiting"), (2, true, "current"), (1, false, "current")]
    {
        let mut cluster = cluster();
        stub(&mut cluster, "3.2.0");
        set(&mut cluster, "a");
        cluster.other_controller = runs.then(|| "Deployment mco/x".to_owned());
        cluster.put(
            MachineConfiguration,
            json!({ "metadata": { "name": "cluster", "generation": 2 },
            "status": { "observedGeneration": observed } }),
        );
        assert_eq!(codes(&cluster.settle()), [want], "{observed} {runs}");
    }
}

#[test]
fn an_object_that_is_not_cached_whole_says_so() {
    for (kind, name, part) in [
        (Sets, "a", "MachineSet machines/a is larger"),
        (
            BootImageHistory,
            "a.machineset.machine.openshift.io",
            "BootImageHistory machines/a.machineset",
        ),
    ] {
        let mut cluster = cluster();
        stub(&mut cluster, "3.2.0");
        set(&mut cluster, "a");
        cluster.settle_by(1);
        let writes = cluster.writes.len();
        cluster.publish("projects/rhcos-cloud/global/images/rhcos-3", "4.18.3");
        cluster.edit(kind, name, |one| one["spec"]["text"] = json!("x".repeat(300_000)));
        let plan = cluster.settle();
        assert_eq!(codes(&plan), ["object-too-large"], "{name}");
        assert!(plan.sets[0].outcome.reason().contains(part), "{:?}", plan.sets[0].outcome);
        assert_eq!(cluster.writes.len(), writes, "{name}");
    }
}

#[test]
fn sets_that_openshift_has_in_both_apis_change_where_they_are_decided() {
    for (authority, want) in [
        ("MachineAPI", "current"),
        ("ClusterAPI", "other-authority"),
        ("Migrating", "other-authority"),
    ] {
        let mut cluster = cluster();
        stub(&mut cluster, "3.2.0");
        set(&mut cluster, "a");
        cluster.edit(Sets, "a", |one| one["status"] = json!({ "authoritativeAPI": authority }));
        assert_eq!(codes(&cluster.settle()), [want], "{authority}");
    }
}

/// A new image reads no stub of spec 2.
#[test]
fn the_stub_is_converted_before_the_image_changes() {
    let mut cluster = cluster();
    stub(&mut cluster, "2.2.0");
    for name in ["a", "b"] {
        set(&mut cluster, name);
    }
    let plan = cluster.settle_by(1);
    assert_eq!(codes(&plan), ["current", "current"]);
    let at = |part: &str| cluster.writes.iter().position(|write| write.contains(part));
    let converted = at("secret machines/worker-user-data: converted from Ignition 2.2.0 to 3.0.0");
    assert!(converted.is_some() && converted < at("boot image of"), "{:?}", cluster.writes);
    let annotation = |cluster: &FakeCluster, key: &str| {
        let key = format!("machineconfiguration.openshift.io/stub-ignition-upgraded-{key}");
        let written = &cluster.secrets["machines/worker-user-data"];
        written["metadata"]["annotations"][key].as_str().unwrap().to_owned()
    };
    assert_eq!(annotation(&cluster, "to"), "3.0.0");
    let time = annotation(&cluster, "at");
    assert!(time.len() == 20 && time.parse::<jiff::Timestamp>().is_ok(), "{time}");
    // The next image finds it converted.
    let before = cluster.secrets.clone();
    cluster.publish("projects/rhcos-cloud/global/images/rhcos-3", "4.18.3");
    assert_eq!(codes(&cluster.settle()), ["current", "current"]);
    assert_eq!(cluster.secrets, before);
}

#[test]
fn a_stub_that_a_set_with_an_old_image_shares_stays() {
    let mut cluster = cluster();
    stub(&mut cluster, "2.2.0");
    for name in ["a", "b"] {
        set(&mut cluster, name);
    }
    cluster.edit(Sets, "b", |one| {
        one["metadata"]["ownerReferences"] =
            json!([{ "apiVersion": "hive/v1", "kind": "MachinePool", "name": "p", "uid": "p" }]);
    });
    let plan = cluster.settle();
    assert_eq!(codes(&plan), ["stub-shared", "owned"]);
    assert_eq!(spec(&cluster, "a")["disks"][0]["image"], OLD);
    assert!(!cluster.writes.iter().any(|write| write.contains("secret")));
}

#[test]
fn stubs_that_cannot_be_read_or_converted_are_errors_without_their_content() {
    for (what, secret, want) in [
        ("none", None, "stub-missing"),
        ("empty", Some(json!({})), "stub-empty"),
        ("no JSON", Some(json!({ "userData": "aHVudGVyMg==" })), "stub-not-json"),
        (
            "spec 1",
            Some(json!({ "userData": "eyJpZ25pdGlvbiI6eyJ2ZXJzaW9uIjoiMS4wIn19" })),
            "stub-version",
        ),
    ] {
        let mut cluster = cluster();
        set(&mut cluster, "a");
        if let Some(data) = secret {
            cluster.secrets.insert("machines/worker-user-data".to_owned(), json!({
                "metadata": { "name": "worker-user-data", "namespace": "machines" }, "data": data }));
        }
        let plan = cluster.settle();
        assert_eq!(codes(&plan), [want], "{what}");
        assert_eq!(spec(&cluster, "a")["disks"][0]["image"], OLD, "{what}");
        assert!(!format!("{plan:?}").contains("hunter2"), "{what}");
    }
}

#[test]
fn one_broken_set_hides_no_other() {
    let mut cluster = cluster();
    stub(&mut cluster, "3.2.0");
    for name in ["a", "b", "c", "d"] {
        set(&mut cluster, name);
    }
    cluster.edit(Sets, "b", |one| one["spec"]["template"]["spec"]["providerSpec"] = json!({}));
    cluster.edit(Sets, "c", |one| {
        one["spec"]["template"]["spec"]["providerSpec"]["value"]["disks"] = json!([]);
    });
    let plan = cluster.settle();
    assert_eq!(codes(&plan), ["current", "boot-image-field-missing", "no-boot-disk", "current"]);
}

/// It is not known whether it uses the stub.
#[test]
fn a_stub_is_not_converted_beside_a_set_that_is_too_large_to_be_read() {
    let mut cluster = cluster();
    stub(&mut cluster, "2.2.0");
    set(&mut cluster, "a");
    set(&mut cluster, "large");
    cluster.edit(Sets, "large", |one| one["spec"]["text"] = "x".repeat(300 << 10).into());
    let before = cluster.secrets.clone();
    let plan = cluster.settle();
    assert_eq!(codes(&plan), ["stub-shared", "object-too-large"]);
    let reason = plan.sets[0].outcome.reason();
    assert!(reason.contains("machineset.machine.openshift.io/large"), "{reason}");
    assert_eq!(cluster.secrets, before);
    // Smaller, it follows as well.
    cluster.edit(Sets, "large", |one| one["spec"]["text"] = "x".into());
    assert_eq!(codes(&cluster.settle()), ["current", "current"]);
}
