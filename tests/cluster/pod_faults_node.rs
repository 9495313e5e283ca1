//! What becomes of a build whose pod dies on a real node: its containers are killed, it has too
//! little memory or disk. Whoever reads the build's conditions learns why, and what to do.

use serde_json::{Value, json};

use crate::test_cluster::{BUILD, Cluster, state};
use mosb_tests::wait;

const SLOW: &str = "FROM configs AS final\nRUN sleep 12; echo ran > /etc/ran\n";
/// Runs until [`Cluster::ends_the_line`].
const ENDLESS: &str = "FROM configs AS final\nRUN sleep 7200; echo ran > /etc/ran\n";
/// What must be caught in a moment is tried so often.
const TRIES: usize = 5;
/// Grows until it is stopped.
const HUNGRY: &str = "FROM configs AS final\nRUN tail /dev/zero\n";
const BIG: &str = "FROM configs AS final\nRUN head -c 150000000 /dev/zero > /etc/big; sleep 300\n";

impl Cluster {
    /// The pods of a pool's builds that are not on their way out.
    fn pods_that_stay(&self) -> Vec<Value> {
        let stays = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_null();
        self.pods().into_iter().filter(stays).collect()
    }

    /// A container of the pool's build that runs: its status, and the UID of its Job, or of its Pod
    /// without one.
    fn running(&self, container: &str) -> Option<(Value, String)> {
        self.pods_that_stay().into_iter().find_map(|pod| {
            let lists = ["initContainerStatuses", "containerStatuses"];
            let lists = lists.map(|list| pod["status"][list].as_array().cloned());
            let mut all = lists.into_iter().flatten().flatten();
            let runs =
                |one: &Value| one["name"] == container && one["state"]["running"].is_object();
            Some((all.find(runs)?, runner(&pod)))
        })
    }

    /// Kills a container's processes, if it runs. The UID of its Job or Pod.
    fn kill(&self, container: &str) -> Option<String> {
        let (status, job) = self.running(container)?;
        let id = status["containerID"].as_str()?;
        let id = id.strip_prefix("containerd://")?;
        let words = ["task", "kill", "--all", "--signal=SIGKILL", id];
        let task = ["ctr", "--namespace=k8s.io"].into_iter().chain(words);
        let killed = self.node.inside(&task.collect::<Vec<_>>());
        killed.status.success().then_some(job)
    }

    /// Kills a container as soon as it runs.
    #[track_caller]
    fn kill_at_once(&self, container: &str) -> String {
        let what = format!("{container} to be killed");
        wait(&what, BUILD, || self.kill(container))
    }

    /// Waits until the `RUN` line of a build is reached: nothing is asked of the registry until the
    /// push.
    #[track_caller]
    fn runs_the_line(&self) {
        wait("the RUN line", BUILD, || {
            let (_, job) = self.running("image-build")?;
            let pod = self.pods_that_stay().into_iter().find(|pod| runner(pod) == job)?;
            let name = pod["metadata"]["name"].as_str()?.to_owned();
            let log = self.namespace.log(&name, "image-build")?;
            log.contains("STEP 2/2: RUN sleep").then_some(())
        });
    }

    /// Ends the `RUN` line of [`ENDLESS`].
    #[track_caller]
    fn ends_the_line(&self) {
        wait("the RUN line to end", BUILD, || {
            let ended = self.node.inside(&["pkill", "-f", "^sleep 7200$"]);
            ended.status.success().then_some(())
        });
    }

    /// Kills a container that has a registry to ask which is away: none if it had given up before.
    #[track_caller]
    fn kill_without_registry(&self, container: &str) -> Option<String> {
        let killed = wait(&format!("{container} or its end"), BUILD, || {
            if let Some(job) = self.kill(container) {
                return Some(Some(job));
            }
            let statuses = self.pods_that_stay().into_iter().filter_map(|pod| {
                let all = pod["status"]["containerStatuses"].as_array().cloned()?;
                all.into_iter().find(|one| one["name"] == container)
            });
            let mut ended = statuses.filter(|one| one["state"]["terminated"].is_object());
            ended.next().map(|_| None)
        });
        self.node.revive("registry");
        killed
    }

