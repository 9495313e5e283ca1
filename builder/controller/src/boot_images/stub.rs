//! What must happen to the stub of a set before its image changes: images since OpenShift 4.6 take
//! no Ignition config of spec 2. Pure.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;

use super::machine_set::MachineSet;
use super::next_write::Limits;
use super::obstacle::{Failure, Obstacle};
use super::snapshot::BootImageSnapshot;
use super::write::StubWrite;
use crate::user_data::{FoundSecret, SecretRef, UserDataSecret};
use mosb_boot_image::Stub;
use mosb_plan::api::cluster_settings::BootImageSettings;
use mosb_registry::http::Secret;
use mosb_types::Diagnostic as _;

/// Keys of the config: those of the machine API and of Cluster API.
const CONFIG_KEYS: [&str; 2] = ["userData", "value"];
/// Annotation of a stub that was converted: the new spec version.
const UPGRADED_TO: &str = "machineconfiguration.openshift.io/stub-ignition-upgraded-to";

/// What comes next for a stub.
#[derive(Debug)]
pub(super) enum StubStep {
    /// New images can read it, or no stub belongs to the set.
    Ready,
    LookUp(Vec<SecretRef>),
    Write(Box<StubWrite>),
    /// Another set of this decision writes it.
    InWork,
}

/// The sets that use each stub and keep an image that may need the old spec.
#[derive(Debug, Default)]
pub(super) struct Sharing(BTreeMap<(String, String), String>);

impl Sharing {
    pub fn new<'s>(sets: impl Iterator<Item = MachineSet<'s>>) -> Self {
        let uses = sets.filter_map(|set| {
            let (namespace, name) = set.stub().ok().flatten()?;
            Some(((namespace.to_owned(), name.to_owned()), set.to_string()))
        });
        Self(uses.collect())
    }

    fn keeper(&self, namespace: &str, name: &str) -> Option<&str> {
        self.0.get(&(namespace.to_owned(), name.to_owned())).map(String::as_str)
    }
}

pub(super) fn stub_step(
    set: MachineSet<'_>,
    snapshot: &BootImageSnapshot,
    _settings: &BootImageSettings,
    limits: &Limits,
) -> Result<StubStep, Obstacle> {
    let Some((namespace, name)) = set.stub()? else { return Ok(StubStep::Ready) };
    let secret: SecretRef = format!("{namespace}/{name}").parse().map_err(|_| {
        Failure::new("stub-name", format!("{name:?} is no name of a Secret; correct the reference"))
    })?;
    if snapshot.user_data_secrets.contains(&secret) {
        return Ok(StubStep::Ready);
    }
    let found = match snapshot.stubs.get(&secret) {
        None => return Ok(StubStep::LookUp(vec![secret])),
        Some(FoundSecret::Missing) => {
            return Err(Failure::new("stub-missing", format!("Secret {secret} with its user data does not exist; create it, or correct the reference")).into());
        }
        Some(FoundSecret::Forbidden(cause)) => {
            return Err(Obstacle::NoRight(format!(
                "Secret {secret} with its user data can't be read: {cause}; `mosb boot-images rbac` prints the Role that it needs"
            )));
        }
        Some(FoundSecret::Found(found)) => found.expose(),
    };
    let failed = |code: &str, cause: &str| {
        Failure::new(code, format!("Secret {secret} with its user data: {cause}"))
    };
    let key = CONFIG_KEYS.into_iter().find(|key| found.value(key).is_some());
    let Some((key, bytes)) = key.and_then(|key| Some((key, found.value(key)?))) else {
        let cause = "it has neither key userData nor key value; put the Ignition config there";
        return Err(failed("stub-empty", cause).into());
    };
    let stub = Stub::parse(bytes).map_err(|error| failed(error.code(), &error.to_string()))?;
    let upgraded = stub.upgrade_to_oldest();
    let upgraded = upgraded.map_err(|error| failed(error.code(), &error.to_string()))?;
    let Some(upgraded) = upgraded else { return Ok(StubStep::Ready) };
    if let Some(keeper) = limits.sharing.keeper(namespace, name) {
        return Err(failed("stub-shared", &format!("it has Ignition spec 2 and must be converted, but {keeper} keeps an image that may not read the new spec; give one of them its own Secret, or have both managed")).into());
    }
    if limits.stubs_in_work.contains(&secret) {
        return Ok(StubStep::InWork);
    }
    let what = format!("converted from Ignition {} to {}", stub.version(), upgraded.version());
    let object = with_config(found, key, upgraded.to_bytes(), upgraded.version());
    Ok(StubStep::Write(Box::new(StubWrite { secret, what, object })))
}

/// The same Secret with another config.
fn with_config(
    secret: &UserDataSecret,
    key: &str,
    config: Vec<u8>,
    version: &str,
) -> Secret<mosb_build::SecretObject> {
    let mut object = secret.0.clone();
    let data = object.0.data.get_or_insert_default();
    data.insert(key.to_owned(), ByteString(config));
    let annotations = object.0.metadata.annotations.get_or_insert_default();
    annotations.insert(UPGRADED_TO.to_owned(), version.to_owned());
    Secret::new(object)
}
