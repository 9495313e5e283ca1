//! Answers as `mosb node report|stage|apply`: what it would do on a machine, without doing it.

use serde_json::{Value, json};

use super::machines::{Reboot, SimulatedMachine};
use super::node_object::boot_id;

/// The end of a Job's container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Ends {
        code: i32,
        report: String,
    },
    /// The machine goes down.
    Reboots,
}

/// What the container of this pod does on the machine.
pub fn answer(name: &str, machine: &mut SimulatedMachine, pod: &Value) -> Answer {
    let command = &pod["spec"]["containers"][0]["command"];
    let word = |index: usize| command[index].as_str().unwrap_or_default();
    let option = |option: &str| {
        let mut words = command.as_array().into_iter().flatten();
        words.find(|word| *word == option)?;
        words.next()?.as_str()
    };
    let target: Value =
        option("--target").and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let digest = target["image"].as_str().and_then(|image| image.rsplit_once('@'));
    let digest = digest.map(|(_, digest)| digest.to_owned()).unwrap_or_default();
    let is_booted = machine.booted == digest;
    match word(2) {
        // What is staged beside the target is removed.
        "stage" => machine.staged = (!is_booted).then_some(digest),
        "apply" if !is_booted => {
            let attempt = option("--attempt").unwrap_or_default().to_owned();
            match &machine.record {
                Some((of, number, code)) if *of == target && *number == attempt => {
                    let error = json!({ "code": "failed", "message": message(*code, machine) });
                    return ended(name, machine, *code, Some(error));
                }
                _ => reboot(machine, target, attempt, digest),
            }
            return Answer::Reboots;
        }
        _ => {}
    }
    ended(name, machine, 0, None)
}

/// The machine boots what it boots; the record has what the next pod of the Job finds.
fn reboot(machine: &mut SimulatedMachine, target: Value, attempt: String, digest: String) {
    let mut code = 0;
    if machine.reboot == Reboot::LosesStaged || machine.lossy_reboots > 0 {
        machine.lossy_reboots = machine.lossy_reboots.saturating_sub(1);
        code = 43;
    } else if machine.broken_images.contains(&digest) {
        code = 42;
    } else {
        machine.booted = digest;
    }
    machine.staged = None;
    machine.record = Some((target, attempt, code));
}

fn message(code: i32, machine: &SimulatedMachine) -> String {
    match code {
        43 => format!("{} booted: nothing was finalized", machine.booted),
        _ => format!("{} booted: the new deployment fell back", machine.booted),
    }
}

fn ended(name: &str, machine: &SimulatedMachine, code: i32, error: Option<Value>) -> Answer {
    let deployment = |digest: &str| json!({ "image": "registry.example.com/os", "digest": digest });
    let mut report = json!({ "bootID": boot_id(name, machine.boots), "tool": "bootc",
        "booted": deployment(&machine.booted) });
    if let Some(staged) = &machine.staged {
        report["staged"] = deployment(staged);
    }
    if let Some((target, attempt, _)) = &machine.record {
        let attempt: u32 = attempt.parse().unwrap_or_default();
        report["attempted"] = json!({ "target": target, "attempt": attempt });
    }
    if let Some(error) = error {
        report["error"] = error;
    }
    Answer::Ends { code, report: report.to_string() }
}
