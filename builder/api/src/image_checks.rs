//! The checks of an image before it comes into service: their names, what a failed one does, and the
//! record of their results.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::annotation::AnnotationError;
use super::own_check::OwnCheck;
use super::{Metadata, labels};
use mosb_image::Digest;

/// Raised if a check finds something else than before, so that images that are not in service yet are
/// checked again.
const FORMAT: u32 = 1;
/// The most bytes that are read of a record.
const LIMIT: usize = 64 * 1024;
/// The most characters of a message in a record: names of images and policies, and a remedy.
const MAX_MESSAGE: usize = 700;

/// A built-in check of an image.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum CheckName {
    /// The layers of its base are its lowest layers.
    BaseLayers,
    /// Machines boot it.
    Bootable,
    /// It is for the machines' architecture.
    Architecture,
    /// It is of the cluster's release.
    Release,
    /// Its kubelet works with the API server.
    KubeletSkew,
    /// Packages that the settings hold have their version.
    PackagesHeld,
    /// It is not larger than the settings allow.
    Size,
    /// The policy of the settings, and that of its own config, accept its signatures.
    Signature,
}

impl CheckName {
    pub const ALL: [Self; 8] = [
        Self::BaseLayers,
        Self::Bootable,
        Self::Architecture,
        Self::Release,
        Self::KubeletSkew,
        Self::PackagesHeld,
        Self::Size,
        Self::Signature,
    ];

    /// As settings, annotations and records spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BaseLayers => "base-layers",
            Self::Bootable => "bootable",
            Self::Architecture => "architecture",
            Self::Release => "release",
            Self::KubeletSkew => "kubelet-skew",
            Self::PackagesHeld => "packages-held",
            Self::Size => "size",
            Self::Signature => "signature",
        }
    }

    /// What a failed check does if nothing sets it. What no machine can pull or run, and what the settings
    /// limit, is kept out of service.
    fn default_mode(self) -> CheckMode {
        match self {
            Self::BaseLayers | Self::Architecture | Self::PackagesHeld => CheckMode::Block,
            Self::Size | Self::Signature => CheckMode::Block,
            Self::Bootable | Self::Release | Self::KubeletSkew => CheckMode::Warn,
        }
    }
}

/// What a failed check does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckMode {
    /// The image stays out of service.
    Block,
    /// It is reported.
    Warn,
    /// The check is not made.
    Off,
}

impl CheckMode {
    const ALL: [Self; 3] = [Self::Block, Self::Warn, Self::Off];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Warn => "warn",
            Self::Off => "off",
        }
    }
}

/// What failed checks do, by check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckModes(BTreeMap<String, CheckMode>);

impl CheckModes {
    /// Those of a pool: of its MachineOSConfig (annotation `mosb.dev/checks`, such as
    /// `size=block,release=off`), else of the settings.
    ///
    /// # Errors
    /// The annotation has another form, or names a check or a mode that does not exist.
    pub fn of(config: &Metadata, settings: &ImageCheckSettings) -> Result<Self, AnnotationError> {
        let built_in = CheckName::ALL.into_iter().map(|check| {
            let mode = settings.modes.get(&check).copied();
            (check.as_str().to_owned(), mode.unwrap_or(check.default_mode()))
        });
        let own = settings.own.iter().map(|(name, check)| (name.clone(), check.mode));
        let mut modes: BTreeMap<String, CheckMode> = built_in.chain(own).collect();
        let text = config.annotation(labels::CHECKS).unwrap_or_default();
        for word in words(text) {
            let wrong = |modes: &BTreeMap<String, CheckMode>, cause: String| {
                let names = modes.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                let remedy =
                    format!("write CHECK=block, warn or off, with commas; the checks are {names}");
                AnnotationError::new(labels::CHECKS, text, cause, remedy)
            };
            let (name, mode) =
                word.split_once('=').ok_or_else(|| wrong(&modes, format!("{word:?} has no =")))?;
            let mode = CheckMode::ALL.into_iter().find(|one| one.as_str() == mode);
            let (true, Some(mode)) = (modes.contains_key(name), mode) else {
                return Err(wrong(&modes, format!("{word:?} is not a check with a mode")));
            };
            modes.insert(name.to_owned(), mode);
        }
        Ok(Self(modes))
    }

    /// That of a check; none if the check does not exist any more.
    pub fn get(&self, check: &str) -> Option<CheckMode> {
        self.0.get(check).copied()
    }

    /// Whether a check is made.
    pub fn is_on(&self, check: &str) -> bool {
        self.get(check).is_some_and(|mode| mode != CheckMode::Off)
    }
}

