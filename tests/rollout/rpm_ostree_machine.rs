//! `mosb node` on a machine whose image rpm-ostree changes, and a person beside it: by rollbacks, locks,
//! transactions and layered packages. Deployments, boot entries and reboots are real.

use mosb_api::rollout::NodeTool;
use mosb_tests::{Lab, MachineImage, skipped_with_real, wait};

use crate::machine_part::{Part, follow, run, start, words};
use crate::node_story::{Ended, POD, Story, boot_arguments};

/// A target: an image, and the kernel arguments of its config.
struct Target<'a> {
    image: &'a MachineImage,
    part: &'a Part,
}

impl Target<'_> {
    fn stage(&self, story: &Story<'_>, name: &str) -> Ended {
        run(story, name, &words("stage", self.image, Some(self.part), &[]))
    }

    fn start_stage(&self, story: &Story<'_>, name: &str) {
        start(story, name, &words("stage", self.image, Some(self.part), &[]));
    }

    #[track_caller]
    fn assert_staged(&self, ended: &Ended, story: &Story<'_>, arguments: &[&str]) {
        assert_eq!((ended.code, ended.staged()), (0, self.image.digest.clone()));
        assert_eq!(next_arguments(story), arguments);
    }
}

/// The arguments of what the next reboot boots, without that of ostree.
fn next_arguments(story: &Story<'_>) -> Vec<String> {
    let text = story.machine().run("rpm-ostree kargs").ok().text();
    text.split_whitespace().filter(|word| !word.starts_with("ostree=")).map(str::to_owned).collect()
}

fn reboot(story: &Story<'_>) {
    let machine = story.machine();
    let before = machine.boot_id().unwrap();
    machine.run("systemctl start ostree-finalize-staged; systemctl reboot").ok();
    machine.wait_reboot(&before);
    machine.wait_ready();
}

#[test]
fn changes_by_rpm_ostree_are_mended() {
    if skipped_with_real(NodeTool::Bootc, "a machine that bootc does not update") {
        return;
    }
    let lab = Lab::start(1);
    let parts = [
        Part::new("a", &["a=1", "b=2"], &[], false),
        Part::new("c", &["a=2"], &[], false),
        Part::new("none", &[], &[], false),
        Part::new("blanks", &["dyndbg=\"file a.c +p\""], &[], false),
    ];
    let [a, c, none, blanks] = &parts;
    let story = Story::new(&lab, "rpm-ostree-machine", &Part::files([a, c, none, blanks]));
    let images = ["one", "two", "three"].map(|name| lab.build("lab/os", "/etc/story", name));
    let [one, two, three] = &images;
    let one = Target { image: one, part: a };
    let two = Target { image: two, part: c };
    let three = Target { image: three, part: none };
    for (name, target) in [("one", &one), ("two", &two)] {
        story.machine().mark_changed_by_rpm_ostree();
        follow(&story, name, target.image, Some(target.part));
    }
    story.machine().mark_changed_by_rpm_ostree();

    a_rollback_is_undone_where_the_target_runs(&story, &one, &two);
    arguments_of_a_pending_deployment_do_not_come_along(&story, &three);
    a_pending_deployment_of_the_target_does_not_block_it(&story, &one);
    a_lock_of_somebody_else_does_not_stay(&story, &one, &three);
    what_is_not_wanted_any_more_is_cancelled(&story, &one, &two);
    what_a_killed_client_began_is_joined(&story, &one);
    a_transaction_of_somebody_else_is_waited_for(&story, &one, &three);
    arguments_go_after_a_way_back_by_hand(&story, &three);
    layered_packages_are_refused(&story, &one);
    let blanks = Target { image: two.image, part: blanks };
    the_cause_is_named_where_blanks_can_not_be_removed(&story, &blanks, &one);
}

