//! Which images a Containerfile pulls. What buildah makes of variables was tried with 1.28.

use super::{check_in_cluster, images};
use crate::containerfile::Error;

fn found(text: &str) -> Result<Vec<String>, (usize, String)> {
    let arguments = [("GIVEN".to_owned(), "given".to_owned())].into();
    match images(text, &arguments, &"linux/arm64".parse().unwrap()) {
        Ok(images) => Ok(images.iter().map(ToString::to_string).collect()),
        Err(Error::Administrator { line, problem }) => Err((line, problem)),
        Err(other) => panic!("{text}: {other}"),
    }
}

#[test]
fn the_images_that_are_pulled_are_found() {
    for (what, text, want) in [
        ("nothing", "", &[][..]),
        (
            "our own stages",
            "FROM configs AS final\nCOPY --from=extract /a /b\nRUN --mount=type=bind,from=extensions,target=/x true",
            &[],
        ),
        (
            "FROM",
            "FROM --platform=linux/arm64 q.io/a/b:1 AS c\nFROM configs\nCOPY --chown=1:1 --from=c /a /b",
            &["q.io/a/b:1"],
        ),
        (
            "a stage with a capital letter",
            "FROM q.io/a AS Tools\nFROM configs\nCOPY --from=Tools /a /b\nfrom Tools",
            &["q.io/a"],
        ),
        ("numbers and nothing", "FROM scratch\nFROM 1\nCOPY --from=0 /a /b", &[]),
        (
            "COPY --from",
            "COPY --from=q.io/a@sha256:1111111111111111111111111111111111111111111111111111111111111111 /a /b",
            &["q.io/a@sha256:1111111111111111111111111111111111111111111111111111111111111111"],
        ),
        (
            "quoted",
            "COPY --from=\"q.io/a\" /a /b\nRUN --mount=\"type=bind\",\"from=q.io/b\",target=/x true",
            &["q.io/a", "q.io/b"],
        ),
        (
            "mounts",
            "RUN --mount=type=bind,from=q.io/a,target=/x --network=none --mount=type=bind,target=/y,from='q.io/b' true --mount=type=bind,from=no",
            &["q.io/a", "q.io/b"],
        ),
        (
            "quotes around a whole flag",
            "RUN --mount='from=q.io/a,type=bind,target=/x' \"--mount=from=q.io/no\"\nCOPY \t --chown=\"a b\" --from='q.io/b' /a /b",
            &["q.io/a", "q.io/b"],
        ),
        (
            "quotes and backslashes that are gone before variables are looked for",
            "ARG X=q.io/a\nCOPY --from='$X' /a /b\nCOPY --from=\\$X/c /a /b",
            &["q.io/a", "q.io/a/c"],
        ),
        (
            "more of a flag than the image",
            "ARG A=from B=from=q.io/b,target=/b C=/x,from=q.io/c\nCOPY --$A=q.io/a /a /b\nRUN --mount=type=bind,$B --mount=target=$C true",
            &["q.io/a", "q.io/b", "q.io/c"],
        ),
        ("the end of the flags", "RUN -- --mount=from=q.io/no true", &[]),
        (
            "an argument that is kept in the environment",
            "ARG X=q.io/a\nENV X=$X\nCOPY --from=$X /a /b",
            &["q.io/a"],
        ),
        ("lower case", "from q.io/a as b\ncopy --from=q.io/c /a /b", &["q.io/a", "q.io/c"]),
        (
            "a line that goes on",
            "RUN \\\n # from=q.io/no\n --mount=type=bind,\\\nfrom=q.io/a,target=/x \\\n true",
            &["q.io/a"],
        ),
        (
            "comments and directives",
            "# syntax=q.io/no\n# FROM q.io/no\nFROM configs\n#COPY --from=q.io/no a b",
            &[],
        ),
        ("words of a command", "RUN echo FROM q.io/no --from=q.io/no\nLABEL a=--from=q.io/no", &[]),
        (
            "here-documents",
            "RUN <<EOF\nFROM q.io/no\nEOF\nCOPY --from=q.io/a <<E /x\nCOPY --from=q.io/no a b\nE",
            &["q.io/a"],
        ),
        (
            "ONBUILD",
            "ONBUILD COPY --from=q.io/a /a /b\nONBUILD RUN --mount=type=bind,from=q.io/b,target=/x true",
            &["q.io/a", "q.io/b"],
        ),
        (
            "a default in FROM",
            "FROM ${X:-q.io/a:${Y:-1}}\nFROM ${X:-\"q.io/b\"}",
            &["q.io/a:1", "q.io/b"],
        ),
        (
            "an argument of the stage",
            "ARG X=q.io/a\nCOPY --from=$X /a /b\nCOPY --from=${X}/c /a /b",
            &["q.io/a", "q.io/a/c"],
        ),
        (
            "an argument of an argument",
            "ARG H=q.io R=\"$H/a b\" X=${H}/a\nCOPY --from=${X:-no} /a /b",
            &["q.io/a"],
        ),
        ("a build argument", "ARG GIVEN=default\nCOPY --from=q.io/$GIVEN /a /b", &["q.io/given"]),
        ("the platform", "ARG TARGETARCH\nCOPY --from=q.io/a-$TARGETARCH /a /b", &["q.io/a-arm64"]),
        ("set or not", "ARG X=1 E=\nCOPY --from=q.io/a${X:+b}${Y:+c}${E:+d} /a /b", &["q.io/ab"]),
        (
            "an environment",
            "ENV X=q.io/a\nRUN --mount=type=bind,from=$X,target=/x true",
            &["q.io/a"],
        ),
        ("docker://", "FROM docker://q.io/a:1", &["q.io/a:1"]),
        (
            "no registry's",
            "FROM oci:/work/layout\nFROM oci-archive:a.tar\nFROM containers-storage:q.io/a",
            &[],
        ),
        ("a host with a port", "FROM localhost:5000/a", &["localhost:5000/a"]),
    ] {
        let want: Vec<String> = want.iter().map(|image| (*image).to_owned()).collect();
        assert_eq!(found(text), Ok(want), "{what}");
    }
}