/// Checks whose failure does not keep an image out of service (annotation `mosb.dev/override-check` of
/// a MachineOSConfig): `CHECK@sha256:…`, with commas or blanks between several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckOverrides(BTreeSet<(String, Digest)>);

impl CheckOverrides {
    /// # Errors
    /// The annotation has another form.
    pub fn of(config: &Metadata) -> Result<Self, AnnotationError> {
        let text = config.annotation(labels::OVERRIDE_CHECK).unwrap_or_default();
        let read = |word: &str| {
            let (check, digest) = word.split_once('@')?;
            Some((check.to_owned(), digest.parse().ok()?))
        };
        let wrong = |word: &str| {
            let short: String = word.chars().take(100).collect();
            AnnotationError::new(
                labels::OVERRIDE_CHECK,
                text,
                format!("{short:?} is not a check with a digest"),
                "write CHECK@sha256:…, with commas, or remove the annotation",
            )
        };
        let all = words(text).map(|word| read(word).ok_or_else(|| wrong(word)));
        all.collect::<Result<_, _>>().map(Self)
    }

    pub fn covers(&self, check: &str, image: Digest) -> bool {
        self.0.iter().any(|(name, digest)| name == check && *digest == image)
    }
}

/// How images are checked before they come into service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ImageCheckSettings {
    /// What a failed check does, by its name: `block` keeps the image out of service, `warn` reports it, and `off`
    /// makes no check. A MachineOSConfig's annotation `mosb.dev/checks` overrides it.
    pub modes: BTreeMap<CheckName, CheckMode>,
    /// The most MiB that all layers of an image may have, as a registry stores them (check `size`); at least 1.
    #[serde(rename = "maxSizeMiB")]
    pub max_size_mib: Option<u32>,
    /// Versions that packages must have if an image has them, by name (check `packages-held`): the whole version, or
    /// its beginning up to a separator, as `mosb inspect --packages` prints it.
    pub held_packages: BTreeMap<String, String>,
    /// Checks of your own, by name: each runs a program in a pod once the other checks let an image pass. At most 8.
    pub own: BTreeMap<String, OwnCheck>,
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ' ', '\n']).filter(|word| !word.is_empty())
}

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckVerdict {
    Passed,
    Failed,
    /// What it needs is not known.
    Unknown,
    /// Its Job has not ended, or does not exist yet.
    Outstanding,
}

impl CheckVerdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Outstanding => "outstanding",
        }
    }
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckResult {
    /// The name of a built-in check, or of an own one.
    pub check: String,
    pub verdict: CheckVerdict,
    /// Of a failed check: one of a fixed, documented set of words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What was seen, and for a failed check what to do.
    pub message: String,
    /// What it does if it failed.
    pub mode: CheckMode,
    /// It failed, and an administrator let the image pass.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overridden: bool,
    /// Of an own check: its Job, whose name follows from the image and from the settings of the check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

impl CheckResult {
    /// Whether it keeps the image out of service, unless that is overridden.
    pub fn is_blocking(&self) -> bool {
        self.verdict == CheckVerdict::Failed && self.mode == CheckMode::Block
    }

    /// Whether a person should know it.
    pub fn is_notable(&self) -> bool {
        self.verdict != CheckVerdict::Passed
    }
}

/// The results of the checks of one image (annotation `mosb.dev/checked` of a MachineOSBuild).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckRecord {
    format: u32,
    pub digest: Digest,
    /// A fingerprint of the settings that it was checked with.
    pub settings: String,
    pub at: Time,
    pub results: Vec<CheckResult>,
}

impl CheckRecord {
    pub fn new(digest: Digest, settings: String, at: Time, results: Vec<CheckResult>) -> Self {
        let mut record = Self { format: FORMAT, digest, settings, at, results: Vec::new() };
        results.into_iter().for_each(|result| record.push(result));
        record
    }

    /// Adds a result, whose message is cut to the space that an annotation has.
    pub fn push(&mut self, result: CheckResult) {
        let message = result.message.chars().take(MAX_MESSAGE).collect();
        self.results.push(CheckResult { message, ..result });
    }

    /// That of a MachineOSBuild, if it is of this image; none if it can't be read, or is of another
    /// version of the checks.
    pub fn of(build: &Metadata, image: Digest) -> Option<Self> {
        let text = build.annotation(labels::CHECKED).filter(|text| text.len() <= LIMIT)?;
        let record: Self = serde_json::from_str(text).ok()?;
        (record.digest == image && record.format == FORMAT).then_some(record)
    }

