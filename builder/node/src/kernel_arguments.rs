//! The kernel arguments that the booted and the staged deployment have in their boot entries, and what
//! must change in them for a target. rpm-ostree reads and changes them. Arguments that neither a target
//! nor its predecessor names are others', and stay.

use std::time::Duration;

use mosb_api::rollout::MachinePart;
use mosb_plan::plan::{KERNEL_ARGUMENTS_FILE, parse_kargs_file, split_arguments};

use crate::error::Error;
use crate::host::{Host, words};
use crate::host_root::HostRoot;
use crate::machine_record::SetByMosb;
use crate::machine_state::{RPM_OSTREE_STATUS, SMALL_FILE, read_rpm_ostree};
use crate::rpm_ostree_daemon::settle;
use crate::rpm_ostree_status::{Place, places};

/// A change of kernel arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ArgumentChange {
    pub add: Vec<String>,
    pub remove: Vec<String>,
}

impl ArgumentChange {
    /// What changes `current` into the arguments of `part`, if `set` is what was set before.
    pub fn of(current: &[String], part: &MachinePart, set: &SetByMosb) -> Self {
        let has = |list: &[String], argument: &String| list.contains(argument);
        let wanted = &part.kernel_arguments;
        // Removed by a former target, and by this one no more.
        let owed = set.removed_kernel_arguments.iter();
        let owed: Vec<&String> =
            owed.filter(|argument| !has(&part.removed_kernel_arguments, argument)).collect();
        let add = wanted.iter().chain(owed.iter().copied().filter(|one| !has(wanted, one)));
        let add = add.filter(|argument| !has(current, argument)).cloned().collect();
        let unwanted = set.kernel_arguments.iter().chain(&part.removed_kernel_arguments);
        let mut remove: Vec<String> = Vec::new();
        for argument in unwanted {
            let stays = has(wanted, argument) || owed.contains(&argument);
            if !stays && has(current, argument) && !has(&remove, argument) {
                remove.push(argument.clone());
            }
        }
        Self { add, remove }
    }

    pub fn is_empty(&self) -> bool {
        self.add.is_empty() && self.remove.is_empty()
    }

    /// Whether any deployment could need a change: without, its arguments need not be read.
    pub fn may_be_needed(part: &MachinePart, set: &SetByMosb) -> bool {
        !(part.kernel_arguments.is_empty()
            && part.removed_kernel_arguments.is_empty()
            && set.kernel_arguments.is_empty()
            && set.removed_kernel_arguments.is_empty())
    }

    /// What is removed, and was set by others.
    pub fn removed_of_others(&self, set: &SetByMosb) -> Vec<String> {
        let of_others = self.remove.iter().filter(|one| !set.kernel_arguments.contains(one));
        of_others.cloned().collect()
    }

    /// Whether an argument has a blank, which is in quotes.
    pub fn has_blanks(&self) -> bool {
        self.add.iter().chain(&self.remove).any(|argument| argument.contains(char::is_whitespace))
    }

    /// The words of `rpm-ostree kargs`. Those with a condition (`--append-if-missing`) look only at the
    /// key from v2023.4 to v2023.12; what is there is known.
    pub fn words(&self) -> Vec<String> {
        let add = self.add.iter().map(|argument| format!("--append={argument}"));
        let remove = self.remove.iter().map(|argument| format!("--delete={argument}"));
        add.chain(remove).collect()
    }
}

/// Where an image has files with arguments for bootc: that of its config, and those of its base.
pub(crate) const KERNEL_ARGUMENTS_FOLDER: &str = "/usr/lib/bootc/kargs.d";
/// How long reading may take.
const READ_LIMIT: Duration = Duration::from_secs(120);
/// How long a change may take: it makes a deployment.
const CHANGE_LIMIT: Duration = Duration::from_secs(15 * 60);
const KARGS: &str = "rpm-ostree kargs";

/// The arguments of a deployment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BootArguments {
    pub list: Vec<String>,
    /// Whether the image has them in a file, for bootc.
    pub come_with_image: bool,
}

/// The arguments of the booted and the staged deployment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AllBootArguments {
    pub booted: Option<BootArguments>,
    pub staged: Option<BootArguments>,
}

impl AllBootArguments {
    pub async fn read(host: &Host) -> Result<Self, Error> {
        let text = read_rpm_ostree(host).await?;
        let bad = |cause| Error::BadStatus { command: RPM_OSTREE_STATUS, cause };
        let places = places(&text).map_err(bad)?;
        Ok(Self {
            booted: of_place(host, places.booted.as_ref()).await?,
            staged: of_place(host, places.staged.as_ref()).await?,
        })
    }
}

