//! What is seen of the cluster while things happen, with times.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::error::Error;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::Node;
use super::objects::NAMESPACE;

/// How long anything may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);
const KINDS: &str = "machineconfigpools,machineosconfigs,machineosbuilds,jobs,pods";

/// The node, and what was printed already.
pub struct Story<'n> {
    node: &'n Node,
    printed: RefCell<BTreeSet<String>>,
}

impl<'n> Story<'n> {
    pub fn new(node: &'n Node) -> Self {
        Self { node, printed: RefCell::default() }
    }

    /// The moment from which times count.
    pub fn clock(&self) -> Instant {
        Instant::now()
    }

    /// Waits for a condition, and says how long it took.
    pub fn until(&self, what: &str, condition: impl Fn() -> bool) -> Result<(), Box<dyn Error>> {
        let started = Instant::now();
        while !condition() {
            if started.elapsed() > LIMIT {
                self.everything();
                self.events();
                let logs = ["logs", "deployment/mosb-controller", "--namespace", NAMESPACE];
                println!("{}", self.node.kubectl(&logs).text());
                return Err(format!("waited {} s in vain: {what}", LIMIT.as_secs()).into());
            }
            sleep(Duration::from_millis(50));
        }
        println!("{:6.1} s  {what}", started.elapsed().as_secs_f64());
        Ok(())
    }

    /// Waits for an image in the status that is another than the one before; prints what appears
    /// meanwhile.
    pub fn image(&self, started: Instant, before: Option<&str>) -> Result<String, Box<dyn Error>> {
        let image = RefCell::new(None);
        let print = |what: String| {
            if self.printed.borrow_mut().insert(what.clone()) {
                println!("{:6.1} s  {what}", started.elapsed().as_secs_f64());
            }
        };
        self.until("from there to the image in the status", || {
            for object in &self.node.api().list(Some(NAMESPACE), KINDS, "") {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                let status = &object["status"];
                match object["kind"].as_str() {
                    Some("MachineConfigPool") => {
                        if let Some(config) = object["spec"]["configuration"]["name"].as_str() {
                            print(format!("pool {name} wants {config}"));
                        }
                    }
                    Some("MachineOSConfig") => {
                        let found = status["currentImagePullSpec"].as_str();
                        if let Some(found) = found.filter(|found| Some(*found) != before) {
                            print(format!("machineosconfig {name} has {found}"));
                            *image.borrow_mut() = Some(found.to_owned());
                        }
                    }
                    Some("MachineOSBuild") => {
                        print(format!("machineosbuild {name}"));
                        for condition in status["conditions"].as_array().into_iter().flatten() {
                            if condition["status"] == "True" {
                                let kind = condition["type"].as_str().unwrap_or_default();
                                print(format!("machineosbuild {name} is {kind}"));
                            }
                        }
                    }
                    Some("Job") => print(format!("job {name}")),
                    Some("Pod") if name.starts_with("build-") => {
                        let phase = status["phase"].as_str().unwrap_or_default();
                        print(format!("pod {name} is {phase}"));
                    }
                    _ => {}
                }
            }
            image.borrow().is_some()
        })?;
        Ok(image.into_inner().expect("that is what was waited for"))
    }

    /// The story as kubectl tells it.
    pub fn everything(&self) {
        self.show(&["mc,mcp,machineosconfig,machineosbuild"]);
        self.show(&["job,pod", "--namespace", NAMESPACE]);
    }

    pub fn show(&self, what: &[&str]) {
        println!("$ kubectl get {}", what.join(" "));
        let mut arguments = vec!["get"];
        arguments.extend(what);
        let output = self.node.kubectl(&arguments);
        print!("{}{}", output.text(), output.stderr);
    }

    pub fn events(&self) {
        println!("$ kubectl get events");
        let columns =
            "--output=custom-columns=ON:.involvedObject.kind,REASON:.reason,MESSAGE:.message";
        let output =
            self.node.kubectl(&["get", "events", columns, "--sort-by=.metadata.creationTimestamp"]);
        print!("{}", output.text());
    }

    /// No build, no Job, and nothing of one.
    pub fn nothing_left(&self) -> bool {
        let kinds = "machineosconfigs,machineosbuilds,jobs";
        let inputs = "configmaps,secrets,roles";
        let label = "machineconfiguration.openshift.io/ephemeral-build-object";
        let left = |kinds, label| self.node.api().list(Some(NAMESPACE), kinds, label);
        left(kinds, "").is_empty() && left(inputs, label).is_empty()
    }
}

pub fn print_heading(what: &str) {
    println!("\n# {what}\n");
}
