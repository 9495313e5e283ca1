//! A control plane for any number of pools: etcd, the API server and a registry. This module is a
//! stand-in for the Job controller, the kubelet and the garbage collector, which do not run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use hyper::http::Request;
use k8s_openapi::api::batch::v1::Job;
use kube::api::{DynamicObject, ListParams, PartialObjectMeta};
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::fixture::Fixture;
use crate::{cluster, config};
use mosb_cluster::kinds;
use mosb_tests::{Image, Layout, Node, programs};

pub const NAMESPACE: &str = "pools";
pub const RAW_NAMESPACE: &str = "raw";
/// The number of parallel requests, equal to the controller's workers.
pub const AT_ONCE: usize = 16;
/// Machines that stage an image at once.
const STAGING: u32 = 50;
/// The roll-out policy of twenty rings, in order of the ages of machines.
pub const RINGS: &str = "rings";
/// The timeout of every wait, on a busy machine.
const LIMIT: Duration = Duration::from_secs(900);
const MACHINE: &str = "machineconfiguration.openshift.io";

/// The metadata of an object in an answer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Left {
    pub uid: String,
    pub resource_version: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answer {
    metadata: Left,
}

pub struct Site {
    // The runtime is dropped before the node, so its watch ends first.
    pub runtime: Runtime,
    pub client: Client,
    pub node: Node,
    push: String,
    base: String,
    /// The digest of the image that every build reports.
    pub image: String,
    /// All Jobs by name.
    jobs: Arc<Mutex<BTreeMap<String, Job>>>,
}

/// Sends a request and returns the metadata of the answer.
pub async fn send(
    client: &Client,
    method: &str,
    target: &str,
    body: Vec<u8>,
) -> Result<Left, kube::Error> {
    let content = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder().method(method).uri(target);
    let request = request.header("content-type", content).body(body).unwrap();
    Ok(client.request::<Answer>(request).await?.metadata)
}

impl Site {
    pub fn new(fixture: &Fixture) -> Self {
        let node = Node::control_plane(&programs()).unwrap();
        let crds = mosb_tests::repository().join("deploy/crds");
        node.kubectl(&["apply", "-k", crds.to_str().unwrap()]).ok();
        let established = ["wait", "--for=condition=Established", "crd", "--all"];
        node.kubectl(&established).ok();
        let layout = Layout::create(&fixture.fresh("pools-images"));
        let registry = node.registry();
        let image = layout.put("os", &Image::new().label("image", "os"));
        registry.push(&layout.reference("os"), "pools/os:1");
        layout.put("base", &Image::new());
        registry.push(&layout.reference("base"), "pools/base:1");
        let runtime = Runtime::new().unwrap();
        let client = cluster::client(&runtime, &node);
        let site = Self {
            push: registry.repository("pools/os"),
            base: registry.repository("pools/base:1"),
            image,
            jobs: Arc::default(),
            client,
            runtime,
            node,
        };
        site.settle();
        let api = Api::namespaced(site.client.clone(), NAMESPACE);
        site.runtime.spawn(follow(api, Arc::clone(&site.jobs)));
        site
    }

    /// Creates the objects that mosb needs besides pools.
    fn settle(&self) {
        let registry = self.node.registry();
        let settings = json!({ "builderImage": format!("mosb.test/none@sha256:{:064}", 0),
            "imageRegistryBundles": { &registry.host_port: registry.ca_pem },
            "rollout": { "stagingPerRegistry": STAGING },
            "rolloutPolicies": { RINGS: { "rings": vec![json!({ "percent": 5 }); 19] } } });
        let secret = |name: &str, login: Value| {
            json!({ "kind": "Secret", "type": "kubernetes.io/dockerconfigjson", "metadata": { "name": name },
                "stringData": { ".dockerconfigjson": login.to_string() } })
        };
        let namespace = |name: &str| json!({ "kind": "Namespace", "metadata": { "name": name } });
        let map = json!({ "kind": "ConfigMap", "metadata": { "name": "mosb-config" },
            "data": { "config.yaml": settings.to_string() } });
        let inside = |kind: &str| format!("/api/v1/namespaces/{NAMESPACE}/{kind}");
        self.create(vec![
            ("/api/v1/namespaces".to_owned(), namespace(NAMESPACE)),
            ("/api/v1/namespaces".to_owned(), namespace(RAW_NAMESPACE)),
        ]);
        self.create(vec![
            (inside("configmaps"), map),
            (inside("secrets"), secret("push", registry.docker_config())),
            (inside("secrets"), secret("global-pull-secret-copy", registry.pull_config())),
        ]);
    }

