//! Kernel arguments on a machine without rpm-ostree: bootc sets those that its images bring.

use mosb_tests::{Lab, MachineImage};

use crate::machine_part::{Part, run, start, words};
use crate::node_story::{Story, boot_arguments};

/// Hides rpm-ostree until the next boot, as on a base that does not have it.
const NO_RPM_OSTREE: &str = "mkdir -p /run/bin /run/bin-work
    mount -t overlay overlay -o lowerdir=/usr/bin,upperdir=/run/bin,workdir=/run/bin-work /usr/bin
    rm /usr/bin/rpm-ostree";

struct Images {
    /// Its config has arguments.
    with: MachineImage,
    /// Its config has none.
    without: MachineImage,
    /// As of another builder: without a file for bootc.
    foreign: MachineImage,
}

/// As of an image that is built on a base without rpm-ostree.
fn build(lab: &Lab, arguments: &str) -> MachineImage {
    lab.build(
        "lab/os",
        "/usr/lib/bootc/kargs.d/90-mosb.toml",
        &format!("kargs%20%3D%20{arguments}"),
    )
}

#[test]
fn arguments_come_and_go_with_images_for_bootc() {
    let lab = Lab::start(1);
    let images = Images {
        with: build(&lab, "%5B%22a%3D1%22%2C%22b%3D2%22%5D%0A"),
        without: build(&lab, "%5B%5D%0A"),
        foreign: lab.build("lab/os", "/etc/story", "foreign"),
    };
    let line = lab.machine(0).run("cat /proc/cmdline").ok().text();
    let own = line.split_whitespace().next().unwrap().to_owned();
    let with = Part::new("with", &["a=1", "b=2"], &[], false);
    let without = Part::new("without", &[], &[], false);
    let removes = Part::new("removes", &[], &[&own], false);
    let files = [&with, &without, &removes]
        .map(|part| (part.file(), String::from_utf8(part.part.to_json()).unwrap()));
    let story = Story::new(&lab, "bootc-arguments", &files);
    let before = boot_arguments(story.machine());
    let and = |more: &[&str]| {
        before
            .iter()
            .map(String::as_str)
            .chain(more.iter().copied())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    story.machine().run(NO_RPM_OSTREE).ok();

    what_bootc_can_not_remove_is_said_before_anything_is_staged(&story, &images, &removes);
    for name in ["first", "again"] {
        follow(&story, &format!("with-{name}"), &images.with, &with);
        assert_eq!(boot_arguments(story.machine()), and(&["a=1", "b=2"]), "{name}");
        follow(&story, &format!("without-{name}"), &images.without, &without);
        assert_eq!(boot_arguments(story.machine()), and(&[]), "{name}");
    }
    an_image_without_them_is_refused_and_not_booted(&story, &images, &with);
    follow(&story, "with-last", &images.with, &with);
    what_stays_is_logged(&story, &images);
}

/// Stages a target, and reboots into it.
#[track_caller]
fn follow(story: &Story<'_>, name: &str, image: &MachineImage, part: &Part) {
    let apply = words("apply", image, Some(part), &["--attempt", "1"]);
    story.reboots(name, || start(story, name, &apply));
    story.machine().run(NO_RPM_OSTREE).ok();
    let ended = run(story, &format!("{name}-end"), &apply);
    assert_eq!((ended.code, ended.booted()), (0, image.digest.clone()), "{name}");
}

fn what_bootc_can_not_remove_is_said_before_anything_is_staged(
    story: &Story<'_>,
    images: &Images,
    part: &Part,
) {
    let ended = run(story, "stays", &words("stage", &images.without, Some(part), &[]));
    assert_eq!(ended.failure(), (44, "kernel-argument-stays"));
    assert_eq!(ended.staged(), "");
}

/// It is found out before the machine is drained.
fn an_image_without_them_is_refused_and_not_booted(
    story: &Story<'_>,
    images: &Images,
    part: &Part,
) {
    let ended = run(story, "foreign", &words("stage", &images.foreign, Some(part), &[]));
    assert_eq!(ended.failure(), (44, "no-kernel-arguments"));
    assert_eq!(ended.staged(), "");
    assert_eq!(story.machine().staged_digest(), None);
}

fn what_stays_is_logged(story: &Story<'_>, images: &Images) {
    start(story, "stay", &words("stage", &images.foreign, None, &[]));
    let log = story.log_of_end("stay");
    assert!(log.contains("these kernel arguments stay") && log.contains("a=1 b=2"), "{log}");
}