    /// The checks whose Jobs have not ended.
    pub fn outstanding(&self) -> impl Iterator<Item = &CheckResult> {
        self.results.iter().filter(|result| result.verdict == CheckVerdict::Outstanding)
    }

    /// The failed checks that keep the image out of service.
    pub fn blocking(&self, overrides: &CheckOverrides) -> impl Iterator<Item = &CheckResult> {
        let results = self.results.iter().filter(|result| result.is_blocking());
        results.filter(|result| !overrides.covers(&result.check, self.digest))
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("it is JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotation::tests::annotated as config;
    use k8s_openapi::jiff::Timestamp;

    #[test]
    fn pool_decides_before_settings_and_defaults() {
        let modes = [(CheckName::Release, CheckMode::Off), (CheckName::Size, CheckMode::Warn)];
        let own = ["lint", "scan"].map(|name| (name.to_owned(), OwnCheck::default()));
        let settings =
            ImageCheckSettings { modes: modes.into(), own: own.into(), ..Default::default() };
        let of = |text: &str| CheckModes::of(&config(labels::CHECKS, text), &settings);
        let modes = of("size=off, bootable=block,lint=off").unwrap();
        for (check, want) in [
            ("size", Some(CheckMode::Off)),
            ("bootable", Some(CheckMode::Block)),
            ("release", Some(CheckMode::Off)),
            ("kubelet-skew", Some(CheckMode::Warn)),
            ("architecture", Some(CheckMode::Block)),
            ("lint", Some(CheckMode::Off)),
            ("scan", Some(CheckMode::Block)),
            ("other", None),
        ] {
            assert_eq!(modes.get(check), want, "{check}");
        }
        for wrong in ["size", "size=on", "colour=block", "lin=off"] {
            let error = of(wrong).unwrap_err().to_string();
            assert!(
                error.contains(
                    "the checks are architecture, base-layers, bootable, kubelet-skew, lint"
                ),
                "{error}"
            );
        }
    }

    #[test]
    fn override_is_for_one_check_of_one_image() {
        let (image, other) = (Digest::of(b"a"), Digest::of(b"b"));
        let of = |text: &str| CheckOverrides::of(&config(labels::OVERRIDE_CHECK, text));
        let overrides = of(&format!("size@{image} own@{other}")).unwrap();
        assert!(overrides.covers("size", image) && overrides.covers("own", other));
        assert!(!overrides.covers("size", other) && !overrides.covers("release", image));
        assert_eq!(CheckOverrides::of(&Metadata::default()), Ok(CheckOverrides::default()));
        for wrong in ["size", "size@sha256:12"] {
            assert!(of(wrong).unwrap_err().to_string().contains("CHECK@sha256:"), "{wrong}");
        }
    }

    #[test]
    fn record_is_of_one_image_and_bounded() {
        let result = |check: &str, verdict, mode| CheckResult {
            check: check.to_owned(),
            verdict,
            code: None,
            message: "€".repeat(2 * MAX_MESSAGE),
            mode,
            overridden: false,
            job: None,
        };
        let results = vec![
            result("size", CheckVerdict::Failed, CheckMode::Block),
            result("release", CheckVerdict::Failed, CheckMode::Warn),
            result("kubelet-skew", CheckVerdict::Unknown, CheckMode::Block),
        ];
        let image = Digest::of(b"a");
        let at = Time(Timestamp::from_second(1).unwrap());
        let record = CheckRecord::new(image, "x".to_owned(), at, results);
        let blocking = |overrides: &str| {
            let config = config(labels::OVERRIDE_CHECK, overrides);
            let overrides = CheckOverrides::of(&config).unwrap();
            record.blocking(&overrides).map(|result| result.check.clone()).collect::<Vec<_>>()
        };
        assert_eq!(blocking(""), ["size"], "what is not known blocks nothing");
        assert_eq!(blocking(&format!("size@{image}")), [""; 0]);
        let build = config(labels::CHECKED, &record.to_json());
        assert_eq!(CheckRecord::of(&build, image), Some(record.clone()));
        assert_eq!(CheckRecord::of(&build, Digest::of(b"b")), None);
        let older = CheckRecord { format: 0, ..record };
        assert_eq!(CheckRecord::of(&config(labels::CHECKED, &older.to_json()), image), None);
        for wrong in ["{}".to_owned(), "x".repeat(LIMIT + 1)] {
            assert_eq!(CheckRecord::of(&config(labels::CHECKED, &wrong), image), None);
        }
    }
}
