//! Why a machine was not brought to an image.

use std::io;

use mosb_api::rollout::ExitCode;
use mosb_build::exec;
use mosb_image::Digest;
use mosb_types::Diagnostic;

/// Why a machine was not brought to an image.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum Error {
    /// The root of process 1 can't be opened, or is not that of a machine.
    #[error(
        "process 1: {cause}; run it as root on the machine, or in a privileged container with hostPID"
    )]
    #[diagnostic(code = "not-a-machine", class = InvalidInput)]
    NotMachine { cause: String },
    /// The machine has no deployments.
    #[error(
        "this machine did not boot an ostree deployment, so no image can be staged; install it from an image with bootc or rpm-ostree"
    )]
    #[diagnostic(code = "not-image-based", class = InvalidInput)]
    NotImageBased,
    /// Nothing that changes the machine's image.
    #[error(
        "this machine has neither bootc nor rpm-ostree, so its image can't be changed; put one of them into its image"
    )]
    #[diagnostic(code = "no-image-tool", class = InvalidInput)]
    NoTool,
    /// A file of the machine.
    #[error("{path} of the machine: {doing}; check the file, and that this runs as root")]
    #[diagnostic(code = "machine-file", class = Rejected)]
    File { path: String, doing: &'static str, source: io::Error },
    /// A file of the machine that is larger than any that is needed.
    #[error("{path} of the machine: more than {limit} bytes; remove or correct it")]
    #[diagnostic(code = "machine-file", class = Rejected)]
    FileTooLarge { path: String, limit: u64 },
    /// A directory of the machine with more than any image has.
    #[error("{path} of the machine: more than {limit} files; remove what does not belong there")]
    #[diagnostic(code = "machine-file", class = Rejected)]
    TooManyFiles { path: &'static str, limit: usize },
    /// Nothing says what the machine was made from.
    #[error(
        "this machine has no record of the config that it was made from; give that config with --config"
    )]
    #[diagnostic(code = "no-machine-config", class = InvalidInput)]
    NoMachineConfig,
    /// What should be that config.
    #[error(
        "{file}: {cause}; give the MachineConfig or the Ignition config that the machine was made from, with --config"
    )]
    #[diagnostic(code = "bad-machine-config", class = InvalidInput)]
    BadMachineConfig { file: String, cause: String },
    /// The checks of an image that a roll-out brought.
    #[error(
        "the checks of this boot did not end within {seconds} s; see mosb-boot-guard.service and mosb-boot-check.service in the machine's journal"
    )]
    #[diagnostic(code = "not-checked", class = Transient)]
    NotChecked { seconds: u64 },
    /// ostree does not merge what is in `/etc`.
    #[error(
        "/etc of this machine is not that of its ostree deployment, so no update merges it and nothing can be adopted"
    )]
    #[diagnostic(code = "etc-not-of-deployment", class = InvalidInput)]
    EtcNotOfDeployment,
    /// What lets an image leave out what is adopted.
    #[error(
        "this machine has no {unit}, so what is adopted can't be left out of its next image; update its ostree, or let it stage images"
    )]
    #[diagnostic(code = "no-finalize-unit", class = InvalidInput)]
    NoFinalizeUnit { unit: &'static str },
    /// The file of `--auth`.
    #[error("{file}: {cause}; give a file with logins as JSON, {{\"auths\": …}}")]
    #[diagnostic(code = "bad-login-file", class = InvalidInput)]
    BadLogin { file: String, cause: String },
    /// The file of `--pull-settings`.
    #[error("{file}: {cause}; give the file that mosb wrote for this Job, or leave the flag out")]
    #[diagnostic(code = "bad-pull-settings-file", class = InvalidInput)]
    BadPullSettings { file: String, cause: String },
    /// The file of `--machine-part`.
    #[error("--machine-part: {cause}; give the file whose digest is machinePart of the target")]
    #[diagnostic(code = "bad-machine-part", class = InvalidInput)]
    BadMachinePart { cause: String },
    /// The part has keys or a password, and nobody gets them.
    #[error(
        "this machine has no user core with a home, and the config has SSH keys or a password for it; install the machine with that user, or remove them from the config"
    )]
    #[diagnostic(code = "no-core-user", class = Rejected)]
    NoCore,
    /// A directory in the home of the user belongs to another one.
    #[error(
        "{path} of the machine: a directory on the way belongs to user {owner}; give it to core, or remove it"
    )]
    #[diagnostic(code = "wrong-owner", class = Rejected)]
    WrongOwner { path: String, owner: u32 },
    /// The file of passwords can't be edited.
    #[error("{path} of the machine, user {user}: {cause}; correct the file, pwck(8) checks it")]
    #[diagnostic(code = "bad-shadow-file", class = Rejected)]
    BadShadow { path: &'static str, user: &'static str, cause: &'static str },
    /// Another program changes users.
    #[error(
        "the password file of the machine was locked by another program for {seconds} s; it is tried again"
    )]
    #[diagnostic(code = "password-file-busy", class = Transient)]
    PasswordFileBusy { seconds: u64 },
    /// Nothing brings the arguments to this machine.
    #[error(
        "{image}: the config has kernel arguments, this machine has no rpm-ostree, and the image does not bring them; rebuild the image with this mosb"
    )]
    #[diagnostic(code = "no-kernel-arguments", class = InvalidInput)]
    NoKernelArguments { image: String },
    /// An argument of `shouldNotExist` that the machine has, and bootc does not remove.
    #[error(
        "{image}: its config has the kernel argument {argument:?} in shouldNotExist, this machine boots with it, and bootc can't remove it; remove it from options in the files of /boot/loader/entries on the machine and reboot it, or remove it from shouldNotExist"
    )]
    #[diagnostic(code = "kernel-argument-stays", class = InvalidInput)]
    ArgumentStays { image: String, argument: String },
    /// A live system.
    #[error(
        "the disk of this machine can't be written, as bootc reports, so its image can't be changed; install the machine on a disk"
    )]
    #[diagnostic(code = "read-only-machine", class = InvalidInput)]
    ReadOnlyMachine,
    /// Finalizing would fail.
    #[error(
        "{path} of the machine: it is not that of the image that the machine runs, and {image} has a directory there, so ostree can't merge them; move it away, or make it as /usr{path} is, or remove the directory from the image"
    )]
    #[diagnostic(code = "etc-not-mergeable", class = Rejected)]
    NotMergeable { path: String, image: String },
    /// The tool waits for another program.
    #[error(
        "{command} on the machine: no answer within {seconds} s, as while another program changes the image of this machine; ps shows bootc, ostree or rpm-ostree; it is tried again"
    )]
    #[diagnostic(code = "deployments-busy", class = Transient)]
    DeploymentsBusy { command: &'static str, seconds: u64 },
    /// A unit that brings another OS to the machine can't be stopped.
    #[error(
        "{units} of the machine: still running, and would reboot it into what is staged without a drain: {cause}; mask it on the machine, and in a MachineConfig of the pool; it is tried again"
    )]
    #[diagnostic(code = "update-unit-runs", class = Transient)]
    UpdateUnitRuns { units: String, cause: String },
    /// rpm-ostree ended, and the arguments are not staged.
    #[error(
        "{image}: its kernel arguments are not staged on this machine: {cause}; it is tried again"
    )]
    #[diagnostic(code = "arguments-not-staged", class = Transient)]
    ArgumentsNotStaged { image: String, cause: String },
    /// The machine runs the image, but not with the arguments.
    #[error(
        "the machine rebooted into {image} without its kernel arguments; try again with the next --attempt"
    )]
    #[diagnostic(code = "arguments-missing", class = Transient)]
    ArgumentsMissing { image: String },
    /// `--no-reboot` for a target that needs one.
    #[error(
        "{image}: the machine must reboot for it: {cause}; stage it, then apply it without --no-reboot"
    )]
    #[diagnostic(code = "needs-reboot", class = Rejected)]
    NeedsReboot { image: String, cause: String },
    /// rpm-ostree put something into the booted deployment that its image does not have.
    #[error(
        "the booted deployment of this machine has more than its image: {changes}; put that into the image, then run `rpm-ostree reset` on the machine and reboot it, or install it anew"
    )]
    #[diagnostic(code = "locally-changed", class = InvalidInput)]
    LocallyChanged { changes: String },
    /// A program of the machine failed.
    #[error("{command} on the machine: {source}")]
    #[diagnostic(transparent)]
    Program { command: &'static str, source: exec::Error },
    /// The output of a program can't be used.
    #[error("{command} on the machine: {cause}; check the version of the program")]
    #[diagnostic(code = "bad-tool-status", class = Rejected)]
    BadStatus { command: &'static str, cause: String },
    /// The tool ended, and the image is not staged.
    #[error(
        "{image}: not staged on this machine:\n{last}\n{unit} in the machine's journal has more; it is tried again"
    )]
    #[diagnostic(code = "not-staged", class = Transient)]
    NotStaged { image: String, unit: String, last: String },
    /// What pulls does not read the policy.
    #[error(
        "{image}: its signature must be verified, and this machine can't do that: {found:?} pulls for bootc and rpm-ostree without a look at policy.json; bring skopeo 1.13 or newer with the base, for which mosb.dev/verify-on-machines=none is needed once; it is tried again"
    )]
    #[diagnostic(code = "machine-cannot-verify", class = InvalidInput)]
    NothingVerifies { image: String, found: String },
    /// Nothing on the machine would refuse it without a signature.
    #[error(
        "{image}: not pulled, because its signature must be verified, and the /etc/containers/policy.json of {origin} {cause}; bring a policy.json in a MachineConfig of the pool whose default is reject and that requires a signature of this repository, or annotate the MachineOSConfig with mosb.dev/verify-on-machines=none; it is tried again"
    )]
    #[diagnostic(code = "policy-accepts-unsigned", class = InvalidInput)]
    WeakPolicy { image: String, origin: &'static str, cause: String },
    /// The machine's policy does not accept the image.
    #[error(
        "{image}: refused by the policy.json of this machine, and not staged:\n{last}\nsign the image with a key that the policy accepts (mosb sign), and let a file in registries.d set use-sigstore-attachments for its registry; {unit} in the machine's journal has more; it is tried again"
    )]
    #[diagnostic(code = "signature-refused", class = Rejected)]
    SignatureRefused { image: String, unit: String, last: String },
    /// The machine runs the target, and another image is what it boots next.
    #[error(
        "{image}: still staged or queued, so the next reboot boots it: {cause}; it is tried again; by hand, `ostree admin undeploy 0` removes it, or `rpm-ostree cleanup --pending`; `bootc rollback` or `rpm-ostree rollback` undoes a rollback that is queued"
    )]
    #[diagnostic(code = "still-staged", class = Transient)]
    StillStaged { image: String, cause: String },
    /// It was staged, and then it was not, several times.
    #[error(
        "{image}: staged on this machine, and then another program staged something else or removed it; find what else changes this machine's image; it is tried again"
    )]
    #[diagnostic(code = "unstaged-by-others", class = Transient)]
    UnstagedByOthers { image: String },
    /// rpm-ostree's daemon must change something or be started anew, and works for somebody else.
    #[error(
        "rpm-ostree on the machine: another transaction did not end within {seconds} s; see rpm-ostree status; it is tried again"
    )]
    #[diagnostic(code = "rpm-ostree-busy", class = Transient)]
    DaemonBusy { seconds: u64 },
    /// The tool takes too long.
    #[error("{image}: not staged within {seconds} s; see {unit} in the machine's journal")]
    #[diagnostic(code = "staging-timed-out", class = Transient)]
    StagingTimedOut { image: String, unit: String, seconds: u64 },
    /// The machine rebooted, and runs another image.
    #[error(
        "the machine rebooted and runs {booted} instead of {image}: {cause}; correct the image, or correct the cause and run mosb rollout start for the pool, which lets the machine try again"
    )]
    #[diagnostic(code = "wrong-image", class = Rejected)]
    WrongImage { booted: String, image: String, cause: String },
    /// The machine rebooted into what somebody else staged.
    #[error(
        "the machine rebooted into {booted}, which is neither {image} nor what it ran before; find what else changes this machine's image; try again with the next --attempt"
    )]
    #[diagnostic(code = "other-image", class = Transient)]
    OtherImage { booted: String, image: String },
    /// The machine rebooted, and nothing tried to boot the target.
    #[error(
        "the machine rebooted before {image} was finalized, as after a power cut, and runs {booted}; try again with the next --attempt"
    )]
    #[diagnostic(code = "not-finalized", class = Transient)]
    NotFinalized { booted: String, image: String },
    /// The reboot did not happen.
    #[error(
        "the machine did not reboot within {seconds} s; see what holds its shutdown, systemctl list-jobs names it"
    )]
    #[diagnostic(code = "not-rebooted", class = Transient)]
    NotRebooted { seconds: u64 },
}

