//! `mosb node` in privileged pods, on a machine that stages images and reboots into them.

use serde_json::{Value, json};

use mosb_tests::{Lab, MachineImage, wait};

use crate::node_story::{HOLD_REBOOT, POD, Story, target};
use crate::test_lab::AUTH;

/// Keeps programs on a machine from starting a unit.
const HOLD_SYSTEMD_RUN: &str = "printf '#!/bin/sh\\n: > /run/held\\nexec sleep 600\\n' > /run/hold
    chmod +x /run/hold; mount --bind /run/hold /usr/bin/systemd-run";
const NO_LOGIN: &str = "test ! -e /run/mosb-rollout -a ! -L /run/ostree/auth.json";

#[test]
fn a_machine_reports_stages_and_applies_images() {
    let lab = Lab::start(1);
    let story = Story::new(&lab, "node-commands", &[]);
    let stock = lab.stock();
    let [one, two] = ["one", "two"].map(|name| lab.build("lab/os", "/etc/story", name));

    the_report_has_what_the_machine_booted(&story, &stock);
    what_the_machine_changed_hides_files_of_its_image(&story);
    a_login_that_a_killed_command_left_is_removed(&story, &one);
    an_image_is_staged_and_its_login_is_gone(&story, &one);
    a_login_of_the_machine_stays_as_it_is(&story, [&two, &one]);
    a_killed_pod_does_not_end_the_staging(&story, &two);
    what_updates_the_machine_by_itself_is_stopped(&story, [&one, &two]);
    a_reboot_that_is_refused_says_why(&story, &two);
    an_attempt_reboots_once_and_ends_well(&story, &two);
    another_image_is_not_staged_any_more_where_the_target_runs(&story, [&two, &one]);
    a_queued_rollback_is_reported_and_undone(&story, &two);
    a_failed_finalization_is_final_for_the_attempt(&story, &one);
    a_power_cut_before_finalizing_takes_another_attempt(&story, &two);
    going_back_to_stock_is_the_same(&story, &stock);
}

fn the_report_has_what_the_machine_booted(story: &Story<'_>, stock: &MachineImage) {
    let ended = story.run("report", &["report"]);
    assert_eq!((ended.code, ended.booted()), (0, stock.digest.clone()));
    assert_eq!(Some(ended.report.boot_id), story.machine().boot_id());
    assert_eq!(ended.report.tool.unwrap().to_string(), "bootc");
    assert_eq!((ended.report.staged, ended.report.applied), (None, None));
}

fn what_the_machine_changed_hides_files_of_its_image(story: &Story<'_>) {
    let machine = story.machine();
    let drift = |name| {
        story.start(name, &["drift"]);
        let pod = story.namespace.wait(&format!("pod/{name}"), POD, |pod| {
            ["Succeeded", "Failed"].contains(&pod["status"]["phase"].as_str().unwrap_or_default())
        });
        let log = story.namespace.log(name, "main").unwrap_or_default();
        assert_eq!(pod["status"]["phase"], "Succeeded", "{log}");
        story.namespace.kubectl(&["delete", "pod", name, "--wait=true"]).ok();
        log.lines().map(str::to_owned).collect::<Vec<String>>()
    };
    let before = drift("drift");
    // The machine has a name and an ID of its own.
    assert!(before.iter().any(|line| line.ends_with(" /etc/machine-id")), "{before:?}");
    machine
        .run(
            "cd /etc; cp -a passwd passwd.before; echo 'sailor:x:77:77::/:/bin/sh' >> passwd
             chmod 600 shells; chgrp 7 shells; mv profile profile.before; echo > only-here
             rm mtab; ln -s /nowhere mtab",
        )
        .ok();
    let after = drift("drift-after");
    let new: Vec<_> = after.iter().filter(|line| !before.contains(line)).collect();
    let want = [
        "target /etc/mtab",
        "content /etc/passwd",
        "removed /etc/profile",
        "mode,owner /etc/shells",
    ];
    assert_eq!(new, want, "{after:?}");
    machine
        .run(
            "cd /etc; rm only-here; mv passwd.before passwd; mv profile.before profile
             chmod 644 shells; chgrp 0 shells; rm mtab; ln -s ../proc/self/mounts mtab",
        )
        .ok();
    assert_eq!(drift("drift-back"), before);
}

