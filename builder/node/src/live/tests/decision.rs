//! What a path of a running machine gets.

use mosb_image::overlay::Meta;

use crate::live::*;

#[test]
fn paths_follow_the_image_unless_edited() {
    let meta = Meta { mode: 0o644, uid: 0, gid: 0 };
    let file = |text: &str| Some(EntryState::File { meta, content: Some(text.into()) });
    let large = || Some(EntryState::File { meta, content: None });
    let folder = |mode| Some(EntryState::Directory { meta: Meta { mode, ..meta } });
    let link = || Some(EntryState::Link { uid: 0, gid: 0, target: b"a".to_vec() });
    let nothing = || None;
    let (live, none) = (fingerprint(file("live").as_ref()), "-".to_owned());
    for (what, booted, wanted, machine, want) in [
        ("as booted", file("a"), file("b"), file("a"), Decision::Bring),
        ("as wanted", file("a"), file("b"), file("b"), Decision::Done),
        ("by a person", file("a"), file("b"), file("c"), Decision::Keep),
        ("removed by a person", file("a"), file("b"), nothing(), Decision::Keep),
        ("written live", file("a"), file("b"), file("live"), Decision::Bring),
        ("written live, and back", file("a"), file("a"), file("live"), Decision::Bring),
        ("added", nothing(), file("b"), nothing(), Decision::Bring),
        ("a person had it first", nothing(), file("b"), file("c"), Decision::Keep),
        ("removed", file("a"), nothing(), file("a"), Decision::Bring),
        ("removed already", file("a"), nothing(), nothing(), Decision::Done),
        ("removed, and changed", file("a"), nothing(), file("c"), Decision::Keep),
        ("a link in its place", file("a"), file("b"), link(), Decision::Keep),
        ("becomes a link", file("a"), link(), file("a"), Decision::Bring),
        ("another mode", folder(0o755), folder(0o700), folder(0o755), Decision::Bring),
        ("a directory by a person", folder(0o755), folder(0o700), folder(0o711), Decision::Keep),
        ("becomes a directory", file("a"), folder(0o755), file("a"), Decision::Reboot),
        ("is a directory no more", folder(0o755), link(), folder(0o755), Decision::Reboot),
        ("too large", file("a"), large(), file("a"), Decision::Reboot),
        ("was too large", large(), file("a"), large(), Decision::Reboot),
        ("too large by a person", file("a"), file("b"), large(), Decision::Keep),
        ("a pipe", file("a"), Some(EntryState::Other), file("a"), Decision::Reboot),
    ] {
        let states =
            States { booted: booted.as_ref(), wanted: wanted.as_ref(), machine: machine.as_ref() };
        assert_eq!(decide(states, std::slice::from_ref(&live), true), want, "{what}");
        let is_changed = [Decision::Bring, Decision::Reboot].contains(&want);
        let without = decide(states, std::slice::from_ref(&live), false);
        if want == Decision::Bring {
            assert_eq!(without, Decision::Keep, "{what}, without its directory");
        } else {
            assert!(without == want || is_changed, "{what}: {without:?}");
        }
    }
    // What was removed live, and an earlier image has.
    let (booted, wanted) = (file("a"), file("a"));
    let states = States { booted: booted.as_ref(), wanted: wanted.as_ref(), machine: None };
    assert_eq!(decide(states, std::slice::from_ref(&none), true), Decision::Bring);
    assert_eq!(decide(states, &[], true), Decision::Keep);
}
