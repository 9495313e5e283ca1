//! Checks that an image can be pulled and is compatible with the machines, and that later ones can be pushed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, Shared};
use tokio::sync::watch;

use super::explain::{explain, is_permanent};
use super::report::{ImageCheck, Kind, Outcome};
use super::{ImageToCheck, Push, Remedies};
use mosb_api::image_checks::CheckName;
use mosb_build::signature_verdict;
use mosb_image::{ImageRef, Platform};
use mosb_plan::image_checks::{CheckByHand, CheckFailure, Facts, Verdict, by_hand};
use mosb_plan::plan::{Base, BaseName};
use mosb_registry::{Client, Error, PullRepository, Resolved, Source};

/// The cluster's own OS image, which is read once for all images, or the reason why it can't be
/// read.
pub(super) type Stock = Shared<BoxFuture<'static, Arc<Result<Base, String>>>>;

/// Reads the labels of the cluster's own OS image, with the first logins that have the right.
pub(super) async fn stock(
    clients: Vec<Client>,
    base: Option<ImageRef>,
    platform: Option<Platform>,
) -> Arc<Result<Base, String>> {
    let Some(base) = base else {
        let message = "nothing says what the cluster's OS image is";
        return Arc::new(Err(message.to_owned()));
    };
    let source = Source::Registry(base);
    let mut refused = None;
    let mut read = Err("nobody asks for it".to_owned());
    for client in clients {
        match client.resolve_of_any_platform(&source, platform.as_ref()).await {
            // Other logins may have more rights. A registry may also report a missing right as not
            // found.
            Err(error @ (Error::Denied { .. } | Error::NotFound { .. })) => {
                refused.get_or_insert(error.to_string());
            }
            Ok(resolved) => {
                read = parse_base(&resolved);
                refused = None;
                break;
            }
            Err(error) => {
                read = Err(error.to_string());
                break;
            }
        }
    }
    let read = refused.map_or(read, Err);
    Arc::new(read.map_err(|why| format!("the cluster's OS image can't be read: {why}")))
}

/// Parses manifest and config of an image.
fn parse_base(image: &Resolved) -> Result<Base, String> {
    let text = image.pinned_text();
    let name = BaseName::from_layout(image.manifest);
    let (manifest, config) = (&image.manifest_bytes, &image.config_bytes);
    Base::new(name, text, image.index, manifest, config).map_err(|error| error.to_string())
}

/// The answer of a registry or mirror to a request for the image.
enum Answer {
    /// The requested image.
    Image(Box<Resolved>),
    /// An index without an image for these machines, or with several candidates.
    NotThis(Error),
}

/// Makes all checks of an image except the push, and reports each when it ends.
pub(super) async fn checks(
    wanted: &ImageToCheck,
    remedies: Remedies,
    stock: Stock,
    ended: impl Fn(ImageCheck),
) {
    let clock = Clock::default();
    let host = wanted.image.repo().host();
    let ended = |check: ImageCheck, took: Duration| ended(ImageCheck { took, ..check });
    let skip = |is_pull_left: bool, why: &str| {
        let pull = is_pull_left.then(|| ImageCheck::skipped(Kind::Pull, why));
        pull.into_iter()
            .chain(not_made(wanted, why))
            .for_each(|check| ended(check, Duration::ZERO));
    };
    let places = match wanted.pull.pull_repositories(&wanted.image) {
        Ok(places) => places,
        Err(error) => {
            ended(explain(Kind::Registry, &error, host, remedies), clock.lap());
            return skip(true, "it can't be asked for");
        }
    };
    let (mut silent, mut refused, mut found, mut answered) = (Vec::new(), Vec::new(), None, false);
    for place in &places {
        if let Err(error) = place.answers().await {
            silent.push((place, error));
            continue;
        }
        if !answered {
            answered = true;
            ended(answers(place, &silent), clock.lap());
        }
        match ask(place, wanted, &stock).await {
            Ok(answer) => {
                found = Some((place, answer));
                break;
            }
            Err(error) => refused.push((place, error)),
        }
    }
    if !answered {
        let check = nowhere(Kind::Registry, &silent, remedies);
        ended(check, clock.lap());
        return skip(true, "no registry answers for it");
    }
    let (place, image) = match found {
        Some((place, Answer::Image(image))) => (place, image),
        Some((_, Answer::NotThis(error))) => {
            let why = "it has none for these machines";
            ended(ImageCheck::skipped(Kind::Pull, why), Duration::ZERO);
            let kind = Kind::built_in(CheckName::Architecture);
            let failed = explain(kind, &error, host, remedies);
            return with_failed(wanted, why, failed).for_each(|check| ended(check, clock.lap()));
        }
        None => {
            refused.append(&mut silent);
            ended(nowhere(Kind::Pull, &refused, remedies), clock.lap());
            return skip(false, "it can't be read");
        }
    };
    ended(blobs(place, &image, remedies).await, clock.lap());
    let base = match parse_base(&image) {
        Ok(base) => base,
        Err(why) => {
            let kind = Kind::built_in(CheckName::Bootable);
            let (code, remedy) = ("bad-manifest", "build and push it again");
            let failed = ImageCheck::not_passed(kind, Outcome::Failed, code, why, remedy);
            return with_failed(wanted, "it can't be understood", failed)
                .for_each(|check| ended(check, clock.lap()));
        }
    };
    let stock = stock.await;
    for check in listed(wanted, &image, &base, (*stock).as_ref(), remedies).await {
        ended(check, clock.lap());
    }
}

