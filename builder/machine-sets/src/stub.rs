//! What must happen to the stub of a set before its image changes: images since OpenShift 4.6 take
//! no Ignition config of spec 2, and new machines trust only the CA in it. Pure.

use jiff::Timestamp;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::effect::StubWrite;
use super::limits::Limits;
use super::machine_set::MachineSet;
use super::obstacle::{Failure, Obstacle};
use super::snapshot::BootImageSnapshot;
use mosb_api::cluster_settings::{BootImageSettings, StubReference};
use mosb_boot_image::{Stub, StubError};
use mosb_cluster::secret_ref::SecretRef;
use mosb_cluster::user_data_secret::{FoundSecret, UserDataSecret};
use mosb_image::Digest;
use mosb_types::{Diagnostic as _, Secret};

/// Keys of the config: those of the machine API and of Cluster API.
const CONFIG_KEYS: [&str; 2] = ["userData", "value"];
/// Annotation of a stub that was converted: the new spec version.
const UPGRADED_TO: &str = "machineconfiguration.openshift.io/stub-ignition-upgraded-to";
/// Annotation of a stub that was converted: when, as RFC 3339.
const UPGRADED_AT: &str = "machineconfiguration.openshift.io/stub-ignition-upgraded-at";
/// Annotation of a Secret whose CA may be replaced: `true`.
const REPLACE_CA: &str = "mosb.dev/user-data-ca";
/// End of the names of the Secrets that an installer makes, after that of a pool.
const INSTALLED: &str = "-user-data";

/// What comes next for a stub.
#[derive(Debug)]
pub(super) enum StubStep {
    /// New images can read it, or no stub belongs to the set; and the Secret that the set refers to
    /// from now on, if it is another one.
    Ready(Option<StubSwitch>),
    LookUp(Vec<SecretRef>),
    Write(Box<StubWrite>),
}

/// Another Secret with the stub of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StubSwitch {
    from: String,
    to: String,
}

impl StubSwitch {
    /// The change of the reference, with a test of the old one.
    pub fn operations(&self, pointer: &str) -> [Value; 2] {
        [
            json!({ "op": "test", "path": pointer, "value": self.from }),
            json!({ "op": "replace", "path": pointer, "value": self.to }),
        ]
    }
}

/// A Secret with a stub.
struct FoundStub<'s> {
    object: &'s UserDataSecret,
    /// The key that has it.
    key: &'static str,
    stub: Stub,
}

impl FoundStub<'_> {
    /// Whether its owner lets mosb replace its CA.
    fn may_replace_ca(&self) -> bool {
        let annotations = self.object.0.0.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(REPLACE_CA)).is_some_and(|value| value == "true")
    }
}

/// The stub of a set: its Secret.
pub(super) fn stub_secret(set: MachineSet<'_>) -> Result<Option<SecretRef>, Failure> {
    let Some((namespace, name)) = set.stub()? else { return Ok(None) };
    let secret = format!("{namespace}/{name}").parse().map_err(|_| {
        Failure::new(
            "stub-name",
            format!("{name:?} must be the name of a Secret; correct the reference"),
        )
    })?;
    Ok(Some(secret))
}

/// The Secret that an operator keeps current, for one that an installer made; none if the settings
/// do not ask for it, or if the Secret has another name.
pub(super) fn managed_secret(
    settings: &BootImageSettings,
    secret: &SecretRef,
) -> Option<SecretRef> {
    let pool = secret.name().strip_suffix(INSTALLED).filter(|pool| !pool.is_empty());
    pool.filter(|_| settings.stub == StubReference::Managed)?;
    format!("{secret}-managed").parse().ok()
}

