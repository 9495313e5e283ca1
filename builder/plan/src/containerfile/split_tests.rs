//! Which stage is in which part. What buildah makes of names, numbers and letters was tried with
//! 1.28.

use super::*;
use crate::containerfile::stages::By;
use mosb_types::Diagnostic as _;

fn of_with(text: &str, has_extensions: bool) -> Result<Split, Error> {
    let arguments = [("GIVEN", "configs"), ("USED", "u"), ("OTHER", "o"), ("no_proxy", "n")];
    let arguments = arguments.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let stages = read(text, &arguments, &"linux/amd64".parse().unwrap(), has_extensions)?;
    split_stages(text, &arguments, stages, false)
}

pub(super) fn of(text: &str) -> Result<Split, Error> {
    of_with(text, false)
}

/// One letter for each stage.
fn letters(split: &Split) -> String {
    let letter = |one: &SplitStage| match one.part {
        Part::Prepared => 'p',
        Part::Last => 'l',
        Part::Both => 'b',
        Part::Unused => '-',
    };
    split.stages.iter().map(letter).collect()
}

/// Chains, tools and orders of stages are those of a property.
#[test]
fn each_stage_is_in_its_part() {
    for (what, text, want) in [
        ("nothing", "", ""),
        ("comments", "# a\n\n# b", ""),
        ("no FROM is FROM configs", "RUN true", "l"),
        ("FROM configs", "FROM configs AS final\nRUN true", "l"),
        ("FROM base", "FROM base\nRUN true", "p"),
        ("scratch", "FROM scratch AS t\nFROM base\nCOPY --from=t /a /b", "pp"),
        (
            "a stage from base that copies of configs",
            "FROM base AS t\nCOPY --from=configs /a /b\nFROM configs\nCOPY --from=t /a /b",
            "ll",
        ),
        (
            "a stage from base that mounts extract",
            "FROM base AS t\nRUN --mount=type=bind,from=extract,target=/x true\nFROM configs\nCOPY --from=t /a /b",
            "ll",
        ),
        (
            "a stage from base that needs the config by another stage",
            "FROM q.io/a AS a\nCOPY --from=extract /a /b\nFROM base AS t\nCOPY --from=a /a /b\nFROM configs\nCOPY --from=t /a /b",
            "lll",
        ),
        ("base is only copied of", "FROM configs\nCOPY --from=base /a /b", "l"),
        ("small letters", "from base as a\nfrom a\nrun true", "pp"),
        (
            "a capital letter of a stage",
            "FROM base AS Tools\nFROM configs\nCOPY --from=Tools /a /b",
            "bl",
        ),
        ("a platform", "FROM --platform=linux/amd64 base\nRUN a", "p"),
        ("a default", "FROM ${X:-base}\nRUN a", "p"),
        ("a line that goes on", "FROM \\\n# configs\n base\nRUN a \\\n\n --from=configs", "p"),
        ("words of a command", "FROM base\nRUN a --from=configs\nLABEL b=--from=extract", "p"),
        ("a comment", "# FROM configs\nFROM base\n# COPY --from=configs a b", "p"),
        (
            "a here-document",
            "FROM base\nRUN <<E\nFROM configs\nE\nCOPY <<E /x\nCOPY --from=extract a b\nE",
            "p",
        ),
        (
            "ONBUILD",
            "FROM base AS t\nONBUILD COPY --from=configs /a /b\nFROM configs\nCOPY --from=t a b",
            "ll",
        ),
        ("before the first FROM", "RUN a\nFROM base\nRUN b\nFROM configs\nRUN c", "lpl"),
        ("only arguments before the first FROM", "ARG X=1\nFROM base\nRUN a", "-p"),
        (
            "an own stage named base",
            "FROM q.io/b AS base\nFROM base AS t\nFROM configs\nCOPY --from=t a b",
            "lll",
        ),
        ("an own stage named configs", "FROM configs AS configs\nRUN a\nFROM configs", "ll"),
        ("the number of extract", "FROM configs\nCOPY --from=0 /a /b", "l"),
        (
            "the number of configs",
            "FROM q.io/a AS a\nCOPY --from=1 /a /b\nFROM configs\nCOPY --from=a /a /b",
            "ll",
        ),
        ("the number of an own stage", "FROM q.io/a\nFROM configs\nCOPY --from=2 /a /b", "ll"),
        ("with zeros", "FROM q.io/a\nFROM configs\nCOPY --from=002 /a /b", "ll"),
        (
            "a number after what has no FROM",
            "RUN a\nFROM q.io/a\nFROM configs\nCOPY --from=2 /a /b",
            "lll",
        ),
        ("a number as a name", "FROM configs AS 7\nFROM 7", "ll"),
        (
            "not known before the build",
            "FROM q.io/a\nFROM configs\nRUN --mount=type=bind,from=$X,target=/x true",
            "ll",
        ),
        ("what fails is not built", "FROM $X\nCOPY a b\nFROM configs\nRUN a", "-l"),
        ("root again", "FROM base\nUSER core\nRUN a\nUSER 0:0", "p"),
        ("a user of a variable", "FROM base\nUSER $A", "p"),
        ("a user of the last part", "FROM configs\nUSER core", "l"),
        (
            "scratch with a program",
            "FROM scratch AS s\nCOPY --from=q.io/a /a /a\nRUN a\nFROM configs\nCOPY --from=s /a /b",
            "ll",
        ),
        (
            "scratch with a program of another stage",
            "FROM scratch AS s\nCOPY --from=q.io/a /a /a\nFROM s AS t\nRUN a\nFROM configs\nCOPY --from=t /a /b",
            "lll",
        ),
        ("a label of the prepared part", "FROM base\nLABEL mosb.dev/inputs=a", "p"),
        ("a web page", "FROM configs\nADD https://example.com/a /b", "l"),
    ] {
        let split = of(text).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(letters(&split), want, "{what}");
        assert_eq!(split.prepared.is_some(), want.contains(['p', 'b']), "{what}");
        assert_eq!(split.last.is_some(), want.contains('l'), "{what}");
    }
    let numbered = "FROM q.io/a\nFROM configs\nCOPY --from=2 /a /b";
    assert_eq!(letters(&of_with(numbered, true).unwrap()), "-l", "2 is configs");
    let extensions = "FROM base\nCOPY --from=extensions /a /b";
    assert_eq!(letters(&of_with(extensions, true).unwrap()), "p");
}

