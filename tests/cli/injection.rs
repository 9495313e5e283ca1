//! Text in a config, a base or on the command line remains data: it never becomes an instruction, a
//! shell word or a path outside the root.

use serde_json::{Value, json};

use mosb_tests::build_fixture::{
    BuildFixture, NAME, assert_refused, assert_valid, base, rendered, with,
};
use mosb_tests::{Layout, Registry};

/// Text that ends a line, a word or a quotation, is expanded by a shell, or leaves a directory.
const HOSTILE: [&str; 10] = [
    "a\nRUN touch PWNED",
    "a\\\nRUN touch PWNED",
    "a\" RUN=\"touch PWNED",
    "a' ; touch PWNED; '",
    "$(touch PWNED)",
    "`touch PWNED`",
    "${PWNED}$PWNED",
    "a\\",
    "a\r\nUSER PWNED",
    "--flag=PWNED *?[PWNED]",
];

/// A config with hostile text in every text field.
fn hostile() -> String {
    let each =
        |make: &dyn Fn(&str) -> Value| HOSTILE.iter().map(|text| make(text)).collect::<Vec<_>>();
    let mut config = rendered(&json!({
        "ignition": { "version": "3.4.0" },
        "storage": {
            "files": each(&|text| json!({ "path": format!("/etc/file {text}"), "contents": { "source": "data:,x" } })),
            "directories": each(&|text| json!({ "path": format!("/etc/dir {text}") })),
            "links": each(&|text| json!({ "path": format!("/etc/link {text}"), "target": format!("../../../{text}") })),
        },
        "systemd": { "units": [
            { "name": "a\\x2dPWNED:x@b\\x24.service", "enabled": true, "contents": "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n",
              "dropins": [{ "name": "$(touch PWNED).conf", "contents": "[Unit]\n" }, { "name": "; touch PWNED.conf", "contents": "[Unit]\n" }] },
            { "name": "-PWNED.service", "enabled": false, "contents": "[Unit]\n" },
        ] },
        "passwd": { "users": each(&|text| json!({ "name": text, "sshAuthorizedKeys": [text] })) },
    }));
    config["metadata"]["labels"] = json!({ "a": HOSTILE[0], HOSTILE[2]: HOSTILE[1] });
    config["metadata"]["annotations"] = json!({
        "machineconfiguration.openshift.io/generated-by-controller-version": HOSTILE[0],
        "machineconfiguration.openshift.io/release-image-version": HOSTILE[2],
        HOSTILE[1]: HOSTILE[3],
    });
    config["spec"]["kernelArguments"] = json!(HOSTILE);
    config["spec"][HOSTILE[0]] = json!(HOSTILE[0]);
    config.to_string()
}

/// A base with hostile labels.
fn hostile_base() -> BuildFixture {
    let image = HOSTILE.iter().fold(base(), |image, text| image.label(text, text));
    BuildFixture::with(&image.label("org.opencontainers.image.version", HOSTILE[2]))
}

fn containerfile(fixture: &BuildFixture, config: &str, more: &[&str]) -> String {
    let base = fixture.reference();
    let arguments =
        ["plan", "-", "--base", &base, "--method", "containerfile", "-o", "containerfile"];
    let arguments: Vec<_> = arguments.iter().chain(more).collect();
    fixture.mosb.run_with(arguments, config.as_bytes()).ok().text()
}

/// The instructions of a Containerfile with the comments before them and their continuation lines.
fn instructions(text: &str) -> Vec<&str> {
    let mut goes_on = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if !goes_on && !line.is_empty() && !line.starts_with('#') {
            found.push(line.split(' ').next().unwrap());
        }
        goes_on = line.ends_with('\\');
    }
    found
}

#[test]
fn nothing_becomes_an_instruction_or_a_shell_word() {
    let fixture = hostile_base();
    let tame = containerfile(
        &fixture,
        &rendered(&json!({ "ignition": { "version": "3.4.0" } })).to_string(),
        &[],
    );
    let text = containerfile(&fixture, &hostile(), &[]);
    println!("{text}");
    // A config changes only the digest of the inputs, and whether units are enabled.
    assert!(!text.contains("PWNED"), "{text}");
    let preset = text.lines().filter(|line| !tame.contains(*line));
    for line in preset {
        assert!(line.contains("mosb.dev/inputs") || text.contains("systemctl"), "{line}");
    }
    let without_preset: Vec<_> = instructions(&tame);
    let with_preset = instructions(&text);
    assert!(with_preset.len() <= without_preset.len() + 1, "{with_preset:?}");
    for word in with_preset {
        assert!(["FROM", "COPY", "RUN", "LABEL", "ARG"].contains(&word), "{word}");
    }
}

