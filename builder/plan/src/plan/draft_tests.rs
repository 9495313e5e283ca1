//! Which images bring files below `/var` and kernel arguments to machines, and how they are named.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::*;
use crate::plan::{Base, BaseName, BuildContext, ContextEntry, MACHINE_POLICY, SEALED};
use mosb_api::RenderedConfig;
use mosb_image::tree::OwnedEntry;
use mosb_types::Diagnostic as _;

fn request(path: &str, build_on: BuildOn, method: MethodChoice) -> BuildRequest {
    let storage = json!({ "files": [{ "path": path, "contents": { "source": "data:,x" } }] });
    request_of(&json!({ "config": { "storage": storage } }), build_on, method)
}

fn request_of(spec: &serde_json::Value, build_on: BuildOn, method: MethodChoice) -> BuildRequest {
    let mut spec = spec.clone();
    spec["config"]["ignition"]["version"] = json!("3.5.0");
    let config = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": "rendered-worker-0123456789abcdef0123456789abcdef" },
        "spec": spec,
    });
    let image = json!({ "os": "linux", "architecture": "amd64", "config": {},
        "rootfs": { "type": "layers", "diff_ids": [Digest::of(b"layer")] } });
    let image = image.to_string();
    let manifest = json!({ "config": {}, "layers": [{}] }).to_string();
    let name = BaseName::from_layout(Digest::of(manifest.as_bytes()));
    let base =
        Base::new(name, "oci:dir".to_owned(), None, manifest.as_bytes(), image.as_bytes()).unwrap();
    let config = RenderedConfig::from_value(config).unwrap();
    BuildRequest { build_on, method, ..BuildRequest::new(config, base) }
}

fn draft(path: &str, build_on: BuildOn) -> Draft {
    Draft::new(request(path, build_on, MethodChoice::Auto)).unwrap()
}

fn tree() -> BaseTree {
    let entry = |path: &str, entry| (path.as_bytes().to_vec(), entry);
    BaseTree::from_entries([
        entry("var/usrlocal", OwnedEntry::directory(0o755)),
        entry("usr/local", OwnedEntry::symlink("../var/usrlocal")),
        entry("opt", OwnedEntry::directory(0o755)),
        entry("etc", OwnedEntry::directory(0o755)),
    ])
}

const SCRIPT: &str = "/usr/local/bin/x";

#[test]
fn whether_every_config_has_image_is_an_input() {
    for path in ["/etc/x", SCRIPT] {
        let names = |build_on| draft(path, build_on).names();
        assert_ne!(names(BuildOn::EveryConfig), names(BuildOn::OsChange), "{path}");
    }
}

#[test]
fn what_is_taken_of_context_is_an_input() {
    let name = |content: &[u8]| {
        let mut request = request("/etc/x", BuildOn::OsChange, MethodChoice::Auto);
        request.containerfile = Some("FROM configs\nCOPY a /a\n".to_owned());
        let (size, digest) = (content.len() as u64, Digest::of(content));
        let file = ContextEntry::File { mode: 0o644, size, digest };
        request.context = Some(BuildContext::new([("a".to_owned(), file)].into()));
        Draft::new(request).unwrap().names().1
    };
    assert_eq!(name(b"1"), name(b"1"));
    assert_ne!(name(b"1"), name(b"2"));
}

#[test]
fn buildahs_rules_for_bases_spare_direct_builds() {
    for (method, is_refused) in [(MethodChoice::Auto, false), (MethodChoice::Containerfile, true)] {
        let mut request = request("/etc/x", BuildOn::OsChange, method);
        request.base.config.raw["config"]["OnBuild"] = json!(["RUN a"]);
        let found = Draft::new(request).err();
        assert_eq!(matches!(found, Some(Error::Check(_))), is_refused, "{found:?}");
    }
}

#[test]
fn a_plan_lists_what_it_adds() {
    for (what, path, build_on, method, want) in [
        (
            "a script",
            SCRIPT,
            BuildOn::EveryConfig,
            MethodChoice::Auto,
            (&["", "/var/usrlocal/bin/x"][..], 0, 1),
        ),
        (
            "of a Containerfile build",
            SCRIPT,
            BuildOn::EveryConfig,
            MethodChoice::Containerfile,
            (&["", "/var/usrlocal/bin/x"], 0, 0),
        ),
        (
            "where machines apply configs",
            SCRIPT,
            BuildOn::OsChange,
            MethodChoice::Auto,
            (&[], 1, 0),
        ),
        (
            "the base has it elsewhere",
            "/opt/x",
            BuildOn::EveryConfig,
            MethodChoice::Auto,
            (&[], 0, 1),
        ),
        ("nothing below /var", "/etc/x", BuildOn::EveryConfig, MethodChoice::Auto, (&[], 0, 1)),
    ] {
        let draft = Draft::new(request(path, build_on, method)).unwrap();
        let plan = draft.finish(&tree()).unwrap();
        let added = plan.added.iter().map(|one| one.path.clone().unwrap_or_default());
        let only_installed =
            plan.notes.iter().filter(|note| note.code == "var-at-installation").count();
        let lists = plan.layer.iter().filter(|entry| entry.path().name() == "list").count();
        let added: Vec<String> = added.collect();
        let got = (&added[..], only_installed, lists);
        assert_eq!(
            got,
            (&want.0.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>()[..], want.1, want.2),
            "{what}"
        );
    }
}

