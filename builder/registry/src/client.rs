//! The registry client: created once from plain options, shared by all code that reads or writes
//! images.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use mosb_image::{Digest, ImageRef, PinnedRef, Platform, RepoRef};

use super::certs::CertDirs;
use super::endpoint::{Endpoint, Settings};
use super::error::Error;
use super::keyring::{CredentialSources, Keyring};
use super::layout::ImageFolder;
use super::layout_write::LayoutWriter;
use super::location::{Place, Source, Target};
use super::push::{self, Begun, Confirmed, Push, PushPlan, Pushed};
use super::registries_conf::{By, PullPlace, RegistriesConf};
use super::remote::Remote;
use super::request::{Timeouts, TransferStats};
use super::resolve::{self, Configs, Resolved};
use super::signature_policy::LoadedPolicy;
use super::store::Store;
use super::token::Scopes;
use crate::http::{Proxies, ProxyVariables, RetryPolicy};
use mosb_types::Finding;

/// How to make a client. Nothing in this crate reads the environment: the command line does, and passes it in here.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where logins are looked for.
    pub credentials: CredentialSources,
    /// Where certificates are looked for.
    pub certs: CertDirs,
    /// `--tls-verify`.
    pub tls_verify: bool,
    /// The proxy variables.
    pub proxy: ProxyVariables,
    /// `registries.conf`, and whether it must exist (it was named by the user).
    pub registries_conf: Option<(PathBuf, bool)>,
    /// `policy.json`, and whether the user or the cluster named it.
    pub signature_policy: Option<(PathBuf, bool)>,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// How often and how long we try.
    pub retry: RetryPolicy,
    /// Blobs and manifests on their way at once.
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

/// There is always another place to ask than a mirror, so that one is given less time.
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
            Some((file, required)) => RegistriesConf::read(file, *required)?,
            None => RegistriesConf::default(),
        };
        let policy = options.signature_policy.as_ref();
        let policy = policy.map(|(file, named)| LoadedPolicy::read(file, *named));
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

    fn remote(&self, place: PullPlace, shown: &RepoRef) -> Result<Remote, Error> {
        let PullPlace { repo, insecure, mirror } = place;
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

    /// What the policy asks for an image and nobody checks.
    pub fn unchecked_signature(&self, source: &Source) -> Option<Finding> {
        match (source, &self.shared.policy) {
            (Source::Registry(image), Some(policy)) => policy.unchecked(&image.to_string()),
            _ => None,
        }
    }

    /// Each with whether it is a mirror.
    pub(super) fn pulling(&self, image: &ImageRef) -> Result<Vec<(Remote, bool)>, Error> {
        if let Some(policy) = &self.shared.policy {
            // By the name that is written, wherever it is pulled from.
            policy.check_pull(&image.to_string())?;
        }
        let by = match image.digest() {
            Some(_) => By::Digest,
            None => By::Tag,
        };
        let repo = image.repo();
        let places = self.shared.conf.pull_places(repo, by)?.into_iter();
        let remote = |place: PullPlace| {
            let mirror = place.mirror;
            Ok((self.remote(place, repo)?, mirror))
        };
        places.map(remote).collect()
    }

    pub(super) fn pushing(&self, repo: &RepoRef) -> Result<Remote, Error> {
        if let Some(policy) = &self.shared.policy {
            policy.check_push(&repo.to_string())?;
        }
        let insecure = self.shared.conf.push_insecure(repo)?;
        let place = PullPlace { repo: repo.clone(), insecure, mirror: false };
        self.remote(place, repo)
    }

    /// Finds the one image that is meant, with its config. Without `platform`, an index must hold one image only; an
    /// image for another platform than asked for is an error.
    pub async fn resolve(
        &self,
        source: &Source,
        platform: Option<&Platform>,
    ) -> Result<Resolved, Error> {
        let store = match source {
            Source::Registry(image) => {
                let places = self.pulling(image)?.into_iter();
                Store::remotes(places.map(|(remote, _)| remote).collect())
            }
            Source::Layout { dir, .. } => Store::folder(ImageFolder::layout(dir)?),
            Source::Dir(dir) => Store::folder(ImageFolder::dir(dir)?),
        };
        resolve::resolve(source, store, platform, &self.shared.configs).await
    }

    /// The digest that a tag or digest names in the registry itself (not a mirror) now; `None` where there is nothing.
    pub async fn digest_of(&self, image: &ImageRef) -> Result<Option<Digest>, Error> {
        let remote = self.pushing(image.repo())?;
        let scopes = Scopes::pull(&remote.repository());
        remote.digest_of(&image.manifest_reference(), &scopes).await
    }

    /// Asks the registry itself whether it has this very image; none if it says, in the words of its protocol, that it has none.
    ///
    /// # Errors
    /// It is not known: the registry refuses to answer, does not answer, or answers for something else.
    pub async fn confirm(&self, image: &PinnedRef) -> Result<Option<Confirmed<PinnedRef>>, Error> {
        let remote = self.pushing(image.repo())?;
        let wanted = image.digest();
        match remote.find_manifest(&wanted.to_string()).await? {
            None => Ok(None),
            Some(found) if found == wanted => Ok(Some(Confirmed::answered_for(image))),
            Some(found) => Err(Error::DigestMismatch {
                image: image.to_string(),
                what: "the manifest",
                want: wanted,
                found,
            }),
        }
    }

    /// Begins to push an image that is still being made: asks what its tags name, and, if that is nothing yet, begins so
    /// many uploads for the blobs that are surely new. Those that are not needed then are cancelled.
    ///
    /// # Errors
    /// Whatever the target answers.
    pub async fn begin_push(
        &self,
        target: &Target,
        tags: &[String],
        uploads: usize,
    ) -> Result<Push, Error> {
        let begun = match target.place() {
            Place::Registry(repo) => {
                let (remote, parallel) = (self.pushing(repo)?, self.shared.parallel);
                Some(push::begin(&remote, tags, uploads, parallel).await?)
            }
            Place::Layout(_) => None,
        };
        Ok(Push { client: self.clone(), target: target.clone(), begun })
    }

    /// Pushes an image; when this is done, the registry has answered for the digest under every tag, or the layout holds
    /// all of it. Whatever is there already is neither sent nor put again.
    pub async fn push(&self, target: &Target, plan: &PushPlan) -> Result<Pushed, Error> {
        self.push_begun(target, plan, None).await
    }

    pub(super) async fn push_begun(
        &self,
        target: &Target,
        plan: &PushPlan,
        begun: Option<Begun>,
    ) -> Result<Pushed, Error> {
        let digest = Digest::of(&plan.manifest);
        let moved = match target.place() {
            Place::Registry(repo) => {
                let (remote, parallel) = (self.pushing(repo)?, self.shared.parallel);
                push::to_remote(&remote, plan, begun, parallel).await?
            }
            Place::Layout(dir) => {
                let layout = LayoutWriter::open(dir).await?;
                push::to_layout(&layout, plan, self.shared.parallel).await?
            }
        };
        let tags = plan.tags.clone();
        Ok(push::pushed(target.place().clone(), digest, tags, moved))
    }
}
