//! `make demo-cluster`: a whole Kubernetes node of its own, mosb on it, a pool, a change, an image.
//! Nothing of it stays.
//!
//! Arguments: the list of parts that `make parts` prints, the image's archive, the program.
#![expect(
    clippy::unwrap_used,
    reason = "the node is the tests' own, and a demo that cannot go on stops where it stands"
)]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

use serde_json::Value;

#[path = "../base.rs"]
mod base;
#[expect(dead_code, reason = "tests use more of it")]
#[path = "../../harness/child.rs"]
mod child;
#[expect(dead_code, unused_imports, reason = "tests use more of it")]
#[path = "../../harness/node/mod.rs"]
mod node;
mod objects;
mod story;
#[expect(dead_code, reason = "tests use more of it")]
#[path = "../../harness/tls.rs"]
mod tls;

use node::{Node, Programs};
use objects::{IMAGE, NAMESPACE, change, objects, os_config};
use story::{Story, print_heading};

/// The top level of the repository.
fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let [parts, image, mosb] = arguments.as_slice() else {
        eprintln!("usage: demo-cluster PARTS IMAGE MOSB; run `make demo-cluster`");
        return ExitCode::from(2);
    };
    match demo(parts, image, mosb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo-cluster: {error}");
            ExitCode::FAILURE
        }
    }
}

fn demo(parts: &Path, image: &Path, mosb: &Path) -> Result<(), Box<dyn Error>> {
    let programs = programs(parts)?;
    print_heading(
        "A Kubernetes node in namespaces of its own: etcd, API server, scheduler, kubelet, containerd, a registry",
    );
    let node = Node::start(&programs)?;
    for (what, after) in &node.times {
        println!("{:6.1} s  {what}", after.as_secs_f64());
    }
    let traces = node.traces();

    print_heading(
        "A small base image shaped like an OS goes to the registry, the image of `make image` to the node",
    );
    let directory = tempfile::tempdir()?;
    let layout = directory.path().join("base");
    base::make(&layout)?;
    node.registry().push(&format!("oci:{}", layout.display()), "acme/base:v1");
    node.import(&format!("oci-archive:{}", image.display()), IMAGE);

    print_heading("The API, then mosb");
    let deploy = repository().join("deploy");
    let story = Story::new(&node);
    for folder in ["crds", "kubernetes"] {
        let path = deploy.join(folder);
        println!("$ kubectl apply -k deploy/{folder}");
        print!("{}", node.kubectl(&["apply", "-k", path.to_str().unwrap()]).ok().text());
    }
    story.until("the controller is ready", || {
        let found = node.api().find(Some(NAMESPACE), "deployment", "mosb-controller");
        found.unwrap_or_default()["status"]["readyReplicas"] == 1
    })?;

    print_heading("A pool of workers, its MachineConfig, the registry's credentials and CA");
    let index: Value = serde_json::from_slice(&fs::read(layout.join("index.json"))?)?;
    let digest = index["manifests"][0]["digest"].as_str().unwrap();
    let base = node.registry().repository(&format!("acme/base@{digest}"));
    for object in objects(&node, &base) {
        node.apply(&object.to_string());
    }
    story.until("mosb rendered the pool", || {
        let pool = node.get("machineconfigpool/worker");
        pool["spec"]["configuration"]["name"].is_string()
    })?;
    story.show(&["machineconfig,machineconfigpool"]);

    print_heading("The pool opts in: a MachineOSConfig says where its images go");
    let started = story.clock();
    node.apply(&os_config(&node).to_string());
    let first = story.image(started, None)?;
    story.everything();
    story.events();

    print_heading("One more MachineConfig: a sysctl");
    let started = story.clock();
    node.apply(&change().to_string());
    let second = story.image(started, Some(&first))?;
    story.everything();

    print_heading("What does mosb say of it, and what is in the image that the status names?");
    let kubeconfig = node.kubeconfig();
    run(mosb, &["status", "worker"], &["--kubeconfig".as_ref(), &kubeconfig])?;
    let (authfile, certificates) = (node.registry().authfile(), node.registry().certificates());
    let registry =
        ["--authfile".as_ref(), authfile.as_path(), "--cert-dir".as_ref(), &certificates];
    run(mosb, &["files", &second], &registry)?;

    print_heading(
        "The pool opts out (the cluster's garbage collector learns of new kinds every 30 s, so it takes longer on a cluster this young)",
    );
    println!("$ kubectl delete machineosconfig worker");
    node.kubectl(&["delete", "machineosconfig", "worker", "--wait=false"]).ok();
    story.until("everything of it is gone", || story.nothing_left())?;
    story.everything();

    drop(node);
    let left: Vec<_> = traces.iter().filter(|trace| is_there(trace)).collect();
    if !left.is_empty() {
        return Err(format!("left behind: {left:?}").into());
    }
    println!("\nThe node is gone, and nothing of it is left.");
    Ok(())
}

/// Whether a directory, a network interface or a control group is there.
fn is_there(trace: &str) -> bool {
    let groups = fs::read_dir("/sys/fs/cgroup").into_iter().flatten();
    let mut places = vec![PathBuf::from("/"), "/sys/class/net".into(), "/sys/fs/cgroup".into()];
    places.extend(groups.flatten().map(|group| group.path()));
    places.iter().any(|place| place.join(trace).exists())
}

/// Where the built parts are, as `make parts` prints them: `name: /directory`.
fn programs(parts: &Path) -> Result<Programs, Box<dyn Error>> {
    let text = fs::read_to_string(parts)?;
    let part = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.map(PathBuf::from)
            .ok_or_else(|| format!("{}: no part {name}; run `make demo-cluster`", parts.display()))
    };
    Ok(Programs {
        kubernetes: part("kubernetes")?,
        containerd: part("containerd")?,
        runc: part("runc")?,
        registry: part("registry")?,
    })
}

/// Runs the program with arguments, and others that are not worth showing.
fn run(mosb: &Path, shown: &[&str], others: &[&Path]) -> Result<(), Box<dyn Error>> {
    println!("$ mosb {}", shown.join(" "));
    let status = Command::new(mosb).args(shown).args(others).status()?;
    if status.success() { Ok(()) } else { Err(format!("mosb {}: {status}", shown[0]).into()) }
}
