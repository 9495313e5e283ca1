//! Plans and builds.

use super::image::{live, paths};
use super::{BUILD, RENDERED, digest, hex, looks_like};
use mosb_api::image_checks::{CheckMode, CheckName, CheckResult};
use mosb_commands::build::result::*;
use mosb_commands::build::signer::SignedFor;
use mosb_commands::build::verified_image::*;
use mosb_commands::diff::Side;
use mosb_commands::plan::view::*;
use mosb_commands::verify::AppliedPolicy;
use mosb_plan::containerfile::Part;
use mosb_plan::image_checks::{CheckFailure, Verdict};
use mosb_types::Finding;

fn pinned() -> PinnedBase {
    PinnedBase {
        image: format!("quay.io/fedora/fedora-coreos@{}", digest("base")),
        manifest: digest("base"),
        index: Some(digest("index")),
    }
}

fn verified() -> VerifiedImage {
    VerifiedImage {
        image: pinned().image,
        policy: AppliedPolicy {
            file: "/etc/containers/policy.json".to_owned(),
            scope: "quay.io/fedora".to_owned(),
        },
        signatures: vec![VerifiedSignature {
            key: digest("key"),
            identity: "quay.io/fedora/fedora-coreos:stable".to_owned(),
        }],
    }
}

fn plan() -> Plan {
    let labels = [
        ("machineconfig", RENDERED.to_owned()),
        ("machineconfigpool", "worker".to_owned()),
        ("mosb.dev/inputs", hex("inputs")),
    ];
    Plan {
        rendered_config: RENDERED.to_owned(),
        pool: "worker".to_owned(),
        method: "direct".to_owned(),
        reasons: Vec::new(),
        prepared: None,
        build_on: "every-config".to_owned(),
        build_on_reason: "No Machine Config Operator rendered the config.".to_owned(),
        base: PlannedBase {
            pinned: pinned(),
            name: "quay.io/fedora/fedora-coreos:stable".to_owned(),
            platform: "linux/arm64".to_owned(),
            bootable: true,
        },
        verified: Vec::new(),
        base_tree: Some(BaseTreeUse { digest: digest("tree"), source: TreeSource::Cache }),
        extensions_image: None,
        containerfile: None,
        stages: Vec::new(),
        build_args: Vec::new(),
        trust_bundle: None,
        inputs: hex("inputs"),
        target: Some("registry.example.com/os/worker".to_owned()),
        build_name: BUILD.to_owned(),
        tags: vec![RENDERED.to_owned(), BUILD.to_owned()],
        labels: labels.map(|(key, value)| (key.to_owned(), value)).into(),
        annotations: [("org.opencontainers.image.base.digest".to_owned(), digest("base"))].into(),
        layer: Some(PlanLayer { bytes: 1_500_012, paths: paths() }),
        change: None,
        checks: Vec::new(),
        preset_units: vec!["kubelet.service".to_owned()],
        commands: Vec::new(),
        added: vec![
            Finding::new("var-file", "/var/opt/small reaches machines at the next boot")
                .path("/var/opt/small"),
        ],
        left_out: vec![
            Finding::new(
                "kernel-arguments",
                "kernel arguments are set on each node, not in the image: a=1",
            )
            .object("spec.kernelArguments"),
            Finding::new(
                "left-to-machine",
                "not part of the image: its SSH keys and password are set on the machine, all else when the machine is installed",
            )
            .object("user core"),
        ],
        warnings: vec![
            Finding::new(
                "looks-secret",
                "/etc/mosb/small looks like a private key: whoever can pull the image can read it",
            )
            .path("/etc/mosb/small"),
        ],
        notes: vec![
            Finding::new(
                "etc-is-merged",
                "5 paths in /etc: an update merges them with the machine's own /etc",
            )
            .path("/etc"),
        ],
    }
}

fn stages() -> Vec<PlannedStage> {
    let stage = |line, name: Option<&str>, part, reason: Option<&str>, runs_again| PlannedStage {
        line,
        name: name.map(str::to_owned),
        part,
        reason: reason.map(str::to_owned),
        runs_again,
        hint: None,
        unchecked: Vec::new(),
    };
    vec![
        stage(1, Some("tools"), Part::Both, Some("COPY --from=tools (line 5)"), 1),
        stage(3, Some("unused"), Part::Unused, None, 0),
        stage(4, None, Part::Prepared, Some("FROM base (line 4)"), 2),
        PlannedStage {
            hint: Some("no instruction names a path of the config".to_owned()),
            ..stage(9, Some("final"), Part::Last, Some("FROM configs (line 9)"), 12)
        },
    ]
}