#[test]
fn undecided_image_is_error_with_line() {
    for (what, text, line, says) in [
        (
            "an argument of a stage in FROM",
            "FROM configs\nARG X=q.io/a\nFROM $X",
            3,
            "X has no value",
        ),
        ("a build argument in FROM", "FROM q.io/$GIVEN", 1, "GIVEN has no value"),
        ("not declared", "FROM configs\n\nCOPY --from=q.io/$GIVEN /a /b", 3, "GIVEN has no value"),
        (
            "of a stage before",
            "ARG X=q.io/a\nFROM configs\nCOPY --from=$X /a /b",
            3,
            "X has no value",
        ),
        (
            "of a stage before, in a mount",
            "ARG X=q.io/a\nFROM configs\nRUN --mount=type=bind,from=$X,target=/x true",
            3,
            "X has no value",
        ),
        (
            "without a value",
            "ARG X\nRUN --mount=type=bind,from=$X,target=/x true",
            2,
            "X has no value",
        ),
        ("made of what is not known", "ARG X=$Y\nCOPY --from=$X /a /b", 2, "X has no value"),
        (
            "an error if it is not set",
            "ARG X=1\nCOPY --from=q.io/${X:?} /a /b",
            2,
            "can't be decided",
        ),
        ("cut", "ARG X=1\nCOPY --from=q.io/${X#1} /a /b", 2, "can't be decided"),
        ("open", "COPY --from=q.io/${X /a /b", 1, "no end"),
        ("a name without its registry", "RUN true\nFROM fedora:40", 2, "registry host is missing"),
        (
            "a later stage",
            "COPY --from=later /a /b\nFROM configs AS later",
            1,
            "registry host is missing",
        ),
        (
            "a flag with a variable name",
            "ARG X\nCOPY --$X=q.io/a /a /b",
            2,
            "its name can't be decided",
        ),
        (
            "options in a variable",
            "ARG X\nRUN --mount=type=bind,$X true",
            2,
            "its name can't be decided",
        ),
        (
            "an argument, and another value in the environment",
            "ARG X=q.io/a\nENV X=q.io/b\nARG X=q.io/a\nCOPY --from=$X /a /b",
            4,
            "X has no value",
        ),
        (
            "an argument, and an unknown value in the environment",
            "ENV X=$Y\nARG X=q.io/a\nCOPY --from=$X /a /b",
            3,
            "X has no value",
        ),
        ("ONBUILD ONBUILD", "ONBUILD onbuild RUN true", 1, "ONBUILD can't stand behind ONBUILD"),
        ("ONBUILD FROM", "ONBUILD FROM scratch AS q.io/a", 1, "FROM can't stand behind ONBUILD"),
        ("ONBUILD", "ONBUILD COPY --from=$X /a /b", 1, "X has no value"),
        ("an image's ID", "FROM 0123456789abcdef", 1, "registry host is missing"),
        ("the environment", "ENV X=q.io/a\nCOPY --from=$X /a /b", 2, "X has no value"),
        ("a stage in other letters", "FROM q.io/a AS T\nCOPY --from=t /a /b", 2, "host is missing"),
        ("an instruction that there isn't", "INSTALL a", 1, "is not an instruction"),
    ] {
        let (found_line, problem) = found(text).expect_err(what);
        assert_eq!(found_line, line, "{what}: {problem}");
        assert!(problem.contains(says), "{what}: {problem}");
    }
}

#[test]
fn growing_text_is_bounded() {
    let tenfold = |name: char, of: char| format!("ARG {name}={}\n", format!("${of}").repeat(10));
    let letters: Vec<char> = ('a'..='z').collect();
    let grown: String = letters.windows(2).map(|two| tenfold(two[1], two[0])).collect();
    let grown = format!("ARG a=0123456789\n{grown}COPY --from=q.io/$z /a /b");
    let nested = |depth: usize| {
        let (open, close) = ("${A:-".repeat(depth), "}".repeat(depth));
        format!("COPY --from={open}q.io/a{close} /a /b")
    };
    for (what, text, says) in [
        ("values of values", grown, "z has no value"),
        ("braces in braces", nested(100_000), "braces in each other"),
        ("ONBUILD", "ONBUILD ".repeat(100_000), "can't stand behind"),
        (
            "a long image",
            format!("COPY --from=q.io/{} /a /b", "a".repeat(100_000)),
            "more than 1024 bytes",
        ),
    ] {
        let (_, problem) = found(&text).expect_err(what);
        assert!(problem.chars().count() <= 1000, "{what}");
        assert!(problem.contains(says), "{what}: {problem}");
    }
    assert_eq!(found(&nested(16)), Ok(vec!["q.io/a".to_owned()]));
}

#[test]
fn no_build_of_a_cluster_has_a_context() {
    for (text, want) in [
        ("FROM configs\nCOPY files/ /etc/", Some(2)),
        ("RUN --mount=type=bind,target=/x true", Some(1)),
        ("FROM configs\nCOPY --from=q.io/a /a /b", None),
    ] {
        let refused = check_in_cluster(text).err().map(|error| match error {
            Error::NoContext { line, .. } => line,
            other => panic!("{text}: {other}"),
        });
        assert_eq!(refused, want, "{text}");
    }
}