#[test]
fn kernel_arguments_are_in_images_for_bootc_only() {
    use BuildOn::{EveryConfig, OsChange};
    use MethodChoice::{Auto, Containerfile};
    let with_rpm_ostree = BaseTree::from_entries([(
        b"usr/bin/rpm-ostree".to_vec(),
        OwnedEntry { content: None, ..OwnedEntry::file(b"") },
    )]);
    let both = json!({ "kernelArguments": ["a b"],
        "config": { "kernelArguments": { "shouldExist": ["c"], "shouldNotExist": ["d"] } } });
    let removed = json!({ "config": { "kernelArguments": { "shouldNotExist": ["d"] } } });
    let blank = json!({ "kernelArguments": ["a=\"b c\""] });
    let rpm_ostree = Some(&with_rpm_ostree);
    let bootc = tree();
    let bootc = Some(&bootc);
    let stays = "kernel-argument-stays d";
    for (what, spec, build_on, method, tree, want, warned) in [
        ("bootc", &both, EveryConfig, Auto, bootc, (true, Some("a b c"), 1), stays),
        ("rpm-ostree", &both, EveryConfig, Auto, rpm_ostree, (false, None, 3), ""),
        ("buildah", &both, EveryConfig, Containerfile, bootc, (false, Some("a b c"), 3), stays),
        ("not read", &both, EveryConfig, Containerfile, None, (false, Some("a b c"), 3), stays),
        ("a daemon", &both, OsChange, Auto, bootc, (false, None, 3), ""),
        ("only removed", &removed, EveryConfig, Auto, bootc, (true, Some(""), 1), stays),
        ("none", &json!({}), EveryConfig, Auto, bootc, (true, Some(""), 0), ""),
        (
            "a blank",
            &blank,
            EveryConfig,
            Auto,
            bootc,
            (true, Some("a=\"b c\""), 0),
            "kernel-argument-blank a=\"b c\"",
        ),
        ("a blank, rpm-ostree", &blank, EveryConfig, Auto, rpm_ostree, (false, None, 1), ""),
    ] {
        let draft = Draft::new(request_of(spec, build_on, method)).unwrap();
        let names = draft.names();
        let plan = match tree {
            Some(tree) => draft.finish(tree).unwrap(),
            None => draft.finish_unread(),
        };
        assert_eq!((plan.inputs.clone(), plan.build_name.clone()), names, "{what}");
        let file = plan.layer.iter().find_map(|entry| match entry {
            LayerEntry::Put(path, mosb_image::overlay::Node::File { meta, content })
                if path.to_string() == kernel_arguments::FILE =>
            {
                Some((meta.mode, String::from_utf8(content.to_vec()).unwrap()))
            }
            _ => None,
        });
        let (in_layer, arguments, left_out) = want;
        let content = |list: &str| {
            let list: Vec<&str> = match list {
                "a b c" => vec!["a", "b", "c"],
                "" => vec![],
                one => vec![one],
            };
            (0o644, format!("kargs = {}\n", json!(list)))
        };
        assert_eq!(file, arguments.filter(|_| in_layer).map(content), "{what}");
        let of_plan = plan.kernel_arguments.as_ref().map(|list| list.join(" "));
        assert_eq!(of_plan.as_deref(), arguments, "{what}");
        let has_arguments = arguments.is_some_and(|list| !list.is_empty());
        assert_eq!(plan.added.len(), usize::from(has_arguments), "{what}");
        let left = plan.left_out.iter().filter(|one| one.to_string().contains("argument"));
        assert_eq!(left.count(), left_out, "{what}: {:?}", plan.left_out);
        let warnings = plan.warnings.iter().filter(|one| one.code.starts_with("kernel-argument"));
        let warnings: Vec<String> = warnings
            .map(|one| format!("{} {}", one.code, one.object.as_deref().unwrap_or_default()))
            .collect();
        assert_eq!(warnings.join(", "), warned, "{what}");
    }
}