    /// Creates objects, many of them in parallel.
    pub fn create(&self, objects: Vec<(String, Value)>) {
        let client = &self.client;
        let create = |(target, object): (String, Value)| async move {
            let body = object.to_string().into_bytes();
            let made = send(client, "POST", &target, body).await;
            made.unwrap_or_else(|why| panic!("{target}: {why}"));
        };
        let all = stream::iter(objects.into_iter().map(create));
        let all = all.buffer_unordered(AT_ONCE).collect::<Vec<()>>();
        self.runtime.block_on(all);
    }

    /// Creates pools with a label, a MachineOSConfig for each and both rendered configs. The pools
    /// have no config yet.
    pub fn pools(&self, names: &[String], mark: &str) {
        let object = |kind: &str, name: &str, spec: Value| {
            json!({ "apiVersion": format!("{MACHINE}/v1"), "kind": kind, "spec": spec,
                "metadata": { "name": name, "labels": { "bench": mark } } })
        };
        let pools = names.iter().map(|name| {
            let selector =
                json!({ "nodeSelector": { "matchLabels": { "kubernetes.io/os": "linux" } } });
            (ours("machineconfigpools", ""), object("MachineConfigPool", name, selector))
        });
        let configs = names.iter().map(|name| {
            let spec = json!({ "machineConfigPool": { "name": name }, "imageBuilder": { "imageBuilderType": "Job" },
                "renderedImagePushSecret": { "name": "push" },
                "renderedImagePushSpec": format!("{}:latest", self.push) });
            (ours("machineosconfigs", ""), object("MachineOSConfig", name, spec))
        });
        self.create(pools.chain(configs).collect());
    }

    /// Creates the rendered configs of these pools with this number and about this many bytes.
    pub fn rendered(&self, names: &[String], number: u32, bytes: usize) {
        let mut object = config::sized(u64::from(number), bytes);
        object["spec"]["osImageURL"] = json!(self.base);
        object["metadata"]["annotations"] = json!({
            format!("{MACHINE}/generated-by-controller-version"): "bench",
            format!("{MACHINE}/release-image-version"): "4.20.0" });
        // Not all of them fit in memory together.
        for names in names.chunks(100) {
            let of = |name: &String| {
                let mut object = object.clone();
                object["metadata"]["name"] = json!(rendered_name(name, number));
                (ours("machineconfigs", ""), object)
            };
            self.create(names.iter().map(of).collect());
        }
    }

    /// Gives all pools another config.
    pub fn change(&self, names: &[String], number: u32) {
        let client = &self.client;
        let change = |name: &String| {
            let (target, body) = change(name, number);
            async move { send(client, "PATCH", &target, body).await.unwrap() }
        };
        let all = stream::iter(names.iter().map(change));
        let all = all.buffer_unordered(AT_ONCE).collect::<Vec<Left>>();
        self.runtime.block_on(all);
    }

    /// Deletes the pools with a label, their MachineOSConfigs, and all builds, because no garbage
    /// collector runs.
    pub fn clear(&self, mark: &str) {
        let builds = kinds::MACHINE_OS_BUILD.resource();
        let api: Api<PartialObjectMeta<DynamicObject>> =
            Api::all_with(self.client.clone(), &builds);
        let all = self.runtime.block_on(api.list(&ListParams::default()));
        let free = |build: PartialObjectMeta<DynamicObject>| {
            let target = ours("machineosbuilds", &build.name_any());
            let change = json!({ "metadata": { "finalizers": null } });
            async move { send(&self.client, "PATCH", &target, change.to_string().into_bytes()).await }
        };
        let freed = stream::iter(all.unwrap().items.into_iter().map(free));
        let freed = freed.buffer_unordered(AT_ONCE).collect::<Vec<_>>();
        for one in self.runtime.block_on(freed) {
            one.unwrap();
        }
        for (kind, of) in [
            ("machineosbuilds", String::new()),
            ("machineosconfigs", format!("?labelSelector=bench%3D{mark}")),
            ("machineconfigpools", format!("?labelSelector=bench%3D{mark}")),
        ] {
            let target = ours(kind, "") + &of;
            self.delete_all(&target);
        }
    }

