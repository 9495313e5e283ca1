//! `mosb node apply --soft-reboot` on a machine of the lab. bootc, ostree and systemd of the lab are too
//! old for soft reboots: those are stand-ins over an ordinary shutdown, which keep the boot ID. What is
//! real: `mosb node`, staging and finalizing, and what it reads of the machine afterwards.

use mosb_tests::{Lab, MachineImage};

use crate::node_story::{Story, target};
use crate::test_lab::AUTH;

#[test]
fn machines_leave_their_kernel_running_where_they_can() {
    let lab = Lab::start(1);
    let story = Story::new(&lab, "soft-reboot", &[]);
    let machine = story.machine();
    let one = lab.build("lab/os", "/etc/story", "one");
    let two = lab.build("lab/os", "/etc/story", "two");
    let parameters = lab.build("lab/os", "/etc/sysctl.d/story.conf", "net.ipv4.ip_forward=1");

    assert_reboots(&story, "too-old", &one, Err("before 1.7"));
    machine.allow_soft_reboots(true);
    assert_reboots(&story, "soft", &two, Ok(()));
    assert_eq!(machine.run("cat /etc/story").ok().text(), "two");
    machine.fail_soft_reboot(true);
    assert_reboots(&story, "refused", &one, Err("without composefs"));
    machine.fail_soft_reboot(false);
    assert_reboots(&story, "parameters", &parameters, Err("/usr/etc/sysctl.d"));
    // Back from the last one: the file goes, and the kernel would keep its value.
    assert_reboots(&story, "back", &two, Err("/usr/etc/sysctl.d"));
    machine.fail_finalize(true);
    a_failed_one_is_followed_by_a_kernel_boot(&story, &one);
}

/// Applies an image, which reboots the machine once: softly, or not for this cause.
#[track_caller]
fn assert_reboots(story: &Story<'_>, name: &str, image: &MachineImage, want: Result<(), &str>) {
    let machine = story.machine();
    let before = story.run(&format!("{name}-before"), &["report"]).report;
    apply(story, name, image);
    let after = story.run(&format!("{name}-after"), &["report"]).report;
    assert_eq!(machine.booted_digest(), image.digest, "{name}");
    let soft = after.soft_reboot.clone().expect("it was allowed");
    match want {
        Ok(()) => assert!(soft.used, "{name}: {soft}"),
        Err(cause) => assert!(!soft.used && soft.to_string().contains(cause), "{name}: {soft}"),
    }
    assert_eq!(after.boot_id == before.boot_id, want.is_ok(), "{name}");
    assert_eq!(machine.boot_id().as_deref(), Some(&*after.boot_id), "{name}");
    assert!(after.user_space() != before.user_space(), "{name}");
    // The clock of the lab goes on, as that of a kernel that is not booted.
    assert!(after.user_space_since > before.user_space_since, "{name}");
    // The next pod of the Job finds its target.
    assert_eq!(story.apply(&format!("{name}-again"), image, "1").code, 0, "{name}");
    let again = story.run(&format!("{name}-report"), &["report"]).report;
    assert_eq!(again.soft_reboot, after.soft_reboot, "{name}");
}

fn apply(story: &Story<'_>, name: &str, image: &MachineImage) {
    let target = target(image);
    let words = ["apply", "--target", &target, "--attempt", "1", "--auth", AUTH, "--soft-reboot"];
    story.reboots(name, || story.start(name, &words));
}

/// Without the image, the attempt has a second reboot.
fn a_failed_one_is_followed_by_a_kernel_boot(story: &Story<'_>, image: &MachineImage) {
    let machine = story.machine();
    let boot = machine.boot_id();
    apply(story, "lost", image);
    assert_eq!(machine.boot_id(), boot);
    assert_ne!(machine.booted_digest(), image.digest);
    machine.fail_finalize(false);
    apply(story, "lost-again", image);
    assert_ne!(machine.boot_id(), boot);
    assert_eq!(machine.booted_digest(), image.digest);
    let soft = story.run("lost-report", &["report"]).report.soft_reboot.unwrap();
    assert!(!soft.used && soft.to_string().contains("was begun in this attempt"), "{soft}");
}