fn a_rollback_is_undone_where_the_target_runs(
    story: &Story<'_>,
    before: &Target<'_>,
    runs: &Target<'_>,
) {
    for (name, apply) in [("rollback-stage", false), ("rollback-apply", true)] {
        story.machine().run("rpm-ostree rollback").ok();
        let report = story.run(&format!("{name}-report"), &["report"]);
        assert_eq!((report.code, report.report.rollback_queued), (0, true));
        let ended = if apply {
            run(story, name, &words("apply", runs.image, Some(runs.part), &["--attempt", "1"]))
        } else {
            runs.stage(story, name)
        };
        assert_eq!((ended.code, ended.report.rollback_queued), (0, false), "{name}");
        let way_back = ended.report.rollback.unwrap().digest.unwrap().to_string();
        assert_eq!(way_back, before.image.digest, "{name}");
        assert_eq!(next_arguments(story), ["a=2"], "{name}");
    }
}

fn arguments_of_a_pending_deployment_do_not_come_along(story: &Story<'_>, target: &Target<'_>) {
    story.machine().run("rpm-ostree rollback").ok();
    assert_eq!(next_arguments(story), ["a=1", "b=2"]);
    let ended = target.stage(story, "after-rollback");
    target.assert_staged(&ended, story, &[]);
    story.machine().run("rpm-ostree cleanup --pending").ok();
}

fn a_pending_deployment_of_the_target_does_not_block_it(story: &Story<'_>, target: &Target<'_>) {
    story.machine().run("rpm-ostree rollback").ok();
    let ended = target.stage(story, "pending-target");
    target.assert_staged(&ended, story, &["a=1", "b=2"]);
}

/// As by Zincati.
fn a_lock_of_somebody_else_does_not_stay(
    story: &Story<'_>,
    target: &Target<'_>,
    other: &Target<'_>,
) {
    let machine = story.machine();
    let login = story.lab.registry().pull_config().to_string();
    let write = "umask 077; mkdir -p /etc/ostree; cat > /etc/ostree/auth.json";
    machine.enter(&["sh", "-euc", write], login.as_bytes()).ok();
    for (name, locked) in [("other-locked", other), ("target-locked", target)] {
        let rebase = format!(
            "rpm-ostree cleanup --pending
             rpm-ostree rebase --lock-finalization --bypass-driver ostree-unverified-registry:{}
             test -e /run/ostree/staged-deployment-locked",
            locked.image.reference
        );
        machine.run(&rebase).ok();
        let report = story.run(&format!("{name}-report"), &["report"]);
        assert_eq!((report.staged(), report.report.staged.is_some()), (String::new(), true));
        let ended = target.stage(story, name);
        target.assert_staged(&ended, story, &["a=1", "b=2"]);
        machine.run("test ! -e /run/ostree/staged-deployment-locked").ok();
    }
    machine.run("rpm-ostree cleanup --pending").ok();
}

/// The registry does not answer until a function has run.
fn while_registry_is_away(story: &Story<'_>, act: impl FnOnce()) {
    story.lab.registry_away(true);
    act();
    story.lab.registry_away(false);
}

fn transaction(story: &Story<'_>) -> String {
    let line = "rpm-ostree status --json | jq --compact-output .transaction";
    story.machine().run(line).ok().text().trim().to_owned()
}

fn wait_for_transaction(story: &Story<'_>) {
    wait("a transaction", POD, || (transaction(story) != "null").then_some(()));
}

fn kill_pod(story: &Story<'_>, name: &str) {
    story.namespace.kubectl(&["delete", "pod", name, "--wait=true", "--force"]).ok();
}

fn what_is_not_wanted_any_more_is_cancelled(
    story: &Story<'_>,
    obsolete: &Target<'_>,
    runs: &Target<'_>,
) {
    while_registry_is_away(story, || {
        obsolete.start_stage(story, "obsolete");
        wait_for_transaction(story);
        kill_pod(story, "obsolete");
        assert_eq!(runs.stage(story, "runs").code, 0);
        assert_eq!(transaction(story), "null");
    });
    assert_eq!(story.machine().staged_digest(), None);
}

/// How often mosb has asked the tool for an image since the machine booted: each time in a unit.
fn pulls_asked_for(story: &Story<'_>) -> usize {
    let machine = story.machine();
    machine.run("journalctl --sync").ok();
    let journal = "journalctl --boot --quiet --unit='mosb-stage-*' --output=cat";
    let lines = machine.run(journal).ok().text();
    lines.lines().filter(|line| line.starts_with("Started ")).count()
}