    /// Repeats the deletion until it succeeds, because the API server cancels a request after a
    /// minute.
    pub fn delete_all(&self, target: &str) {
        until(target, || {
            let deleted = send(&self.client, "DELETE", target, Vec::new());
            self.runtime.block_on(deleted).is_ok()
        });
    }

    /// The number of Jobs that may have a pod.
    pub fn running(&self) -> usize {
        self.jobs.lock().unwrap().values().filter(|job| runs(job)).count()
    }

    /// The number of Jobs.
    pub fn jobs(&self) -> usize {
        self.jobs.lock().unwrap().len()
    }

    /// Reports success for all Jobs that may have a pod, as their pods would.
    pub fn kubelet(&self) {
        let jobs: Vec<Job> = self.jobs.lock().unwrap().values().cloned().collect();
        let end = |job: &Job| {
            let note = |key: &str| job.annotations().get(key).cloned().unwrap_or_default();
            let needs = note("mosb.dev/needs");
            let mut maps = needs.split(' ').filter_map(|need| need.strip_prefix("ConfigMap/"));
            let map = maps.find(|name| name.starts_with("digest-")).unwrap();
            let result = json!({ "outcome": "Succeeded", "digest": self.image, "method": "direct",
                "jobUid": job.uid(), "build": note(&format!("{MACHINE}/machine-os-build")) });
            let data =
                json!({ "data": { "digest": self.image, "result.json": result.to_string() } });
            let target = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{map}");
            async move { send(&self.client, "PATCH", &target, data.to_string().into_bytes()).await }
        };
        let ends: Vec<_> = jobs.iter().filter(|job| runs(job)).map(end).collect();
        let all = stream::iter(ends).buffer_unordered(AT_ONCE);
        for end in self.runtime.block_on(all.collect::<Vec<_>>()) {
            end.unwrap();
        }
    }

    /// Deletes the objects that the garbage collector would delete after the Jobs.
    pub fn collect_garbage(&self) {
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        for (api, kind) in [
            ("/api/v1", "configmaps"),
            ("/api/v1", "secrets"),
            ("/api/v1", "serviceaccounts"),
            (rbac, "roles"),
            (rbac, "rolebindings"),
        ] {
            let label = format!("{MACHINE}%2Fephemeral-build-object");
            let target = format!("{api}/namespaces/{NAMESPACE}/{kind}?labelSelector={label}");
            self.delete_all(&target);
        }
    }
}

fn runs(job: &Job) -> bool {
    job.spec.as_ref().and_then(|spec| spec.suspend) == Some(false)
}

/// The request that gives a pool another config.
pub fn change(name: &str, number: u32) -> (String, Vec<u8>) {
    let change = json!({ "spec": { "configuration": { "name": rendered_name(name, number) } } });
    (ours("machineconfigpools", name), change.to_string().into_bytes())
}

fn rendered_name(pool: &str, number: u32) -> String {
    format!("rendered-{pool}-{number:032x}")
}

/// The path of a collection of the machine configuration API, or of an object in it.
pub fn ours(kind: &str, name: &str) -> String {
    let slash = if name.is_empty() { "" } else { "/" };
    format!("/apis/{MACHINE}/v1/{kind}{slash}{name}")
}

async fn follow(api: Api<Job>, jobs: Arc<Mutex<BTreeMap<String, Job>>>) {
    let mut events = std::pin::pin!(watcher(api, Config::default()));
    while let Some(event) = events.next().await {
        let mut jobs = jobs.lock().unwrap();
        match event {
            Ok(Event::Apply(job) | Event::InitApply(job)) => {
                jobs.insert(job.name_any(), job);
            }
            Ok(Event::Delete(job)) => {
                jobs.remove(&job.name_any());
            }
            Ok(Event::Init) => jobs.clear(),
            Ok(Event::InitDone) => {}
            // The watch restarts by itself.
            Err(error) => eprintln!("watch of Jobs: {error}"),
        }
    }
}

/// Polls until a condition holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(50));
    }
}
