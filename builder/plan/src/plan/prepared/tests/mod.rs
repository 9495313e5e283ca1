//! What moves the tag of a prepared base, what has none, and what is put on one.

mod obstacle;
mod on_prepared;
mod tag;

use expect_test::expect_file;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::trust_files::trust_files;
use super::*;
use crate::plan::{Base, BaseName, BuildPlan, Draft, Method, MethodChoice};
use mosb_api::{BuildOn, RenderedConfig};
use mosb_image::overlay::LayerEntry;
use mosb_image::tree::{BaseTree, OwnedEntry};
use mosb_image::{Digest, RepoRef};
use mosb_types::Diagnostic as _;

/// All that a request is made of.
#[derive(Debug, Clone)]
struct Given {
    name: String,
    base: &'static str,
    base_name: &'static str,
    platform: &'static str,
    extensions_image: &'static str,
    bundle: Option<&'static str>,
    spec: Value,
    build_on: BuildOn,
    push: Option<&'static str>,
    own: Option<OwnInstructions>,
    last: OwnLast,
    nodes: BuilderNodes,
}

const ANCHOR: &str = "/etc/pki/ca-trust/source/anchors/acme.crt";

fn file(path: &str, content: &str) -> Value {
    json!({ "path": path, "mode": 0o644, "overwrite": true, "contents": { "source": format!("data:,{content}") } })
}

fn given() -> Given {
    Given {
        name: "rendered-worker-0123456789abcdef0123456789abcdef".to_owned(),
        base: "a",
        base_name: "quay.io/acme/os:v1",
        platform: "amd64",
        extensions_image: "e",
        bundle: Some("bundle"),
        spec: json!({
            "extensions": ["usbguard", "ipsec"], "kernelType": "realtime",
            "config": { "ignition": { "version": "3.5.0" }, "storage": {
                "files": [file(ANCHOR, "a"), file("/etc/x", "x")],
                "directories": [{ "path": "/etc/pki/ca-trust/source/anchors/more", "mode": 0o700 }],
                "links": [{ "path": "/etc/pki/ca-trust/source/anchors/link", "target": "acme.crt" }],
            } },
        }),
        build_on: BuildOn::OsChange,
        push: Some("quay.io/acme/worker"),
        own: Some(OwnInstructions {
            text: "# Why.\nFROM base AS own\nRUN a\n".to_owned(),
            canonical: "FROM base AS own\nRUN a\n".to_owned(),
            name: "own".to_owned(),
            build_args: [("A".to_owned(), "b".to_owned())].into(),
            context: Vec::new(),
        }),
        last: OwnLast::Nothing,
        nodes: BuilderNodes::Any,
    }
}

impl Given {
    fn request(&self) -> BuildRequest {
        let image = json!({ "os": "linux", "architecture": self.platform, "config": {},
            "rootfs": { "type": "layers", "diff_ids": [Digest::of(b"layer")] } });
        let manifest = json!({ "config": {}, "layers": [{}], "other": self.base }).to_string();
        let name = BaseName::from_os_image_url(self.base_name).unwrap();
        let image = image.to_string();
        let base = Base::new(name, "x".to_owned(), None, manifest.as_bytes(), image.as_bytes());
        let config = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": { "name": self.name }, "spec": self.spec,
        });
        let repo: RepoRef = "quay.io/acme/extensions".parse().unwrap();
        BuildRequest {
            extensions_image: Some(repo.pinned(Digest::of(self.extensions_image.as_bytes()))),
            trust_bundle: self.bundle.map(Into::into),
            containerfile: match (&self.own, self.last) {
                (None, OwnLast::Nothing) => None,
                (None, _) => Some("RUN last".to_owned()),
                (Some(own), _) => Some(own.text.clone()),
            },
            build_on: self.build_on,
            push: self.push.map(|push| push.parse().unwrap()),
            ..BuildRequest::new(RenderedConfig::from_value(config).unwrap(), base.unwrap())
        }
    }

    fn prepared(&self) -> Result<Prepared, Obstacle> {
        Draft::new(self.request()).unwrap().prepared(self.parts(), self.nodes)
    }

    fn parts(&self) -> OwnParts {
        OwnParts { prepared: self.own.clone(), last: self.last }
    }

    fn tag(&self) -> String {
        self.prepared().unwrap().tag().to_string()
    }
}

type Change = fn(&mut Given);

fn storage<'a>(given: &'a mut Given, kind: &str) -> &'a mut Vec<Value> {
    given.spec["config"]["storage"][kind].as_array_mut().unwrap()
}

/// The file at a path, wherever it is in the list.
fn entry<'a>(given: &'a mut Given, path: &str) -> &'a mut Value {
    storage(given, "files").iter_mut().find(|file| file["path"] == path).unwrap()
}

fn anchor(given: &mut Given) -> &mut Value {
    entry(given, ANCHOR)
}
