//! What a plan says about an administrator's Containerfile is what the real buildah does with it.

use std::fs;
use std::path::PathBuf;

use serde_json::json;
use tempfile::TempDir;

use mosb_build::buildah::{check_needs, version};
use mosb_plan::containerfile;
use mosb_tests::buildah_fixture::{BuildahFixture, block_on, plan};
use mosb_tests::parts::DEBIAN_ROOT;
use mosb_tests::{finish, limited};

/// A store with the Debian root, and a build context with mosb's files.
struct Buildah {
    directory: TempDir,
    base: String,
}

impl Buildah {
    fn new() -> Self {
        let mut new = Self { directory: tempfile::tempdir().unwrap(), base: String::new() };
        let files = new.path("context/machineconfig");
        fs::create_dir_all(&files).unwrap();
        fs::write(files.join("currentconfig"), "{}").unwrap();
        // buildah makes a name of the path, which can't be any path.
        let pull = new.arguments(&["pull", "--quiet", "oci:image:base"]);
        let mut pull_command = limited("buildah");
        pull_command.current_dir(DEBIAN_ROOT.directory()).args(pull);
        finish(&mut pull_command, &[]).ok().text().trim().clone_into(&mut new.base);
        new
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn arguments(&self, rest: &[&str]) -> Vec<String> {
        let path = |name| self.path(name).display().to_string();
        let store = ["--root".to_owned(), path("store"), "--runroot".to_owned(), path("run")];
        store.into_iter().chain(rest.iter().map(|word| (*word).to_owned())).collect()
    }

    /// Whether buildah builds a text behind stages as mosb writes them.
    fn builds(&self, own: &str) -> bool {
        let file = self.path("Containerfile");
        let before = "FROM scratch AS extract\nCOPY machineconfig/ /machineconfig/\n";
        let configs =
            format!("FROM {} AS configs\nCOPY --from=extract /machineconfig /etc/m\n", self.base);
        fs::write(&file, format!("{before}\n{configs}\n{own}\n")).unwrap();
        let (file, context) =
            (file.display().to_string(), self.path("context").display().to_string());
        let built = finish(
            limited("buildah").args(self.arguments(&[
                "bud",
                "--layers=false",
                "--format=oci",
                "--isolation=chroot",
                "--pull=true",
                "--no-hosts",
                "--dns=none",
                "--platform=linux/amd64",
                "--file",
                &file,
                &context,
            ])),
            &[],
        );
        println!("{own}\n{built:?}\n");
        built.code() == Some(0)
    }
}

/// Everything that is fine, in one build.
const FINE: &str = r#"FROM scratch AS Tools
COPY --from=extract /machineconfig/currentconfig /tool
LABEL a=b
FROM q.example/none:1 AS unused
COPY none /none
FROM ${NONE:-configs} AS final
ARG A=it\'s B TARGETARCH
ENV C=c D="it's" E=${A:-e} F='$'
ENV OLD a b=c
LABEL "a b"="c d" e=${B:+f}
LABEL old it
COPY --from=Tools --chmod=0755 --chown=1:1 /tool /tool
COPY --from=0 ["/machineconfig", "/a b"]
RUN --mount=type=bind,from=Tools,source=/tool,target=/m,ro --mount=type=tmpfs,target=/n \
    # a comment
    --mount=type=cache,target=/o,sharing=locked,mode=0755 test -e /m && \