#[test]
fn text_without_parts_is_error_with_line() {
    for (what, text, line, says) in [
        ("from elsewhere", "FROM base AS a\nFROM q.io/x\nRUN a", 2, "begins FROM q.io/x"),
        (
            "from elsewhere, with the config",
            "FROM q.io/x\nCOPY --from=configs / /",
            1,
            "FROM configs",
        ),
        ("from extract", "RUN a\nFROM extract", 2, "begins FROM extract"),
        ("it needs the config", "FROM base\nCOPY --from=extract /a /b", 1, "begins FROM base"),
        ("an own configs", "FROM q.io/a AS configs\nFROM configs", 2, "does not continue"),
        ("two candidates", "FROM base AS a\nRUN a\n\n# b\nFROM base\nRUN b", 5, "that of line 1"),
        (
            "two, one of them for the last part",
            "FROM base AS a\nFROM base AS b\nFROM configs\nCOPY --from=a a b",
            2,
            "both come FROM base",
        ),
        ("before FROM base", "\nRUN a\nFROM base\nRUN b", 1, "before the first FROM"),
        ("the name base and base", "FROM base AS base\nRUN a", 1, "has the name base"),
        (
            "a name twice",
            "FROM q.io/a AS t\nFROM q.io/b AS T\nFROM base\nCOPY --from=T a b",
            2,
            "the name T",
        ),
        ("a name of mosb's", "FROM base AS configs\nRUN a", 1, "the name configs"),
        ("a number", "FROM q.io/t\nFROM base\nCOPY --from=2 /a /b", 3, "its number"),
        ("not known", "FROM base\nRUN a\nCOPY --from=$X /a /b", 3, "X has no value"),
        ("syntax", "FROM base\nINSTALL a", 2, "not an instruction"),
        (
            "beside what is not known",
            "FROM $X AS t\nLABEL a=1\nFROM scratch\nLABEL b=1",
            3,
            "begins FROM scratch",
        ),
        (
            "beside what only a build knows",
            "FROM configs AS t\nRUN --mount=type=bind,from=$X,target=/x true\nFROM scratch\nLABEL b=1",
            3,
            "begins FROM scratch",
        ),
        ("FROM of an argument", "ARG X=configs\nFROM $X\nRUN a", 2, "X has no value"),
        ("FROM of a build argument", "ARG GIVEN\nFROM $GIVEN", 2, "GIVEN has no value"),
        ("an argument of COPY", "FROM configs\nCOPY --from=$X a b", 2, "X has no value"),
        (
            "the environment of COPY",
            "FROM configs\nENV X=q.io/a\nCOPY --from=$X a b",
            3,
            "X has no value",
        ),
        (
            "a stage of a variable",
            "FROM q.io/t AS t\nFROM configs\nARG X=t\nCOPY --from=$X a b",
            4,
            "write t",
        ),
        (
            "a default that is a stage",
            "FROM configs\nCOPY --from=${X:-extract} a b",
            2,
            "write extract",
        ),
        ("FROM in other letters", "FROM Configs\nRUN a", 1, "other letters"),
        (
            "COPY in other letters",
            "FROM q.io/t AS t\nFROM configs\nCOPY --from=T a b",
            3,
            "the stage t",
        ),
        (
            "a mount in other letters",
            "FROM configs\nRUN --mount=type=bind,from=Extract,target=/x true",
            2,
            "other letters",
        ),
        (
            "a later stage",
            "FROM configs AS a\nCOPY --from=b a b\nFROM configs AS b\nFROM a",
            2,
            "in line 3",
        ),
        ("the stage itself", "FROM configs AS a\nCOPY --from=a a b", 2, "comes later"),
        ("a number that there isn't", "FROM configs\nCOPY --from=9 /a /b", 2, "no stage 9"),
        (
            "a number of a mount",
            "FROM configs\nRUN --mount=type=bind,from=0,target=/x true",
            2,
            "by its number",
        ),
        ("a number in FROM", "FROM configs\nFROM 0", 2, "no stage 0"),
        (
            "a number of another",
            "FROM q.io/a AS 3\nFROM configs\nCOPY --from=3 a b",
            3,
            "number of another",
        ),
        (
            "a cache of an image",
            "FROM configs\nRUN --mount=type=cache,from=q.io/a,target=/x true",
            2,
            "must be a stage",
        ),
        ("no extensions", "FROM configs\nCOPY --from=extensions a b", 2, "no stage extensions"),
        ("scratch", "FROM scratch AS s\nRUN a\nFROM configs\nCOPY --from=s a b", 2, "no shell"),
        (
            "scratch by a stage",
            "FROM scratch AS s\nFROM s AS t\nRUN a\nFROM configs\nCOPY --from=t a b",
            3,
            "no shell",
        ),
        ("a user at the end", "FROM base\nUSER core\nRUN a", 2, "must be root"),
        ("a user before", "FROM base AS a\nUSER 7:0\nFROM a", 2, "must be root"),
        (
            "a label of mosb",
            "FROM configs AS a\nLABEL b=c mosb.dev/inputs=a\nFROM a",
            2,
            "one of mosb's",
        ),
        ("another base", "FROM q.io/b AS BASE\nFROM base\nRUN a", 1, "the name BASE"),
    ] {
        let error = of(text).expect_err(what);
        let found = match &error {
            Error::Administrator { line, .. } | Error::FinalStage { line, .. } => *line,
            other => panic!("{what}: {other}"),
        };
        assert_eq!(found, line, "{what}: {error}");
        assert!(error.to_string().contains(says), "{what}: {error}");
    }
    assert_eq!(of("FROM scratch").unwrap_err().code(), "not-from-configs");
}

