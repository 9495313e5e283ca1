//! What happens on the nodes of a fake cluster: Jobs run, pods end, machines boot.

use super::fleet::*;
use crate::*;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;

impl Fleet {
    pub fn boot_all(&mut self) {
        let fallen =
            self.nodes.iter_mut().filter_map(|(name, node)| node.fall_back().then(|| name.clone()));
        for name in fallen.collect::<Vec<_>>() {
            let version = self.next_version();
            self.node(&name).machine.metadata.resource_version = Some(version);
        }
        let down: Vec<String> = self
            .nodes
            .iter()
            .filter(|(_, node)| node.is_down && !node.is_lost)
            .map(|(name, _)| name.clone())
            .collect();
        for name in down {
            self.node(&name).boot_up();
            let version = self.next_version();
            self.node(&name).machine.metadata.resource_version = Some(version);
        }
    }

    /// Pods that are being deleted end, which takes a second.
    pub fn end_pods(&mut self) {
        let earlier = self.version;
        for node in self.nodes.values_mut().filter(|node| !node.is_down) {
            let never_end = &node.never_end;
            let (ended, left): (Vec<SeenPod>, Vec<SeenPod>) = std::mem::take(&mut node.pods)
                .into_iter()
                .partition(|pod| pod.deleting && !never_end.contains(&pod.name));
            node.pods = left;
            self.version += u64::from(!ended.is_empty());
            let again = ended.into_iter().filter(|pod| node.comes_back.contains(&pod.name));
            for pod in again {
                self.version += 1;
                let uid = format!("{}-{}", pod.name, self.version);
                node.pods.push(SeenPod { uid, deleting: false, ..pod });
            }
        }
        if self.version > earlier {
            self.wait(Duration::from_secs(1));
        }
    }

    pub fn run_jobs(&mut self) {
        let names: Vec<String> = self.jobs.keys().cloned().collect();
        for name in names {
            self.run_job(&name);
        }
    }

    /// What the pod of a Job does next.
    pub fn run_job(&mut self, name: &str) {
        let job = self.jobs[name].clone();
        let (seen, is_registry_down) = (job.seen, self.is_registry_down);
        let Some(node) = self.nodes.get_mut(&job.node) else {
            return;
        };
        let is_of_it = node.machine.metadata.uid() == seen.node_uid;
        if seen.phase != JobPhase::Running || node.is_down || !seen.has_login || !is_of_it {
            return;
        }
        let result = match seen.verb {
            NodeVerb::Report if node.reports_nothing => Err((1, "no answer")),
            NodeVerb::Report if node.is_unchecked() => Err((3, "not checked")),
            NodeVerb::Report => Ok(()),
            NodeVerb::Stage | NodeVerb::Apply | NodeVerb::Part if node.has_no_tool => {
                Err((44, "no tool"))
            }
            NodeVerb::Stage => node.stage(seen.target.as_ref().unwrap(), is_registry_down),
            // It ends a moment after it changed the machine.
            NodeVerb::Part if job.has_changed => Ok(()),
            NodeVerb::Part => {
                let result = node.apply_part(seen.target.as_ref().unwrap());
                if result.is_ok() {
                    self.jobs.get_mut(name).unwrap().has_changed = true;
                    return;
                }
                result
            }
            NodeVerb::Apply => {
                match node.apply(
                    seen.target.as_ref().unwrap(),
                    seen.number,
                    is_registry_down,
                    job.may_be_soft,
                ) {
                    // It waits for the checks.
                    Some(Ok(())) if node.is_unchecked() => return,
                    Some(result) => result,
                    None => {
                        self.check_reboot(&job.node, &seen);
                        return self.node(&job.node).reboot();
                    }
                }
            }
        };
        if result.is_ok() && matches!(seen.verb, NodeVerb::Report | NodeVerb::Apply) && job.confirms
        {
            self.node(&job.node).is_unconfirmed = false;
        }
        let node = &self.nodes[&job.node];
        let phase = match result {
            Ok(()) => JobPhase::Succeeded(Box::new(node.report())),
            Err((code, message)) => JobPhase::Failed {
                exit_code: Some(code),
                report: (!node.reports_nothing).then(|| Box::new(node.report())),
                message: message.to_owned(),
                at: Some(Time(self.dated())),
            },
        };
        self.jobs.get_mut(name).unwrap().seen.phase = phase;
    }
}
