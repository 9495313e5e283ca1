//! Whether a deployment of the machine is that of a target: its image, with its kernel arguments.

use mosb_api::rollout::{MachinePart, NodeTarget};
use mosb_plan::plan::split_arguments;

use crate::error::Error;
use crate::host::Host;
use crate::kernel_arguments::{
    AllBootArguments, ArgumentChange, BootArguments, arguments_of_image, brings_arguments,
};
use crate::machine_record::SetByMosb;
use crate::machine_state::{COMMAND_LINE, InstalledTools, MachineState, SMALL_FILE};

/// How a machine compares with its target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TargetFit {
    /// The machine runs the image with the arguments.
    pub booted: bool,
    /// The next reboot boots the image with the arguments.
    pub staged: bool,
    /// What is missing in what the machine boots next, if that is the image.
    pub change: ArgumentChange,
}

impl TargetFit {
    /// Compares the machine with a target and its part; `set` is what mosb set before.
    ///
    /// Without a part, any arguments fit. Where there is no rpm-ostree, arguments come with the image,
    /// and bootc sets them. It removes those of the booted image alone.
    ///
    /// # Errors
    /// The arguments can't be read, or nothing brings them to this machine.
    pub async fn read(
        host: &Host,
        target: &NodeTarget,
        part: Option<&MachinePart>,
        set: &SetByMosb,
        state: &MachineState,
    ) -> Result<Self, Error> {
        let runs = state.runs(&target.image);
        let has_staged = state.has_staged(target);
        let by_image = Self { booted: runs, staged: has_staged, change: ArgumentChange::default() };
        let part = part.filter(|part| ArgumentChange::may_be_needed(part, set));
        let Some(part) = part else {
            return Ok(by_image);
        };
        let root = host.root();
        if InstalledTools::of(root).rpm_ostree {
            if !runs && !has_staged {
                return Ok(by_image);
            }
            let arguments = AllBootArguments::read(host).await?;
            return Ok(Self::of(part, set, runs, has_staged, &arguments));
        }
        let image = || target.image.to_string();
        let running = root.text(COMMAND_LINE, SMALL_FILE)?.unwrap_or_default();
        if let Some(argument) = argument_that_stays(part, &running, &arguments_of_image(root, "")?)
        {
            return Err(Error::ArgumentStays { image: image(), argument: argument.to_owned() });
        }
        let tree =
            if runs { Some("") } else { state.staged_tree.as_deref().filter(|_| has_staged) };
        let lacks_file = tree.is_some_and(|tree| !brings_arguments(host, tree));
        if lacks_file && !part.kernel_arguments.is_empty() {
            return Err(Error::NoKernelArguments { image: image() });
        }
        Ok(by_image)
    }

    fn of(
        part: &MachinePart,
        set: &SetByMosb,
        runs: bool,
        has_staged: bool,
        arguments: &AllBootArguments,
    ) -> Self {
        let change = |is_image: bool, found: &Option<BootArguments>| {
            let found = found.as_ref().filter(|_| is_image)?;
            let mut change = ArgumentChange::of(&found.list, part, set);
            if found.come_with_image {
                change.add.clear();
            }
            Some(change)
        };
        let booted = change(runs, &arguments.booted);
        let staged = change(has_staged, &arguments.staged);
        let is_done =
            |change: &Option<ArgumentChange>| change.as_ref().is_some_and(ArgumentChange::is_empty);
        Self {
            booted: is_done(&booted),
            staged: is_done(&staged),
            change: staged.or(booted).unwrap_or_default(),
        }
    }
}

/// An argument that must go, and that the machine has from something else than its image
/// (`of_image`), so that bootc does not remove it.
fn argument_that_stays<'a>(
    part: &'a MachinePart,
    running: &str,
    of_image: &[String],
) -> Option<&'a str> {
    let stays = |argument: &&String| {
        !of_image.contains(argument) && split_arguments(running).any(|one| one == **argument)
    };
    part.removed_kernel_arguments.iter().find(stays).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bootc_removes_only_arguments_of_the_image() {
        for (running, of_image, removed, want) in [
            ("rw quiet a=1", "", "quiet", Some("quiet")),
            ("rw quiet a=1", "quiet", "quiet", None),
            ("rw a=1", "", "quiet", None),
            ("rw quiets a=quiet", "", "quiet", None),
            ("rw quiet b", "quiet", "quiet b", Some("b")),
            ("rw quiet", "", "", None),
        ] {
            let texts = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let part =
                MachinePart { removed_kernel_arguments: texts(removed), ..MachinePart::default() };
            let found = argument_that_stays(&part, running, &texts(of_image));
            assert_eq!(found, want, "{running} {of_image} {removed}");
        }
    }

    #[test]
    fn deployments_fit_by_image_and_arguments() {
        let texts = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let part = MachinePart { kernel_arguments: texts("a b"), ..MachinePart::default() };
        let set = SetByMosb { kernel_arguments: texts("a old"), ..SetByMosb::default() };
        let of = |list: &str| Some(BootArguments { list: texts(list), come_with_image: false });
        let by_image =
            |list: &str| Some(BootArguments { list: texts(list), come_with_image: true });
        for (what, (runs, booted), (has_staged, staged), want, add, remove) in [
            ("booted", (true, of("rw a b")), (false, None), (true, false), "", ""),
            (
                "booted without them",
                (true, of("rw a old")),
                (false, None),
                (false, false),
                "b",
                "old",
            ),
            ("staged", (false, of("rw a old")), (true, of("rw a b")), (false, true), "", ""),
            (
                "staged without them",
                (false, of("rw a b")),
                (true, of("rw a old")),
                (false, false),
                "b",
                "old",
            ),
            ("both have the image", (true, of("rw")), (true, of("rw a b")), (false, true), "", ""),
            (
                "staged with others",
                (true, of("rw a b")),
                (true, of("rw")),
                (true, false),
                "a b",
                "",
            ),
            (
                "another image is staged",
                (true, of("a b")),
                (false, of("rw")),
                (true, false),
                "",
                "",
            ),
            ("with the image", (true, by_image("rw")), (false, None), (true, false), "", ""),
            (
                "with the image, and what was set before",
                (true, by_image("rw old")),
                (false, None),
                (false, false),
                "",
                "old",
            ),
        ] {
            let arguments = AllBootArguments { booted, staged };
            let fit = TargetFit::of(&part, &set, runs, has_staged, &arguments);
            assert_eq!((fit.booted, fit.staged), want, "{what}");
            let change = ArgumentChange { add: texts(add), remove: texts(remove) };
            assert_eq!(fit.change, change, "{what}");
        }
    }
}
