//! Tables of each platform, on streams with the shape of published ones.

mod aws;
mod azure;
mod azure_uploads;
mod gcp;
mod hostile;
mod images_in_use;
mod kubevirt;
mod metal3;
mod openstack;
mod restore;
mod vsphere;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    Architecture, BootImage, Change, Context, ImageError, PlatformType, Proof, Stream,
    TemplateKind, Verdict,
};
use mosb_types::Diagnostic as _;

const FEDORA: &str = include_str!("../../../../../testdata/boot-image/fedora-coreos.json");
const RHEL: &str = include_str!("../../../../../testdata/boot-image/rhel-coreos.json");

/// What a verdict depends on beside the value.
#[derive(Debug, Clone)]
struct Fixture {
    stream: Stream,
    architecture: Architecture,
    proof: Proof,
    region: Option<String>,
    cluster_spec: Option<Value>,
    by_release: BTreeMap<String, String>,
}

impl Fixture {
    fn new(stream: &str) -> Self {
        Self {
            stream: serde_json::from_str(stream).unwrap(),
            architecture: Architecture::X86_64,
            proof: Proof::default(),
            region: None,
            cluster_spec: None,
            by_release: BTreeMap::new(),
        }
    }

    fn fedora() -> Self {
        Self::new(FEDORA)
    }

    fn rhel() -> Self {
        Self::new(RHEL)
    }

    /// Without one part of the stream, by JSON pointer.
    fn without(mut self, stream: &str, path: &str) -> Self {
        let mut value: Value = serde_json::from_str(stream).unwrap();
        let (parent, key) = path.rsplit_once('/').unwrap();
        let parent = value.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        parent.remove(key).unwrap_or_else(|| panic!("{path}"));
        self.stream = serde_json::from_value(value).unwrap();
        self
    }

    fn on(mut self, architecture: Architecture) -> Self {
        self.architecture = architecture;
        self
    }

    fn proven(mut self, image: &str) -> Self {
        self.proof.images.insert(image.to_owned());
        self
    }

    fn vouched(mut self) -> Self {
        self.proof.vouched = true;
        self
    }

    fn region(mut self, region: &str) -> Self {
        self.region = Some(region.to_owned());
        self
    }

    fn mapped(mut self, release: &str, name: &str) -> Self {
        self.by_release.insert(release.to_owned(), name.to_owned());
        self
    }

    fn context(&self) -> Context<'_> {
        Context {
            stream: &self.stream,
            architecture: self.architecture,
            proof: &self.proof,
            region: self.region.as_deref(),
            cluster_spec: self.cluster_spec.as_ref(),
            by_release: &self.by_release,
        }
    }

    fn machine_api(&self, platform: &str, spec: &Value) -> Outcome {
        let platform: PlatformType = platform.parse().unwrap();
        let image = super::machine_api_image(&platform, spec, &self.by_release);
        Outcome::judged(super::machine_api(&platform, spec, &self.context()), image, spec)
    }

    fn cluster_api(&self, kind: TemplateKind, spec: &Value) -> Outcome {
        let image = super::cluster_api_image(kind, spec, &self.by_release);
        Outcome::judged(super::cluster_api(kind, spec, &self.context()), image, spec)
    }
}

/// A verdict in one line, and the value with the change.
#[derive(Debug)]
struct Outcome {
    line: String,
    after: Value,
    image: Option<BootImage>,
}

impl Outcome {
    /// With the image that is read whatever the verdict is.
    fn judged(
        verdict: Result<Verdict, ImageError>,
        image: Result<Option<BootImage>, ImageError>,
        spec: &Value,
    ) -> Self {
        if let Ok(Verdict::Current(judged) | Verdict::Change(Change { from: judged, .. })) =
            &verdict
        {
            assert_eq!(image.as_ref().ok(), Some(&Some(judged.clone())), "{spec}");
        }
        Self { image: image.unwrap_or_default(), ..Self::new(verdict, spec) }
    }

    /// `current IMAGE`, `FROM → TO`, `skip CODE`, `error CODE`.
    fn new(verdict: Result<Verdict, ImageError>, spec: &Value) -> Self {
        let mut after = spec.clone();
        let line = match verdict {
            Ok(Verdict::Current(image)) => format!("current {image}"),
            Ok(Verdict::Change(change)) => {
                assert!(!change.edits.is_empty(), "{spec}");
                change.apply(&mut after).unwrap();
                format!("{} → {}", change.from, change.to)
            }
            Ok(Verdict::Skip(skip)) => format!("skip {}", skip.code()),
            Err(error) => format!("error {}", error.code()),
        };
        Self { line, after, image: None }
    }
}

#[test]
fn platforms_whose_images_are_changed_by_hand() {
    let names = [
        ("BareMetal", "skip managed-elsewhere"),
        ("OpenStack", "skip platform"),
        ("KubeVirt", "skip platform"),
        ("Nutanix", "skip platform"),
        ("PowerVS", "skip platform"),
        ("IBMCloud", "skip platform"),
        ("oVirt", "skip platform"),
        ("Libvirt", "skip platform"),
        ("AlibabaCloud", "skip platform"),
        ("EquinixMetal", "skip platform"),
        ("External", "skip platform"),
        ("None", "skip platform"),
        ("", "skip platform"),
    ];
    for (name, want) in names {
        let outcome = Fixture::rhel().machine_api(name, &Value::Null);
        assert_eq!(outcome.line, want, "{name}");
    }
}
