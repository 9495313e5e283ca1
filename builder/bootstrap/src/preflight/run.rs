//! Checks all images in parallel, within a fixed time.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::image::{self, Stock, push};
use super::report::{CheckedImage, ImageCheck, Kind, Outcome, Report};
use super::{ImageToCheck, Remedies};
use mosb_registry::Client;

/// Timeout of all checks.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of the other checks after one failed, so that all failures are reported together.
const TIMEOUT_AFTER_FAILURE: Duration = Duration::from_secs(3);
/// Images that are checked in parallel.
const MAX_PARALLEL_IMAGES: usize = 16;

/// Makes all checks and logs each when it ends. A registry can make neither the function fail nor
/// last longer than the timeout.
pub async fn check(wanted: Vec<ImageToCheck>, remedies: Remedies) -> Report {
    let began = Instant::now();
    let mut images: Vec<CheckedImage> = wanted.iter().map(empty).collect();
    let kinds: Vec<Vec<Kind>> = wanted.iter().map(kinds).collect();
    let (send, mut ended) = mpsc::unbounded_channel();
    let (stop, stopped) = watch::channel(false);
    let slots = std::sync::Arc::new(tokio::sync::Semaphore::new(MAX_PARALLEL_IMAGES));
    let key = |wanted: &ImageToCheck| (wanted.cluster.base.clone(), wanted.platform.clone());
    let mut clients: HashMap<_, Vec<Client>> = HashMap::new();
    for wanted in &wanted {
        let known = clients.entry(key(wanted)).or_default();
        if !known.iter().any(|client| client.is_same(&wanted.pull)) {
            known.push(wanted.pull.clone());
        }
    }
    let stocks: HashMap<_, Stock> = clients
        .into_iter()
        .map(|((base, platform), clients)| {
            let read = image::stock(clients, base.clone(), platform.clone());
            ((base, platform), read.boxed().shared())
        })
        .collect();
    let mut tasks = JoinSet::new();
    for (number, wanted) in wanted.into_iter().enumerate() {
        let stock = stocks[&key(&wanted)].clone();
        let (send, slots) = (send.clone(), std::sync::Arc::clone(&slots));
        let (mut image_stopped, mut push_stopped) = (stopped.clone(), stopped.clone());
        tasks.spawn(async move {
            let report = |check: ImageCheck| {
                // The receiver is dropped after the timeout.
                let _ = send.send((number, check));
            };
            let of_image = async {
                let checks = async {
                    let _slot = slots.acquire().await;
                    image::checks(&wanted, remedies, stock, &report).await;
                };
                tokio::select! {
                    () = checks => {}
                    _ = image_stopped.wait_for(|stop| *stop) => {}
                }
            };
            let of_push = async {
                let Some(wanted) = &wanted.push else {
                    return;
                };
                let began = Instant::now();
                if let Some(check) = push(wanted, remedies, &mut push_stopped).await {
                    report(ImageCheck { took: began.elapsed(), ..check });
                }
            };
            futures_util::join!(of_image, of_push);
        });
    }
    drop(send);
    let mut deadline = began + CHECK_TIMEOUT;
    let mut failed = false;
    while let Ok(Some((number, check))) = tokio::time::timeout_at(deadline, ended.recv()).await {
        if check.outcome == Outcome::Failed {
            failed = true;
            deadline = deadline.min(Instant::now() + TIMEOUT_AFTER_FAILURE);
        }
        let image: &mut CheckedImage = &mut images[number];
        log(image, &check);
        image.checks.push(check);
    }
    // Uploads are still cancelled.
    stop.send_replace(true);
    while tasks.join_next().await.is_some() {}
    while let Ok((number, check)) = ended.try_recv() {
        log(&images[number], &check);
        images[number].checks.push(check);
    }
    for (image, kinds) in images.iter_mut().zip(kinds) {
        for kind in kinds {
            if image.checks.iter().all(|check| check.kind != kind) {
                let check = unended(kind, failed);
                log(image, &check);
                image.checks.push(check);
            }
        }
        image.checks.sort_by_key(|check| check.kind.rank());
    }
    Report::new(images, began.elapsed())
}