pub(super) fn stub_step(
    set: MachineSet<'_>,
    snapshot: &BootImageSnapshot,
    settings: &BootImageSettings,
    limits: &Limits,
    now: Timestamp,
) -> Result<StubStep, Obstacle> {
    let Some(secret) = stub_secret(set)? else { return Ok(StubStep::Ready(None)) };
    let is_own = snapshot.is_own_user_data(&secret);
    let managed = managed_secret(settings, &secret).filter(|_| !is_own);
    let needed = [Some(&secret), managed.as_ref()].into_iter().flatten();
    let unread: Vec<SecretRef> =
        needed.filter(|one| !snapshot.stubs.contains_key(one)).cloned().collect();
    if !unread.is_empty() {
        return Ok(StubStep::LookUp(unread));
    }
    if is_own {
        return own_user_data(&secret, snapshot);
    }
    let found = find(&secret, snapshot)?.ok_or_else(|| {
        Failure::new("stub-missing", format!("Secret {secret} with its user data does not exist; create it, or correct the reference"))
    })?;
    if let Some(managed) = managed
        && let Some(theirs) = find(&managed, snapshot)?
        && !theirs.stub.is_spec2()
        && theirs.stub.pool().is_some()
        && theirs.stub.pool() == found.stub.pool()
    {
        let (from, to) = (secret.name().to_owned(), managed.name().to_owned());
        return Ok(StubStep::Ready(Some(StubSwitch { from, to })));
    }
    let failed = |code: &str, cause: &str| failure(&secret, code, cause);
    let upgraded = found.stub.upgrade_to_oldest();
    let upgraded = upgraded.map_err(|error| failed(error.code(), &error.to_string()))?;
    if upgraded.is_some()
        && let Some(reason) = limits.sharing.reason(secret.namespace(), secret.name())
    {
        let cause = format!("it has Ignition spec 2 and must be converted, but {reason}");
        return Err(failed("stub-shared", &cause).into());
    }
    let with_ca = match settings.user_data_trust_bundle.as_deref() {
        Some(bundle) if found.may_replace_ca() => {
            with_current_ca(upgraded.as_ref().unwrap_or(&found.stub), bundle, &secret)?
        }
        _ => None,
    };
    let converted = upgraded.as_ref().map(|new| {
        format!("converted from Ignition {} to {}", found.stub.version(), new.version())
    });
    let replaced = with_ca.as_ref().map(|_| "the CA replaced".to_owned());
    let what: Vec<String> = [converted, replaced].into_iter().flatten().collect();
    let upgrade = upgraded.as_ref().map(|new| (new.version().to_owned(), now));
    let Some(new) = with_ca.or(upgraded) else { return Ok(StubStep::Ready(None)) };
    let config = new.to_bytes();
    let (what, digest) = (what.join(", "), Digest::of(&config));
    let object = with_config(found.object, found.key, config, upgrade);
    Ok(StubStep::Write(Box::new(StubWrite { secret, what, digest, object })))
}

/// A Secret for user data of mosb, which is not converted. The image waits until it is there: mosb
/// does not write it where another controller does, or where the Secret has no label.
fn own_user_data(secret: &SecretRef, snapshot: &BootImageSnapshot) -> Result<StubStep, Obstacle> {
    match find(secret, snapshot) {
        Ok(Some(found)) if !found.stub.is_spec2() => Ok(StubStep::Ready(None)),
        Err(obstacle @ Obstacle::NoRight(_)) => Err(obstacle),
        Ok(_) | Err(_) => Err(Obstacle::Wait(format!(
            "Secret {secret} has no user data of Ignition spec 3 yet; the condition UserData of the MachineOSConfig that names it says what mosb waits for"
        ))),
    }
}

/// The stub with the CAs of the settings; none if it trusts one of them, or names none.
fn with_current_ca(stub: &Stub, bundle: &str, secret: &SecretRef) -> Result<Option<Stub>, Failure> {
    stub.with_authority(bundle.as_bytes()).map_err(|error| match &error {
        // That of the stub is replaced, whatever it is.
        StubError::Authority(cause) => {
            Failure::new(error.code(), format!("bootImages.userDataTrustBundle: {cause}"))
        }
        _ => failure(secret, error.code(), &error.to_string()),
    })
}

fn failure(secret: &SecretRef, code: &str, cause: &str) -> Failure {
    Failure::new(code, format!("Secret {secret} with its user data: {cause}"))
}

/// A Secret that was read; none if it does not exist.
fn find<'s>(
    secret: &SecretRef,
    snapshot: &'s BootImageSnapshot,
) -> Result<Option<FoundStub<'s>>, Obstacle> {
    let object = match snapshot.stubs.get(secret) {
        None | Some(FoundSecret::Missing) => return Ok(None),
        Some(FoundSecret::Forbidden(cause)) => {
            return Err(Obstacle::NoRight(format!(
                "Secret {secret} with its user data can't be read: {cause}; `mosb boot-images rbac` prints the Role that it needs"
            )));
        }
        Some(FoundSecret::Found(found)) => found.expose(),
    };
    let Some((key, stub)) = stub_of(object) else {
        let cause = "it has neither key userData nor key value; put the Ignition config there";
        return Err(failure(secret, "stub-empty", cause).into());
    };
    let stub = stub.map_err(|error| failure(secret, error.code(), &error.to_string()))?;
    Ok(Some(FoundStub { object, key, stub }))
}

/// The key of a Secret that has a config, and the config; none without one.
pub(super) fn stub_of(secret: &UserDataSecret) -> Option<(&'static str, Result<Stub, StubError>)> {
    let mut keys = CONFIG_KEYS.into_iter();
    keys.find_map(|key| Some((key, Stub::parse(secret.value(key)?))))
}

/// The same Secret with another config, and the version that it was converted to, and when.
fn with_config(
    secret: &UserDataSecret,
    key: &str,
    config: Vec<u8>,
    upgrade: Option<(String, Timestamp)>,
) -> Secret<mosb_build::SecretObject> {
    let mut object = secret.0.clone();
    let data = object.0.data.get_or_insert_default();
    data.insert(key.to_owned(), ByteString(config));
    if let Some((version, time)) = upgrade {
        let annotations = object.0.metadata.annotations.get_or_insert_default();
        annotations.insert(UPGRADED_TO.to_owned(), version);
        let time = time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        annotations.insert(UPGRADED_AT.to_owned(), time);
    }
    Secret::new(object)
}
