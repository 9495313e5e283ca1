//! Errors of the commands, and their end by signals and closed pipes.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::cli_commands::{Desk, NAME, config, words};
use mosb_tests::{Compression, Image, Layout, Tree};

#[test]
fn bad_input_gets_one_error_and_leaves_nothing() {
    let desk = Desk::new();
    let edited = |name: &str, edit: &dyn Fn(&mut Value)| {
        let mut object = config(NAME, "a");
        edit(&mut object);
        desk.write(name, &object);
    };
    edited("pod.yaml", &|o| o["kind"] = json!("Pod"));
    edited("unrendered.yaml", &|o| o["metadata"]["name"] = json!("99-worker"));
    edited("newline.yaml", &|o| {
        o["metadata"]["name"] = json!(format!("rendered-a\nRUN x-{}", "0".repeat(32)))
    });
    edited("spec9.yaml", &|o| o["spec"]["config"]["ignition"]["version"] = json!("9.0.0"));
    edited("dots.yaml", &|o| {
        o["spec"]["config"]["storage"]["files"][0]["path"] = json!("/etc/../x")
    });
    edited("remote.yaml", &|o| {
        o["spec"]["config"]["storage"]["files"][0]["contents"]["source"] = json!("https://x/y")
    });
    edited("hash.yaml", &|o| {
        let hash = format!("sha256-{}", "0".repeat(64));
        o["spec"]["config"]["storage"]["files"][0]["contents"]["verification"] =
            json!({ "hash": hash });
    });
    edited("append.yaml", &|o| {
        o["spec"]["config"]["storage"]["files"] =
            json!([{ "path": "/usr/notes", "append": [{ "source": "data:,x" }] }]);
    });
    fs::write(desk.at("broken.yaml"), "a: [b").unwrap();
    fs::write(desk.at("two.yaml"), "a: 1\n---\nb: 2\n").unwrap();
    fs::write(desk.at("file"), "").unwrap();
    fs::write(desk.at("copy"), "FROM configs AS final\nCOPY files/ /etc/example.d/\n").unwrap();
    fs::write(desk.at("scratch"), "FROM ${UNKNOWN} AS tools\nLABEL a=1\nFROM scratch\nLABEL b=1\n")
        .unwrap();
    Layout::create(&desk.at("several"))
        .put_index("os", &[Image::new(), Image::new().architecture("arm64")]);
    let build = "--base oci:base:os --output oci:out";
    for (line, code, object) in [
        (format!("build none.yaml {build}"), "unreadable-file", "none.yaml"),
        (format!("build broken.yaml {build}"), "bad-file", "broken.yaml"),
        (format!("build two.yaml {build}"), "bad-file", "2 documents"),
        (format!("build pod.yaml {build}"), "bad-config", "pod.yaml"),
        (format!("build unrendered.yaml {build}"), "bad-config", "99-worker"),
        (format!("build newline.yaml {build}"), "bad-config", "newline.yaml"),
        (format!("build spec9.yaml {build}"), "unknown-ignition-spec", "9.0.0"),
        (format!("build dots.yaml {build}"), "invalid-ignition", "/etc/../x"),
        (format!("build remote.yaml {build}"), "invalid-ignition", "render the config first"),
        (format!("build hash.yaml {build}"), "wrong-hash", "/etc/a"),
        (format!("build append.yaml {build} --method direct"), "not-direct", "/usr/notes"),
        ("build worker.yaml --output oci:out".to_owned(), "no-base", "--base"),
        ("build worker.yaml --base oci:none --output oci:out".to_owned(), "", "none"),
        ("build worker.yaml --base oci:base:none --output oci:out".to_owned(), "", "none"),
        (
            "build worker.yaml --base oci:several:os --output oci:out".to_owned(),
            "platform-ambiguous",
            "linux/arm64",
        ),
        (format!("build worker.yaml {build} --platform linux/s390x"), "platform-missing", "s390x"),
        (
            format!("build worker.yaml {build} --digestfile no/such/d"),
            "unwritable-file",
            "no/such/d",
        ),
        (format!("build worker.yaml {build} --containerfile none"), "unreadable-file", "none"),
        (format!("plan worker.yaml {build} --containerfile copy"), "no-build-context", "line 2"),
        (
            format!("build worker.yaml {build} --containerfile copy --dry-run"),
            "no-build-context",
            "COPY files/",
        ),
        (
            format!("plan worker.yaml {build} --containerfile copy --context several"),
            "not-in-context",
            "line 2",
        ),
        (
            format!("plan worker.yaml {build} --containerfile copy --context none"),
            "unusable-context",
            "none",
        ),
        (format!("plan worker.yaml {build} --containerfile scratch"), "not-from-configs", "line 3"),
        (format!("build worker.yaml {build} --trust-bundle file"), "bad-file", "PEM"),
        (format!("build worker.yaml {build} --authfile none"), "", "none"),
        ("build worker.yaml --base oci:base:os --output oci:file".to_owned(), "", "file"),
    ] {
        let (exit, error) = desk.object(&line);
        assert_eq!((exit, error["kind"].as_str()), (2, Some("Error")), "{line}\n{error:#}");
        if !code.is_empty() {
            assert_eq!(error["code"], code, "{line}\n{error:#}");
        }
        assert!(error["message"].as_str().unwrap().contains(object), "{line}\n{error:#}");
        assert!(!desk.at("out").exists(), "{line}: something was written");
        assert_eq!(fs::read_dir(desk.mosb.tmp()).unwrap().count(), 0, "{line}: temporary files");
    }
}