impl Error {
    /// The exit code of an error that decides what the controller does next.
    pub fn exit_code(&self) -> Option<ExitCode> {
        match self {
            Self::NotImageBased
            | Self::NoTool
            | Self::NoKernelArguments { .. }
            | Self::LocallyChanged { .. }
            | Self::ArgumentStays { .. }
            | Self::ReadOnlyMachine => Some(ExitCode::Unreconcilable),
            Self::WrongImage { .. } => Some(ExitCode::WrongImage),
            Self::OtherImage { .. } | Self::NotFinalized { .. } | Self::ArgumentsMissing { .. } => {
                Some(ExitCode::NotFinalized)
            }
            Self::NeedsReboot { .. } => Some(ExitCode::NeedsReboot),
            Self::NotMachine { .. }
            | Self::File { .. }
            | Self::FileTooLarge { .. }
            | Self::TooManyFiles { .. }
            | Self::NoMachineConfig
            | Self::BadMachineConfig { .. }
            | Self::EtcNotOfDeployment
            | Self::NoFinalizeUnit { .. }
            | Self::BadLogin { .. }
            | Self::BadPullSettings { .. }
            | Self::BadMachinePart { .. }
            | Self::NoCore
            | Self::NotMergeable { .. }
            | Self::WrongOwner { .. }
            | Self::BadShadow { .. }
            | Self::PasswordFileBusy { .. }
            | Self::ArgumentsNotStaged { .. }
            | Self::DeploymentsBusy { .. }
            | Self::UpdateUnitRuns { .. }
            | Self::Program { .. }
            | Self::BadStatus { .. }
            | Self::NotStaged { .. }
            | Self::NothingVerifies { .. }
            | Self::WeakPolicy { .. }
            | Self::SignatureRefused { .. }
            | Self::StillStaged { .. }
            | Self::UnstagedByOthers { .. }
            | Self::DaemonBusy { .. }
            | Self::StagingTimedOut { .. }
            | Self::NotChecked { .. }
            | Self::NotRebooted { .. } => None,
        }
    }
}

/// An image for people: its digest, or that it has none.
pub(crate) fn image_text(digest: Option<Digest>) -> String {
    digest.map_or_else(|| "something that is not an image".to_owned(), |digest| digest.to_string())
}
