//! A command that runs: its settings and progress, and its access to registries, layouts and the cache.

use std::path::PathBuf;

use serde_json::Value;
use tracing::warn;

use super::ExitCode;
use super::error::Error;
use super::output::{self, Object};
use super::progress::Progress;
use super::settings::Settings;
use crate::{Result, layers};
use mosb_build::resolve::image_tree;
use mosb_image::Platform;
use mosb_image::tree::BaseTree;
use mosb_registry::cache::{DEFAULT_LIMIT, TreeCache};
use mosb_registry::{
    self, CertDirs, Client, CredentialSources, Options, PreparedRecords, Resolved, Source,
};

/// What every command gets.
#[derive(Debug)]
pub struct Session {
    pub settings: Settings,
    pub progress: Progress,
}

impl Session {
    /// Prints the result of a command that succeeded.
    ///
    /// # Errors
    /// Stdout can't be written.
    pub fn print<T: Object>(&self, object: &T) -> Result<ExitCode> {
        self.progress.end();
        output::print(self.settings.format, object)?;
        Ok(0)
    }

    /// Connects to nothing yet.
    ///
    /// # Errors
    /// Invalid logins, registries.conf or proxy variable.
    pub fn clients(&self) -> Result<CliContext> {
        CliContext::new(&self.settings, self.progress.clone())
    }
}

/// Clients, cache and progress of a command.
#[derive(Debug)]
pub struct CliContext {
    /// To read images.
    pub pull: Client,
    /// To write images; a clone of `pull` if the logins are the same.
    pub push: Client,
    /// Base trees; `None` without a home directory.
    pub cache: Option<TreeCache>,
    /// Prepared bases of earlier builds; `None` without a home directory.
    pub prepared: Option<PreparedRecords>,
    pub progress: Progress,
}

impl CliContext {
    fn new(settings: &Settings, progress: Progress) -> Result<Self> {
        let pull = Client::new(&options(settings, settings.authfile.clone()))?;
        let push = match settings.push_logins() {
            logins if logins == settings.authfile.as_ref() => pull.clone(),
            logins => Client::new(&options(settings, logins.cloned()))?,
        };
        progress.watch(&pull);
        let cache = cache(settings).ok();
        Ok(Self { pull, push, cache, prepared: prepared_records(settings).ok(), progress })
    }

    /// Resolves an image.
    ///
    /// # Errors
    /// As [`Client::resolve`].
    pub async fn resolve(
        &self,
        what: &str,
        source: &Source,
        platform: Option<&Platform>,
    ) -> Result<Resolved> {
        self.progress.step(&format!("resolving {what} {source}"));
        Ok(self.pull.resolve(source, platform).await?)
    }

    /// The tree of an image: from the cache, or else from its layers and into the cache.
    ///
    /// # Errors
    /// A layer can't be read.
    pub async fn tree(&self, image: &Resolved) -> Result<BaseTree> {
        self.progress.step(&format!("reading the tree of {}", image.pinned_text()));
        let layers = layers::of_image(image)?;
        let obtained = image_tree(self.cache.as_ref(), image, &layers).await?;
        for warning in obtained.warnings {
            warn!(code = warning.code, "{}", warning.message);
        }
        Ok(obtained.tree)
    }

    /// Bytes that were pulled and pushed.
    pub fn transfer_stats(&self) -> (u64, u64) {
        let (pull, push) = (self.pull.transfer_stats(), self.push.transfer_stats());
        if std::ptr::eq(pull, push) {
            (pull.pulled(), pull.pushed())
        } else {
            (pull.pulled() + push.pulled(), pull.pushed() + push.pushed())
        }
    }
}

/// The cache of base trees.
///
/// # Errors
/// There is no cache directory.
pub fn cache(settings: &Settings) -> Result<TreeCache, Error> {
    Ok(TreeCache::new(settings.cache_dir()?.join("base-trees"), DEFAULT_LIMIT))
}

/// The records of prepared bases.
///
/// # Errors
/// There is no cache directory.
pub fn prepared_records(settings: &Settings) -> Result<PreparedRecords, Error> {
    Ok(PreparedRecords::new(settings.cache_dir()?.join("prepared-bases")))
}

/// The options of a client with these logins.
pub fn options(settings: &Settings, authfile: Option<PathBuf>) -> Options {
    let environment = &settings.environment;
    let found = |candidates: Vec<(PathBuf, bool)>| {
        candidates.into_iter().find(|(file, is_required)| *is_required || file.exists())
    };
    Options {
        credentials: CredentialSources {
            only: None,
            authfile,
            registry_auth_file: environment.registry_auth_file.clone(),
            runtime_dir: environment.runtime_dir.clone(),
            config_home: environment.config_home.clone(),
            docker_config: environment.docker_config.clone(),
            home: environment.home.clone(),
        },
        certs: CertDirs { cert_dir: settings.cert_dir.clone(), ..CertDirs::default() },
        tls_verify: settings.tls_verify,
        proxy: environment.proxy.clone(),
        registries_conf: found(settings.registries_confs()),
        signature_policy: found(settings.signature_policies()),
        ..Options::default()
    }
}

/// The `policy.json` for other tools, without signatures; `None` if it accepts all images.
///
/// # Errors
/// The file can't be read.
pub fn policy_for_tools(settings: &Settings) -> Result<Option<String>, mosb_registry::Error> {
    let options = options(settings, None);
    let Some((file, _)) = options.signature_policy else {
        return Ok(None);
    };
    let policy = mosb_registry::read_policy(&file)?;
    Ok((!policy.accepts_all()).then(|| policy.without_signatures()))
}

/// Parses a manifest or config of a resolved image.
///
/// # Errors
/// The text is not JSON.
pub fn json(image: &Resolved, what: &'static str, bytes: &[u8]) -> Result<Value, Error> {
    serde_json::from_slice(bytes).map_err(|source| Error::ImageJson {
        image: image.pinned_text(),
        what,
        source,
    })
}