#[test]
fn undecided_text_leaves_the_build_unchanged() {
    for (what, text, says) in [
        (
            "a variable",
            "FROM q.io/a\nFROM configs\nRUN --mount=type=bind,from=$X,target=/x true",
            "X has no value",
        ),
        (
            "an argument, and another value in the environment",
            "FROM configs\nARG X=q.io/a\nENV X=q.io/b\nCOPY --from=$X a b",
            "X has no value",
        ),
    ] {
        let split = of(text).unwrap();
        let undecided = split.undecided.as_ref().expect(what);
        assert!(undecided.to_string().contains(says), "{what}: {undecided}");
        assert_eq!(split.last.as_ref().unwrap().text, text, "{what}");
        assert_eq!(codes(&split), ["stages-undecided"], "{what}");
    }
}

#[test]
fn each_part_has_the_text_of_its_stages() {
    let text = "\
# Of the file.
ARG A=1
RUN a
# Of tools.
FROM q.io/t \\
 # inside
 AS t
COPY <<E /x
FROM base
E

# Of the OS.
from --platform=linux/amd64 \\
  base
COPY --from=t /a /b
FROM q.io/u AS unused
FROM configs
# Of the end.
COPY --from=t /a /b";
    let split = of(text).unwrap();
    assert_eq!(letters(&split), "lbp-l");
    let tools = "# Of tools.\nFROM q.io/t \\\n # inside\n AS t\nCOPY <<E /x\nFROM base\nE\n";
    let os = "FROM --platform=linux/amd64   base AS mosb-prepared\nCOPY --from=t /a /b\n";
    let prepared = split.prepared.unwrap();
    assert_eq!(prepared.text, format!("{tools}\n# Of the OS.\n{os}"));
    assert_eq!(prepared.name, "mosb-prepared");
    let canonical = "FROM q.io/t  AS t\nCOPY <<E /x\nFROM base\nE\nFROM --platform=linux/amd64   base\nCOPY --from=t /a /b\n";
    assert_eq!(prepared.canonical, canonical);
    let leading = "# Of the file.\nARG A=1\nRUN a\n";
    let end = "FROM configs\n# Of the end.\nCOPY --from=t /a /b\n";
    assert_eq!(split.last.unwrap().text, format!("{leading}{tools}{end}"));

    let named = of("FROM base AS os\r\nRUN a\r\n").unwrap().prepared.unwrap();
    assert_eq!((&*named.text, &*named.name), ("FROM base AS os\r\nRUN a\r\n", "os"));
    let today = "FROM q.io/t AS unused\n\nFROM configs\nRUN a";
    assert_eq!(of(today).unwrap().last.unwrap().text, today);
}