    /// Waits until another Job or Pod serves the pool.
    #[track_caller]
    fn another_runner(&self, before: &str) {
        wait("another Job or Pod", BUILD, || {
            let mut pods = self.pods_that_stay().into_iter();
            pods.any(|pod| runner(&pod) != before).then_some(())
        });
    }

    /// Waits until the wanted build has failed: what its condition says.
    #[track_caller]
    fn failed(&self) -> String {
        self.wait_for_pool_condition("BuildFailed");
        let build = self.current();
        assert_eq!(state(&build), "Failed");
        let message = self.message(&build, "Failed");
        println!("{message}");
        message
    }

    fn resources(&self, container: &str, requests: Value, limits: Value) {
        self.settings(
            &json!({ "resources": { container: { "requests": requests, "limits": limits } } }),
        );
    }
}

/// The UID of what a build runs as: a pod's Job, or the Pod without one.
fn runner(pod: &Value) -> String {
    let metadata = &pod["metadata"];
    let owner = &metadata["ownerReferences"][0];
    let runner = if owner["kind"] == "MachineOSBuild" { &metadata["uid"] } else { &owner["uid"] };
    runner.as_str().unwrap().to_owned()
}

#[test]
fn a_killed_build_or_sidecar_begins_anew() {
    let mut cluster = Cluster::new("killed-build");
    kill_build_and_sidecar(&mut cluster, "Job");
    cluster.ends_the_line();
    let image = cluster.image_after("");
    assert_eq!(cluster.file(&image, "/etc/ran"), "ran\n");
}

#[test]
#[ignore = "make test-all: the push and a direct build, too"]
fn any_container_of_a_job_may_be_killed() {
    whichever_container_is_killed_the_image_comes("killed", "Job");
}

#[test]
#[ignore = "make test-all: the same with Pods"]
fn any_container_of_a_pod_may_be_killed() {
    whichever_container_is_killed_the_image_comes("killed-pods", "custom-pod-builder");
}

/// A build that is killed and made again, and whose sidecar is killed then.
#[track_caller]
fn kill_build_and_sidecar(cluster: &mut Cluster, builder: &str) {
    cluster.render("one");
    cluster.opt_in_by(builder, Some(ENDLESS));
    cluster.start();
    let job = cluster.kill_at_once("image-build");
    cluster.another_runner(&job);
    cluster.runs_the_line();
    let job = cluster.kill_at_once("wait-for-done");
    wait("the sidecar again", BUILD, || {
        let (status, of) = cluster.running("wait-for-done")?;
        (status["restartCount"] == 1 && of == job).then_some(())
    });
}

/// Each container of both methods, killed with all its processes: the image comes, by another Job
/// or Pod, or by the same where only the sidecar began anew.
#[track_caller]
fn whichever_container_is_killed_the_image_comes(name: &str, builder: &str) {
    let mut cluster = Cluster::new(name);
    kill_build_and_sidecar(&mut cluster, builder);
    let killed = || {
        cluster.runs_the_line();
        cluster.node.kill("registry");
        cluster.ends_the_line();
        cluster.kill_without_registry("image-push")
    };
    // On a busy machine it may have given up before; the next one is as good.
    let job = (0..TRIES).find_map(|_| killed());
    cluster.another_runner(&job.expect("a push that was killed"));
    cluster.ends_the_line();
    let first = cluster.image_after("");
    assert_eq!(cluster.file(&first, "/etc/ran"), "ran\n");

    // Directly: one container does it all.
    cluster.opt_in(None);
    let mut image = cluster.image_after(&first);
    let killed = (0..TRIES).find_map(|number| {
        let content = format!("direct-{number}");
        let rendered = cluster.render(&content);
        let label = "machineconfiguration.openshift.io/rendered-machine-config";
        let of = format!("{label}={rendered}");
        let has_runner = || {
            let runners = cluster.namespace.list_labelled("jobs,pods", &of);
            (!runners.is_empty()).then_some(())
        };
        wait("its Job or Pod", BUILD, has_runner);
        cluster.node.kill("registry");
        let job = cluster.kill_without_registry("image-build");
        let after = cluster.image_after(&image);
        assert_eq!(cluster.file(&after, "/etc/story"), content);
        image = after;
        job
    });
    assert!(killed.is_some(), "a direct build that was killed");
}

