//! A build that is killed at any time and run again has the same result, and leaves no temporary
//! files.

use std::cell::RefCell;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::kills::{Moments, Program, Requests};
use mosb_tests::build_fixture::{BuildFixture, NAME, assert_refused, assert_whole, config, names};
use mosb_tests::{
    Access, Compression, Fault, FaultProxy, Finished, Layout, Mosb, Registry, Server, Transport,
    Tree, run,
};

/// Starts a build in the background.
fn start(mosb: &Mosb, base: &str, target: &str) -> Child {
    build(mosb, base, target).spawn().unwrap()
}

/// A build with its config in a file.
fn build(mosb: &Mosb, base: &str, target: &str) -> Command {
    let file = mosb.home().join("config.json");
    std::fs::write(&file, config()).unwrap();
    let mut command: Command = mosb.command([
        "build",
        file.to_str().unwrap(),
        "--base",
        base,
        "--output",
        target,
        "-o",
        "json",
    ]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn signal(child: &Child, signal: &str) {
    run("kill", [signal, &child.id().to_string()]);
}

fn ended(child: Child) -> Finished {
    let output = child.wait_with_output().unwrap();
    Finished {
        what: "the build".to_owned(),
        status: output.status,
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A base that takes some time to copy, for layouts.
fn large_base() -> BuildFixture {
    let noise: Vec<u8> = (0..1_u64 << 20)
        .flat_map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
        .collect();
    let tar = Tree::new().file("usr/lib/noise", 0o644, noise).tar();
    BuildFixture::with(&mosb_tests::build_fixture::base().layer(Compression::Plain, tar))
}

#[test]
fn a_build_survives_each_kind_of_request() {
    killed_and_disturbed_it_ends_the_same(Requests::OfEachKind);
}

#[test]
#[ignore = "make test-all: each request, each signal and each fault"]
fn a_build_survives_each_request() {
    killed_and_disturbed_it_ends_the_same(Requests::All);
}

/// A build by a new user each time, with an empty cache.
#[track_caller]
fn killed_and_disturbed_it_ends_the_same(requests: Requests) {
    let registry = Registry::start(Server::Distribution, Access::Anyone, Transport::Http);
    let fixture = BuildFixture::new();
    registry.push(&fixture.base, "base", "acme/base:v1");
    let proxy = FaultProxy::start(registry.address());
    let base = format!("{}/acme/base:v1", proxy.address());
    let user = RefCell::new((0, Mosb::new()));
    let clear = || {
        let number = user.borrow().0 + 1;
        user.replace((number, Mosb::new()));
    };
    let command = || {
        let (number, mosb) = &*user.borrow();
        build(mosb, &base, &format!("{}/acme/n{number}", proxy.address()))
    };
    let is_clean = |what: &str| {
        let (_, mosb) = &*user.borrow();
        assert_eq!(names(&mosb.tmp()), [""; 0], "{what}: TMPDIR");
        let cached = names(&mosb.home().join("cache/mosb/base-trees"));
        let temporary =
            cached.iter().filter(|name| !name.contains(".tree-") && *name != ".mosb.lock");
        assert_eq!(temporary.count(), 0, "{what}: {cached:?}");
    };
    let program = Program {
        proxy: &proxy,
        clear: &clear,
        command: &command,
        end: &|what| {
            let finished = ended(command().spawn().unwrap());
            assert_eq!(finished.code(), Some(0), "{what}: {}", finished.stderr);
            is_clean(what);
            finished.json()["digest"].clone()
        },
        left: &|what, signal, finished| {
            let (exit, name) = match signal {
                "-INT" => (130, "SIGINT"),
                "-TERM" => (143, "SIGTERM"),
                _ => return assert_eq!(finished.code(), None, "{what}"),
            };
            assert_refused(finished, what, exit, "interrupted", &[name, "run it again"]);
            is_clean(what);
        },
    };
    let faults = [
        Fault::CutBefore,
        Fault::CutAnswer,
        Fault::Delay(Duration::from_millis(100)),
        Fault::too_many(1),
        Fault::status(500),
    ];
    let signals = &["-KILL", "-INT", "-TERM"];
    let moments = Moments { signals, faults: &faults, ..Moments::of(requests, 10) };
    program.ends_the_same(&moments);
    // The first image is complete in the registry.
    let to = fixture.mosb.home().join("pulled");
    registry.pull(&format!("acme/n0:{NAME}"), &format!("oci:{}:x", to.display()));
    assert_eq!(Layout::at(to).layers("x").len(), 3);
}

fn wait_for(mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < end, "it never happened");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_layout_is_whole_after_each_kill() {
    let fixture = large_base();
    let whole = Instant::now();
    let (base, target) = (fixture.reference(), fixture.target());
    let want = ended(start(&fixture.mosb, &base, &target)).ok().json()["digest"].clone();
    let took = whole.elapsed();
    let want_layout = listing(&fixture.output());
    let steps = 24;
    for step in 0..steps {
        for how in ["-KILL", "-INT"] {
            std::fs::remove_dir_all(fixture.output()).unwrap();
            // In every second round the cache is filled already, so that more kills happen while
            // the layout is written.
            if step % 2 == 0 {
                std::fs::remove_dir_all(fixture.mosb.home().join("cache")).unwrap();
            }
            let what = format!("{how} at step {step} of {steps} of {took:?}");
            let child = start(&fixture.mosb, &base, &target);
            thread::sleep(took * step / steps);
            signal(&child, how);
            let finished = ended(child);
            let layout = Layout::at(fixture.output());
            match (how, finished.code()) {
                ("-INT", Some(130)) => {
                    fixture.assert_clean(&what);
                    let left = names(&fixture.output());
                    assert!(
                        !left.iter().any(|name| name.starts_with(".mosb-tmp")),
                        "{what}: {left:?}"
                    );
                }
                (_, Some(0) | None) => {}
                (_, other) => panic!("{what}: {other:?}: {}", finished.stderr),
            }
            if fixture.output().join("index.json").exists() {
                let index = layout.index();
                assert!(index.is_empty() || index[0]["digest"] == want, "{what}: {index:?}");
            }
            let again = ended(start(&fixture.mosb, &base, &target)).ok().json();
            assert_eq!(again["digest"], want, "{what}");
            assert_whole(&layout, &what);
            assert_eq!(listing(&fixture.output()), want_layout, "{what}");
            fixture.assert_clean(&what);
        }
    }
}

/// A listing of every file of a layout.
fn listing(directory: &Path) -> String {
    run("find", [directory.to_str().unwrap(), "-type", "f", "-printf", "%P %s\n"])
        .text()
        .lines()
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn two_builds_into_one_layout_are_both_there() {
    let fixture = large_base();
    let (base, target) = (fixture.reference(), fixture.target());
    let other = config().replace(NAME, "rendered-infra-fedcba9876543210fedcba9876543210");
    let results: Vec<_> = thread::scope(|scope| {
        let build = |config: String| {
            let (fixture, base, target) = (&fixture, &base, &target);
            scope.spawn(move || {
                fixture
                    .mosb
                    .run_with(
                        ["build", "-", "--base", base, "--output", target, "-o", "json"],
                        config.as_bytes(),
                    )
                    .ok()
                    .json()
            })
        };
        let both: Vec<_> = [config(), other].into_iter().map(build).collect();
        both.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let layout = Layout::at(fixture.output());
    assert_whole(&layout, "both");
    for result in results {
        for tag in result["tags"].as_array().unwrap() {
            assert_eq!(layout.digest(tag.as_str().unwrap()), result["digest"]);
        }
    }
    assert_eq!(layout.index().len(), 4);
}

#[test]
fn a_killed_containerfile_build_leaves_nothing() {
    let layout = mosb_tests::base_image();
    let mosb = Mosb::new();
    let home = mosb.home().display().to_string();
    let (base, target) = (layout.reference("base"), format!("oci:{home}/output"));
    let file = |name: &str, text: &str| {
        let file = format!("{home}/{name}");
        std::fs::write(&file, text).unwrap();
        file
    };
    let ignition = serde_json::json!({ "ignition": { "version": "3.4.0" } });
    let config = file("config.json", &mosb_tests::build_fixture::rendered(&ignition).to_string());
    let began = format!("{home}/began");
    std::fs::create_dir(&began).unwrap();
    // The number identifies the child among all processes. Without `exec`, a remaining shell could
    // hide the end of the child.
    let number = 100_000 + std::process::id();
    let slow = file("Slow", &format!("RUN exec sleep {number}\n"));
    let quick = file("Quick", "RUN true\n");
    let build = |containerfile: &str| {
        let volume = format!("{began}:/began");
        let arguments = ["build", &config, "--base", &base, "--output", &target, "-o", "json"];
        let more = ["--containerfile", containerfile, "--isolation", "chroot", "--volume", &volume];
        let mut command = mosb.command(arguments.into_iter().chain(more));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let sleeping = || {
        let found =
            Command::new("pgrep").args(["-f", &format!("sleep {number}$")]).output().unwrap();
        !found.stdout.is_empty()
    };
    for how in ["-KILL", "-INT"] {
        let mut child = build(&slow);
        let mut is_over = false;
        wait_for(|| {
            is_over = child.try_wait().unwrap().is_some();
            is_over || sleeping()
        });
        assert!(!is_over, "{how}: {}", ended(child).stderr);
        signal(&child, how);
        let finished = ended(child);
        assert_eq!(finished.code(), (how == "-INT").then_some(130), "{how}: {}", finished.stderr);
        wait_for(|| !sleeping());
        assert!(!mosb.home().join("output").exists(), "{how}");
    }
    let result = ended(build(&quick)).ok().json();
    assert_eq!(result["method"], "containerfile");
    assert_eq!(names(&mosb.tmp()), [""; 0], "TMPDIR");
    assert_eq!(names(&mosb.home().join("cache/mosb/buildah/work")), [""; 0], "what builds work in");
    assert_whole(&Layout::at(mosb.home().join("output")), "the next build");
}