#[test]
fn values_of_the_command_line_stay_values() {
    let fixture = BuildFixture::new();
    let plain = rendered(&json!({ "ignition": { "version": "3.4.0" } })).to_string();
    let own = fixture.mosb.home().join("Containerfile");
    std::fs::write(&own, "RUN true\n").unwrap();
    let own = format!("--containerfile={}", own.display());
    for text in HOSTILE {
        let argument = format!("A={text}");
        let with = containerfile(&fixture, &plain, &[&own, "--build-arg", &argument]);
        let plan = fixture.mosb.run_with(
            [
                "plan",
                "-",
                "--base",
                &fixture.reference(),
                &own,
                "--build-arg",
                &argument,
                "-o",
                "json",
            ],
            plain.as_bytes(),
        );
        assert_valid(&plan.ok().json(), "Plan");
        // buildah gets the value as a separate argument if the Containerfile uses it.
        assert!(!with.contains("PWNED"), "{text:?}: {with}");
        for (option, value) in [
            ("--build-arg", format!("{text}=x")),
            ("--platform", format!("linux/{text}")),
            ("--base", format!("quay.io/a/{text}")),
            ("--base", format!("quay.io/a/b:{text}")),
            ("--extensions-image", format!("quay.io/a/{text}")),
            ("--output", format!("quay.io/a/{text}")),
            ("--volume", format!("/a:{text}")),
        ] {
            let (base, target) = (fixture.reference(), fixture.target());
            let given = format!("{option}={value}");
            let mut arguments = vec!["build", "-", "-o", "json", &own, &given];
            if option != "--base" {
                arguments.extend(["--base", &base]);
            }
            if option != "--output" {
                arguments.extend(["--output", &target]);
            }
            let finished = fixture.mosb.run_with(arguments, plain.as_bytes());
            let what = format!("{option} {text:?}");
            assert_eq!(finished.code(), Some(2), "{what}: {}", finished.stderr);
            assert_valid(&finished.json(), "Error");
            let line = finished.stderr.trim_end();
            assert!(!line.contains('\n'), "{what}: {line}");
        }
    }
    // Extensions have a fixed set of names.
    let registry = Registry::plain();
    registry.push(&fixture.base, "base", "acme/extensions:v1");
    let image = registry.repository("acme/extensions:v1");
    for text in HOSTILE {
        let mut config: Value = serde_json::from_str(&plain).unwrap();
        config["spec"]["extensions"] = json!([text]);
        config["spec"]["baseOSExtensionsContainerImage"] = json!(image);
        let finished = fixture.build(config.to_string().as_bytes(), &[]);
        assert_refused(&finished, text, 2, "bad-extensions", &["extension"]);
    }
    assert!(!fixture.mosb.home().join("work/PWNED").exists());
}

#[test]
fn the_layer_stays_in_its_root() {
    let fixture = hostile_base();
    fixture.build(hostile().as_bytes(), &[]).ok();
    let mut layer = tar::Archive::new(Layout::at(fixture.output()).layers(NAME).pop().unwrap());
    let mut files = 0;
    for entry in layer.entries().unwrap() {
        let path = entry.unwrap().path_bytes().into_owned();
        let path = String::from_utf8(path).unwrap();
        assert!(!path.starts_with('/') && path.split('/').all(|part| part != ".."), "{path:?}");
        files += usize::from(path.starts_with("etc/file "));
    }
    assert_eq!(files, HOSTILE.len());
    // A terminal gets no control characters from it, and each entry is one line.
    let image = format!("{}:{NAME}", fixture.target());
    for command in ["files", "inspect"] {
        let containerfile = fixture.mosb.run([command, &image]).ok().text();
        assert!(
            !containerfile
                .lines()
                .any(|line| line.starts_with("RUN ") || line.starts_with("USER ")),
            "{containerfile}"
        );
        assert!(!containerfile.contains('\r'), "{containerfile}");
    }
    let plan = fixture
        .mosb
        .run_with(["plan", "-", "--base", &fixture.reference()], hostile().as_bytes())
        .ok()
        .text();
    assert!(
        !plan.lines().any(|line| line.starts_with("RUN ") || line.starts_with("USER ")),
        "{plan}"
    );
    // The ConfigMap is a single object too.
    let map = fixture
        .mosb
        .run_with(
            ["plan", "-", "--base", &fixture.reference(), "-o", "configmap"],
            hostile().as_bytes(),
        )
        .ok()
        .text();
    assert!(!map.contains("PWNED"), "{map}");
}

#[test]
fn a_hostile_name_is_refused() {
    let fixture = BuildFixture::new();
    for text in HOSTILE {
        let mut config = rendered(&json!({ "ignition": { "version": "3.4.0" } }));
        config["metadata"]["name"] =
            json!(format!("rendered-{text}-0123456789abcdef0123456789abcdef"));
        let finished = fixture.build(config.to_string().as_bytes(), &[]);
        assert_refused(&finished, text, 2, "bad-config", &["metadata.name"]);
        config["metadata"]["name"] = json!(NAME);
        config["metadata"]["ownerReferences"] =
            json!([{ "kind": "MachineConfigPool", "name": text }]);
        let finished = fixture.build(config.to_string().as_bytes(), &[]);
        assert_refused(&finished, text, 2, "bad-config", &["metadata.ownerReferences"]);
        let path = format!("/etc/passwd/{text}");
        let below = with("storage", json!({ "files": [{ "path": path }] }));
        let finished = fixture.build(below.as_bytes(), &[]);
        assert_refused(&finished, text, 2, "conflicts-with-base", &["/etc/passwd"]);
    }
    assert!(!fixture.output().exists());
}