#[test]
fn a_tag_of_another_platform_is_refused_early() {
    let desk = Desk::new();
    let other = Image::new().architecture("arm64");
    Layout::create(&desk.at("out")).put(NAME, &other);
    Layout::create(&desk.at("both")).put_index(NAME, &[Image::new(), other]);
    fs::write(desk.at("label"), "FROM configs\nLABEL a=b\n").unwrap();
    for line in [
        "plan worker.yaml --output oci:out",
        "plan worker.yaml --output oci:both",
        "plan worker.yaml --output oci:out --containerfile label",
        "build worker.yaml --output oci:out --dry-run",
        "build worker.yaml --output oci:out",
        "build worker.yaml --output oci:both",
        "build worker.yaml --output oci:out --containerfile label",
    ] {
        let line = format!("{line} --base oci:base:os -v -o json");
        let refused = desk.mosb.run(words(&line));
        let error = refused.json();
        let want = (Some(2), &json!("tag-of-another-platform"));
        assert_eq!((refused.code(), &error["code"]), want, "{line}\n{error:#}");
        assert!(!refused.stderr.contains("building with buildah"), "{}", refused.stderr);
    }
}

/// What the cache has of a base decides before anything is run.
#[test]
fn the_cached_tree_decides_names_and_notes() {
    let desk = Desk::new();
    let tree = Tree::new()
        .directory("etc", 0o755)
        .file("etc/passwd", 0o644, "root:x:0:0::/:\n")
        .file("etc/group", 0o644, "root:x:0:\n")
        .directory("usr", 0o755)
        .link("usr/local", "../var/usrlocal")
        .directory("var", 0o755)
        .directory("var/usrlocal", 0o755);
    let image = Image::new().label("containers.bootc", "1").layer(Compression::Gzip, tree.tar());
    Layout::create(&desk.at("named")).put("os", &image);
    let mut local = config(NAME, "a");
    local["spec"]["config"]["storage"]["files"] =
        json!([{ "path": "/usr/local/bin/x", "contents": { "source": "data:,x" } }]);
    desk.write("local.yaml", &local);
    fs::write(desk.at("user"), "FROM configs\nUSER acme\nRUN true\n").unwrap();
    fs::write(desk.at("label"), "FROM configs\nLABEL a=b\n").unwrap();
    let codes = |plan: &Value| plan.to_string().matches("base-not-read").count();
    let user = "plan worker.yaml --base oci:named:os --containerfile user";
    let by_buildah =
        "plan local.yaml --base oci:named:os --containerfile label --build-on os-change";
    assert_eq!(desk.object(user).0, 0, "it is not known");
    assert_eq!(codes(&desk.object(by_buildah).1), 1);
    // It reads the tree.
    assert_eq!(desk.object("plan worker.yaml --base oci:named:os").0, 0);
    let (code, refused) = desk.object(user);
    assert_eq!(code, 2, "{refused:#}");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("line 2") && message.contains("no user acme"), "{message}");
    let (_, plan) = desk.object(by_buildah);
    assert!(plan.to_string().contains("var-at-installation"), "{plan:#}");
    assert_eq!(codes(&plan), 0, "{plan:#}");
}

#[test]
fn a_context_that_nothing_uses_is_a_warning() {
    let desk = Desk::new();
    fs::create_dir(desk.at("context")).unwrap();
    fs::write(desk.at("label"), "FROM configs\nLABEL a=b\n").unwrap();
    let line = "plan worker.yaml --base oci:base:os --containerfile label --context context";
    let (code, plan) = desk.object(line);
    let warnings = plan["warnings"].as_array().unwrap().iter();
    let unused = warnings.filter(|one| one["code"] == "option-unused").map(|one| &one["object"]);
    assert_eq!((code, unused.collect::<Vec<_>>()), (0, vec![&json!("--context")]), "{plan:#}");
}

