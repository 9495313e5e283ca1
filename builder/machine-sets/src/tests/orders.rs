//! What happens to the sets of Cluster API, and in which order.

use super::fake_cluster::{ALL, FakeCluster, NEW, OLD};
use crate::memory::Memory;
use crate::plan::Outcome;
use mosb_cluster::cluster_cache::BootImageKind::{
    self, BootImageHistory, ClusterApiMachineSet, MachineDeployment,
};

const ROLL: &str = "mosb.dev/boot-image-roll";

fn code(cluster: &mut FakeCluster, name: &str) -> String {
    let plan = cluster.decide();
    let set = plan.sets.iter().find(|set| set.name == name).unwrap();
    set.outcome.code().to_owned()
}

fn cluster(kind: BootImageKind, names: &[&str]) -> FakeCluster {
    let mut cluster = FakeCluster::new(NEW);
    for name in names {
        cluster.set(kind, name, OLD);
    }
    cluster
}

#[test]
fn the_record_the_template_the_switch_and_the_record() {
    let mut cluster = cluster(ClusterApiMachineSet, &["a"]);
    let plan = cluster.settle();
    assert_eq!(plan.sets[0].outcome, Outcome::Current);
    assert_eq!(cluster.image(ClusterApiMachineSet, "a"), NEW);
    let template = cluster.writes[2].strip_prefix("creating GCPMachineTemplate machines/a-t-");
    assert_eq!(template.map(str::len), Some(10), "{:?}", cluster.writes);
    cluster.writes.remove(2);
    let history = "bootimagehistory machines/a.machineset.cluster.x-k8s.io";
    let status = format!("status of {history}");
    let want = [
        format!("creating {history}"),
        status.clone(),
        status.clone(),
        "boot image of MachineSet machines/a".to_owned(),
        status,
    ];
    assert_eq!(cluster.writes, want);
    let record = cluster.record("a.machineset.cluster.x-k8s.io");
    assert_eq!(record, [(OLD.to_owned(), 0), (NEW.to_owned(), 1)]);
    // Nothing is left to do.
    cluster.writes.clear();
    cluster.settle();
    assert_eq!(cluster.writes, [""; 0]);
}

/// `kubectl get bootimagehistory` shows how often mosb wrote an image.
#[test]
fn an_image_that_the_set_had_counts_no_write() {
    let mut cluster = FakeCluster::new(NEW);
    cluster.set(ClusterApiMachineSet, "a", NEW);
    cluster.settle();
    let history = "a.machineset.cluster.x-k8s.io";
    assert_eq!(cluster.record(history), [(NEW.to_owned(), 0)]);
    let newer = "projects/fedora-coreos-cloud/global/images/fcos-41-3";
    cluster.publish(newer, "41.20250205.3.0");
    cluster.settle();
    assert_eq!(cluster.record(history), [(NEW.to_owned(), 0), (newer.to_owned(), 1)]);
}

/// The controller ends after every single write.
#[test]
fn the_end_is_the_same_wherever_it_ends() {
    let names = ["a", "b", "c"];
    let mut whole = cluster(ClusterApiMachineSet, &names);
    whole.settle();
    let mut parts = cluster(ClusterApiMachineSet, &names);
    parts.settle_by(1);
    assert_eq!(parts.writes.len(), whole.writes.len());
    for name in names {
        assert_eq!(parts.image(ClusterApiMachineSet, name), NEW);
        let history = format!("{name}.machineset.cluster.x-k8s.io");
        assert_eq!(parts.record(&history), whole.record(&history));
    }
}

#[test]
fn a_write_that_is_refused_stops_its_set_only() {
    let mut cluster = cluster(ClusterApiMachineSet, &["a", "b", "c"]);
    cluster.refused.insert("b".to_owned());
    let plan = cluster.settle();
    let codes: Vec<&str> = plan.sets.iter().map(|set| set.outcome.code()).collect();
    assert_eq!(codes, ["current", "api-forbidden", "current"]);
    assert_eq!(cluster.image(ClusterApiMachineSet, "b"), OLD);
    // The reason is over.
    cluster.refused.clear();
    cluster.memory.failed.clear();
    cluster.settle();
    assert_eq!(cluster.image(ClusterApiMachineSet, "b"), NEW);
}

