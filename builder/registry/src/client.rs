//! The registry client: created once from plain options, shared by all code that reads or writes
//! images.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use mosb_image::{Digest, ImageRef, PinnedRef, Platform, RepoRef};

use crate::auth::keyring::{CredentialSources, Keyring};
use crate::auth::token::Scopes;
use crate::error::Error;
use crate::http::{Proxies, ProxyVariables, RetryPolicy};
use crate::layout::ImageFolder;
use crate::location::Source;
use crate::registries_conf::{By, PullSource, RegistriesConf};
use crate::remote::Remote;
use crate::resolve::{self, Configs, Resolved};
use crate::signature_policy::{LoadedPolicy, SettingNames};
use crate::signature_rule::SignatureRule;
use crate::store::Store;
use crate::transport::certs::CertDirs;
use crate::transport::endpoint::{Endpoint, Settings};
use crate::transport::request::{Timeouts, TransferStats};

/// How to make a client. Nothing in this crate reads the environment: the command line reads it and
/// passes it in here.
#[derive(Debug, Clone)]
pub struct Options {
    pub credentials: CredentialSources,
    pub certs: CertDirs,
    pub tls_verify: bool,
    pub proxy: ProxyVariables,
    /// `registries.conf`, and whether it must exist (it was named by the user).
    pub registries_conf: Option<(PathBuf, bool)>,
    /// `policy.json`, and whether the user or the cluster named it.
    pub signature_policy: Option<(PathBuf, bool)>,
    /// What messages call these settings.
    pub names: SettingNames,
    pub timeouts: Timeouts,
    pub retry: RetryPolicy,
    /// Concurrent transfers of blobs and manifests.
    pub parallel: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            credentials: CredentialSources::default(),
            certs: CertDirs::default(),
            tls_verify: true,
            proxy: ProxyVariables::default(),
            registries_conf: None,
            signature_policy: None,
            names: SettingNames::default(),
            timeouts: Timeouts::default(),
            retry: RetryPolicy::default(),
            parallel: 8,
        }
    }
}

/// Connections, logins and tokens, shared by its clones.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
    stats: Arc<TransferStats>,
}

/// Host, whether it is insecure, whether it is a mirror.
type EndpointKey = (String, bool, bool);

/// A mirror is never the only repository to ask, so it gets fewer tries.
const MIRROR_TRIES: u32 = 2;

#[derive(Debug)]
struct Shared {
    settings: Settings,
    conf: RegistriesConf,
    policy: Option<LoadedPolicy>,
    parallel: usize,
    endpoints: Mutex<HashMap<EndpointKey, Arc<Endpoint>>>,
    configs: Configs,
}

impl Client {
    /// Whether both have the same logins, being clones of one.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Reads the files that the options name; connects to nothing yet.
    pub fn new(options: &Options) -> Result<Self, Error> {
        let conf = match &options.registries_conf {
            Some((file, required)) => RegistriesConf::read(file, *required, &options.names)?,
            None => RegistriesConf::default(),
        };
        let policy = options.signature_policy.as_ref();
        let policy = policy.map(|(file, named)| LoadedPolicy::read(file, *named, &options.names));
        let settings = Settings {
            keyring: Arc::new(Keyring::read(&options.credentials)?),
            proxies: Arc::new(Proxies::new(&options.proxy)?),
            certs: options.certs.clone(),
            tls_verify: options.tls_verify,
            timeouts: options.timeouts,
            policy: options.retry,
        };
        Ok(Self {
            shared: Arc::new(Shared {
                settings,
                conf,
                policy: policy.transpose()?,
                parallel: options.parallel.max(1),
                endpoints: Mutex::default(),
                configs: Configs::default(),
            }),
            stats: Arc::default(),
        })
    }

