//! The Containerfile build by a real `buildah`, as a child process, run to its end.
//!
//! Input: a [`ContainerBuild`] and the source of the base. Output: [`BuiltImage`]: manifest and
//! config with the base's own layers, and the layers above in a directory. Crate `mosb-registry`
//! pushes them; the base's layers are never compressed, sent or written again. Invariant: only our
//! own folder of the cache is written, and the next build removes the files of a killed one.

mod assemble;
mod commands;
mod configs_image;
mod container_build;
mod error;
mod files;
mod leftovers;
mod own_failure;
mod push;
mod read;
mod space;
mod storage;
mod store;
mod version;
mod volume;

pub use assemble::{Assembled, NewLayer, assemble};
pub use commands::Options;
pub use configs_image::ConfigsImage;
pub use container_build::ContainerBuild;
pub use error::{BUILDAH_FAILED, Error};
pub use push::{push, push_plan};
pub use space::{Driver, FreeSpace, check_space, needed};
pub use storage::{RemovedStorage, Storage, remove, storage};
pub use version::{Version, check_needs, version};
pub use volume::{Volume, of_the_node};

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::Signing;
use crate::exec::{self, Command, Stream};
use configs_image::{CONFIGS, PREPARED};
use files::{io, make_dir, read_digest, write, write_context, write_out, write_view};
use mosb_image::{Digest, PinnedRef};
use mosb_registry::{Client, Resolved, Source, Target};
use mosb_types::Finding;
use own_failure::{TRIES, own_failure};
use store::Store;

/// Pause before buildah is retried; before the third try it is twice as long.
const PAUSE: Duration = Duration::from_millis(500);

/// Where buildah reads the base from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BaseSource {
    /// A registry; buildah pulls with the same credentials and mirrors.
    Registry(PinnedRef),
    /// An OCI layout directory.
    Layout(PathBuf),
    Dir(PathBuf),
}

impl BaseSource {
    /// The source of a resolved base.
    pub fn of(base: &Resolved) -> Self {
        match &base.source {
            Source::Registry(image) => Self::Registry(image.repo().pinned(base.manifest)),
            Source::Layout { dir, .. } => Self::Layout(dir.clone()),
            Source::Dir(dir) => Self::Dir(dir.clone()),
        }
    }
}

/// Builds an image and pushes it: the layers of the base from its source, the others
/// from the build.
///
/// # Errors
/// As [`make`]; errors of the target.
pub async fn build(
    client: &Client,
    build: &ContainerBuild,
    base: &Resolved,
    target: &Target,
    signing: Option<Signing<'_>>,
    options: &Options,
    mut on_line: impl FnMut(Stream, &str),
) -> Result<super::Built, super::Error> {
    let mut warnings = Vec::new();
    let listen = |stream, line: &str| {
        warnings.extend(unit_stays(line, &build.preset_units));
        on_line(stream, line);
    };
    let began = Instant::now();
    let (store, work) = open(options).await?;
    let folder = work.path().join(commands::START);
    if let Some(configs) = &build.configs {
        let has_prepared = configs_image::has_image(&configs.prepared_id, &store).await;
        configs.write(client, &build.base, has_prepared, &folder).await?;
    }
    let out = work.path().join(commands::OUT);
    run(build, &BaseSource::of(base), options, (&store, work.path()), &out, listen).await?;
    let made = take_into(build, &out, work).await?;
    let making = began.elapsed();
    let mut built = push(client, build, &made, base, target, signing).await?;
    built.making += making;
    built.warnings.splice(0..0, warnings);
    Ok(built)
}

/// The warning of the step with `systemctl preset` for a unit that it failed on.
fn unit_stays(line: &str, preset_units: &[String]) -> Option<Finding> {
    let unit = line.strip_prefix("mosb: ")?.strip_suffix(" stays as it is")?;
    let message = format!(
        "{unit}: `systemctl preset` failed on it, so its [Install] links stay as they are; -v shows what it said"
    );
    let ours = preset_units.iter().any(|preset| preset == unit);
    ours.then(|| Finding::new("unit-stays", message).object(unit))
}

/// A built image, ready to push.
#[derive(Debug)]
pub struct BuiltImage {
    /// Manifest, config, and which layers must be sent.
    pub image: Assembled,
    /// Holds `<64 hex digits>` for each layer to send, checked against its digest and diffID.
    pub blobs: PathBuf,
    /// Removes the folder of this build when dropped.
    _work: TempDir,
}