#[test]
fn what_is_for_the_installation_is_listed() {
    let spec = json!({ "fips": true, "config": {
        "ignition": { "timeouts": { "httpTotal": 5 }, "proxy": {} },
        "passwd": { "users": [{ "name": "core" }, { "name": "eve" }], "groups": [{ "name": "g" }] },
        "storage": { "disks": [{ "device": "/dev/sda" }] } } });
    let request = request_of(&spec, BuildOn::EveryConfig, MethodChoice::Auto);
    let plan = Draft::new(request).unwrap().finish(&tree()).unwrap();
    let left = plan
        .left_out
        .iter()
        .map(|one| format!("{} {}", one.code, one.object.as_deref().unwrap_or_default()));
    let want = [
        "left-to-machine user \"core\"",
        "at-installation user \"eve\"",
        "at-installation group \"g\"",
        "at-installation disk \"/dev/sda\"",
        "at-installation ignition.timeouts",
        "fips spec.fips",
    ];
    assert_eq!(left.collect::<Vec<_>>(), want);
}

/// Whether the content of a base's file is in its tree depends on the version of mosb, and decides
/// the method. The names of an image don't depend on it, so an upgrade builds nothing.
#[test]
fn image_name_ignores_retained_contents() {
    let spec = json!({ "config": { "storage": {
        "files": [
            { "path": "/etc/a", "append": [{ "source": "data:,x" }] },
            { "path": "/etc/b", "mode": 0o600 },
        ],
        "links": [{ "path": "/etc/c", "target": "/etc/a", "hard": true }],
    } } });
    let plan = |retained: bool| {
        let content = |text: &[u8]| {
            let file = OwnedEntry::file(text);
            OwnedEntry { content: file.content.filter(|_| retained), ..file }
        };
        let entry = |path: &str, entry| (path.as_bytes().to_vec(), entry);
        let tree =
            BaseTree::from_entries([entry("etc/a", content(b"a")), entry("etc/b", content(b"b"))]);
        let request = request_of(&spec, BuildOn::OsChange, MethodChoice::Auto);
        Draft::new(request).unwrap().finish(&tree).unwrap()
    };
    let (before, after) = (plan(false), plan(true));
    let codes: Vec<_> = before.method.reasons().iter().map(Reason::code).collect();
    assert_eq!(codes, ["append-to-base", "keeps-base-content", "hard-link-to-base"]);
    assert_eq!(after.method, Method::Direct);
    assert_eq!((before.inputs, before.build_name), (after.inputs, after.build_name));
    assert_eq!((before.tags, before.labels), (after.tags, after.labels));
}

/// A plan says the same of a path whatever the method is, and says nothing that only the base's tree
/// can tell.
#[test]
fn the_tree_decides_the_notes_of_every_method() {
    use BuildOn::{EveryConfig, OsChange};
    use MethodChoice::{Auto, Containerfile};
    let entry = |path: &str, entry| (path.as_bytes().to_vec(), entry);
    let tree = BaseTree::from_entries([
        entry("opt", OwnedEntry::symlink("var/opt")),
        entry("usr/local", OwnedEntry::symlink("../var/usrlocal")),
        entry("bin", OwnedEntry::symlink("usr/bin")),
        entry("usr/bin", OwnedEntry::directory(0o755)),
        entry("var/opt", OwnedEntry::directory(0o755)),
        entry("var/usrlocal", OwnedEntry::directory(0o755)),
        entry("data", OwnedEntry::directory(0o755)),
    ]);
    let paths = ["/bin/w", "/data/x", "/opt/acme/bin/y", "/usr/local/bin/z"];
    let file = |path: &&str| json!({ "path": path, "contents": { "source": "data:,x" } });
    let files: Vec<_> = paths.iter().map(file).collect();
    let spec = json!({ "config": { "storage": { "files": files } } });
    let opt = "/var/opt/acme/bin/y";
    let local = "/var/usrlocal/bin/z";
    let on_disk = vec![
        ("dropped-by-importer", "/data/x"),
        ("var-at-installation", opt),
        ("var-at-installation", local),
    ];
    let brought = vec![("dropped-by-importer", "/data/x"), ("var-file", opt), ("var-file", local)];
    let unknown = paths.map(|path| ("base-not-read", path)).to_vec();
    let maybe = paths.map(|path| ("var-file", path));
    let maybe =
        [("base-not-read", paths[0])].into_iter().chain(maybe.into_iter().skip(1)).collect();
    for (what, build_on, method, tree, want) in [
        ("direct", OsChange, Auto, Some(&tree), on_disk.clone()),
        ("Containerfile", OsChange, Containerfile, Some(&tree), on_disk),
        ("direct, every config", EveryConfig, Auto, Some(&tree), brought.clone()),
        ("Containerfile, every config", EveryConfig, Containerfile, Some(&tree), brought),
        ("not read", OsChange, Containerfile, None, unknown),
        ("not read, every config", EveryConfig, Containerfile, None, maybe),
    ] {
        let mut request = request_of(&spec, build_on, method);
        request.base.config.labels.insert("containers.bootc".to_owned(), "1".to_owned());
        let draft = Draft::new(request).unwrap();
        let plan = match tree {
            Some(tree) => draft.finish(tree).unwrap(),
            None => draft.finish_unread(),
        };
        let findings = plan.notes.iter().chain(&plan.added);
        let mut got: Vec<(&str, &str)> = findings
            .filter_map(|one| Some((&*one.code, one.path.as_deref()?)))
            .filter(|(_, path)| *path != "/etc")
            .collect();
        got.sort_by_key(|(_, path)| *path);
        assert_eq!(got, want, "{what}");
        let is_open = plan.added.iter().any(|one| one.message.contains("if it lies below /var"));
        assert_eq!(is_open, what == "not read, every config", "{what}");
    }
}