/// Makes the checks that clusters make, as far as they need none.
async fn listed(
    wanted: &ImageToCheck,
    image: &Resolved,
    base: &Base,
    stock: Result<&Base, &String>,
    remedies: Remedies,
) -> Vec<ImageCheck> {
    let stock = stock.map_err(|why| &**why);
    let machines = match (&wanted.platform, stock) {
        (Some(platform), _) => Ok((platform, "the machines are")),
        (None, Ok(stock)) => Ok((&stock.config.platform, "the cluster's OS image is")),
        (None, Err(why)) => Err(why),
    };
    // Machines pull by this digest, whatever tag is written here.
    let digest = wanted.image.digest().or(image.index).unwrap_or(image.manifest);
    let pinned = wanted.image.repo().pinned(digest);
    let (signature, unread) = match signature_verdict(&wanted.pull, &pinned).await {
        Ok(verdict) => (verdict, None),
        Err(error) => (Verdict::Unknown(String::new()), Some(error)),
    };
    let facts = Facts {
        image: base,
        base: Err("only the image is read"),
        contents: Err("its tree is not read here; mosb inspect --packages lists them"),
        platform: machines,
        cluster: &wanted.cluster,
        stock,
        kubernetes: Err("no cluster is asked"),
        held_packages: &wanted.checks.held_packages,
        max_size_mib: wanted.checks.max_size_mib,
        signature: &signature,
    };
    let made = by_hand(Ok(facts), &wanted.checks).into_iter().map(in_report);
    let host = wanted.image.repo().host();
    made.map(|check| match &unread {
        Some(error) if check.kind == Kind::built_in(CheckName::Signature) => {
            explain(check.kind, error, host, remedies)
        }
        _ => check,
    })
    .collect()
}

/// The checks that clusters make, of an image that is not known: why.
pub(super) fn not_made(wanted: &ImageToCheck, why: &str) -> Vec<ImageCheck> {
    by_hand(Err(why), &wanted.checks).into_iter().map(in_report).collect()
}

/// The same with one that failed, also if the settings turn it off: the image can't be used at all.
fn with_failed(
    wanted: &ImageToCheck,
    why: &str,
    failed: ImageCheck,
) -> impl Iterator<Item = ImageCheck> {
    let mut checks = not_made(wanted, why);
    match checks.iter_mut().find(|check| check.kind == failed.kind) {
        Some(check) => *check = failed,
        None => checks.push(failed),
    }
    checks.into_iter()
}

fn in_report(CheckByHand { name, verdict, mode: _ }: CheckByHand) -> ImageCheck {
    let kind = Kind::Listed(name);
    match verdict {
        Verdict::Passed(message) => ImageCheck::passed(kind, message),
        Verdict::Unknown(why) => ImageCheck::skipped(kind, why),
        Verdict::Failed(CheckFailure { code, message, remedy }) => {
            ImageCheck::not_passed(kind, Outcome::Failed, code, message, remedy)
        }
    }
}

/// Time since the last check.
struct Clock(std::cell::Cell<Instant>);

impl Default for Clock {
    fn default() -> Self {
        Self(std::cell::Cell::new(Instant::now()))
    }
}

impl Clock {
    fn lap(&self) -> Duration {
        self.0.replace(Instant::now()).elapsed()
    }
}