/// SIGKILL after the login is written and before there is the unit that removes it.
fn a_login_that_a_killed_command_left_is_removed(story: &Story<'_>, image: &MachineImage) {
    let machine = story.machine();
    machine.run(HOLD_SYSTEMD_RUN).ok();
    story.start("killed", &["stage", "--target", &target(image), "--auth", AUTH]);
    wait("the command to start a unit", POD, || {
        machine.run("test -e /run/held").status.success().then_some(())
    });
    machine.run("test -s /run/ostree/auth.json").ok();
    machine.run("pkill --signal KILL --exact mosb").ok();
    let pod = story.namespace.wait("pod/killed", POD, |pod| pod["status"]["phase"] == "Failed");
    let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(ended["exitCode"], 137, "{pod:#}");
    story.namespace.kubectl(&["delete", "pod", "killed", "--wait=true"]).ok();
    machine.run("umount /usr/bin/systemd-run; test -s /run/ostree/auth.json").ok();
    assert_eq!(story.run("after-kill", &["report"]).code, 0);
    machine.run(NO_LOGIN).ok();
    story.assert_no_login("after a kill before the unit");
}

fn an_image_is_staged_and_its_login_is_gone(story: &Story<'_>, image: &MachineImage) {
    let denied = story.run("denied", &["stage", "--target", &target(image)]);
    assert_eq!(denied.failure(), (3, "not-staged"));
    let journal =
        || story.machine().run("journalctl --unit='mosb-stage-*'; journalctl -n 60").text();
    assert!(denied.message().contains("unauthorized"), "{}\n{}", denied.message(), journal());

    let staged = story.stage("stage", image);
    assert_eq!((staged.code, staged.staged()), (0, image.digest.clone()));
    assert_eq!(story.machine().staged_digest().as_ref(), Some(&image.digest));
    story.assert_no_login("after staging");
    story.machine().run(NO_LOGIN).ok();
    // It is there already, so neither registry nor login are needed.
    story.lab.registry_away(true);
    assert_eq!(story.run("again", &["stage", "--target", &target(image)]).code, 0);
    story.lab.registry_away(false);
}

fn a_login_of_the_machine_stays_as_it_is(story: &Story<'_>, images: [&MachineImage; 2]) {
    let machine = story.machine();
    let places = ["/etc/ostree/auth.json", "/run/ostree/auth.json"];
    for (place, image) in places.into_iter().zip(images) {
        // Also for this registry: that login is wrong.
        let own = json!({ "auths": {
            "quay.io": { "auth": "b3duOm93bg==" },
            &story.lab.registry().host_port: { "auth": "d3Jvbmc6d3Jvbmc=" },
        }});
        let write = format!("mkdir -p ${{0%/*}}; umask 077; cat > {place}");
        machine.enter(&["sh", "-euc", &write, place], own.to_string().as_bytes()).ok();
        let state = || machine.run(&format!("cat {place}; stat -c '%i %a %Y' {place}")).ok().text();
        let before = state();
        let staged = story.stage("own-login", image);
        assert_eq!((staged.code, staged.staged()), (0, image.digest.clone()), "{place}");
        assert_eq!(state(), before, "{place}");
        story.assert_no_login(place);
        machine.run(&format!("test ! -e /run/mosb-rollout; rm {place}")).ok();
    }
}

fn a_killed_pod_does_not_end_the_staging(story: &Story<'_>, image: &MachineImage) {
    let machine = story.machine();
    story.lab.registry_away(true);
    story.start("killed", &["stage", "--target", &target(image), "--auth", AUTH]);
    let unit =
        || machine.run("systemctl list-units --plain --no-legend 'mosb-stage-*'").ok().text();
    wait("the unit that stages", POD, || unit().contains("running").then_some(()));
    machine.run("test -s /run/ostree/auth.json").ok();
    story.namespace.kubectl(&["delete", "pod", "killed", "--wait=true"]).ok();
    // The status of bootc waits for what pulls.
    story.start("beside", &["report"]);
    wait("the report to wait", POD, || {
        let log = story.namespace.log("beside", "main").unwrap_or_default();
        log.contains("bootc status waits").then_some(())
    });
    machine.run("test -s /run/ostree/auth.json").ok();
    assert!(unit().contains("running"), "{}", unit());
    story.lab.registry_away(false);
    wait("the end of the unit", POD, || unit().is_empty().then_some(()));
    let beside = story.end("beside");
    assert_eq!((beside.code, beside.staged()), (0, image.digest.clone()));
    assert_eq!(machine.staged_digest().as_ref(), Some(&image.digest));
    story.assert_no_login("after a killed pod");
}

