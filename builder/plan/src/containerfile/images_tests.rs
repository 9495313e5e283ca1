//! Which images a Containerfile pulls. What buildah makes of variables was tried with 1.28.

use std::collections::BTreeMap;

use super::images;
use crate::containerfile::Error;

fn found(text: &str) -> Result<Vec<String>, (usize, String)> {
    let arguments = [("GIVEN", "given"), ("TARGETARCH", "arm64")];
    let arguments: BTreeMap<String, String> = arguments
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    match images(text, &arguments) {
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
            "a stage in other letters",
            "FROM q.io/a AS Tools\nFROM configs\nCOPY --from=tools /a /b\nfrom TOOLS",
            &["q.io/a"],
        ),
        (
            "numbers and nothing",
            "FROM scratch\nFROM 1\nCOPY --from=0 /a /b",
            &[],
        ),
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
            "RUN --mount=type=bind,from=q.io/a,target=/x --network=none --mount=type=cache,target=/y,From='q.io/b' true --mount=type=bind,from=no",
            &["q.io/a", "q.io/b"],
        ),
        (
            "lower case",
            "from q.io/a as b\ncopy --from=q.io/c /a /b",
            &["q.io/a", "q.io/c"],
        ),
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
        (
            "words of a command",
            "RUN echo FROM q.io/no --from=q.io/no\nLABEL a=--from=q.io/no",
            &[],
        ),
        (
            "here-documents",
            "RUN <<EOF\nFROM q.io/no\nEOF\nCOPY --from=q.io/a <<E /x\nCOPY --from=q.io/no a b\nE",
            &["q.io/a"],
        ),
        (
            "ONBUILD",
            "ONBUILD COPY --from=q.io/a /a /b\nONBUILD RUN --mount=type=bind,from=q.io/b true",
            &["q.io/a", "q.io/b"],
        ),
        (
            "a default in FROM",
            "FROM ${X:-q.io/a:${Y-1}}\nFROM ${X-\"q.io/b\"}",
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
        (
            "a build argument",
            "ARG GIVEN=default\nCOPY --from=q.io/$GIVEN /a /b",
            &["q.io/given"],
        ),
        (
            "the platform",
            "ARG TARGETARCH\nCOPY --from=q.io/a-$TARGETARCH /a /b",
            &["q.io/a-arm64"],
        ),
        (
            "set or not",
            "ARG X=1 E=\nCOPY --from=q.io/a${X:+b}${Y:+c}${E:+d}${E+e} /a /b",
            &["q.io/abe"],
        ),
        (
            "an environment",
            "ENV X=q.io/a\nCOPY --from=$X /a /b",
            &["q.io/a"],
        ),
        ("docker://", "FROM docker://q.io/a:1", &["q.io/a:1"]),
        (
            "no registry's",
            "FROM oci:/work/layout\nFROM oci-archive:a.tar\nFROM containers-storage:q.io/a",
            &[],
        ),
        (
            "a host with a port",
            "FROM localhost:5000/a",
            &["localhost:5000/a"],
        ),
    ] {
        let want: Vec<String> = want.iter().map(|image| (*image).to_owned()).collect();
        assert_eq!(found(text), Ok(want), "{what}");
    }
}

#[test]
fn an_image_that_can_t_be_told_is_an_error_with_its_line() {
    for (what, text, line, says) in [
        (
            "an argument of a stage in FROM",
            "FROM configs\nARG X=q.io/a\nFROM $X",
            3,
            "X has no value",
        ),
        (
            "a build argument in FROM",
            "FROM q.io/$GIVEN",
            1,
            "GIVEN has no value",
        ),
        (
            "not declared",
            "FROM configs\n\nCOPY --from=q.io/$GIVEN /a /b",
            3,
            "GIVEN has no value",
        ),
        (
            "of a stage before",
            "ARG X=q.io/a\nFROM configs\nCOPY --from=$X /a /b",
            3,
            "X has no value",
        ),
        (
            "without a value",
            "ARG X\nRUN --mount=type=bind,from=$X,target=/x true",
            2,
            "X has no value",
        ),
        (
            "made of what is not known",
            "ARG X=$Y\nCOPY --from=$X /a /b",
            2,
            "X has no value",
        ),
        (
            "an error if it is not set",
            "ARG X=1\nCOPY --from=q.io/${X:?} /a /b",
            2,
            "can't be told",
        ),
        (
            "cut",
            "ARG X=1\nCOPY --from=q.io/${X#1} /a /b",
            2,
            "can't be told",
        ),
        ("open", "COPY --from=q.io/${X /a /b", 1, "no end"),
        (
            "a name without its registry",
            "RUN true\nFROM fedora:40",
            2,
            "registry host is missing",
        ),
        (
            "a later stage",
            "COPY --from=later /a /b\nFROM configs AS later",
            1,
            "registry host is missing",
        ),
        (
            "escaped",
            "ARG X=q.io/a\nCOPY --from=\\$X /a /b",
            2,
            "registry host is missing",
        ),
        (
            "in single quotes",
            "ARG X=q.io/a\nCOPY --from='$X' /a /b",
            2,
            "registry host is missing",
        ),
        (
            "ONBUILD",
            "ONBUILD COPY --from=$X /a /b",
            1,
            "X has no value",
        ),
        (
            "an image's ID",
            "FROM 0123456789abcdef",
            1,
            "registry host is missing",
        ),
        (
            "an instruction that there isn't",
            "INSTALL a",
            1,
            "is no instruction",
        ),
    ] {
        let (found_line, problem) = found(text).expect_err(what);
        assert_eq!(found_line, line, "{what}: {problem}");
        assert!(problem.contains(says), "{what}: {problem}");
    }
}