    test "$TARGETARCH" = amd64
RUN ["/bin/true"]
RUN --mount=type=secret,id=none --mount=type=ssh true
SHELL ["/bin/bash", "-c"]
HEALTHCHECK --interval=1m30s --retries=3 CMD true
ONBUILD RUN false
STOPSIGNAL SIGRTMIN+3
EXPOSE 80 "443"
VOLUME ["/data"]
WORKDIR relative/${C}
ENTRYPOINT
CMD ["a"
USER daemon
"#;

#[test]
fn a_plan_refuses_what_buildah_refuses() {
    let fixture = BuildahFixture::new();
    let base = fixture.base();
    let found = block_on(version()).unwrap();
    let buildah = Buildah::new();
    let config = json!({ "ignition": { "version": "3.5.0" } });
    let is_planned = |own: &str| {
        let rendered = containerfile::render(&plan(&config, Some(own), &base));
        let needs = check_needs(own, found);
        println!("{:?} {needs:?}", rendered.as_ref().err().map(ToString::to_string));
        rendered.is_ok() && needs.is_ok()
    };
    assert!(is_planned(FINE) && buildah.builds(FINE));
    let mut wrong = Vec::new();
    for own in [
        // Of the context.
        "FROM configs\nCOPY files/ /etc/",
        "FROM configs\nADD none.tar /",
        "FROM configs\nRUN --mount=type=bind,source=none,target=/m ls /m",
        // Variables of references.
        "ARG B=configs\nFROM ${B}",
        "FROM configs\nCOPY --from=$X /machineconfig /a",
        "FROM configs\nENV X=extract\nCOPY --from=$X /machineconfig /a",
        "FROM scratch AS t\nLABEL a=b\nFROM configs\nARG X=t\nCOPY --from=$X / /a",
        "FROM configs\nCOPY --from= /machineconfig /a",
        // Names of stages.
        "FROM Configs\nLABEL a=b",
        "FROM configs\nCOPY --from=Extract /machineconfig /a",
        "FROM configs AS a\nCOPY --from=b /etc /a\nFROM configs AS b\nFROM a",
        "FROM configs\nCOPY --from=7 /machineconfig /a",
        "FROM configs\nCOPY --from=extensions / /a",
        "FROM scratch AS s\nRUN true\nFROM configs\nCOPY --from=s / /a",
        // Forms.
        "FROM configs\nINSTALL a",
        "FROM configs # why",
        "FROM configs\nENV A",
        "FROM configs\nENV A=b C",
        "FROM configs\nLABEL a=b # why",
        "FROM configs\nLABEL a=it's",
        "FROM configs\nUSER \"a",
        "FROM configs\nCOPY --from=extract /machineconfig \"/a b\"",
        "FROM configs\nCOPY --from=extract [\"/machineconfig\"]",
        "FROM configs\nWORKDIR /${A-b}",
        "FROM configs\nWORKDIR /${A",
        "FROM configs\nRUN [\"/bin/true\", 1]",
        "FROM configs\nRUN",
        "FROM configs\nSHELL /bin/sh -c",
        "FROM configs\nSTOPSIGNAL FOO",
        "FROM configs\nVOLUME [\"\"]",
        "FROM configs\nHEALTHCHECK true",
        "FROM configs\nHEALTHCHECK --interval=5 CMD true",
        "FROM configs\nHEALTHCHECK --retries=0 CMD true",
        "FROM configs\nONBUILD FROM a",
        "FROM configs\nARG TARGETPLATFORM=a",
        // Flags.
        "FROM --after=a configs",
        "FROM --platform=amd64 configs",
        "FROM configs\nRUN --security=insecure true",
        "FROM configs\nRUN --mount type=tmpfs,target=/m true",
        "FROM configs\nADD --from=extract /machineconfig /a",
        "FROM configs\nCOPY --checksum=a --from=extract /machineconfig /a",
        "FROM configs\nCOPY --chmod=u+x --from=extract /machineconfig /a",
        // Mounts.
        "FROM configs\nRUN --mount=type=other,target=/m true",
        "FROM configs\nRUN --mount=type=bind,from=extract true",
        "FROM configs\nRUN --mount=type=bind,from=extract,target=/m,other true",
        "FROM configs\nRUN --mount=type=cache,target=/m,sharing=private true",
        "FROM configs\nRUN --mount=type=secret,id=a,required=true true",
    ] {
        let (plan, build) = (is_planned(own), buildah.builds(own));
        if plan || build {
            wrong.push((own, plan, build));
        }
    }
    // What later versions know.
    for own in [
        "FROM configs\nRUN --network=none true",
        "FROM configs\nCOPY --link --from=extract /machineconfig /a",
        "FROM configs\nCOPY <<EOF /a\nRUN false\nEOF",
        "FROM configs\nWORKDIR /${A:-b}${HOME:?none}",
        "FROM configs\nRUN --mount=type=tmpfs,target=m true",
    ] {
        let (plan, build) = (is_planned(own), buildah.builds(own));
        if plan != build {
            wrong.push((own, plan, build));
        }
    }
    assert!(wrong.is_empty(), "a plan takes it, buildah builds it: {wrong:#?}");
}
