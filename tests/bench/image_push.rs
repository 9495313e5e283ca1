//! The push of an image that buildah made on a big base: by buildah, and by mosb.

use std::fs;
use std::time::{Duration, Instant};

use mosb_build::buildah::{self, BaseSource, ContainerBuild, Options};

use crate::build;
use crate::fixture::{Base, Fixture};
use crate::peers::Store;
use crate::race::{Contender, race};
use crate::report::{Report, Table};

pub fn measure(fixture: &Fixture, base: &Base, rounds: usize, report: &mut Report) {
    let store = Store::empty(fixture);
    store.pull(base);
    let times = race(vec![
        Contender::new("buildah push", rounds, || {
            let (name, _) = store.build(fixture, base);
            store.push(base.repository(), &name)
        }),
        Contender::new("mosb, from the end of buildah's build on", rounds, || ours(fixture, base)),
    ]);
    report.table("image", Table::of_race(&times, "buildah push"));
}

/// The last lines of buildah's output for a build.
const BUILT: [&str; 2] = ["Writing manifest to image destination", "Storing signatures"];

fn ours(fixture: &Fixture, base: &Base) -> Duration {
    let options = Options {
        cache_dir: fixture.shared("buildah-cache"),
        storage_driver: Some("overlay".to_owned()),
        isolation: None,
        volumes: Vec::new(),
        context: None,
        authfile: None,
        cert_dir: None,
        tls_verify: false,
        registries_conf: None,
        signature_policy: None,
        limit: Duration::from_secs(1800),
    };
    fs::create_dir_all(&options.cache_dir).unwrap();
    let job = fixture.job(base, base.repository());
    let target = job.target.clone();
    let client = fixture.client();
    fixture.runtime.block_on(async {
        let (plan, resolved) = build::containerfile_plan(&client, job).await;
        let from = resolved.pinned().expect("it is in a registry");
        let mut containerfile = format!("FROM {from}\nCOPY . /usr/share/site/\n");
        for (label, value) in &plan.labels {
            containerfile += &format!("LABEL {label}={value:?}\n");
        }
        let build = ContainerBuild::of_plan(&plan, containerfile).unwrap();
        let source = BaseSource::of(&resolved);
        let mut built = None;
        let made = buildah::make(&build, &source, &options, |_, line| {
            if BUILT.contains(&line) {
                built = Some(Instant::now());
            }
        });
        let made = made.await.unwrap();
        let push = buildah::push_plan(&build, &made, &resolved);
        client.push(&target, &push).await.unwrap();
        built.expect("buildah logs when it is done").elapsed()
    })
}