/// bootc's own timer would reboot the machine as soon as an image is staged.
fn what_updates_the_machine_by_itself_is_stopped(
    story: &Story<'_>,
    [other, staged]: [&MachineImage; 2],
) {
    let machine = story.machine();
    let boot = machine.boot_id();
    machine
        .run(
            "cd /usr/local; mkdir -p lib/systemd/system; cd lib/systemd/system
             printf '[Service]\nType=oneshot\nExecStart=bootc upgrade --apply --quiet\n' \
                 > bootc-fetch-apply-updates.service
             printf '[Timer]\nOnActiveSec=1h\n' > bootc-fetch-apply-updates.timer
             systemctl daemon-reload; systemctl start bootc-fetch-apply-updates.timer",
        )
        .ok();
    for (name, image) in [("own-timer", other), ("own-timer-back", staged)] {
        let ended = story.stage(name, image);
        assert_eq!((ended.code, ended.staged()), (0, image.digest.clone()), "{name}");
        let state = machine.run("systemctl is-active bootc-fetch-apply-updates.timer").text();
        assert_eq!(state.trim(), "inactive", "{name}");
    }
    let started = machine.run("systemctl start bootc-fetch-apply-updates.service");
    assert!(!started.status.success(), "it is masked");
    assert_eq!(machine.boot_id(), boot);
    machine
        .run(
            "rm -r /usr/local/lib/systemd; cd /run/systemd/system
             rm bootc-fetch-apply-updates.timer bootc-fetch-apply-updates.service
             systemctl daemon-reload",
        )
        .ok();
}

fn a_reboot_that_is_refused_says_why(story: &Story<'_>, image: &MachineImage) {
    let machine = story.machine();
    let boot = machine.boot_id();
    machine.run("systemctl mask --runtime reboot.target").ok();
    let ended = story.apply("refused", image, "1");
    assert_ne!(ended.code, 0);
    // Of systemctl itself, or of logind where D-Bus runs.
    let causes = ["reboot.target is masked", "Call to Reboot failed"];
    let message = ended.message();
    assert!(causes.iter().any(|cause| message.contains(cause)), "{message}");
    assert_eq!(machine.boot_id(), boot);
    machine.run("systemctl unmask --runtime reboot.target").ok();
}

fn an_attempt_reboots_once_and_ends_well(story: &Story<'_>, image: &MachineImage) {
    // What is staged needs no registry.
    story.lab.registry_away(true);
    story.apply_until_reboot("apply", image, "1");
    story.lab.registry_away(false);
    let boot = story.machine().boot_id();
    // The Job of the attempt is deleted once a report has the boot.
    let report = story.run("rebooted", &["report"]).report;
    assert_eq!(report.applied.unwrap().image.to_string(), image.reference);
    for name in ["applied", "applied-again"] {
        let ended = story.apply(name, image, "1");
        assert_eq!((ended.code, ended.booted()), (0, image.digest.clone()), "{name}");
        assert_eq!(Some(ended.report.boot_id), boot, "{name}");
        assert_eq!(ended.report.applied.unwrap().image.to_string(), image.reference, "{name}");
    }
    assert_eq!(story.machine().boot_id(), boot);
}

fn another_image_is_not_staged_any_more_where_the_target_runs(
    story: &Story<'_>,
    [runs, other]: [&MachineImage; 2],
) {
    let machine = story.machine();
    let entries = || machine.run("ls /boot/loader/entries; cat /boot/loader/entries/*").ok().text();
    let (boot, before) = (machine.boot_id(), entries());
    let staged = story.stage("other", other);
    assert_eq!((staged.code, staged.staged()), (0, other.digest.clone()));
    // Neither registry nor login are needed, and what was finalized stays.
    story.lab.registry_away(true);
    for name in ["unstage", "unstage-again"] {
        let ended = story.run(name, &["stage", "--target", &target(runs)]);
        assert_eq!(
            (ended.code, ended.staged(), ended.booted()),
            (0, String::new(), runs.digest.clone())
        );
        assert_eq!(machine.staged_digest(), None, "{name}");
        assert_eq!(entries(), before, "{name}");
        assert!(ended.report.rollback.is_some(), "{name}");
    }
    // What is being staged is stopped.
    story.start("late", &["stage", "--target", &target(other), "--auth", AUTH]);
    let unit =
        || machine.run("systemctl list-units --plain --no-legend 'mosb-stage-*'").ok().text();
    wait("the unit that stages", POD, || unit().contains("running").then_some(()));
    story.namespace.kubectl(&["delete", "pod", "late", "--wait=true"]).ok();
    assert_eq!(story.run("stop", &["stage", "--target", &target(runs)]).code, 0);
    assert_eq!(unit(), "");
    story.lab.registry_away(false);
    assert_eq!((machine.staged_digest(), machine.boot_id()), (None, boot.clone()));
    let (digest, before) = (machine.booted_digest(), machine.boot_id().unwrap());
    machine.run("systemctl reboot").ok();
    machine.wait_reboot(&before);
    machine.wait_ready();
    assert_eq!(machine.booted_digest(), digest, "a reboot changes nothing");
}