async fn of_place(host: &Host, place: Option<&Place>) -> Result<Option<BootArguments>, Error> {
    let Some(place) = place else { return Ok(None) };
    let index = format!("--deploy-index={}", place.index);
    let text = host.run(KARGS, &words(["rpm-ostree", "kargs", &index]), READ_LIMIT).await?;
    let come_with_image = place.tree.as_ref().is_some_and(|tree| brings_arguments(host, tree));
    let list = split_arguments(&text).map(str::to_owned).collect();
    Ok(Some(BootArguments { list, come_with_image }))
}

/// Whether bootc sets the arguments that an image brings: those that this one does not bring are then
/// removed. The empty path is the booted one.
pub(crate) fn sets_arguments(root: &HostRoot, tree: &str) -> bool {
    root.exists(&format!("{tree}{KERNEL_ARGUMENTS_FOLDER}"))
}

/// Whether a deployment has the file with which bootc sets the arguments of its config. The empty
/// path is the booted one.
pub(crate) fn brings_arguments(host: &Host, tree: &str) -> bool {
    host.root().exists(&format!("{tree}{KERNEL_ARGUMENTS_FILE}"))
}

/// The arguments that a deployment of an image for bootc has from that image. The empty path is the
/// booted one.
pub(crate) fn arguments_of_image(root: &HostRoot, tree: &str) -> Result<Vec<String>, Error> {
    let text = root.text(&format!("{tree}{KERNEL_ARGUMENTS_FILE}"), SMALL_FILE)?;
    Ok(text.map(|text| parse_kargs_file(&text)).unwrap_or_default())
}

/// Changes the arguments of what the machine boots next: of the staged deployment, or of a new one
/// of the booted image. It needs no registry.
pub(crate) async fn change_next(host: &Host, change: &ArgumentChange) -> Result<(), Error> {
    settle(host, None).await?;
    let mut command = words(["rpm-ostree", "kargs"]);
    command.extend(change.words());
    host.run(KARGS, &command, CHANGE_LIMIT).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn only_what_a_target_set_is_removed() {
        for (what, current, wanted, removed, set, removed_before, add, remove) in [
            ("nothing", "rw", "", "", "", "", "", ""),
            ("added", "rw", "a b", "", "", "", "a b", ""),
            ("added, one is there", "rw a", "a b", "", "", "", "b", ""),
            ("all is there", "rw a", "a", "", "a", "", "", ""),
            ("a value changes", "rw x=1", "x=2", "", "x=1", "", "x=2", "x=1"),
            ("one of two values goes", "rw x=1 x=2", "x=2", "", "x=1 x=2", "", "", "x=1"),
            ("all go", "rw a b", "", "", "a b", "", "", "a b"),
            ("those of a person stay", "rw mine a", "", "", "a", "", "", "a"),
            ("what is gone already", "rw", "", "", "a", "", "", ""),
            ("shouldNotExist", "rw quiet", "a", "quiet", "", "", "a", "quiet"),
            ("shouldNotExist of what was set", "rw a", "", "a", "a", "", "", "a"),
            ("removed before, and still", "rw", "", "quiet", "", "quiet", "", ""),
            ("comes back", "rw", "", "", "", "quiet", "quiet", ""),
            ("is back already", "rw quiet", "", "", "", "quiet", "", ""),
            ("is wanted now", "rw", "quiet", "", "", "quiet", "quiet", ""),
            ("was wanted, and is the machine's", "rw quiet", "", "", "quiet", "quiet", "", ""),
            ("another value is another argument", "x=10 xx=1", "x=1", "", "x", "", "x=1", ""),
        ] {
            let part = MachinePart {
                kernel_arguments: texts(wanted),
                removed_kernel_arguments: texts(removed),
                ..MachinePart::default()
            };
            let set = SetByMosb {
                kernel_arguments: texts(set),
                removed_kernel_arguments: texts(removed_before),
                ..SetByMosb::default()
            };
            let change = ArgumentChange::of(&texts(current), &part, &set);
            let want = ArgumentChange { add: texts(add), remove: texts(remove) };
            assert_eq!(change, want, "{what}");
            assert!(change.is_empty() || ArgumentChange::may_be_needed(&part, &set), "{what}");
            // Set in the deployment, nothing is left to do.
            let mut after = texts(current);
            after.retain(|argument| !change.remove.contains(argument));
            after.extend(change.add.clone());
            assert!(ArgumentChange::of(&after, &part, &set).is_empty(), "{what}");
        }
    }

    #[test]
    fn each_argument_is_one_word() {
        let change = ArgumentChange {
            add: vec!["--reboot".to_owned(), "a=\"b c\"".to_owned()],
            remove: texts("quiet"),
        };
        assert_eq!(change.words(), ["--append=--reboot", "--append=a=\"b c\"", "--delete=quiet"]);
        let set = SetByMosb { kernel_arguments: texts("quiet"), ..SetByMosb::default() };
        assert_eq!(change.removed_of_others(&set), texts(""));
        assert_eq!(change.removed_of_others(&SetByMosb::default()), texts("quiet"));
    }
}