/// Else its event and its condition would come and go with each try.
#[test]
fn a_write_that_is_tried_again_is_reported_as_failed() {
    let mut cluster = cluster(ClusterApiMachineSet, &["a"]);
    cluster.refuses_images = true;
    cluster.settle();
    for (what, waited, is_tried) in [("not yet", 200, false), ("it is due", 200, true)] {
        cluster.wait(waited);
        let plan = cluster.decide();
        assert_eq!(plan.sets[0].outcome.code(), "api-forbidden", "{what}");
        assert_eq!(plan.sets[0].write.is_some(), is_tried, "{what}");
    }
    cluster.refuses_images = false;
    cluster.settle();
    assert_eq!(code(&mut cluster, "a"), "current");
}

#[test]
fn a_template_that_sets_share_becomes_one_new_template() {
    let mut cluster = cluster(ClusterApiMachineSet, &["a", "b"]);
    cluster.edit(ClusterApiMachineSet, "b", |set| {
        set["spec"]["template"]["spec"]["infrastructureRef"]["name"] = "a-t".into();
    });
    cluster.settle();
    for name in ["a", "b"] {
        assert_eq!(cluster.image(ClusterApiMachineSet, name), NEW);
    }
    let templates = cluster.objects.keys().filter(|(kind, _)| kind.is_template()).count();
    assert_eq!(templates, 3, "the two old ones and one new one");
}

#[test]
fn machine_deployments_roll_with_their_own_yes_and_one_at_a_time() {
    let mut cluster = cluster(MachineDeployment, &["a", "b", "c", "d"]);
    for name in ["a", "b"] {
        cluster.annotate(MachineDeployment, name, ROLL, "true");
    }
    cluster.annotate(MachineDeployment, "c", ROLL, "yes");
    cluster.edit(MachineDeployment, "d", |set| {
        set["spec"]["rollout"]["strategy"]["type"] = "OnDelete".into();
    });
    let plan = cluster.settle();
    let codes: Vec<&str> = plan.sets.iter().map(|set| set.outcome.code()).collect();
    assert_eq!(codes, ["current", "waiting", "rolls-machines", "waiting"]);
    assert_eq!(cluster.image(MachineDeployment, "b"), OLD, "a rolls");
    cluster.finish_rollouts();
    cluster.settle();
    assert_eq!(cluster.image(MachineDeployment, "b"), NEW);
    assert_eq!(cluster.image(MachineDeployment, "d"), OLD, "b rolls");
    cluster.finish_rollouts();
    cluster.settle();
    assert_eq!(cluster.image(MachineDeployment, "c"), OLD);
    assert_eq!(cluster.image(MachineDeployment, "d"), NEW);
}

#[test]
fn the_first_deployment_waits_while_any_other_rolls() {
    let mut cluster = cluster(MachineDeployment, &["a", "b"]);
    cluster.annotate(MachineDeployment, "a", ROLL, "true");
    // Somebody scales b, and it is not observed yet.
    cluster.edit(MachineDeployment, "b", |set| set["metadata"]["generation"] = 2.into());
    cluster.settle();
    assert_eq!(code(&mut cluster, "a"), "waiting");
    cluster.edit(MachineDeployment, "b", |set| set["status"]["observedGeneration"] = 2.into());
    cluster.settle();
    assert_eq!(cluster.image(MachineDeployment, "a"), NEW);
}

