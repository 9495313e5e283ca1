//! The documents and the program agree: codes, commands, flags, objects, messages and links.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

mod commands;

/// The sections with the tables of codes.
const CODE_SECTIONS: [(&str, &str); 4] = [
    ("docs/commands.md", "Codes"),
    ("docs/direct-build.md", "When something must be run"),
    ("docs/builds.md", "Why a pool is or isn't building"),
    ("docs/boot-images.md", "Why a boot image stays"),
];
/// Literals with a hyphen that are not error codes. A new literal belongs here or into one of
/// these sections.
const NO_CODES: [&str; 53] = [
    "base-tree",
    "base-trees",
    "boot-check",
    "config-only",
    "configs-id",
    "container-image-reference",
    "content-range",
    "copy-containers",
    "coreos-bootimages",
    "daemon-reload",
    "digest-ref",
    "docker-content-digest",
    "docker-manifest-digest",
    "docker-reference",
    "etc-pki-rpm-gpg",
    "every-config",
    "image-build",
    "image-fetch",
    "image-id",
    "image-push",
    "in-service",
    "kebab-case",
    "kube-system",
    "kubernetes-node",
    "last-part",
    "list-units",
    "machine-config-controller",
    "make-anew",
    "mosb-boot-image-stubs",
    "mosb-controller",
    "mosb-files",
    "mosb-prepared",
    "mosb-system",
    "mosb-wait-for-done",
    "oci-layout",
    "openshift-cluster-api",
    "openshift-kubelet",
    "openshift-machine-api",
    "os-change",
    "prepared-base",
    "prepared-bases",
    "prepare-soft-reboot",
    "preset-lines",
    "preset-units",
    "rhcos-cloud",
    "rhel-9",
    "rhel-coreos-extensions",
    "rpm-ostree",
    "soft-reboot",
    "systemd-run",
    "try-restart",
    "update-ca-trust",
    "wait-for-done",
];
/// Files whose literals with a hyphen are not error codes: packages, builders, unit states, names
/// of objects, volumes, containers and programs, words of a result file.
const NO_CODES_IN: [&str; 26] = [
    "boot-image/src/platform/marketplace.rs",
    "build/src/registries_conf.rs",
    "cluster/src/cluster_names.rs",
    "controller/src/connect.rs",
    "cluster/src/namespaces.rs",
    "builds/src/observe/mod.rs",
    "cluster/src/cluster_cache/mod.rs",
    "workload/src/names.rs",
    "workload/src/security_context_constraints.rs",
    "diagnostic-derive/src/lib.rs",
    "image/src/ostree_reference.rs",
    "image/src/packages/dpkg.rs",
    "image/src/reference.rs",
    "image/src/signature_policy/mod.rs",
    "bootstrap/src/secrets.rs",
    "mosb/src/cli/plugin.rs",
    "node/src/rpm_ostree_status.rs",
    "api/src/cluster_settings/mod.rs",
    "api/src/image_checks.rs",
    "api/src/settings.rs",
    "api/src/image_builder.rs",
    "plan/src/containerfile/mount.rs",
    "plan/src/plan/packages.rs",
    "reconcile/src/fake_api.rs",
    "systemd/src/state.rs",
    "types/src/error_class.rs",
];

fn read(path: &str) -> String {
    let path = mosb_tests::repository().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_dir() {
            found.push(path);
        } else if !path.ends_with("tests") {
            sources(&path, found);
        }
    }
}

/// The source files of the program without its tests.
fn code() -> Vec<(String, String)> {
    let builder = mosb_tests::repository().join("builder");
    let mut files = Vec::new();
    sources(&builder, &mut files);
    let name = |path: &Path| path.strip_prefix(&builder).unwrap().display().to_string();
    let files = files.iter().filter(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.ends_with(".rs") && !name.ends_with("tests.rs")
    });
    files
        .map(|path| {
            let text = fs::read_to_string(path).unwrap();
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            (name(path), text.to_owned())
        })
        .collect()
}

fn is_word(text: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    text.starts_with(|c: char| c.is_ascii_lowercase()) && text.split('-').all(part)
}

/// The string literals of a source text. Comments are skipped.
fn literals(code: &str) -> impl Iterator<Item = &str> {
    let lines = code.lines().map(|line| if line.trim().starts_with("//") { "" } else { line });
    lines.flat_map(|line| line.split('"').skip(1).step_by(2))
}

/// The error codes in the program.
fn codes() -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    let files = code();
    for name in NO_CODES_IN {
        assert!(files.iter().any(|(file, _)| file == name), "{name} is no file any more");
    }
    for (file, text) in files {
        if NO_CODES_IN.contains(&&*file) {
            continue;
        }
        let hyphen = |word: &&str| is_word(word) && word.contains('-') && !NO_CODES.contains(word);
        codes.extend(literals(&text).filter(hyphen).map(str::to_owned));
        for body in text.split("fn code(&self)").skip(1) {
            let body = body.split("\n    }\n").next().unwrap();
            let words = literals(body).filter(|word| is_word(word));
            codes.extend(words.map(str::to_owned));
        }
        for start in ["Finding::new(", "#[diagnostic(code = "] {
            for call in text.split(start).skip(1) {
                let first = call.split([',', ')']).next().unwrap();
                codes.extend(literals(first).map(str::to_owned));
            }
        }
    }
    codes
}

/// The words in backticks in the first cells of all tables of a text.
fn first_cells(part: &str) -> BTreeSet<String> {
    let cells = part.lines().filter_map(|line| {
        let row = line.strip_prefix("| `")?;
        row.split(" | ").next()
    });
    let words = cells.flat_map(|cell| cell.split('`').filter(|word| is_word(word)));
    words.map(str::to_owned).collect()
}