/// Builds an image.
///
/// Each line that buildah writes goes to `on_line`.
///
/// # Errors
/// No buildah, one that can't read the Containerfile, too little space, a step that fails, an image
/// that isn't this build's.
pub async fn make(
    build: &ContainerBuild,
    base: &BaseSource,
    options: &Options,
    on_line: impl FnMut(Stream, &str),
) -> Result<BuiltImage, Error> {
    let (store, work) = open(options).await?;
    let out = work.path().join(commands::OUT);
    run(build, base, options, (&store, work.path()), &out, on_line).await?;
    take_into(build, &out, work).await
}

/// Builds an image and leaves it in a folder, for a [`take`] in another process. What another build
/// left there is removed.
///
/// # Errors
/// As [`make`], before anything is taken.
pub async fn leave(
    build: &ContainerBuild,
    base: &BaseSource,
    options: &Options,
    out: &Path,
    mut on_line: impl FnMut(Stream, &str),
) -> Result<(), Error> {
    let (store, work) = open(options).await?;
    let on_line = |stream, line: &str| {
        if let Some(stays) = unit_stays(line, &build.preset_units) {
            tracing::warn!("{}", stays.message);
        }
        on_line(stream, line);
    };
    let out = std::path::absolute(out).map_err(io(out))?;
    for old in [commands::LAYOUT, commands::DIGEST].map(|name| out.join(name)) {
        let removed = if old.symlink_metadata().is_ok_and(|there| there.is_dir()) {
            fs::remove_dir_all(&old)
        } else {
            fs::remove_file(&old)
        };
        match removed {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(io(&old)(error));
            }
            _ => {}
        }
    }
    run(build, base, options, (&store, work.path()), &out, on_line).await
}

/// Takes what [`leave`] left. Nothing in the folder is trusted: `RUN` lines could write to it.
///
/// # Errors
/// It isn't this build's image, or it is damaged.
pub async fn take(build: &ContainerBuild, out: &Path) -> Result<BuiltImage, Error> {
    let work = TempDir::new().map_err(io(&std::env::temp_dir()))?;
    take_into(build, out, work).await
}

async fn take_into(build: &ContainerBuild, out: &Path, work: TempDir) -> Result<BuiltImage, Error> {
    let blobs = work.path().join("layers");
    let read = {
        let (build, out, blobs) = (build.clone(), out.to_owned(), blobs.clone());
        move || read::read(&build, &out, &blobs)
    };
    let image =
        tokio::task::spawn_blocking(read).await.expect("it does not panic and is not cancelled")?;
    Ok(BuiltImage { image, blobs, _work: work })
}

async fn open(options: &Options) -> Result<(Store, TempDir), Error> {
    let store = Store::open(&options.cache_dir, options.storage_driver.as_deref()).await?;
    let work = store.work()?;
    Ok((store, work))
}

/// Runs buildah. Files in `at` are removed with the build, those in `out` stay.
async fn run(
    build: &ContainerBuild,
    base: &BaseSource,
    options: &Options,
    (store, at): (&Store, &Path),
    out: &Path,
    mut on_line: impl FnMut(Stream, &str),
) -> Result<(), Error> {
    let version = version().await?;
    check_needs(&build.own, version)?;
    let driver = options.storage_driver.as_deref();
    check_space(build.lower(), driver, &FreeSpace::of(&options.cache_dir, driver)?)?;
    make_dir(&at.join(commands::TMP))?;
    write_context(build, options.context.as_deref(), at)?;
    volume::copy(&options.volumes, at)?;
    match base {
        BaseSource::Registry(_) => {}
        BaseSource::Layout(layout) => write_view(&build.base, layout, &at.join(commands::VIEW))?,
        BaseSource::Dir(dir) => {
            let (dir, view) = (dir.canonicalize().map_err(io(dir))?, at.join(commands::VIEW));
            symlink(dir, &view).map_err(io(&view))?;
        }
    }
    if let Some(policy) = &options.signature_policy {
        write(&at.join(commands::POLICY), policy.as_bytes())?;
    }
    let pull = commands::pull(build, base, store, options, at);
    run_again(&pull, &mut on_line).await?;
    if let Some(configs) = &build.configs {
        configs_image::load(configs, build, store, options, at, &mut on_line).await?;
    }
    let image_id = commands::image_id(at);
    write(&image_id, b"")?;
    let bud = commands::bud(build, version, store, options, at);
    let built = run_again(&bud, &mut on_line).await;
    // A build that was killed could not clean up.
    let failed = built.as_ref().err().and_then(Error::program);
    if matches!(failed, Some(exec::Error::Failed { status, .. }) if status.code().is_some()) {
        fs::remove_file(&image_id).map_err(io(&image_id))?;
    }
    built?;
    let image = read_digest(&image_id)?;
    write_out(build.lower(), out)?;
    let push = commands::push(&image, store, options, at, out);
    let pushed = run_again(&push, &mut on_line).await;
    let removed = commands::remove(&image, store, at).run(&mut on_line).await;
    match removed {
        Ok(_) => fs::remove_file(&image_id).map_err(io(&image_id))?,
        Err(error) => {
            tracing::warn!(%error, "the built image stays in buildah's store until the next build");
        }
    }
    if let Some(configs) = &build.configs {
        configs_image::remove(configs, store, at, &mut on_line).await?;
    }
    pushed?;
    Ok(())
}

