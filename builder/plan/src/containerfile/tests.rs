use expect_test::expect_file;
use serde_json::{Value, json};

use super::*;
use crate::containerfile::{check, needs};
use crate::plan::{Base, BaseName, BuilderNodes, Draft, MethodChoice, SEALED};
use mosb_api::{BuildOn, RenderedConfig};
use mosb_image::{Digest, ImageRef, Platform, RepoRef};
use mosb_types::Diagnostic as _;

const HEX: &str = "0123456789abcdef0123456789abcdef";

pub(in crate::containerfile) fn base(ostree: bool, layout: bool) -> Base {
    let labels = if ostree { json!({ "ostree.bootable": "true" }) } else { json!({}) };
    let config = json!({
        "os": "linux", "architecture": "amd64",
        "config": { "Labels": labels }, "rootfs": { "type": "layers", "diff_ids": [Digest::of(b"layer")] },
    });
    let config = config.to_string();
    let manifest = json!({ "config": { "digest": Digest::of(config.as_bytes()) }, "layers": [{}] })
        .to_string();
    let digest = Digest::of(manifest.as_bytes());
    let repo: RepoRef = "quay.io/acme/coreos".parse().unwrap();
    let (name, image) = if layout {
        (BaseName::from_layout(digest), format!("oci:/a b/$x@{digest}"))
    } else {
        (BaseName::from_registry(&repo, digest), repo.pinned(digest).to_string())
    };
    Base::new(name, image, None, manifest.as_bytes(), config.as_bytes()).unwrap()
}

pub(in crate::containerfile) fn request(spec: Value, base: Base) -> BuildRequest {
    let config = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": format!("rendered-worker-{HEX}") }, "spec": spec,
    });
    let config = RenderedConfig::from_value(config).unwrap();
    BuildRequest { method: MethodChoice::Containerfile, ..BuildRequest::new(config, base) }
}

fn text(request: BuildRequest) -> Result<String, Error> {
    let plan = Draft::new(request).unwrap().finish(&mosb_image::tree::BaseTree::default()).unwrap();
    render(&plan)
}

fn units() -> Value {
    json!({ "ignition": { "version": "3.5.0" }, "systemd": { "units": [
        { "name": "a.service", "enabled": true, "contents": "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n" },
        { "name": "getty@tty9.service", "enabled": true },
    ] } })
}

#[test]
fn without_ignition_part_only_config_itself_goes_in() {
    let made = text(request(json!({}), base(false, true))).unwrap();
    expect_file!["../../../../testdata/containerfile/settings-only/Containerfile"].assert_eq(&made);
}

#[test]
fn a_layout_is_never_taken_for_a_registry() {
    let mut base = base(false, true);
    base.image = format!("oci:5000/os@{}", base.manifest_digest);
    let made = text(request(json!({}), base)).unwrap();
    assert!(!made.contains("oci:"), "{made}");
}

#[test]
fn units_on_an_ostree_base() {
    let made = text(request(json!({ "config": units() }), base(true, false))).unwrap();
    expect_file!["../../../../testdata/containerfile/units-ostree/Containerfile"].assert_eq(&made);
}

#[test]
fn everything_at_once() {
    let image: ImageRef = format!("quay.io/acme/extensions@{}", Digest::of(b"e")).parse().unwrap();
    let mut config = units();
    config["storage"] = json!({
        "files": [{ "path": "/opt/$(x)" }, { "path": "/etc/hosts", "user": { "name": "chrony" }, "group": { "id": 7 }, "contents": { "source": "data:,x" } }],
        "links": [{ "path": "/etc/resolv.conf", "target": "$(x)" }],
    });
    let spec = json!({ "config": config, "extensions": ["kerberos", "usbguard"], "kernelType": "realtime", "kernelArguments": ["$(x) \"y z\""] });
    let mut request = request(spec, base(true, false));
    request.build_on = BuildOn::EveryConfig;
    request.extensions_image = Some(image.to_string().parse().unwrap());
    request.trust_bundle = Some("-----BEGIN CERTIFICATE-----\n".into());
    request.containerfile = Some(
        "FROM configs AS final\nRUN rpm-ostree install tree && \\\n    ostree container commit"
            .to_owned(),
    );
    let made = text(request).unwrap();
    expect_file!["../../../../testdata/containerfile/everything/Containerfile"].assert_eq(&made);
}