fn what_a_killed_client_began_is_joined(story: &Story<'_>, target: &Target<'_>) {
    let before = pulls_asked_for(story);
    story.lab.registry_away(true);
    target.start_stage(story, "first");
    wait_for_transaction(story);
    kill_pod(story, "first");
    story.machine().run("systemctl stop 'mosb-stage-*.service'").ok();
    let begun = transaction(story);
    target.start_stage(story, "second");
    wait("the second command", POD, || {
        story
            .namespace
            .log("second", "main")
            .is_some_and(|log| log.contains("waiting"))
            .then_some(())
    });
    assert_eq!(transaction(story), begun);
    story.lab.registry_away(false);
    target.assert_staged(&story.end("second"), story, &["a=1", "b=2"]);
    assert_eq!(pulls_asked_for(story) - before, 1, "what was begun is not pulled again");
    story.machine().run("rpm-ostree cleanup --pending").ok();
}

fn a_transaction_of_somebody_else_is_waited_for(
    story: &Story<'_>,
    target: &Target<'_>,
    other: &Target<'_>,
) {
    let machine = story.machine();
    while_registry_is_away(story, || {
        let rebase = format!(
            "systemd-run --quiet --collect --unit=person.service -- \
             rpm-ostree rebase --bypass-driver ostree-unverified-registry:{}",
            other.image.reference
        );
        machine.run(&rebase).ok();
        wait_for_transaction(story);
        target.start_stage(story, "waits");
        wait("the command that waits", POD, || {
            let log = story.namespace.log("waits", "main");
            log.is_some_and(|log| log.contains("waiting")).then_some(())
        });
        assert_ne!(transaction(story), "null");
    });
    target.assert_staged(&story.end("waits"), story, &["a=1", "b=2"]);
    machine.run("rpm-ostree cleanup --pending; rm /etc/ostree/auth.json").ok();
}

/// The machine's record has a later target than the image that it then boots.
fn arguments_go_after_a_way_back_by_hand(story: &Story<'_>, target: &Target<'_>) {
    story.machine().run("rpm-ostree rollback").ok();
    reboot(story);
    story.machine().mark_changed_by_rpm_ostree();
    assert_eq!(boot_arguments(story.machine()), ["a=1", "b=2"]);
    let ended = target.stage(story, "by-hand");
    target.assert_staged(&ended, story, &[]);
    story.machine().run("rpm-ostree cleanup --pending").ok();
}

/// rpm-ostree can't layer a package on the machines of the lab; the origin is as if it had.
fn layered_packages_are_refused(story: &Story<'_>, target: &Target<'_>) {
    let machine = story.machine();
    machine.unmark_changed_by_rpm_ostree();
    machine.mark_layered("vim");
    let report = story.run("layered-report", &["report"]);
    let staged = target.stage(story, "layered-stage");
    let apply = words("apply", target.image, Some(target.part), &["--attempt", "1"]);
    let applied = run(story, "layered-apply", &apply);
    for ended in [&report, &staged, &applied] {
        assert_eq!(ended.failure(), (44, "locally-changed"));
        assert!(ended.message().contains("vim") && ended.message().contains("rpm-ostree reset"));
        assert_eq!((ended.booted(), ended.staged()), (String::new(), String::new()));
    }
    machine.unmark_changed_by_rpm_ostree();
    machine.mark_changed_by_rpm_ostree();
    assert_eq!(story.run("reset-report", &["report"]).code, 0);
}

/// As before v2023.4.
fn the_cause_is_named_where_blanks_can_not_be_removed(
    story: &Story<'_>,
    with_blanks: &Target<'_>,
    without: &Target<'_>,
) {
    story.machine().run("mkdir -p /var/lib/lab; touch /var/lib/lab/splits-arguments").ok();
    follow(story, "blanks", with_blanks.image, Some(with_blanks.part));
    story.machine().mark_changed_by_rpm_ostree();
    let ended = without.stage(story, "without-blanks");
    assert_eq!(ended.failure(), (3, "arguments-not-staged"));
    assert!(ended.message().contains("v2023.4"), "{}", ended.message());
}
