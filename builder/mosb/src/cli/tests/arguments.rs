//! Command lines, and what is wrong with them.

use std::error::Error as _;
use std::ffi::OsString;
#[cfg(feature = "cluster")]
use std::fmt::Write as _;
use std::path::Path;

use clap::{CommandFactory as _, Parser as _};

#[cfg(feature = "cluster")]
use crate::cli::cluster::ClusterCommand;
#[cfg(feature = "cluster")]
use crate::cli::cluster::rollout::{PoolRequest, Rollout};
use crate::cli::command::{Cli, Command};
use crate::cli::typed_format;
use mosb_api::BuildOn;
use mosb_commands::build::Build;
use mosb_commands::build::inputs::{Buildah, ConfigFile, Isolation, StorageDriver};
use mosb_commands::diff::{Operand, operand};
use mosb_commands::failure::Failure;
use mosb_commands::input::Input;
use mosb_commands::settings::{Environment, Format};
#[cfg(feature = "cluster")]
use mosb_controller::rollout::RolloutRequest;
use mosb_plan::plan::MethodChoice;

fn parsed(line: &str) -> Result<Cli, String> {
    let cli = Cli::try_parse_from(["mosb"].into_iter().chain(line.split_whitespace()));
    let mut cli = cli.map_err(|error| match error.source().and_then(|it| it.downcast_ref()) {
        Some(failure) => Failure::message(failure),
        None => error.kind().to_string(),
    })?;
    cli.settings.environment = Environment::of(|name: &str| (name == "HOME").then(|| "/h".into()));
    cli.command.check(&cli.settings).map_err(|failure| failure.message())?;
    Ok(cli)
}

fn build(line: &str) -> Build {
    match parsed(line).unwrap().command {
        Command::Build(build) => build,
        other => panic!("{other:?}"),
    }
}

#[test]
fn clap_finds_no_fault_with_the_arguments() {
    Cli::command().debug_assert();
}

#[test]
fn a_build_is_understood() {
    let build = build(
        "build - --base oci:b:t --output quay.io/a/b:tag --platform linux/arm64 --method direct --digestfile d --containerfile f --build-arg A=b=c --build-arg _B= \
         --volume /e:/e:ro --volume /k:/k --isolation chroot --storage-driver vfs --on-top --build-on every-config --extensions-image quay.io/e:1",
    );
    let request = &build.inputs.request(Some(&build.output));
    assert_eq!(request.config, ConfigFile::Input(Input::Stdin));
    assert_eq!(request.base.image.as_ref().unwrap().to_string(), "oci:b:t");
    assert_eq!(request.base.platform.as_ref().unwrap().to_string(), "linux/arm64");
    assert_eq!(request.method, MethodChoice::Direct);
    let args: Vec<_> = request.build_args.iter().map(|(k, v)| format!("{k}:{v}")).collect();
    assert_eq!(args, ["A:b=c", "_B:"]);
    assert_eq!(build.output.to_string(), "quay.io/a/b");
    assert!(build.output.notice().is_some());
    assert!(request.on_top);
    assert_eq!(request.build_on, Some(BuildOn::EveryConfig));
    let buildah = Buildah {
        volumes: ["/e:/e:ro", "/k:/k"].map(|text| text.parse().unwrap()).to_vec(),
        context: None,
        isolation: Some(Isolation::Chroot),
        storage_driver: Some(StorageDriver::Vfs),
    };
    assert_eq!(build.inputs.buildah(), buildah);
    let given: Vec<_> = buildah.given().collect();
    assert_eq!(given, ["--volume", "--isolation", "--storage-driver"]);
    assert_eq!(Buildah::default().given().count(), 0);
}

fn assert_refused(line: &str, want: &str) {
    let error = parsed(line).map(|_| ()).unwrap_err();
    assert!(error.contains(want), "{line}: {error}");
}

