//! Decides what becomes of a path of `/etc` on a running machine. Pure: what the booted image, the
//! staged one and the machine have, and what was written live before, are arguments.

use crate::entry_state::{EntryState, fingerprint};

/// What becomes of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// The machine has it as the image that it is brought to.
    Done,
    /// It is brought to that.
    Bring,
    /// A person changed it, so it stays, as at a reboot.
    Keep,
    /// Only a reboot brings it.
    Reboot,
}

/// What a path is in the three trees; none where nothing is.
#[derive(Debug, Clone, Copy)]
pub(super) struct States<'a> {
    /// In the booted image.
    pub booted: Option<&'a EntryState>,
    /// In the image that the machine is brought to.
    pub wanted: Option<&'a EntryState>,
    /// On the machine.
    pub machine: Option<&'a EntryState>,
}

/// What becomes of a path. `written`: the fingerprints of what was written there live.
/// `has_folder`: whether the machine has, or gets, the directory that it is in.
pub(super) fn decide(states: States<'_>, written: &[String], has_folder: bool) -> Decision {
    let States { booted, wanted, machine } = states;
    let is_readable = |state: Option<&EntryState>| {
        !matches!(state, Some(EntryState::Other | EntryState::File { content: None, .. }))
    };
    if !is_readable(booted) || !is_readable(wanted) {
        return Decision::Reboot;
    }
    if machine == wanted {
        return Decision::Done;
    }
    let is_written = || written.contains(&fingerprint(machine));
    if !is_readable(machine) || (machine != booted && !is_written()) || !has_folder {
        return Decision::Keep;
    }
    // What is below a directory was not compared with what takes its place.
    let is_folder = |state: Option<&EntryState>| {
        state.map(|state| matches!(state, EntryState::Directory { .. }))
    };
    match (is_folder(machine), is_folder(wanted)) {
        (Some(one), Some(other)) if one != other => Decision::Reboot,
        _ => Decision::Bring,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_image::overlay::Meta;

    #[test]
    fn a_path_follows_the_image_unless_a_person_changed_it() {
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
            (
                "a directory by a person",
                folder(0o755),
                folder(0o700),
                folder(0o711),
                Decision::Keep,
            ),
            ("becomes a directory", file("a"), folder(0o755), file("a"), Decision::Reboot),
            ("is a directory no more", folder(0o755), link(), folder(0o755), Decision::Reboot),
            ("too large", file("a"), large(), file("a"), Decision::Reboot),
            ("was too large", large(), file("a"), large(), Decision::Reboot),
            ("too large by a person", file("a"), file("b"), large(), Decision::Keep),
            ("a pipe", file("a"), Some(EntryState::Other), file("a"), Decision::Reboot),
        ] {
            let states = States {
                booted: booted.as_ref(),
                wanted: wanted.as_ref(),
                machine: machine.as_ref(),
            };
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
}