    /// The same connections and logins with counters of their own, for one of many builds.
    #[must_use]
    pub fn with_new_stats(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), stats: Arc::default() }
    }

    /// Bytes moved by this client and its clones.
    pub fn transfer_stats(&self) -> &TransferStats {
        &self.stats
    }

    fn remote(&self, source: PullSource, shown: &RepoRef) -> Result<Remote, Error> {
        let PullSource { repo, insecure, mirror } = source;
        let key = (repo.host().to_owned(), insecure, mirror);
        let settings = &self.shared.settings;
        let mut policy = settings.policy;
        if mirror {
            policy.tries = policy.tries.min(MIRROR_TRIES);
        }
        let mut endpoints = self.shared.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        let endpoint = match endpoints.get(&key) {
            Some(endpoint) => Arc::clone(endpoint),
            None => {
                let endpoint = Endpoint::new(repo.host(), insecure, settings, policy)?;
                let endpoint = Arc::new(endpoint);
                endpoints.insert(key, Arc::clone(&endpoint));
                endpoint
            }
        };
        drop(endpoints);
        Ok(Remote { endpoint, repo, shown: shown.clone(), stats: Arc::clone(&self.stats) })
    }

    /// Whether the policy requires a signature of any image.
    pub fn requires_signatures(&self) -> bool {
        self.shared.policy.as_ref().is_some_and(LoadedPolicy::requires_signatures)
    }

    /// What the policy requires of an image; `None` if it requires no signature, or if there is no policy.
    ///
    /// # Errors
    /// The policy rejects the image, or asks for something that can't be evaluated.
    pub fn signature_rule(&self, image: &ImageRef) -> Result<Option<SignatureRule>, Error> {
        match &self.shared.policy {
            Some(policy) => policy.signature_rule(image),
            None => Ok(None),
        }
    }

    /// How many transfers may run concurrently.
    pub(super) fn parallel(&self) -> usize {
        self.shared.parallel
    }

    /// The repositories to pull from, in order, each with whether it is a mirror.
    pub(super) fn pulling(&self, image: &ImageRef) -> Result<Vec<(Remote, bool)>, Error> {
        if let Some(policy) = &self.shared.policy {
            // By the name that is written, wherever it is pulled from.
            policy.check_pull(&image.to_string())?;
        }
        let by = if image.digest().is_some() { By::Digest } else { By::Tag };
        let repo = image.repo();
        let sources = self.shared.conf.pull_sources(repo, by)?.into_iter();
        let remote = |source: PullSource| {
            let mirror = source.mirror;
            Ok((self.remote(source, repo)?, mirror))
        };
        sources.map(remote).collect()
    }

    pub(super) fn pushing(&self, repo: &RepoRef) -> Result<Remote, Error> {
        if let Some(policy) = &self.shared.policy {
            policy.check_push(&repo.to_string())?;
        }
        let insecure = self.shared.conf.push_insecure(repo)?;
        self.remote(PullSource { repo: repo.clone(), insecure, mirror: false }, repo)
    }

    /// Finds the one image that is meant, with its config. Without `platform`, an index must hold
    /// one image only; an image for another platform than asked for is an error.
    pub async fn resolve(
        &self,
        source: &Source,
        platform: Option<&Platform>,
    ) -> Result<Resolved, Error> {
        let store = match source {
            Source::Registry(image) => {
                let remotes = self.pulling(image)?.into_iter();
                Store::remotes(remotes.map(|(remote, _)| remote).collect())
            }
            Source::Layout { dir, .. } => Store::folder(ImageFolder::layout(dir)?),
            Source::Dir(dir) => Store::folder(ImageFolder::dir(dir)?),
        };
        resolve::resolve(source, store, platform, &self.shared.configs).await
    }

    /// As [`resolve`](Self::resolve); an image that is not in an index is found whatever its platform is, so
    /// that a caller can report that.
    ///
    /// # Errors
    /// As for `resolve`.
    pub async fn resolve_of_any_platform(
        &self,
        source: &Source,
        platform: Option<&Platform>,
    ) -> Result<Resolved, Error> {
        match self.resolve(source, platform).await {
            Err(Error::PlatformMissing { .. }) => self.resolve(source, None).await,
            resolved => resolved,
        }
    }

    /// The digest that a tag or digest names now; `None` if it names nothing.
    ///
    /// A mirror may be behind with a tag: the registry itself, or where registries.conf moves it to, is
    /// asked first, and mirrors only if it is blocked or gives no answer. A digest is the same
    /// everywhere, so mirrors are asked in their order, as for a pull.
    ///
    /// # Errors
    /// The registry refuses to answer, or doesn't answer, and no mirror has it.
    pub async fn digest_of(&self, image: &ImageRef) -> Result<Option<Digest>, Error> {
        let mut places = self.pulling(image)?;
        let is_tag = image.digest().is_none();
        if is_tag {
            places.sort_by_key(|(_, is_mirror)| *is_mirror);
        }
        let mut found = None;
        for (remote, is_mirror) in places {
            let scopes = Scopes::pull(&remote.repository());
            let answer = remote.digest_of(&image.manifest_reference(), &scopes).await;
            // A registry that has no such tag knows it better than its mirrors.
            if matches!(answer, Ok(Some(_))) || (is_tag && !is_mirror && answer.is_ok()) {
                return answer;
            }
            // An error tells more than that another one has nothing.
            if !matches!(found, Some(Err(_))) {
                found = Some(answer);
            }
        }
        found.unwrap_or(Ok(None))
    }

    /// Asks the registry itself whether it has this very image; `None` if it answers, in the words
    /// of its protocol, that it has none.
    ///
    /// # Errors
    /// It is unknown: the registry refuses to answer, doesn't answer, or answers for something
    /// else.
    pub async fn confirm(&self, image: &PinnedRef) -> Result<Option<Confirmed<PinnedRef>>, Error> {
        let remote = self.pushing(image.repo())?;
        let wanted = image.digest();
        match remote.find_manifest(&wanted.to_string()).await? {
            None => Ok(None),
            Some(found) if found == wanted => Ok(Some(Confirmed::new(image.clone()))),
            Some(found) => Err(Error::DigestMismatch {
                image: image.to_string(),
                what: "the manifest",
                want: wanted,
                found,
            }),
        }
    }
}

/// A value that the registry itself confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirmed<T>(T);

impl<T> Confirmed<T> {
    /// The registry has just answered for this value.
    pub(super) fn new(value: T) -> Self {
        Self(value)
    }

    pub fn value(&self) -> &T {
        &self.0
    }

    /// As if a registry had answered, for tests of other modules.
    #[cfg(any(test, feature = "testing"))]
    pub fn in_a_test(value: T) -> Self {
        Self(value)
    }
}