fn empty(wanted: &ImageToCheck) -> CheckedImage {
    CheckedImage {
        object: wanted.object.clone(),
        image: wanted.image.to_string(),
        checks: Vec::new(),
    }
}

fn kinds(wanted: &ImageToCheck) -> Vec<Kind> {
    let listed = image::not_made(wanted, "").into_iter().map(|check| check.kind);
    let push = wanted.push.as_ref().map(|_| Kind::Push);
    [Kind::Registry, Kind::Pull].into_iter().chain(listed).chain(push).collect()
}

/// A check that did not end in time.
fn unended(kind: Kind, failed: bool) -> ImageCheck {
    if failed {
        return ImageCheck::skipped(kind, "not waited for, as another check has failed");
    }
    ImageCheck::not_passed(
        kind,
        Outcome::Unknown,
        "timed-out",
        format!("no answer within {} s", CHECK_TIMEOUT.as_secs()),
        "check the network and the registry, and run it again",
    )
}

/// Logs a check: result and remedy.
fn log(image: &CheckedImage, check: &ImageCheck) {
    let (kind, outcome, text) = (check.kind.as_str(), check.outcome.as_str(), check.sentence());
    let object = match &image.object {
        None => image.image.to_string(),
        Some(object) => format!("{object} ({})", image.image),
    };
    let took = check.took.as_millis();
    match check.outcome {
        Outcome::Failed | Outcome::Unknown => {
            tracing::error!("check {kind} of {object}: {outcome} after {took} ms: {text}");
        }
        Outcome::Passed | Outcome::Skipped => {
            tracing::info!("check {kind} of {object}: {outcome} after {took} ms: {text}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preflight::{Cluster, Push, options};
    use mosb_api::image_checks::ImageCheckSettings;
    use mosb_registry::Options;

    fn wanted(client: &Client, host: &str) -> ImageToCheck {
        ImageToCheck {
            object: Some("MachineOSConfig worker".to_owned()),
            image: format!("{host}/os:v1").parse().unwrap(),
            pull: client.clone(),
            push: Some(Push {
                repo: format!("{host}/os").parse().unwrap(),
                client: client.clone(),
            }),
            platform: None,
            cluster: Cluster::default(),
            checks: ImageCheckSettings::default(),
        }
    }

    /// Paused time advances when all tasks wait.
    #[tokio::test(start_paused = true)]
    async fn registries_that_hang_are_given_up_in_time() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let silent = silent.local_addr().unwrap().to_string();
        let folder = tempfile::tempdir().unwrap();
        let conf = folder.path().join("registries.conf");
        let mirror = format!("[[registry.mirror]]\nlocation = '{silent}/mirror'\n");
        let text = format!("[[registry]]\nlocation = 'mirrored.example'\n{}", mirror.repeat(3));
        std::fs::write(&conf, text).unwrap();
        let client =
            Client::new(&Options { registries_conf: Some((conf, true)), ..options() }).unwrap();
        for (what, host) in [("one", &*silent), ("mirrors after mirrors", "mirrored.example")] {
            let began = Instant::now();
            let mut all = vec![wanted(&client, host)];
            all[0].push = (host == silent).then(|| all[0].push.clone()).flatten();
            let report = check(all, Remedies::Manifests).await;
            assert!(began.elapsed() <= CHECK_TIMEOUT + Duration::from_secs(5), "{what}");
            assert_eq!(report.outcome, Outcome::Unknown, "{what}: {report:?}");
            let registry = &report.images[0].checks[0];
            assert_eq!(
                (&registry.kind, registry.code),
                (&Kind::Registry, Some("timed-out")),
                "{what}"
            );
            assert!(report.verdict().is_err(), "{what}");
        }
    }

    #[tokio::test]
    async fn without_images_there_are_no_checks() {
        let report = check(Vec::new(), Remedies::ByHand).await;
        assert_eq!(report.outcome, Outcome::Passed);
        assert!(report.verdict().is_ok());
    }
}