/// Runs a command of buildah; retries if buildah itself fails.
async fn run_again(
    command: &Command,
    on_line: &mut impl FnMut(Stream, &str),
) -> Result<Vec<u8>, Error> {
    for attempt in 1.. {
        let error = match command.run(&mut *on_line).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let what = match &error {
            exec::Error::Failed { status, last, .. } if status.code().is_some() => {
                own_failure(last)
            }
            _ => None,
        };
        let Some(what) = what else {
            return Err(error.into());
        };
        if attempt == TRIES {
            return Err(Error::Own { what, source: error });
        }
        tracing::warn!("buildah failed by itself ({what}…); this is try {attempt} of {TRIES}");
        tokio::time::sleep(PAUSE * attempt).await;
    }
    unreachable!("the loop ends by its number of tries")
}

/// The storage driver that works here: layers mounted onto each other if they can be, else whole
/// copies.
///
/// # Errors
/// No buildah, or no place for a store.
pub async fn usable_driver(cache_dir: &Path) -> Result<&'static str, Error> {
    let store = Store::open(cache_dir, Some("overlay")).await?;
    for attempt in 1.. {
        match commands::info(&store).run(|_, _| ()).await {
            Ok(_) => return Ok("overlay"),
            // The driver decides some bytes of the layers (overlay adds unchanged directories), so
            // a failure that passes must not decide it.
            Err(exec::Error::Failed { last, .. }) if attempt < TRIES => {
                tracing::debug!("no overlay storage in try {attempt} of {TRIES}: {last}");
                tokio::time::sleep(PAUSE).await;
            }
            Err(exec::Error::Failed { last, .. }) => {
                tracing::warn!("no overlay storage here, so each layer is a whole copy: {last}");
                return Ok("vfs");
            }
            Err(other) => return Err(other.into()),
        }
    }
    unreachable!("the loop ends by its number of tries")
}

/// The command lines of a build, for `--dry-run`, in their order.
pub fn command_lines(
    build: &ContainerBuild,
    version: Version,
    base: &BaseSource,
    options: &Options,
) -> Vec<String> {
    let store = store::places(&options.cache_dir, options.storage_driver.as_deref());
    let at = options.cache_dir.join("buildah/work/build");
    let image = Digest::of(b"");
    let push = commands::push(&image, &store, options, &at, &at.join(commands::OUT)).to_string();
    let loads = build
        .configs
        .iter()
        .flat_map(|configs| [(configs.prepared_name(), PREPARED), (CONFIGS.to_owned(), CONFIGS)]);
    let loads = loads
        .map(|(name, tag)| commands::load(&name, tag, build, &store, options, &at).to_string());
    [commands::pull(build, base, &store, options, &at).to_string()]
        .into_iter()
        .chain(loads)
        .chain([
            commands::bud(build, version, &store, options, &at).to_string(),
            push.replace(&image.to_string(), "$IMAGE_ID"),
        ])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_stays_by_exactly_our_own_line() {
        let units = ["a.service".to_owned(), "b c@x.service".to_owned()];
        for (line, want) in [
            ("mosb: a.service stays as it is", Some("a.service")),
            ("mosb: b c@x.service stays as it is", Some("b c@x.service")),
            ("mosb: other.service stays as it is", None),
            (" mosb: a.service stays as it is", None),
            ("mosb: a.service stays as it is.", None),
            ("mosb:  stays as it is", None),
            ("Failed to preset unit: a.service does not exist", None),
        ] {
            let found = unit_stays(line, &units);
            let object = found.as_ref().and_then(|found| found.object.as_deref());
            assert_eq!(object, want, "{line}");
        }
    }

    /// The template prints the text that is parsed here.
    #[test]
    fn the_step_writes_that_line() {
        let template = include_str!("../../../../containerfiles/40-preset");
        assert!(template.contains("echo \"mosb: $unit stays as it is\" >&2"));
    }
}
