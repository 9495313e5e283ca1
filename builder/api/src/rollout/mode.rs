//! How far a pool's image is brought to its machines, how they reboot, and what becomes of them when
//! the MachineOSConfig is deleted.

use serde::Serialize;

use crate::annotation::{AnnotationError, one_of};
use crate::{Metadata, labels};

/// How far a pool's image is brought to its machines (annotation `mosb.dev/rollout`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RolloutMode {
    /// Not at all.
    #[default]
    None,
    /// It is staged on every machine, and nothing reboots.
    Stage,
    /// It is staged, and machines reboot into it, a few at a time.
    Automatic,
}

impl RolloutMode {
    /// The mode of a MachineOSConfig.
    ///
    /// # Errors
    /// The value is none of the three.
    pub fn of(config: &Metadata) -> Result<Self, AnnotationError> {
        let words = [Self::None, Self::Stage, Self::Automatic].map(|mode| (mode.as_str(), mode));
        one_of(config, labels::ROLLOUT, &words)
    }

    /// As the annotation spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Stage => "stage",
            Self::Automatic => "automatic",
        }
    }
}

/// Whether machines reboot their user space alone where they can (annotation `mosb.dev/soft-reboot`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SoftRebootMode {
    /// Each reboot boots the kernel.
    #[default]
    Off,
    /// A machine decides: see [`SoftReboot`](super::SoftReboot).
    Auto,
}

impl SoftRebootMode {
    /// The mode of a MachineOSConfig.
    ///
    /// # Errors
    /// The value is neither of the two.
    pub fn of(config: &Metadata) -> Result<Self, AnnotationError> {
        one_of(config, labels::SOFT_REBOOT, &[("off", Self::Off), ("auto", Self::Auto)])
    }
}

/// Whether machines verify the signature of each image that they pull (annotation
/// `mosb.dev/verify-on-machines`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum VerifyOnMachines {
    /// They pull it as unverified; a policy of theirs that rejects it is obeyed all the same.
    #[default]
    None,
    /// They refuse an image without a signature that their policy requires, and a policy that
    /// requires none.
    Required,
}

impl VerifyOnMachines {
    /// The choice of a MachineOSConfig.
    ///
    /// # Errors
    /// The value is neither of the two.
    pub fn of(config: &Metadata) -> Result<Self, AnnotationError> {
        let words = [("none", Self::None), ("required", Self::Required)];
        one_of(config, labels::VERIFY_ON_MACHINES, &words)
    }
}

/// Which image the machines get when the MachineOSConfig is deleted (annotation
/// `mosb.dev/on-delete`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnDelete {
    /// They keep the image that they run.
    #[default]
    Keep,
    /// They go back to the stock image first.
    Stock,
}

impl OnDelete {
    /// The choice of a MachineOSConfig.
    ///
    /// # Errors
    /// The value is neither of the two.
    pub fn of(config: &Metadata) -> Result<Self, AnnotationError> {
        one_of(config, labels::ON_DELETE, &[("keep", Self::Keep), ("stock", Self::Stock)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotation::tests::annotated as config;

    #[test]
    fn mode_is_one_of_three_defaulting_to_none() {
        let mode = |value: &str| RolloutMode::of(&config(labels::ROLLOUT, value));
        assert_eq!(RolloutMode::of(&Metadata::default()), Ok(RolloutMode::None));
        for mode_of in [RolloutMode::None, RolloutMode::Stage, RolloutMode::Automatic] {
            assert_eq!(mode(mode_of.as_str()), Ok(mode_of));
        }
        let error = mode("Automatic").unwrap_err().to_string();
        assert_eq!(
            error,
            "annotation mosb.dev/rollout: \"Automatic\": no such value; set none, stage or automatic"
        );
        assert!(mode(&"x".repeat(4096)).unwrap_err().to_string().len() < 300);
    }

    #[test]
    fn machines_keep_their_image_unless_annotation_is_stock() {
        let choice = |value: &str| OnDelete::of(&config(labels::ON_DELETE, value));
        assert_eq!(choice(""), Ok(OnDelete::Keep));
        assert_eq!(choice("stock"), Ok(OnDelete::Stock));
        assert!(choice("delete").is_err());
    }

    #[test]
    fn soft_reboots_are_off_by_default() {
        let mode = |value: &str| SoftRebootMode::of(&config(labels::SOFT_REBOOT, value));
        assert_eq!(SoftRebootMode::of(&Metadata::default()), Ok(SoftRebootMode::Off));
        assert_eq!(
            (mode("off"), mode("auto")),
            (Ok(SoftRebootMode::Off), Ok(SoftRebootMode::Auto))
        );
        assert!(mode("required").is_err());
    }

    #[test]
    fn machines_verify_signatures_only_if_required() {
        let choice = |value: &str| VerifyOnMachines::of(&config(labels::VERIFY_ON_MACHINES, value));
        assert_eq!(VerifyOnMachines::of(&Metadata::default()), Ok(VerifyOnMachines::None));
        assert_eq!(
            (choice("none"), choice("required")),
            (Ok(VerifyOnMachines::None), Ok(VerifyOnMachines::Required))
        );
        assert!(choice("true").is_err());
    }
}