/// What `--checks` adds.
fn checks() -> Vec<CheckResult> {
    let size = CheckFailure {
        code: "too-large",
        message: "its layers have 900 MiB, and the limit is 800 MiB".to_owned(),
        remedy: "make it smaller".to_owned(),
    };
    [
        (CheckName::BaseLayers, Verdict::Passed("its lowest 40 layers are the base's".to_owned())),
        (CheckName::KubeletSkew, Verdict::Unknown("no cluster is asked".to_owned())),
        (CheckName::Size, Verdict::Failed(size)),
    ]
    .map(|(name, verdict)| verdict.result(name.as_str(), CheckMode::Block))
    .into()
}

#[test]
fn a_direct_plan() {
    looks_like("plan-direct", &plan());
}

#[test]
fn a_containerfile_plan() {
    looks_like(
        "plan-containerfile",
        &Plan {
            method: "containerfile".to_owned(),
            reasons: vec![
                Finding::new("extensions", "extensions are to be installed: usbguard, ipsec")
                    .object("spec.extensions"),
                Finding::new(
                    "append-to-base",
                    "/etc/hosts: something is appended to a file of the base",
                )
                .path("/etc/hosts"),
            ],
            verified: vec![verified()],
            base_tree: None,
            extensions_image: Some(format!("quay.io/os/extensions@{}", digest("extensions"))),
            containerfile: Some(digest("containerfile")),
            stages: stages(),
            change: Some(PlannedChange {
                from: Side {
                    operand: "before.yaml".to_owned(),
                    rendered_config: Some(RENDERED.to_owned()),
                },
                cost: live(),
                os: None,
            }),
            build_args: vec!["A".to_owned(), "B".to_owned()],
            trust_bundle: Some(digest("bundle")),
            layer: None,
            commands: vec!["buildah pull quay.io/os/base".to_owned(), "buildah bud .".to_owned()],
            target: None,
            preset_units: Vec::new(),
            added: Vec::new(),
            left_out: Vec::new(),
            warnings: Vec::new(),
            notes: Vec::new(),
            ..plan()
        },
    );
}

#[test]
fn a_build() {
    let built = BuildResult {
        rendered_config: RENDERED.to_owned(),
        pool: "worker".to_owned(),
        image: format!("registry.example.com/os/worker@{}", digest("image")),
        tags: vec![RENDERED.to_owned(), BUILD.to_owned()],
        digest: digest("image"),
        signed: Some(SignedFor {
            key: digest("key"),
            identities: vec![format!("registry.example.com/os/worker:{RENDERED}")],
        }),
        method: "direct".to_owned(),
        reasons: Vec::new(),
        prepared: None,
        base: pinned(),
        verified: vec![verified()],
        base_tree: Some(BaseTreeUse { digest: digest("tree"), source: TreeSource::Computed }),
        layer: Some(LayerInfo {
            digest: digest("layer"),
            diff_id: digest("diff"),
            size: 20_480,
            paths: Some(61),
        }),
        inputs: hex("inputs"),
        bytes_pulled: 1_717_986_918,
        bytes_pushed: 27_000,
        duration_millis: 12_042,
        warnings: plan().warnings,
    };
    looks_like("build-direct", &built);
    let reasons = vec![Finding::new("kernel-type", "the realtime kernel is to be installed")];
    let image = format!("registry.example.com/os/worker@{}", digest("prepared"));
    let prepared =
        PreparedUse { inputs: hex("prepared inputs"), image: Some(image.clone()), reused: true };
    let (method, on) = ("prepared".to_owned(), Some(prepared.clone()));
    let on_prepared = BuildResult {
        method: method.clone(),
        reasons: reasons.clone(),
        prepared: on,
        signed: None,
        ..built
    };
    looks_like("build-prepared", &on_prepared);
    let to_make = PreparedUse { image: None, reused: false, ..prepared };
    let planned = Plan {
        method,
        reasons: reasons.clone(),
        prepared: Some(to_make),
        layer: None,
        base_tree: None,
        checks: checks(),
        ..plan()
    };
    looks_like("plan-prepared", &planned);
    let made = PrepareResult {
        image,
        tag: "prepared-0123456789abcdef0123456789abcdef".to_owned(),
        digest: digest("prepared"),
        signed: None,
        inputs: hex("prepared inputs"),
        reasons,
        base: pinned(),
        verified: vec![verified()],
        bytes_pulled: 1_717_986_918,
        bytes_pushed: 27_000_000,
        duration_millis: 62_042,
        warnings: Vec::new(),
    };
    looks_like("prepare", &made);
}