/// Requests the image for these machines from a registry or mirror.
async fn ask(
    place: &PullRepository,
    wanted: &ImageToCheck,
    stock: &Stock,
) -> Result<Answer, Error> {
    let image = &wanted.image;
    let resolved = match place.resolve(image, wanted.platform.as_ref()).await {
        // The machines have the platform of the cluster's own image.
        Err(Error::PlatformAmbiguous { image: text, has }) => match &*stock.clone().await {
            Ok(stock) => place.resolve(image, Some(&stock.config.platform)).await,
            Err(_) => Err(Error::PlatformAmbiguous { image: text, has }),
        },
        // An image that is not in an index is checked anyway.
        Err(missing @ Error::PlatformMissing { .. }) => match place.resolve(image, None).await {
            Ok(resolved) => Ok(resolved),
            Err(_) => Err(missing),
        },
        other => other,
    };
    match resolved {
        Ok(resolved) => Ok(Answer::Image(Box::new(resolved))),
        Err(error @ (Error::PlatformMissing { .. } | Error::PlatformAmbiguous { .. })) => {
            Ok(Answer::NotThis(error))
        }
        Err(error) => Err(error),
    }
}

/// A registry or mirror answers, and the earlier ones don't.
fn answers(place: &PullRepository, silent: &[(&PullRepository, Error)]) -> ImageCheck {
    let what = if place.is_mirror() { "mirror " } else { "" };
    let mut message = format!("{what}{} answers", place.repo().host());
    for (mirror, error) in silent {
        message.push_str(&format!("; mirror {} does not: {error}", mirror.repo()));
    }
    ImageCheck::passed(Kind::Registry, message)
}

/// Merges the errors of all registries and mirrors. A permanent error has priority over a transient
/// one, because a retry would return it again.
fn nowhere(kind: Kind, failures: &[(&PullRepository, Error)], remedies: Remedies) -> ImageCheck {
    let explain = |(place, error): &(&PullRepository, Error)| {
        explain(kind.clone(), error, place.repo().host(), remedies)
    };
    let decisive = failures.iter().find(|(_, error)| is_permanent(error));
    let decisive = decisive.or(failures.last());
    let check = explain(decisive.expect("there is always a place, and none succeeded"));
    if let [(place, _)] = failures
        && !place.is_mirror()
    {
        return check;
    }
    let each = failures
        .iter()
        .map(|failure| format!("at {}: {}", failure.0.repo(), explain(failure).message));
    let message = each.collect::<Vec<_>>().join("; ");
    ImageCheck { message, ..check }
}

/// Checks that all blobs of the manifest exist, and reads the beginning of a layer.
async fn blobs(place: &PullRepository, image: &Resolved, remedies: Remedies) -> ImageCheck {
    let text = image.pinned_text();
    let layer = image.layers.last();
    let read = async {
        match layer {
            Some(layer) => place.read_beginning(layer).await,
            None => Ok(0),
        }
    };
    let (missing, read) = futures_util::join!(place.missing(&image.layers), read);
    let host = place.repo().host();
    let missing_layers = match (&missing, &read) {
        (Ok(missing), _) if !missing.is_empty() => missing.clone(),
        (_, Err(Error::NotFound { .. })) => layer.map(|layer| layer.digest).into_iter().collect(),
        (Err(error), _) | (_, Err(error)) => return explain(Kind::Pull, error, host, remedies),
        (Ok(_), Ok(_)) => Vec::new(),
    };
    let all = image.layers.len();
    match missing_layers.first() {
        Some(first) => ImageCheck::not_passed(
            Kind::Pull,
            Outcome::Failed,
            "blob-missing",
            format!(
                "{text}: its manifest is there, but {} of its {all} layers are not, such as {first}",
                missing_layers.len()
            ),
            format!("push the image to {} again", place.repo()),
        ),
        None => ImageCheck::passed(
            Kind::Pull,
            format!(
                "manifest, config and the beginning of a layer were read at {}, and all layers are there ({all})",
                place.repo()
            ),
        ),
    }
}

/// Begins an upload and cancels it. Returns `None` if it must stop before the registry answers.
pub(super) async fn push(
    push: &Push,
    remedies: Remedies,
    stop: &mut watch::Receiver<bool>,
) -> Option<ImageCheck> {
    let begun = tokio::select! {
        begun = push.client.open_upload(&push.repo) => begun,
        _ = stop.wait_for(|stop| *stop) => return None,
    };
    let repo = &push.repo;
    Some(match begun {
        Ok(upload) => {
            let left = if upload.cancel().await {
                "was begun and cancelled"
            } else {
                "was begun; the registry did not cancel it, and will drop it by itself"
            };
            ImageCheck::passed(Kind::Push, format!("an upload to {repo} {left}"))
        }
        Err(error) => explain(Kind::Push, &error, repo.host(), remedies),
    })
}