/// The Containerfile of a prepared base.
fn prepared_text(request: BuildRequest) -> String {
    let request = BuildRequest { method: MethodChoice::Auto, ..request };
    let own = split(&request).unwrap().own_parts();
    let prepared = Draft::new(request).unwrap().prepared(own, BuilderNodes::Any).unwrap();
    render_prepared(&prepared).unwrap()
}

#[test]
fn a_prepared_base_names_nothing_of_the_config() {
    let image = format!("quay.io/acme/extensions@{}", Digest::of(b"e"));
    let mut config = units();
    let anchor = "/etc/pki/ca-trust/source/anchors/acme.crt";
    config["storage"] = json!({ "files": [
        { "path": anchor, "contents": { "source": "data:,x" } }, { "path": "/etc/hosts", "contents": { "source": "data:,x" } },
    ] });
    let spec = json!({ "config": config, "extensions": ["usbguard", "kerberos"], "kernelType": "realtime" });
    let mut all = request(spec, base(true, false));
    all.extensions_image = Some(image.parse().unwrap());
    all.trust_bundle = Some("-----BEGIN CERTIFICATE-----\n".into());
    let made = prepared_text(all);
    assert!(!made.contains("rendered-"), "{made}");
    assert_eq!(check(&made), Ok(()));
    expect_file!["../../../../testdata/prepared/everything/Containerfile"].assert_eq(&made);

    let mut bundle = request(json!({}), base(false, true));
    bundle.trust_bundle = Some("-----BEGIN CERTIFICATE-----\n".into());
    let made = prepared_text(bundle);
    expect_file!["../../../../testdata/prepared/bundle/Containerfile"].assert_eq(&made);

    let mut packages = request(json!({ "extensions": ["sysstat"] }), base(true, false));
    packages.extensions_image = Some(image.parse().unwrap());
    let made = prepared_text(packages.clone());
    expect_file!["../../../../testdata/prepared/packages/Containerfile"].assert_eq(&made);

    packages.containerfile = Some("FROM base\nRUN dnf install -y agent\n".to_owned());
    let made = prepared_text(packages);
    assert_eq!(check(&made), Ok(()));
    expect_file!["../../../../testdata/prepared/own/Containerfile"].assert_eq(&made);
}

#[test]
fn last_part_runs_on_config_on_prepared_part() {
    let image: ImageRef = format!("quay.io/acme/extensions@{}", Digest::of(b"e")).parse().unwrap();
    let spec = json!({ "config": units(), "extensions": ["usbguard"] });
    let mut request = request(spec, base(true, false));
    request.extensions_image = Some(image.to_string().parse().unwrap());
    for (case, own) in [
        ("prepared", "# The agent.\nFROM base\nRUN dnf install -y agent\n"),
        (
            "prepared-and-last",
            "FROM quay.io/acme/tools:1 AS tools\nFROM quay.io/acme/no AS unused\nFROM base AS os\nCOPY --from=tools /bin/a /usr/bin/a\nFROM configs AS final\nCOPY --from=base /etc/hosts /etc/hosts.base\nRUN --mount=type=bind,from=tools,target=/t /t/bin/b && ostree container commit",
        ),
    ] {
        request.containerfile = Some(own.to_owned());
        let made = text(request.clone()).unwrap();
        let file = format!("../../../../testdata/containerfile/{case}/Containerfile");
        expect_file![file].assert_eq(&made);
        assert_eq!(check(&made), Ok(()), "{case}");
    }
}

#[test]
fn last_part_runs_on_image_with_the_rest() {
    let image: ImageRef = format!("quay.io/acme/extensions@{}", Digest::of(b"e")).parse().unwrap();
    let spec = json!({ "config": units(), "extensions": ["usbguard"] });
    let mut request = request(spec, base(true, false));
    request.extensions_image = Some(image.to_string().parse().unwrap());
    for (case, own) in [
        ("no-from", "RUN systemctl enable x.service"),
        (
            "both-parts",
            "FROM quay.io/acme/tools:1 AS tools\nFROM quay.io/acme/no AS unused\nFROM base AS os\nCOPY --from=tools /bin/a /usr/bin/a\nFROM configs AS final\nRUN --mount=type=bind,from=tools,target=/t /t/bin/b && ostree container commit",
        ),
        (
            "base",
            "FROM base AS tools\nRUN make\nFROM base AS os\nCOPY --from=tools /a /a\nFROM configs\nCOPY --from=tools /b /b",
        ),
    ] {
        request.containerfile = Some(own.to_owned());
        let request = BuildRequest { method: MethodChoice::Auto, ..request.clone() };
        let plan =
            Draft::new(request).unwrap().finish(&mosb_image::tree::BaseTree::default()).unwrap();
        let made = render_last(&plan, &Digest::of(b"configs")).unwrap();
        let file = format!("../../../../testdata/containerfile/last-{case}/Containerfile");
        expect_file![file].assert_eq(&made);
        assert_eq!(check(&made), Ok(()), "{case}");
    }
}

