//! `mosb node` in Jobs: a pod that the reboot ends is replaced, and a final exit code ends the Job.

use serde_json::{Value, json};

use mosb_tests::{MOSB_IMAGE, Machine, MachineImage, Namespace, condition, mosb_image};

use crate::test_lab::{POD, assert_no_login, lab, namespace, privileged_pod, timed};

/// A Job that runs `mosb node` on a machine. A pod that the reboot ends is replaced.
fn job(name: &str, machine: &Machine, arguments: &[&str]) -> Value {
    let mut pod = privileged_pod(name, machine, "");
    let container = &mut pod["spec"]["containers"][0];
    container["image"] = json!(MOSB_IMAGE);
    container["command"] = json!(["mosb", "node"]);
    container["args"] = json!(arguments);
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {
            "backoffLimit": 0, "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": [
                {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42, 43, 44]}},
                {"action": "Ignore", "onExitCodes": {"containerName": "main", "operator": "In", "values": [137, 143, 255]}},
            ]},
            "template": {"spec": pod["spec"]},
        },
    })
}

/// Runs a Job to its success; the report of its last pod, and how many pods it had.
#[track_caller]
fn run(
    namespace: &Namespace<'_>,
    name: &str,
    machine: &Machine,
    arguments: &[&str],
) -> (Value, usize) {
    namespace.apply(&job(name, machine, arguments).to_string());
    timed(name, || {
        namespace.wait(&format!("job/{name}"), POD, |job| {
            assert!(!condition(job, "Failed"), "{job:#}\n{}", logs(namespace, name));
            condition(job, "Complete")
        })
    });
    let pods = namespace.list_labelled("pods", &format!("job-name={name}"));
    let succeeded = pods.iter().find(|pod| pod["status"]["phase"] == "Succeeded");
    let state = &succeeded.unwrap()["status"]["containerStatuses"][0]["state"]["terminated"];
    (serde_json::from_str(state["message"].as_str().unwrap()).unwrap(), pods.len())
}

fn logs(namespace: &Namespace<'_>, job: &str) -> String {
    let pods = namespace.list_labelled("pods", &format!("job-name={job}"));
    let names = pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str());
    names.filter_map(|pod| namespace.log(pod, "main")).collect()
}

fn target(image: &MachineImage) -> String {
    json!({"image": image.reference}).to_string()
}

#[test]
fn jobs_reboot_a_machine_and_back() {
    let lab = lab();
    lab.import(&format!("oci-archive:{}", mosb_image().display()), MOSB_IMAGE);
    let (namespace, machine, stock) = (namespace(&lab), lab.machine(0), lab.stock());
    let built = lab.build("lab/os", "/etc/story", "built");
    let auth = ["--auth", "/pull/auth.json"];

    let (report, _) = run(&namespace, "report", machine, &["report"]);
    assert_eq!(report["booted"]["digest"], *stock.digest, "{report:#}");
    assert_eq!(report["bootID"], *machine.boot_id().unwrap(), "{report:#}");

    let wanted = target(&built);
    let stage = [&["stage", "--target", &wanted], &auth[..]].concat();
    let (report, pods) = run(&namespace, "stage", machine, &stage);
    assert_eq!((&report["staged"]["digest"], pods), (&json!(built.digest), 1), "{report:#}");
    assert_eq!(machine.staged_digest().as_ref(), Some(&built.digest));
    // `/run` is new after a reboot, so this is the moment to search it.
    assert_no_login(machine);

    let before = machine.boot_id().unwrap();
    let apply = [&["apply", "--target", &wanted, "--attempt", "1"], &auth[..]].concat();
    let (_, pods) = run(&namespace, "apply", machine, &apply);
    assert_eq!((machine.booted_digest(), pods), (built.digest.clone(), 2));
    let after = machine.boot_id().unwrap();
    assert_ne!(after, before);

    // What runs already is not applied again; another image is, without a stage before it.
    let (_, pods) = run(&namespace, "again", machine, &apply);
    assert_eq!((machine.boot_id().unwrap(), pods), (after, 1));
    let back = target(&stock);
    let apply = [&["apply", "--target", &back, "--attempt", "1"], &auth[..]].concat();
    run(&namespace, "back", machine, &apply);
    assert_eq!(machine.booted_digest(), stock.digest);
    assert_no_login(machine);
}

#[test]
fn a_job_ends_finally_if_finalizing_failed() {
    let lab = lab();
    lab.import(&format!("oci-archive:{}", mosb_image().display()), MOSB_IMAGE);
    let (namespace, machine) = (namespace(&lab), lab.machine(1));
    let wanted = target(&lab.build("lab/os", "/etc/story", "lost"));
    let apply = ["apply", "--target", &wanted, "--attempt", "1", "--auth", "/pull/auth.json"];
    machine.fail_finalize(true);
    namespace.apply(&job("apply", machine, &apply).to_string());
    namespace.wait_for_condition("job/apply", "Failed", POD);
    let pods = namespace.list_labelled("pods", "job-name=apply");
    let code = |pod: &Value| {
        pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"].clone()
    };
    let mut codes: Vec<_> = pods.iter().map(code).collect();
    codes.sort_by_key(Value::as_u64);
    assert_eq!(codes, [json!(42), json!(255)], "{}", logs(&namespace, "apply"));
    assert_eq!(machine.booted_digest(), lab.stock().digest);
}