#[test]
fn codes_and_their_documentation_agree() {
    let sections = CODE_SECTIONS.map(|(path, headline)| {
        let document = read(path);
        let section = document.split_once(&format!("\n## {headline}\n"));
        let (_, section) = section.unwrap_or_else(|| panic!("{path}: {headline}"));
        section.split("\n## ").next().unwrap().to_owned()
    });
    for ((path, _), section) in CODE_SECTIONS.iter().zip(&sections) {
        assert!(!first_cells(section).is_empty(), "{path}");
    }
    let part = sections.concat();
    let documented = first_cells(&part);
    let codes = codes();
    assert!(codes.len() > 100, "{codes:?}");
    // A code may occur anywhere in the section, not only in a table.
    let mentioned = |code: &&String| part.contains(&format!("`{code}`"));
    let missing: Vec<_> = codes.iter().filter(|code| !mentioned(code)).collect();
    assert!(missing.is_empty(), "in no section of CODE_SECTIONS: {missing:?}");
    let all: String = code().into_iter().map(|(_, text)| text).collect();
    let exists = |code: &&String| all.contains(&format!("\"{code}\""));
    let stale: Vec<_> = documented.iter().filter(|code| !exists(code)).collect();
    assert!(stale.is_empty(), "documented, but not in the code: {stale:?}");
}

#[test]
fn every_object_is_documented() {
    let document = read("docs/commands.md");
    let schemas = mosb_tests::repository().join("docs/schemas");
    for entry in fs::read_dir(schemas).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let link = format!("(schemas/{name})");
        assert!(document.contains(&link), "{link}");
        let row = document
            .lines()
            .find(|line| line.starts_with(&format!("| [{}]", name.trim_end_matches(".json"))));
        let schema: serde_json::Value =
            serde_json::from_str(&read(&format!("docs/schemas/{name}"))).unwrap();
        let fields = schema["properties"].as_object().unwrap().keys();
        for field in fields.filter(|field| !["apiVersion", "kind"].contains(&field.as_str())) {
            let row = row.unwrap_or_else(|| panic!("no row for {name}"));
            let forms = ["", "[]", "{}"].map(|end| format!("`{field}{end}`"));
            assert!(forms.iter().any(|form| row.contains(form)), "{name}: {field}");
        }
    }
}

/// Each headline of the troubleshooting page is an error message; `…` replaces variable parts.
#[test]
fn headlines_of_troubleshooting_are_texts_of_mosb() {
    let document = read("docs/troubleshooting.md");
    let code: String = code().into_iter().map(|(_, text)| text).collect();
    let code = code.replace("\\\"", "\"");
    let headlines: Vec<&str> =
        document.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`')).collect();
    assert!(headlines.len() > 20, "{headlines:?}");
    let pieces = headlines.iter().flat_map(|headline| headline.split('…'));
    let strange: Vec<_> = pieces.map(str::trim).filter(|piece| !code.contains(*piece)).collect();
    assert!(strange.is_empty(), "{strange:?}");
}

/// The lines of a document outside of code blocks, with their numbers.
fn text_lines(document: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    (1..).zip(document.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The anchors of a document's headlines.
fn anchors(document: &str) -> BTreeSet<String> {
    let headlines = text_lines(document).map(|(_, line)| line).filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let line = line.trim_start_matches('#').trim().to_lowercase();
        let slug = line.chars().filter(|c| c.is_alphanumeric() || "_- ".contains(*c));
        slug.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headlines.map(anchor).collect()
}

/// The user documents. A new document is included automatically.
fn documents() -> Vec<PathBuf> {
    let root = mosb_tests::repository();
    let mut found: Vec<PathBuf> = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect();
    for folder in ["docs", "containerfiles", "testdata"] {
        sources(&root.join(folder), &mut found);
    }
    found.retain(|path| path.extension().is_some_and(|end| end == "md"));
    found
}

/// Links to files and headlines have a target.
#[test]
fn no_link_is_dead() {
    let documents = documents();
    for known in ["README.md", "CHANGELOG.md", "docs/builds.md"] {
        assert!(documents.iter().any(|path| path.ends_with(known)), "{known}");
    }
    let (mut files, mut headlines) = (0, 0);
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://")) {
            let place = || format!("{}: {link}", document.display());
            let (file, headline) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => document.clone(),
                file => document.parent().unwrap().join(file),
            };
            assert!(target.exists(), "{}", place());
            files += 1;
            if !headline.is_empty() {
                let target = fs::read_to_string(target).unwrap();
                assert!(anchors(&target).contains(headline), "{}", place());
                headlines += 1;
            }
        }
    }
    assert!(files > 80 && headlines > 20, "{files} {headlines}");
}

/// Tables, headlines and the addresses of links can't be wrapped.
#[test]
fn lines_of_prose_have_at_most_120_columns() {
    let is_prose = |line: &str| {
        let line = line.trim_start();
        let is_link = line.starts_with('[') && line.contains("]: http");
        !(is_link || line.starts_with('|') || line.starts_with('#'))
    };
    let (mut prose, mut long) = (0, Vec::new());
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for (number, line) in text_lines(&text).filter(|(_, line)| is_prose(line)) {
            prose += 1;
            if line.chars().count() > 120 {
                long.push(format!("{}:{number}", document.display()));
            }
        }
    }
    assert!(prose > 3000, "{prose}");
    assert!(long.is_empty(), "longer than 120 columns: {long:#?}");
}
