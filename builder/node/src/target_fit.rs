//! Whether a deployment of the machine is that of a target: its image, with its kernel arguments.

use mosb_plan::api::rollout::{MachinePart, NodeTarget};

use crate::boot_arguments::{AllBootArguments, BootArguments, brings_arguments};
use crate::error::Error;
use crate::host::Host;
use crate::kernel_arguments::ArgumentChange;
use crate::machine_record::SetByMosb;
use crate::machine_state::MachineState;
use crate::tool::InstalledTools;

/// What of a machine is as a target wants it.
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
    /// and bootc sets them.
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
        let has_staged = state.has_staged(&target.image);
        let by_image = Self { booted: runs, staged: has_staged, change: ArgumentChange::default() };
        let part = part.filter(|part| ArgumentChange::may_be_needed(part, set));
        let Some(part) = part.filter(|_| runs || has_staged) else {
            return Ok(by_image);
        };
        if InstalledTools::of(host.root()).rpm_ostree {
            let arguments = AllBootArguments::read(host).await?;
            return Ok(Self::of(part, set, runs, has_staged, &arguments));
        }
        if runs && !part.kernel_arguments.is_empty() && !brings_arguments(host, "") {
            return Err(Error::NoKernelArguments { image: target.image.to_string() });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_fits_with_its_image_and_its_arguments() {
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