fn a_queued_rollback_is_reported_and_undone(story: &Story<'_>, image: &MachineImage) {
    let machine = story.machine();
    for name in ["stage", "apply"] {
        machine.run("bootc rollback").ok();
        let report = story.run(&format!("{name}-queued"), &["report"]).report;
        assert!(report.rollback_queued && report.staged.is_none(), "{name}: {report:?}");
        let name = format!("{name}-undoes");
        let ended = match &*name {
            "stage-undoes" => story.run(&name, &["stage", "--target", &target(image)]),
            _ => story.apply(&name, image, "1"),
        };
        assert_eq!((ended.code, ended.booted()), (0, image.digest.clone()), "{name}");
        assert!(!ended.report.rollback_queued, "{name}");
    }
    let before = machine.boot_id().unwrap();
    machine.run("systemctl reboot").ok();
    machine.wait_reboot(&before);
    machine.wait_ready();
    assert_eq!(machine.booted_digest(), image.digest);
}

fn a_failed_finalization_is_final_for_the_attempt(story: &Story<'_>, image: &MachineImage) {
    let machine = story.machine();
    machine.fail_finalize(true);
    story.apply_until_reboot("wrong", image, "1");
    machine.fail_finalize(false);
    let boot = machine.boot_id();
    for name in ["final", "still-final"] {
        let ended = story.apply(name, image, "1");
        assert_eq!(ended.failure(), (42, "wrong-image"), "{name}");
        assert!(ended.message().contains("No space left on device"), "{}", ended.message());
        let attempted = ended.report.attempted.as_ref().unwrap();
        assert_eq!(
            (attempted.target.image.to_string(), attempted.attempt),
            (image.reference.clone(), 1)
        );
    }
    assert_eq!(machine.boot_id(), boot, "an attempt reboots once");
    story.apply_until_reboot("second", image, "2");
    let ended = story.apply("second-end", image, "2");
    assert_eq!((ended.code, ended.booted()), (0, image.digest.clone()));
    assert_eq!(ended.report.attempted, None);
}

fn a_power_cut_before_finalizing_takes_another_attempt(story: &Story<'_>, image: &MachineImage) {
    let machine = story.machine();
    let before = machine.boot_id().unwrap();
    machine.run(HOLD_REBOOT).ok();
    story.start_apply("cut", image, "1");
    wait("the record of the reboot", POD, || {
        let record = machine.run("cat /var/lib/mosb/rollout.json || true").text();
        let record: Value = serde_json::from_str(&record).ok()?;
        let is_ours =
            record["target"]["image"] == image.reference && record["phase"] == "rebooting";
        is_ours.then_some(())
    });
    // It staged the image, too.
    machine.run(NO_LOGIN).ok();
    machine.power_cut();
    machine.wait_reboot(&before);
    machine.wait_ready();
    story.namespace.kubectl(&["delete", "pod", "cut", "--wait=true", "--force"]).ok();
    let boot = machine.boot_id();
    let ended = story.apply("lost", image, "1");
    assert_eq!(ended.failure(), (43, "not-finalized"));
    assert_eq!(ended.staged(), "");
    assert_eq!(machine.boot_id(), boot);
    story.apply_until_reboot("next", image, "2");
    let ended = story.apply("next-end", image, "2");
    assert_eq!((ended.code, ended.booted()), (0, image.digest.clone()));
}

fn going_back_to_stock_is_the_same(story: &Story<'_>, stock: &MachineImage) {
    story.apply_until_reboot("back", stock, "1");
    let ended = story.apply("back-end", stock, "1");
    assert_eq!((ended.code, ended.booted()), (0, stock.digest.clone()));
}