/// What Cluster API reports of a MachineDeployment follows its MachineSets, and is old while they
/// have not caught up.
#[test]
fn the_machine_sets_of_a_deployment_say_whether_it_rolls() {
    type Edit = fn(&mut FakeCluster);
    let cases: [(&str, &str, Edit); 5] = [
        ("its machines have its template", "current", |cluster| {
            machine_set_of_b(cluster, "b-t", 3, 3);
            machine_set_of_b(cluster, "older", 0, 0);
        }),
        ("machines have another template", "waiting", |cluster| {
            machine_set_of_b(cluster, "b-t", 0, 0);
            machine_set_of_b(cluster, "older", 3, 3);
        }),
        ("the last machine with another template", "waiting", |cluster| {
            machine_set_of_b(cluster, "b-t", 3, 3);
            machine_set_of_b(cluster, "older", 0, 1);
        }),
        ("a machine is missing", "waiting", |cluster| {
            cluster.edit(MachineDeployment, "b", |set| set["spec"]["replicas"] = 4.into());
            cluster.edit(MachineDeployment, "b", |set| {
                set["status"]["observedGeneration"] = set["metadata"]["generation"].clone();
            });
        }),
        ("they wait for somebody to delete them", "current", |cluster| {
            machine_set_of_b(cluster, "older", 3, 3);
            cluster.edit(MachineDeployment, "b", |set| {
                set["spec"]["rollout"]["strategy"]["type"] = "OnDelete".into();
            });
            cluster.edit(MachineDeployment, "b", |set| {
                set["status"]["observedGeneration"] = set["metadata"]["generation"].clone();
            });
        }),
    ];
    for (what, want, edit) in cases {
        let mut cluster = cluster(MachineDeployment, &["a"]);
        cluster.set(MachineDeployment, "b", NEW);
        edit(&mut cluster);
        cluster.annotate(MachineDeployment, "a", ROLL, "true");
        cluster.settle();
        cluster.finish_rollouts();
        cluster.settle();
        assert_eq!(code(&mut cluster, "a"), want, "{what}");
    }
}

/// A MachineSet of MachineDeployment `b`: its template, and the machines that it should and does
/// have.
fn machine_set_of_b(cluster: &mut FakeCluster, template: &str, wanted: u32, replicas: u32) {
    let name = format!("b-{template}");
    cluster.set(ClusterApiMachineSet, &name, OLD);
    cluster.edit(ClusterApiMachineSet, &name, |set| {
        set["metadata"]["labels"]["cluster.x-k8s.io/deployment-name"] = "b".into();
        set["spec"]["replicas"] = wanted.into();
        set["spec"]["template"]["spec"]["infrastructureRef"]["name"] = template.into();
        set["status"]["replicas"] = replicas.into();
    });
}

/// A tool that puts its own value back.
#[test]
fn after_three_reverts_another_writer_wins() {
    let mut cluster = cluster(ClusterApiMachineSet, &["a"]);
    for round in 1..=3 {
        cluster.settle();
        assert_eq!(cluster.image(ClusterApiMachineSet, "a"), NEW, "round {round}");
        revert(&mut cluster, "a");
    }
    let plan = cluster.settle();
    assert_eq!(cluster.image(ClusterApiMachineSet, "a"), OLD);
    let reason = plan.sets[0].outcome.reason();
    assert_eq!(plan.sets[0].outcome.code(), "contended");
    for part in ["3 times", "spec.template.spec.infrastructureRef.name"] {
        assert!(reason.contains(part), "{reason}");
    }
    // Another release: it begins anew.
    let newer = "projects/fedora-coreos-cloud/global/images/fcos-41-3";
    cluster.publish(newer, "41.20250205.3.0");
    cluster.settle();
    assert_eq!(cluster.image(ClusterApiMachineSet, "a"), newer);
}

/// A tool that puts its own value back before mosb sees that it was replaced.
#[test]
fn a_writer_that_reverts_at_once_wins_after_three_writes() {
    let mut cluster = cluster(ClusterApiMachineSet, &["a"]);
    let mut reverts = 0;
    for _ in 0..50 {
        cluster.pass(usize::MAX);
        if cluster.image(ClusterApiMachineSet, "a") == NEW {
            reverts += 1;
            revert(&mut cluster, "a");
        }
    }
    assert_eq!(reverts, 3);
    assert_eq!(code(&mut cluster, "a"), "contended");
}

/// Other clients change other fields; each pass may end after any write.
#[test]
fn changes_of_other_fields_are_no_reverts() {
    let mut cluster = cluster(ClusterApiMachineSet, &["a"]);
    for replicas in 1..20 {
        cluster.pass(1);
        cluster.edit(ClusterApiMachineSet, "a", |set| set["spec"]["replicas"] = replicas.into());
        // The record of the attempt is of an earlier generation, so it is made again.
        cluster.pass(1);
    }
    cluster.settle();
    assert_eq!(cluster.image(ClusterApiMachineSet, "a"), NEW);
    let history = "machines/a.machineset.cluster.x-k8s.io".to_owned();
    let record = &cluster.objects[&(BootImageHistory, history)];
    assert_eq!(record["status"]["attempt"]["count"], 1);
}