#[test]
fn a_label_seals_a_base_until_its_tree_is_known() {
    let sealed = |label: bool, containerfile: Option<&str>| {
        let mut request = request("/etc/x", BuildOn::OsChange, MethodChoice::Auto);
        if label {
            request.base.config.labels.insert(SEALED.to_owned(), "0".to_owned());
        }
        request.containerfile = containerfile.map(str::to_owned);
        let draft = Draft::new(request).map_err(|error| error.code())?;
        Ok(draft.warnings().iter().any(|one| one.code == "sealed-base"))
    };
    assert_eq!(sealed(false, None), Ok(false));
    assert_eq!(sealed(true, Some("FROM configs\nRUN seal\n")), Ok(true), "it may seal it again");
    assert_eq!(sealed(true, None), Err("sealed-base"));
}

#[test]
fn only_a_last_part_may_seal_a_base_again() {
    let kernel = ("boot/EFI/Linux/6.1.efi".as_bytes().to_vec(), OwnedEntry::file(b""));
    let directories = ["boot", "boot/EFI", "boot/EFI/Linux", "etc"];
    let directories =
        directories.map(|path| (path.as_bytes().to_vec(), OwnedEntry::directory(0o755)));
    let tree = BaseTree::from_entries(directories.into_iter().chain([kernel]));
    for (what, may_have_last, want) in
        [("no last part", false, Err("sealed-base")), ("a last part", true, Ok(true))]
    {
        let mut draft = draft("/etc/x", BuildOn::OsChange);
        let checked = draft.check(Some(&tree), may_have_last);
        let checked =
            checked.map(|()| draft.warnings().iter().any(|one| one.code == "sealed-base"));
        assert_eq!(checked.map_err(|error| error.code()), want, "{what}");
    }
}

#[test]
fn a_config_must_let_machines_pull_its_image() {
    let accept = r#"[{"type":"insecureAcceptAnything"}]"#;
    let signed = r#"[{"type":"sigstoreSigned","keyData":"eA=="}]"#;
    let policy = |default: &str, scope: &str, list: &str| {
        format!(r#"{{"default":{default},"transports":{{"docker":{{"{scope}":{list}}}}}}}"#)
    };
    let reject = r#"[{"type":"reject"}]"#;
    for (what, text, push, want) in [
        ("accepted", policy(reject, "r.example/os", accept), Some("r.example/os"), None),
        ("in no registry", policy(reject, "r.example", reject), None, None),
        (
            "rejected",
            policy(accept, "r.example", reject),
            Some("r.example/os"),
            Some("machines-reject"),
        ),
        (
            "by default",
            policy(reject, "r.example/other", accept),
            Some("r.example/os"),
            Some("machines-reject"),
        ),
        ("no policy", "{}".to_owned(), Some("r.example/os"), Some("bad-signature-policy")),
        (
            "to be signed",
            policy(accept, "r.example/os", signed),
            Some("r.example/os"),
            Some("machines-require-signature"),
        ),
    ] {
        let source = format!("data:;base64,{}", STANDARD.encode(text));
        let file = json!({ "path": MACHINE_POLICY, "contents": { "source": source } });
        let spec = json!({ "config": { "storage": { "files": [file] } } });
        let mut request = request_of(&spec, BuildOn::OsChange, MethodChoice::Auto);
        request.push = push.map(|push| push.parse().unwrap());
        let code = match Draft::new(request) {
            Ok(draft) => {
                let mut warnings = draft.warnings().into_iter();
                let is_about = |one: &Finding| one.path.as_deref() == Some(MACHINE_POLICY);
                warnings.find(is_about).map(|found| found.code)
            }
            Err(error) => Some(error.code().to_owned()),
        };
        assert_eq!(code.as_deref(), want, "{what}");
    }
}
