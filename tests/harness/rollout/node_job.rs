//! Answers as `mosb node report|stage|apply`: what it would do on a machine, without doing it.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::machines::{Reboot, SimulatedMachine};
use super::node_object::boot_id;

/// Why a machine does not do a soft reboot.
pub const NOT_CAPABLE: &str = "the stand-in of bootc reports that it is not capable of it";

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

/// What follows an option of a pod's command.
fn option<'p>(pod: &'p Value, option: &str) -> Option<&'p str> {
    let mut words = pod["spec"]["containers"][0]["command"].as_array().into_iter().flatten();
    words.find(|word| *word == option)?;
    words.next()?.as_str()
}

fn target(pod: &Value) -> Value {
    option(pod, "--target").and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// Whether the container of this pod may pull an image.
pub fn pulls(pod: &Value) -> bool {
    has_word(pod, "--auth")
}

fn is_without_reboot(pod: &Value) -> bool {
    has_word(pod, "--no-reboot")
}

fn has_word(pod: &Value, word: &str) -> bool {
    let command = pod["spec"]["containers"][0]["command"].as_array();
    command.is_some_and(|words| words.contains(&json!(word)))
}

/// Whether the Secret of a pod has the machine part of its target, as `mosb node` checks it.
pub fn check_part(pod: &Value, part: Option<&[u8]>) -> Result<(), String> {
    let wanted = target(pod)["machinePart"].as_str().map(str::to_owned);
    let found = part.map(|part| {
        let hex: String = Sha256::digest(part).iter().map(|byte| format!("{byte:02x}")).collect();
        format!("sha256:{hex}")
    });
    let file = option(pod, "--machine-part");
    let is_named = file == found.as_ref().map(|_| "/run/mosb/auth/machine-part.json");
    if wanted == found && is_named {
        Ok(())
    } else {
        Err(format!("{}: the part {found:?}, not {wanted:?}, in {file:?}", pod["metadata"]["name"]))
    }
}

/// What the container of this pod does on the machine. `part`: the file with the machine part.
pub fn answer(
    name: &str,
    machine: &mut SimulatedMachine,
    pod: &Value,
    part: Option<&[u8]>,
) -> Answer {
    let command = &pod["spec"]["containers"][0]["command"];
    let target = target(pod);
    let digest = target["image"].as_str().and_then(|image| image.rsplit_once('@'));
    let digest = digest.map(|(_, digest)| digest.to_owned()).unwrap_or_default();
    let part: Value = part.and_then(|part| serde_json::from_slice(part).ok()).unwrap_or_default();
    let arguments = part["kernelArguments"].as_array().into_iter().flatten();
    let arguments: Vec<String> = arguments.filter_map(Value::as_str).map(str::to_owned).collect();
    let is_booted = machine.booted == digest && machine.arguments == arguments;
    let is_without_reboot = is_without_reboot(pod);
    let is_live = is_without_reboot
        && target["liveFrom"] == *machine.booted
        && machine.staged.as_ref() == Some(&digest)
        && machine.arguments == arguments;
    match command[2].as_str().unwrap_or_default() {
        // What is staged beside the target is removed.
        "stage" if is_booted => {
            machine.staged = None;
            let has_all = machine.files == digest && login(&machine.part) == login(&part);
            machine.applied = has_all.then_some(target).or(machine.applied.take());
        }
        "stage" if target["verify"] == true && machine.refused_images.contains(&digest) => {
            let message = "refused by the policy.json of this machine";
            let error = json!({ "code": "signature-refused", "message": message });
            return ended(name, machine, 1, Some(error));
        }
        "stage" => {
            machine.staged = Some(digest);
            machine.staged_arguments = arguments;
        }
        "apply" if is_booted || is_live => {
            machine.files = digest;
            machine.part = part;
            machine.applied = Some(target);
        }
        "apply" if is_without_reboot => {
            let error = json!({ "code": "needs-reboot", "message": "it needs a reboot" });
            return ended(name, machine, 45, Some(error));
        }
        "apply" => {
            let attempt = option(pod, "--attempt").unwrap_or_default().to_owned();
            match &machine.record {
                Some((of, number, code)) if *of == target && *number == attempt => {
                    let error = json!({ "code": "failed", "message": message(*code, machine) });
                    return ended(name, machine, *code, Some(error));
                }
                _ => {
                    let may_be_soft = has_word(pod, "--soft-reboot");
                    let has_kernel = machine.arguments == arguments
                        && !machine.other_kernels.contains(&digest)
                        && !machine.other_kernels.contains(&machine.booted);
                    machine.is_soft = may_be_soft && machine.can_soft_reboot && has_kernel;
                    let asked = match machine.is_soft {
                        true => json!({ "used": true }),
                        false => json!({ "used": false, "cause": NOT_CAPABLE }),
                    };
                    machine.soft_reboot = may_be_soft.then_some(asked);
                    reboot(machine, Wanted { target, digest, arguments, part }, attempt);
                }
            }
            return Answer::Reboots;
        }
        _ => {}
    }
    ended(name, machine, 0, None)
}

/// Keys and password of a machine part.
fn login(part: &Value) -> [&Value; 2] {
    ["sshAuthorizedKeys", "passwordHash"].map(|field| &part[field])
}

/// What an `apply` brings.
struct Wanted {
    target: Value,
    digest: String,
    arguments: Vec<String>,
    part: Value,
}

/// The machine boots what it boots; the record has what the next pod of the Job finds.
fn reboot(machine: &mut SimulatedMachine, wanted: Wanted, attempt: String) {
    let Wanted { target, digest, arguments, part } = wanted;
    let mut code = 0;
    if machine.reboot == Reboot::LosesStaged || machine.lossy_reboots > 0 {
        machine.lossy_reboots = machine.lossy_reboots.saturating_sub(1);
        code = 43;
    } else if machine.broken_images.contains(&digest) {
        code = 42;
    } else {
        machine.files.clone_from(&digest);
        machine.booted = digest;
        machine.arguments = arguments;
        machine.part = part;
        machine.applied = Some(target.clone());
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
        "userSpaceSince": machine.soft_boots + 1, "booted": deployment(&machine.booted) });
    if let Some(staged) = &machine.staged {
        report["staged"] = deployment(staged);
    }
    if let Some(applied) = &machine.applied {
        report["applied"] = applied.clone();
    }
    if let Some(soft) = &machine.soft_reboot {
        report["softReboot"] = soft.clone();
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
