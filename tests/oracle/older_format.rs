//! Images in the format of an earlier version of mosb. A cluster after an upgrade still has their
//! names, and Jobs that build them.

use std::fs;

use mosb_build::direct;
use mosb_build::resolve::{self, PlanContext};
use mosb_plan::plan::Format;
use serde_json::{Value, json};

use crate::job_pod::{Pod, manifest, registry};
use mosb_tests::build_fixture::{BuildFixture, config};
use mosb_tests::buildah_fixture::{block_on, resolved_draft};
use mosb_tests::registry_fixture::anonymous_client;
use mosb_tests::{Mosb, Registry};

/// The digest of the image of [`config`] from version 0.1.0.
const V1: &str = "sha256:7a682bacf5d279d2f27e4786b8316ae3ca684d99da564825d85155eb337dd5bc";

#[test]
fn an_image_of_an_older_format_has_the_digest_that_it_had() {
    let fixture = BuildFixture::new();
    let client = anonymous_client();
    let context = PlanContext { client: &client, trees: None, on_step: &|_| {} };
    let digest = block_on(async {
        let config = serde_json::from_str(&config()).unwrap();
        let mut resolved_draft =
            resolved_draft(context, config, &fixture.reference(), None, None).await;
        resolved_draft.draft = resolved_draft.draft.in_format(Format::V1);
        let plan = resolve::finish(context, resolved_draft).await.unwrap().plan;
        direct::assemble(&plan).unwrap().edited.digest()
    });
    assert_eq!(digest.to_string(), V1);
}

/// The manifest and labels of a build's image.
fn image(registry: &Registry, pod: &Pod) -> (Value, Value) {
    let manifest = manifest(registry, "acme/os", &pod.build).unwrap();
    let config = manifest["config"]["digest"].as_str().unwrap();
    let config = fs::read(registry.blob_path(config)).unwrap();
    let config: Value = serde_json::from_slice(&config).unwrap();
    (manifest, config["config"]["Labels"].clone())
}

#[test]
fn a_job_makes_the_image_in_the_format_that_its_build_is_named_for() {
    let registry = registry();
    let base = registry.repository("acme/base:v1");
    let push = registry.repository("acme/os");
    let mut pod = Pod::new(registry.address(), &config(), None);
    pod.run(pod.direct(&[])).ok();
    let (manifest, labels) = image(&registry, &pod);
    assert_eq!(labels["mosb.dev/format"], "2");
    let named = "org.opencontainers.image.base.name";
    let based = "org.opencontainers.image.base.digest";
    let annotations = json!({ named: labels[named], based: labels[based] });
    assert_eq!(manifest["annotations"], annotations);

    let client = anonymous_client();
    let context = PlanContext { client: &client, trees: None, on_step: &|_| {} };
    let config = serde_json::from_str(&config()).unwrap();
    let draft = block_on(resolved_draft(context, config, &base, None, Some(&push))).draft;
    let name = |format| draft.names_in(format).1.to_string();
    assert_eq!(name(Format::V2), pod.build);
    pod.build = name(Format::V1);
    pod.run(pod.direct(&[])).ok();
    let (manifest, labels) = image(&registry, &pod);
    assert_eq!(labels["mosb.dev/format"], "1");
    assert_eq!(manifest["annotations"], Value::Null);
}

#[test]
fn only_images_of_every_config_are_of_the_newest_format() {
    for (configs, format) in [("os-change", "2"), ("every-config", "3")] {
        let registry = registry();
        // The build is named by `mosb plan` with the same flags.
        let flags = ["--build-on", configs];
        let pod = Pod::with(Mosb::new(), registry.address(), &config(), None, &flags);
        pod.run(pod.direct(&[])).ok();
        let (_, labels) = image(&registry, &pod);
        assert_eq!(labels["mosb.dev/format"], format, "{configs}");
    }
}