#[test]
fn prepared_part_has_only_arguments_it_sees() {
    let text = "FROM base\nARG USED NONE=1\nFROM configs\nARG OTHER";
    let prepared = of(text).unwrap().prepared.unwrap();
    let names: Vec<_> = prepared.build_args.keys().map(String::as_str).collect();
    assert_eq!(names, ["USED", "no_proxy"]);
}

#[test]
fn each_stage_names_its_first_reference() {
    let text = "FROM q.io/t AS t\nFROM q.io/u AS u\nCOPY --from=t a b\nFROM base AS os\nRUN --mount=from=t,target=/t true\nFROM configs\nCOPY --from=os /a /b\nCOPY --from=extract a b";
    let split = of(text).unwrap();
    let reasons: Vec<_> =
        split.stages.iter().map(|one| one.reason.as_ref().map(ToString::to_string)).collect();
    let want = [
        Some("RUN --mount=…from=t (line 5)"),
        None,
        Some("FROM base (line 4)"),
        Some("FROM configs (line 6)"),
    ];
    assert_eq!(reasons, want.map(|reason| reason.map(str::to_owned)));
    let needs: Vec<_> = split.stages.iter().map(|one| one.needs_config).collect();
    assert_eq!(needs, [false, false, false, true]);
    let plain = of("RUN a").unwrap().stages[0].reason.clone().unwrap();
    assert_eq!(plain.to_string(), "no FROM, which means FROM configs");
    assert_eq!(plain.by, By::From);
}

#[test]
fn an_own_stage_named_base_is_a_warning() {
    let split = of("FROM q.io/b AS base\nFROM configs\nCOPY --from=base a b").unwrap();
    assert_eq!(codes(&split), ["stage-name"]);
    let warnings = split.warnings();
    assert!(warnings[0].message.contains("line 1"), "{}", warnings[0]);
    assert!(!split.uses_base);
    assert!(codes(&of("FROM base\nRUN a").unwrap()).is_empty());
}

/// The codes of the warnings but for that of the build arguments of these tests.
pub(super) fn codes(split: &Split) -> Vec<String> {
    let codes = split.warnings().into_iter().map(|one| one.code);
    codes.filter(|code| code != "build-arg-unused").collect()
}

#[test]
fn a_long_chain_of_stages_is_read() {
    let mut text = "FROM base AS s0\n".to_owned();
    for at in 1..2000 {
        text += &format!("FROM s{before} AS s{at}\nCOPY --from=s{before} a b\n", before = at - 1);
    }
    assert!(of(&text).unwrap().stages.iter().all(|one| one.part == Part::Prepared));
}