#[test]
fn wrong_use_is_refused_with_what_would_be_right() {
    for (line, want) in [
        ("", ""),
        ("build", "required"),
        ("build a", "required"),
        ("build a --output dir:x", "\"dir:x\""),
        ("build a --output foo", "for a folder write oci:DIR"),
        ("build a --output=", "for a folder write oci:DIR"),
        ("build a --output oci:o --base dir:x", "oci:DIR"),
        ("build a --output oci:o --base fedora", "registry host is missing"),
        ("build a --output oci:o --platform amd64", "--platform \"amd64\""),
        ("build a --output oci:o --method fast", "invalid value"),
        ("build a --output oci:o --build-arg A=b", "required"),
        ("build a --output oci:o --containerfile f --build-arg A", "want K=V"),
        ("build a --output oci:o --containerfile f --build-arg 1A=b", "\"1A\""),
        ("build a --output oci:o --containerfile f --build-arg A=b --build-arg A=c", "given twice"),
        ("build a --output oci:o --volume /a", "--volume \"/a\" is not a volume"),
        ("build a --output oci:o --volume /a:b", "absolute"),
        ("build a --output oci:o --volume /a:/b/../c", "absolute"),
        ("build a --output oci:o -o containerfile", "mosb plan"),
        (
            "plan a --prepared oci:x@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef -o containerfile",
            "leave out --prepared",
        ),
        (
            "build a --output oci:o --dry-run --prepared oci:x@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef -o configmap",
            "leave out --prepared",
        ),
        ("diff - -", "stdin can be read once"),
        ("plan - --previous -", "stdin can be read once"),
        ("render a", "required"),
        ("render --pool p", "required"),
        ("render --pool A a", "--pool \"A\""),
        ("render --pool p - --previous -", "stdin can be read once"),
        ("render --pool p a --timeout 30", "--timeout \"30\""),
        ("render --pool p a --offline --resolve-tags", "cannot be used"),
        ("render --pool p a --explain -o name", "--explain has no"),
        ("render --pool p a -o containerfile", "mosb plan"),
        ("version -o name", "mosb render"),
        ("diff a.yaml", "required"),
        ("diff oci:a oci:b --base oci:c", "leave it out"),
        ("diff oci:a b.yaml --files", "leave it out"),
        ("inspect oci:a -o markdown", "belongs to `mosb diff`"),
        ("diff a.yaml oci:b --base c", "registry host is missing"),
        ("inspect quay.io/x -q -v", "cannot be used"),
        ("inspect quay.io/x --tls-verify=maybe", "isn't valid"),
        ("sign quay.io/x", "required"),
        ("sign oci:x --sign-key k", "a directory is not taken here"),
        ("sign quay.io/x --sign-key env:", "names no variable"),
        ("sign quay.io/x --sign-key k --sign-identity x", "--sign-identity"),
        ("verify quay.io/x --key k --signature-policy p", "give one of them"),
        ("keys new", "required"),
        ("boot-images golden --stream s --release-version x", "--release-version \"x\" is not"),
        ("boot-images golden --stream s --namespace A", "want at most 63 of a-z, 0-9 and -"),
    ] {
        assert_refused(line, want);
    }
}

#[cfg(feature = "cluster")]
#[test]
fn wrong_use_of_a_cluster_is_refused() {
    for (line, want) in [
        ("node", ""),
        ("node stage", "required"),
        ("node stage --target x", "--target: expected value"),
        ("node stage --target {\"image\":\"quay.io/os:1\"}", "want a JSON object"),
        ("node apply --attempt 1", "required"),
        ("node apply --attempt 0 --target {}", "invalid value"),
        ("node apply --target {} --attempt 1", "missing field"),
        ("rollout undo a --to A", "--to \"A\": not the name of a MachineOSBuild; want a build"),
        ("rollout undo a --to a@sha256:0", "the digest is not"),
        ("rollout status a --timeout 5m", "required"),
        ("rollout status a -w --timeout 5d", "--timeout \"5d\""),
        ("rollout pause a --yes", "unexpected"),
        ("controller --lookup-timeout 0s", "want 1s to 1h"),
        ("controller --lookup-timeout 61m", "want 1s to 1h"),
        ("boot-images pin machineset.machine.openshift.io/a --until x", "--until \"x\" is not"),
        ("job build --spec s", "required"),
        ("job build --result r", "required"),
        ("job build --spec s --result r --image i", "cannot be used with"),
        ("job build --spec s --image i", "required"),
        ("job build --spec s --image i --failure f --volume x", "--volume \"x\" is not a volume"),
        ("job push --spec s --image i", "required"),
        ("job fetch --spec s --result r", "required"),
        ("job wait-for-done --spec s --result r", "required"),
    ] {
        assert_refused(line, want);
    }
}