#[test]
fn what_refers_to_no_base_is_appended_unchanged() {
    let plain = text(request(json!({ "config": units() }), base(true, false))).unwrap();
    // These may seal the image again.
    let plain = plain.replace(include_str!("../../../../containerfiles/25-sealed"), "");
    for own in [
        "FROM q.io/t AS unused\n\nFROM configs\r\nRUN a",
        "RUN a\nRUN --mount=type=bind,from=$X,target=/x b",
    ] {
        let mut request = request(json!({ "config": units() }), base(true, false));
        request.containerfile = Some(own.to_owned());
        let inputs =
            |text: &str| text.find("mosb.dev/inputs").map(|at| text[at..at + 85].to_owned());
        let made = text(request).unwrap();
        let same = made.replace(&inputs(&made).unwrap(), &inputs(&plain).unwrap());
        assert_eq!(same, format!("{plain}\n{own}\n"));
    }
}

#[test]
fn a_kernel_of_another_architecture_is_no_containerfile() {
    let mut arm = base(false, false);
    arm.config.platform = Platform::new("linux", "arm64", None).unwrap();
    let image = format!("quay.io/acme/extensions@{}", Digest::of(b"e"));
    for (what, base, fine) in [("amd64", base(false, false), false), ("arm64", arm, true)] {
        let mut request = request(json!({ "kernelType": "64k-pages" }), base);
        request.extensions_image = Some(image.parse().unwrap());
        assert_eq!(Draft::new(request).is_ok(), fine, "{what}");
    }
}

#[test]
fn own_text_passes_own_check_without_here_document() {
    let made = text(request(json!({ "config": units() }), base(true, false))).unwrap();
    assert_eq!(check(&made), Ok(()));
    assert_eq!(needs(&made), []);
}

#[test]
fn mistakes_of_the_administrator_are_reported() {
    let mut request = request(json!({}), base(false, false));
    request.containerfile = Some("FROM configs\nINSTALL x\n".to_owned());
    let error = text(request).unwrap_err();
    assert_eq!(error.code(), "bad-containerfile");
    assert!(error.to_string().starts_with("Containerfile, line 2: "), "{error}");
}

#[test]
fn only_texts_without_meaning_to_shell_are_written() {
    for bad in ["", "a b", "a\"b", "a$b", "a\\b", "a\nb", "-a", "a;b", "a`b", "a'b", "é"] {
        assert_eq!(safe("x", bad.to_owned()).unwrap_err().code(), "unsafe-text", "{bad:?}");
    }
}

#[test]
fn holes_and_values_must_fit() {
    for (what, text, values, want) in [
        ("none", "a", &[][..], Some("a")),
        ("twice", "{{a}}-{{a}}", &[("a", "1")], Some("1-1")),
        ("a value is not read again", "{{a}}", &[("a", "{{b}}")], Some("{{b}}")),
        ("unfilled", "{{a}}", &[], None),
        ("unknown", "", &[("a", "1")], None),
        ("open", "{{a", &[("a", "1")], None),
    ] {
        let filled = Template::new("x", text).fill(values);
        assert_eq!(filled.ok().as_deref(), want, "{what}");
    }
}

#[test]
fn a_sealed_base_needs_a_last_part() {
    for (what, containerfile, want) in [
        ("before the config", "FROM base\nRUN bootc container ukify\n", Err("sealed-base")),
        ("after it", "FROM configs\nRUN bootc container ukify\n", Ok(())),
        ("both", "FROM base AS os\nRUN a\nFROM configs\nRUN bootc container ukify\n", Ok(())),
    ] {
        let mut request = request(json!({}), base(true, false));
        request.containerfile = Some(containerfile.to_owned());
        assert_eq!(split(&request).map(drop), Ok(()), "{what}: not sealed");
        request.base.config.labels.insert(SEALED.to_owned(), "0".to_owned());
        assert_eq!(split(&request).map(drop).map_err(|error| error.code()), want, "{what}");
    }
}