/// Nobody but the kubelet ends a pod that is deleted; where it died and the node's object stays,
/// the pod stays too, and a Job waits for it for ever.
#[test]
#[ignore = "make test-all: unit tests have the decisions"]
fn a_pod_whose_node_died_is_replaced() {
    let mut cluster = Cluster::new("dead-node");
    cluster.render("one");
    cluster.start();
    cluster.opt_in(Some(SLOW));
    cluster.runs_the_line();
    let (_, job) = cluster.running("image-build").expect("the build that runs");
    cluster.node.kill("kubelet");
    // As what evicts does when the node does not answer for minutes.
    let pod = cluster.pods_that_stay()[0]["metadata"]["name"].clone();
    let delete = ["delete", "pod", "--wait=false", "--grace-period=1"];
    let delete = [&delete[..], &[pod.as_str().unwrap()]].concat();
    cluster.namespace.kubectl(&delete).ok();
    cluster.another_runner(&job);
    let reason = cluster.builds()[0]["metadata"]["annotations"]["mosb.dev/reason"].clone();
    assert!(reason.to_string().contains("its node was lost"), "{reason}");
    cluster.node.revive("kubelet");
    let image = cluster.image_after("");
    assert_eq!(cluster.file(&image, "/etc/ran"), "ran\n");
}

/// The kernel kills what needs more memory than it may have: `mosb` itself, or a program of a `RUN`
/// line.
#[test]
fn too_little_memory_is_reported_with_a_remedy() {
    let mut cluster = Cluster::new("memory");
    cluster.render("one");
    cluster.resources("direct", json!({ "memory": "8Mi" }), json!({ "memory": "8Mi" }));
    cluster.start();
    cluster.opt_in(None);
    let message = cluster.failed();
    for words in
        ["container image-build needed more memory", "under job.resources in ConfigMap mosb-config"]
    {
        assert!(message.contains(words), "{message}");
    }

    let small = json!({ "memory": "256Mi" });
    cluster.resources("imageBuild", small.clone(), small);
    let before = cluster.current()["metadata"]["name"].clone();
    cluster.opt_in(Some(HUNGRY));
    wait("the end of another build", BUILD, || {
        let mut builds = cluster.builds().into_iter();
        let ended = |build: &Value| build["metadata"]["name"] != before && state(build) == "Failed";
        builds.any(|build| ended(&build)).then_some(())
    });
    let message = cluster.failed();
    for words in ["for lack of memory", "under job.resources in ConfigMap mosb-config"] {
        assert!(message.contains(words), "{message}");
    }

    // What it says helps.
    cluster.settings(&json!({}));
    cluster.opt_in(None);
    cluster.mosb(&["rebuild", &cluster.pool]);
    let image = cluster.image_after("");
    assert_eq!(cluster.file(&image, "/etc/story"), "one");
}

/// The kubelet evicts a pod that writes more than it may.
#[test]
#[ignore = "make test-all: unit tests have the decisions"]
fn too_much_disk_is_reported_with_a_remedy() {
    let mut cluster = Cluster::new("disk");
    cluster.render("one");
    let disk = |size: &str| json!({ "ephemeral-storage": size });
    let least = json!({ "requests": disk("1Mi"), "limits": disk("1Mi") });
    cluster.settings(
        &json!({ "resources": { "imageBuild": { "requests": disk("1Mi"), "limits": disk("20Mi") },
        "imagePush": least, "waitForDone": least } }),
    );
    cluster.start();
    cluster.opt_in(Some(BIG));
    let message = cluster.failed();
    for words in [
        "its pod was evicted, as it used more disk than it may",
        "ephemeral-storage under job.resources in ConfigMap mosb-config",
    ] {
        assert!(message.contains(words), "{message}");
    }
    let build = cluster.current();
    assert_eq!(build["metadata"]["annotations"]["mosb.dev/attempt"], "2");
    let (start, end) = (&build["status"]["buildStart"], &build["status"]["buildEnd"]);
    assert!(start.as_str() < end.as_str(), "{start} {end}");
}