#[test]
fn usage_errors_are_objects_with_json_output() {
    let desk = Desk::new();
    for line in ["build", "no-such-command", "inspect UPPER", "plan worker.yaml --method fast"] {
        let (exit, error) = desk.object(line);
        assert_eq!((exit, error["code"].as_str()), (2, error["code"].as_str()), "{line}");
        assert_eq!(error["kind"], "Error", "{line}");
    }
    assert_eq!(desk.mosb.run(["plan", "--help"]).code(), Some(0));
    assert_eq!(desk.mosb.run(["--version"]).code(), Some(0));
    let (_, missing) = desk.object("build worker.yaml");
    assert!(missing["message"].as_str().unwrap().contains("--output"), "{missing:#}");
    let (code, unreachable) = desk.object("inspect localhost:1/none");
    assert_eq!((code, unreachable["code"].as_str()), (3, Some("unreachable")));
}

#[test]
fn only_a_full_stdout_is_an_error() {
    let desk = Desk::new();
    let mosb = desk.mosb.command(words("plan worker.yaml --base oci:base:os"));
    let program = mosb.get_program().to_owned();
    let piped = |to: &str| {
        let mut shell = Command::new("bash");
        let line = format!(
            r#""$0" plan worker.yaml --base oci:base:os -q {to}; echo "${{PIPESTATUS[0]}}" >&2"#
        );
        shell
            .args(["-c", &line])
            .arg(&program)
            .current_dir(desk.at(""))
            .env("HOME", desk.mosb.home());
        String::from_utf8(shell.output().unwrap().stderr).unwrap()
    };
    assert_eq!(piped("| true"), "0\n");
    assert!(
        piped("> /dev/full").starts_with("error: stdout: not writable"),
        "{}",
        piped("> /dev/full")
    );
}

#[test]
fn a_signal_ends_it_at_once() {
    for (signal, want) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let desk = Desk::new();
        // The program waits for a config that never arrives.
        let mut command =
            desk.mosb.command(words("build - --base oci:base:os --output oci:out -o json -v"));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&child);
        let handled = || {
            let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
            u64::from_str_radix(caught.trim(), 16).unwrap() & (1 << 14) != 0
        };
        let began = Instant::now();
        while !handled() {
            assert!(began.elapsed() < Duration::from_secs(20), "it never listens to signals");
            std::thread::yield_now();
        }
        kill_process(pid, signal).unwrap();
        // The end of stdin would also end the program.
        let stdin = child.stdin.take();
        let output = child.wait_with_output().unwrap();
        drop(stdin);
        assert_eq!(output.status.code(), Some(want));
        let error: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&error["code"], &error["exitCode"]), (&json!("interrupted"), &json!(want)));
        assert!(!desk.at("out").exists());
        assert_eq!(fs::read_dir(desk.mosb.tmp()).unwrap().count(), 0);
    }
}

#[test]
fn plan_makes_the_checks_of_a_cluster() {
    let desk = Desk::new();
    let plan = |settings: &Value, more: &str| {
        desk.write("settings.yaml", settings);
        let line = "plan worker.yaml --base oci:base:os --checks settings.yaml";
        let (code, plan) = desk.object(&format!("{line} {more}"));
        let checks = plan["checks"].as_array().unwrap().iter();
        let word = |check: &Value, key: &str| check[key].as_str().unwrap().to_owned();
        let verdicts: Vec<String> =
            checks.map(|one| format!("{} {}", word(one, "check"), word(one, "verdict"))).collect();
        (code, verdicts)
    };
    let settings = json!({ "checks": { "maxSizeMiB": 1, "modes": { "release": "off" },
        "own": { "lint": { "command": ["lint"] } } } });
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "mosb-config" }, "data": { "config.yaml": settings.to_string() } });
    // The base has the label of bootable images, and no kernel.
    let all = [
        "base-layers passed",
        "bootable failed",
        "architecture unknown",
        "kubelet-skew unknown",
        "packages-held passed",
        "size passed",
        "signature unknown",
        "lint unknown",
    ];
    for settings in [&settings, &map] {
        assert_eq!(plan(settings, ""), (0, all.map(str::to_owned).into()));
    }
    let blocks = json!({ "checks": { "modes": { "bootable": "block" } } });
    assert_eq!(plan(&blocks, "").0, 1);
    let (code, verdicts) = plan(&blocks, "--method containerfile");
    assert!(verdicts.iter().all(|one| one.ends_with(" unknown")), "{verdicts:?}");
    assert_eq!(code, 0, "what is not known blocks nothing");
    let (code, error) = desk.object("plan worker.yaml --base oci:base:os --checks worker.yaml");
    assert_eq!((code, &error["code"]), (2, &json!("bad-cluster-settings")), "{error:#}");
}