/// A policy refuses the image while an autoscaler changes the set.
#[test]
fn a_refused_write_does_not_count() {
    let mut cluster = cluster(ClusterApiMachineSet, &["a"]);
    cluster.refuses_images = true;
    for round in 0..20 {
        cluster.pass(usize::MAX);
        for half in 0..2 {
            cluster.edit(ClusterApiMachineSet, "a", |set| {
                set["spec"]["replicas"] = (2 * round + half).into();
            });
        }
        // It is tried again.
        cluster.memory.failed.clear();
    }
    cluster.refuses_images = false;
    cluster.settle();
    assert_eq!(code(&mut cluster, "a"), "current");
    assert_eq!(cluster.record("a.machineset.cluster.x-k8s.io")[1], (NEW.to_owned(), 1));
}

/// An administrator goes back, pins, and unpins without `mosb`, as often as wanted.
#[test]
fn what_an_administrator_puts_back_is_no_revert() {
    let mut cluster = cluster(ClusterApiMachineSet, &["a"]);
    for round in 0..6 {
        cluster.settle();
        assert_eq!(cluster.image(ClusterApiMachineSet, "a"), NEW, "round {round}");
        cluster.annotate(ClusterApiMachineSet, "a", "mosb.dev/boot-image-pin", "always");
        revert(&mut cluster, "a");
        cluster.settle();
        assert_eq!(code(&mut cluster, "a"), "pinned", "round {round}");
        cluster.edit(ClusterApiMachineSet, "a", |set| {
            set["metadata"]["annotations"] = serde_json::json!({});
        });
    }
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(16))]
    /// Whatever happens between two writes.
    #[test]
    fn no_more_than_three_writes_against_another_writer(
        steps in proptest::collection::vec((0..3usize, proptest::bool::ANY, proptest::bool::ANY), 60)
    ) {
        let mut cluster = cluster(ClusterApiMachineSet, &["a"]);
        let mut reverts = 0;
        for (at, (most, is_scaled, is_quick)) in steps.into_iter().enumerate() {
            if most == 0 {
                // The program starts again.
                cluster.memory = Memory::default();
            }
            cluster.pass(most);
            if is_scaled {
                cluster.edit(ClusterApiMachineSet, "a", |set| set["spec"]["replicas"] = at.into());
            }
            if is_quick && cluster.image(ClusterApiMachineSet, "a") == NEW {
                reverts += 1;
                revert(&mut cluster, "a");
            }
        }
        proptest::prop_assert!(reverts <= 3, "{}", reverts);
    }
}

fn revert(cluster: &mut FakeCluster, name: &str) {
    cluster.edit(ClusterApiMachineSet, name, |set| {
        set["spec"]["template"]["spec"]["infrastructureRef"]["name"] = format!("{name}-t").into();
    });
}

#[test]
fn a_pin_holds_an_image_as_long_as_it_says() {
    let pin = "mosb.dev/boot-image-pin";
    for (what, value, want) in [
        ("for ever", "always", "pinned"),
        ("until something newer than what is published", "41.20250105.3.0", "pinned"),
        ("until something newer than an earlier one", "41.20241205.3.0", "current"),
        ("not comparable", "9.6.20260210-0", "pinned"),
        ("not readable", "soon", "bad-pin"),
    ] {
        let mut cluster = cluster(ClusterApiMachineSet, &["a"]);
        cluster.annotate(ClusterApiMachineSet, "a", pin, value);
        cluster.settle();
        assert_eq!(code(&mut cluster, "a"), want, "{what}");
    }
}

#[test]
fn without_a_selection_nothing_is_written() {
    let mut cluster = cluster(ClusterApiMachineSet, &["a"]);
    for settings in ["{}", "bootImages: {}", "bootImages: {machineManagers: []}"] {
        cluster.settings = settings.to_owned();
        let plan = cluster.settle();
        assert!(!plan.is_on && plan.sets.is_empty() && cluster.writes.is_empty(), "{settings}");
    }
    // Opting out later leaves everything as it is.
    cluster.settings = format!("{ALL}}}");
    cluster.settle();
    cluster.settings = "{}".to_owned();
    cluster.publish(OLD, "41.20250105.3.0");
    cluster.settle();
    assert_eq!(cluster.image(ClusterApiMachineSet, "a"), NEW);
}
