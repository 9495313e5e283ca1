//! What a split says beside the parts: warnings, uses of the build context, what is not checked.

use super::tests::{codes, of};
use super::*;

#[test]
fn what_the_build_ignores_is_a_warning() {
    let split = of("FROM configs\nARG GIVEN\nSHELL [\"/bin/bash\", \"-c\"]\nHEALTHCHECK NONE\nONBUILD RUN a\nRUN --mount=type=secret,id=a true").unwrap();
    let ignored = ["instruction-ignored"; 3];
    assert_eq!(codes(&split), [&ignored[..], &["mount-absent"]].concat());
    let unused =
        of("FROM q.io/a AS unused\nSHELL [\"a\"]\nHEALTHCHECK NONE\nFROM configs").unwrap();
    let is_ignored = |code: &String| code == "instruction-ignored";
    assert!(!codes(&unused).iter().any(is_ignored), "the build does not come there");
    let unused = split.warnings().into_iter().filter(|one| one.code == "build-arg-unused");
    let unused: Vec<_> = unused.filter_map(|one| one.object).collect();
    assert_eq!(unused, ["OTHER", "USED"], "and not GIVEN, which is declared, nor no_proxy");
}

#[test]
fn what_only_a_build_shows_is_listed() {
    let text = "FROM q.io/t AS t\nFROM q.io/u\nFROM configs\nCOPY --chown=core:0 --from=t a b\nCOPY --chown=0:root --from=q.io/v a b\nADD https://example.com/a /b\nUSER 0";
    let unchecked: Vec<_> =
        of(text).unwrap().stages.iter().flat_map(|one| one.unchecked(&[])).collect();
    let want = [
        "whether q.io/t can be pulled (line 1)",
        "whether q.io/v can be pulled (line 5)",
        "whether there is the user or group core:0 (line 4)",
        "what https://example.com/a is (line 6)",
    ];
    assert_eq!(unchecked, want);
}

#[test]
fn a_use_of_the_build_context_needs_one() {
    for (text, line) in [
        ("FROM configs\nCOPY files/ /etc/", Some(2)),
        ("FROM configs\nCOPY --chown=1:1 [\"a b\", \"/c\"]", Some(2)),
        ("FROM configs\nRUN true\nADD a.tar /", Some(3)),
        ("FROM configs\nADD --chmod=0755 $X /", Some(2)),
        ("FROM configs\nRUN --mount=type=bind,target=/m true", Some(2)),
        ("FROM configs\nRUN --mount=source=a,target=/m true", Some(2)),
        ("FROM q.io/a AS t\nCOPY a /b\nFROM base\nCOPY --from=t /b /c", Some(2)),
        ("FROM configs\nCOPY <<EOF <<B b /etc/\na\nEOF\nb\nB", Some(2)),
        ("FROM configs\nCOPY machineconfig/currentconfig /etc/", Some(2)),
        ("FROM configs\nRUN --mount=type=bind,from=$X,target=/b true\nCOPY a /b", Some(3)),
        ("FROM configs\nCOPY https://example.com/a /b", Some(2)),
        ("FROM q.io/a AS unused\nCOPY a /b\nFROM configs", None),
        ("FROM configs\nCOPY --from=q.io/a a /b", None),
        ("FROM configs\nADD https://example.com/a git@example.com:a /b", None),
        ("FROM configs\nCOPY <<EOF /etc/a\na\nEOF", None),
        ("FROM configs\nRUN --mount=type=tmpfs,target=/m --mount=type=cache,target=/n true", None),
    ] {
        let refused = of(text).err().map(|error| match error {
            Error::NoContext { line, .. } => line,
            other => panic!("{text}: {other}"),
        });
        assert_eq!(refused, line, "{text}");
        let stages = read(text, &BTreeMap::new(), &"linux/amd64".parse().unwrap(), false).unwrap();
        assert!(split_stages(text, &BTreeMap::new(), stages, true).is_ok(), "{text}");
    }
}