#[cfg(feature = "cluster")]
#[test]
fn commands_of_a_cluster_are_understood() {
    #[derive(Debug, PartialEq, Eq)]
    enum Understood {
        Rollout {
            request: RolloutRequest,
            asks: bool,
        },
        /// The time limit in seconds, with `--watch`.
        Status(Option<u64>),
        Ignition {
            build: Option<String>,
            merge: Option<Input>,
        },
        LookupSeconds(u64),
    }
    use Understood::{Ignition, LookupSeconds, Status};
    let rollout = |request, asks| Understood::Rollout { request, asks };
    let stock = || RolloutRequest::Undo(Some("stock".parse().unwrap()));
    for (line, want) in [
        ("rollout start a", rollout(RolloutRequest::Start, true)),
        ("rollout start a -y", rollout(RolloutRequest::Start, false)),
        ("rollout pause a", rollout(RolloutRequest::Pause, false)),
        ("rollout resume a", rollout(RolloutRequest::Resume, true)),
        ("rollout resume a --yes", rollout(RolloutRequest::Resume, false)),
        ("rollout undo a", rollout(RolloutRequest::Undo(None), true)),
        ("rollout undo a -y", rollout(RolloutRequest::Undo(None), false)),
        ("rollout undo a --to stock", rollout(stock(), true)),
        ("rollout status a", Status(None)),
        ("rollout status a -w", Status(Some(3600))),
        ("rollout status a --watch --timeout 5m", Status(Some(300))),
        ("ignition a", Ignition { build: None, merge: None }),
        (
            "ignition a --build b --merge -",
            Ignition { build: Some("b".to_owned()), merge: Some(Input::Stdin) },
        ),
        ("controller", LookupSeconds(60)),
        ("controller --lookup-timeout 1", LookupSeconds(1)),
        ("controller --lookup-timeout 1h", LookupSeconds(3600)),
    ] {
        let found = match parsed(line).unwrap().command {
            Command::InCluster(ClusterCommand::Rollout { command: Rollout::Request(command) }) => {
                let PoolRequest { pool, request, yes } = command.request();
                assert_eq!(pool, "a", "{line}");
                rollout(request, !yes)
            }
            Command::InCluster(ClusterCommand::Rollout { command: Rollout::Status(typed) }) => {
                Status(typed.watch.then_some(typed.timeout.as_secs()))
            }
            Command::InCluster(ClusterCommand::Ignition(typed)) => {
                Ignition { build: typed.build, merge: typed.merge }
            }
            Command::InCluster(ClusterCommand::Controller(typed)) => {
                LookupSeconds(typed.lookup_timeout.as_secs())
            }
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(found, want, "{line}");
    }
}

#[test]
fn a_plan_without_output_has_no_target() {
    for (line, want) in [("plan a", None), ("plan a --output oci:o", Some("oci:o"))] {
        let Command::Plan(plan) = parsed(line).unwrap().command else {
            panic!("{line}");
        };
        assert_eq!(plan.output.map(|target| target.to_string()).as_deref(), want, "{line}");
    }
}

#[test]
fn a_format_is_found_in_a_wrong_line() {
    for (line, want) in [
        ("", None),
        ("version -o json", Some(Format::Json)),
        ("version -o yaml", Some(Format::Yaml)),
        ("version -o text", None),
        ("version -ojson", Some(Format::Json)),
        ("version -o=json", Some(Format::Json)),
        ("version --format json", Some(Format::Json)),
        ("version --format=yaml", Some(Format::Yaml)),
        ("version -vo json", Some(Format::Json)),
        ("version -qojson", Some(Format::Json)),
        ("version -qvo=yaml", Some(Format::Yaml)),
        ("version -o", None),
        ("version -v json", None),
        ("version -ov json", None),
        ("version -fo json", None),
        ("version --o json", None),
    ] {
        let words: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
        assert_eq!(typed_format(&words), want, "{line}");
    }
}

#[test]
fn an_operand_with_the_form_of_a_config_is_a_config() {
    let config = |path: &str| Operand::Config(Input::File(path.into()));
    for (text, want) in [
        ("-", Operand::Config(Input::Stdin)),
        ("a.yaml", config("a.yaml")),
        ("a.yml", config("a.yml")),
        ("quay.io/a.json", config("quay.io/a.json")),
        ("./a", config("./a")),
        ("../a", config("../a")),
        ("/a", config("/a")),
        ("quay.io/a", Operand::Image("quay.io/a".parse().unwrap())),
        ("oci:a", Operand::Image("oci:a".parse().unwrap())),
        ("oci:a.yaml", config("oci:a.yaml")),
    ] {
        assert_eq!(operand(text).unwrap(), want, "{text}");
    }
    assert!(operand("a").is_err());
}

#[test]
fn settings_of_all_commands() {
    let settings = |line: &str| parsed(line).unwrap().settings;
    let plain = settings("version");
    assert!(plain.tls_verify && !plain.quiet && plain.format == Format::Text);
    assert_eq!(plain.cache_dir().unwrap(), Path::new("/h/.cache/mosb"));
    assert!(settings("version --tls-verify").tls_verify);
    assert!(!settings("version --tls-verify=false").tls_verify);
    let auth = settings("version --authfile a -o yaml --cache-dir c --registries-conf r");
    assert_eq!(auth.push_logins(), Some(&"a".into()));
    assert_eq!(auth.cache_dir().unwrap(), Path::new("c"));
    assert_eq!(auth.registries_confs(), [("r".into(), true)]);
    assert_eq!(settings("--push-authfile b version --authfile a").push_logins(), Some(&"b".into()));
}

#[cfg(feature = "cluster")]
#[derive(Default)]
struct Helps {
    text: String,
    /// The common options, which end the help of each command.
    common: Option<String>,
}

#[cfg(feature = "cluster")]
impl Helps {
    fn add(&mut self, command: &mut clap::Command, path: &str) {
        let path = format!("{path}{}", command.get_name());
        let help = command.render_long_help().to_string();
        let help: Vec<&str> = help.lines().map(str::trim_end).collect();
        let mut help = help.join("\n");
        if let Some(at) = help.find("\nCommon options:\n") {
            let common = self.common.get_or_insert_with(|| help[at..].to_owned());
            // This command's own -o is a file.
            let mut common = common.clone();
            if command
                .get_arguments()
                .any(|one| one.get_id() == "output" && one.get_short() == Some('o'))
            {
                let end = common.find("      --authfile").unwrap();
                common.replace_range("\nCommon options:\n".len()..end, "");
            }
            assert_eq!(help[at..], common, "{path}");
            if path != "mosb" {
                help.replace_range(at.., "\nCommon options: those of mosb");
            }
        }
        writeln!(self.text, "# {path}\n\n```text\n{}\n```\n", help.trim_end()).unwrap();
        for below in command.get_subcommands_mut() {
            self.add(below, &format!("{path} "));
        }
    }
}

/// `make generate` writes it anew.
#[cfg(feature = "cluster")]
#[test]
fn generated_help_is_up_to_date() {
    let mut helps = Helps::default();
    let mut command = Cli::command();
    command.build();
    helps.add(&mut command, "");
    let file = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("docs/cli/help.md");
    expect_test::expect_file![file].assert_eq(&(helps.text.trim_end().to_owned() + "\n"));
}
