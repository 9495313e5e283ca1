//! A machine that has neither the CA of its registry nor a way to it pulls with the CAs, the mirror
//! and the proxy of the cluster's settings, and nothing of them stays.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use mosb_api::ClusterSettings;
use mosb_api::cluster_settings::Proxy;
use mosb_api::rollout::NodeReport;
use mosb_build::PullSettings;
use mosb_image::PinnedRef;
use mosb_plan::plan::SignatureFiles;
use mosb_tests::{
    Access, Lab, MOSB_IMAGE, Machine, MachineImage, Namespace, Registry, Server, Transport,
    TunnelProxy, mosb_image, wait,
};

use crate::test_lab::{AUTH, POD, assert_no_login, lab, namespace, node_pod, timed};

/// A registry that exists nowhere.
const AWAY: &str = "registry.away.invalid:5000";
const FILE: &str = "/run/mosb/auth/pull-settings.json";

struct Story<'a> {
    lab: &'a Lab,
    namespace: Namespace<'a>,
    machine: &'a Machine,
}

/// The JSON that the controller writes for this image, with these settings.
fn settings(image: &str, settings: &Value, proxy: Option<&str>) -> String {
    let mut settings = ClusterSettings::parse(&settings.to_string()).unwrap();
    if let Some(url) = proxy {
        let data = BTreeMap::from([("httpsProxy".to_owned(), url.as_bytes().to_vec())]);
        settings.proxy = Some(Proxy::default().with_secret(&data).unwrap());
    }
    let image: PinnedRef = image.parse().unwrap();
    let made = PullSettings::new(&image, &settings, SignatureFiles::default()).unwrap();
    String::from_utf8(made.to_json().expose().clone()).unwrap()
}

impl Story<'_> {
    /// Starts `mosb node stage` with these settings as a file of its pod.
    fn start(&self, name: &str, image: &str, settings: Option<&str>) {
        // Each has a name of its own: a kubelet may have an earlier content of the same name.
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name },
            "stringData": {
                "auth.json": self.lab.registry().pull_config().to_string(),
                "pull-settings.json": settings.unwrap_or_default(),
            },
        });
        self.namespace.apply(&secret.to_string());
        let target = json!({ "image": image }).to_string();
        let words = ["stage", "--target", &target, "--auth", AUTH];
        let more = settings.iter().flat_map(|_| ["--pull-settings", FILE]);
        let words: Vec<&str> = words.into_iter().chain(more).collect();
        let mut pod = node_pod(name, self.machine, &words);
        pod["spec"]["volumes"][0]["secret"]["secretName"] = json!(name);
        self.namespace.apply(&pod.to_string());
    }

    /// The exit code and the report of the pod.
    fn end(&self, name: &str) -> (i64, NodeReport) {
        let pod = self.namespace.wait(&format!("pod/{name}"), POD, |pod| {
            ["Succeeded", "Failed"].contains(&pod["status"]["phase"].as_str().unwrap_or_default())
        });
        let log = self.namespace.log(name, "main").unwrap_or_default();
        let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
        let message = ended["message"].as_str().unwrap_or_default();
        println!("{name}: {} {message}\n{log}", ended["exitCode"]);
        self.namespace.kubectl(&["delete", "pod", name, "--wait=true"]).ok();
        (ended["exitCode"].as_i64().unwrap(), NodeReport::parse(message).unwrap())
    }

    fn stage(&self, name: &str, image: &str, settings: Option<&str>) -> (i64, NodeReport) {
        self.start(name, image, settings);
        timed(name, || self.end(name))
    }

    /// It staged this image, and left nothing.
    #[track_caller]
    fn assert_staged(&self, (code, report): (i64, NodeReport), image: &MachineImage) {
        assert_eq!((code, report.error.map(|error| error.message)), (0, None));
        assert_eq!(self.machine.staged_digest().as_ref(), Some(&image.digest));
        self.assert_nothing_is_left();
        self.machine.run("ostree admin undeploy 0").ok();
    }

    /// It did not stage anything, for this reason, and left nothing.
    #[track_caller]
    fn assert_not_staged(&self, (code, report): (i64, NodeReport), reason: &str) {
        let error = report.error.unwrap();
        assert_eq!((code, &*error.code), (3, "not-staged"), "{}", error.message);
        assert!(error.message.contains(reason), "{}", error.message);
        assert_eq!(self.machine.staged_digest(), None);
        self.assert_nothing_is_left();
    }

    #[track_caller]
    fn assert_nothing_is_left(&self) {
        assert_no_login(self.machine);
        let gone = "test ! -e /run/mosb-rollout; test ! -e /etc/containers/certs.d
            test ! -e /run/systemd/system/rpm-ostreed.service.d/mosb-rollout.conf
            test -z \"$(find /etc/containers /run -name '*mosb-rollout*' 2>/dev/null)\"";
        self.machine.run(gone).ok();
    }
}

#[test]
fn a_machine_pulls_with_the_settings() {
    let lab = lab();
    lab.import(&format!("oci-archive:{}", mosb_image().display()), MOSB_IMAGE);
    let story = Story { lab: &lab, namespace: namespace(&lab), machine: lab.machine(0) };
    let image = lab.build("lab/os", "/etc/story", "pulled");
    story.machine.forget_registry_authority();

    an_authority_of_the_settings_is_trusted_for_this_pull(&story, &image);
    authorities_of_the_machine_are_used_too(&story, &image);
    a_mirror_stands_in_for_a_registry_that_is_away(&story, &image);
    the_proxy_is_used_and_its_password_is_nowhere(&story, &image);
    the_daemon_of_rpm_ostree_pulls_with_them(&story, &image);
    settings_are_gone_after_a_kill(&story, &image);
}

fn authority(story: &Story<'_>) -> Value {
    let registry = story.lab.registry();
    json!({ "imageRegistryBundles": { &registry.host_port: registry.ca_pem } })
}

fn an_authority_of_the_settings_is_trusted_for_this_pull(story: &Story<'_>, image: &MachineImage) {
    let reference = &image.reference;
    let unknown = "certificate signed by unknown authority";
    story.assert_not_staged(story.stage("without", reference, None), unknown);
    story.assert_not_staged(story.stage("empty", reference, Some("{}")), unknown);
    let made = settings(reference, &authority(story), None);
    story.assert_staged(story.stage("with", reference, Some(&made)), image);
    story.assert_not_staged(story.stage("again-without", reference, None), unknown);
    let bad = story.stage("bad", reference, Some("{\"proxy\":{\"httpsProxy\":\"hush\"}}"));
    let error = bad.1.error.unwrap();
    assert_eq!((bad.0, &*error.code), (2, "bad-pull-settings-file"));
    assert!(!error.message.contains("hush"), "{}", error.message);
}

/// The settings have an authority of something else.
fn authorities_of_the_machine_are_used_too(story: &Story<'_>, image: &MachineImage) {
    let registry = story.lab.registry();
    let folder = format!("/etc/containers/certs.d/{}", registry.host_port);
    let write = format!("mkdir -p {folder}; cat > {folder}/own.crt");
    story.machine.enter(&["sh", "-euc", &write], registry.ca_pem.as_bytes()).ok();
    let state = || story.machine.run(&format!("ls -lin {folder}; cat {folder}/*")).ok().text();
    let before = state();
    let other = Registry::start(Server::Debian, Access::Anyone, Transport::Https);
    let other = std::fs::read_to_string(other.certificates().join("ca.crt")).unwrap();
    let others = json!({ "registryTrustBundle": other });
    let made = settings(&image.reference, &others, None);
    let (code, report) = story.stage("own", &image.reference, Some(&made));
    assert_eq!((code, report.error.map(|error| error.message)), (0, None));
    assert_eq!(state(), before);
    story.machine.run("ostree admin undeploy 0").ok();
    story.machine.forget_registry_authority();
    story.assert_nothing_is_left();
}

fn a_mirror_stands_in_for_a_registry_that_is_away(story: &Story<'_>, image: &MachineImage) {
    let registry = story.lab.registry();
    let reference = format!("{AWAY}/acme/os@{}", image.digest);
    let mut with = authority(story);
    let plain = settings(&reference, &with, None);
    story.assert_not_staged(story.stage("away", &reference, Some(&plain)), "away.invalid");
    with["mirrors"] = json!([{ "source": format!("{AWAY}/acme"),
        "mirrors": [registry.repository("lab")] }]);
    let made = settings(&reference, &with, None);
    story.assert_staged(story.stage("mirror", &reference, Some(&made)), image);
}

fn the_proxy_is_used_and_its_password_is_nowhere(story: &Story<'_>, image: &MachineImage) {
    let proxy = TunnelProxy::start(story.lab.node().outside().into());
    let (reference, with) = (&image.reference, authority(story));
    let wrong = proxy.url().replace(proxy.password(), "wrong-pass-phrase");
    let made = settings(reference, &with, Some(&wrong));
    // The text of each refusal of the proxy.
    let refused = "said so by a test";
    story.assert_not_staged(story.stage("refused", reference, Some(&made)), refused);
    assert_eq!(proxy.take_opened(), Vec::<String>::new());
    let made = settings(reference, &with, Some(&proxy.url()));
    story.assert_staged(story.stage("tunnel", reference, Some(&made)), image);
    let opened = proxy.take_opened();
    let host = &story.lab.registry().host_port;
    assert!(!opened.is_empty() && opened.iter().all(|one| one == host), "{opened:?}");
    // Pods have theirs below `/var/lib/kubelet`, until they are deleted.
    let search =
        "grep -rlsF --devices=skip -e \"$0\" /etc /run /tmp /var/log /var/tmp /var/lib/mosb || true
        journalctl --quiet | grep -cF -e \"$0\" | grep -v '^0$' || true";
    for secret in [proxy.password(), "wrong-pass-phrase"] {
        let found = story.machine.enter(&["sh", "-uc", search, secret], &[]).ok().text();
        assert_eq!(found, "", "{secret}");
    }
}

/// rpm-ostree's daemon pulls, not the unit.
fn the_daemon_of_rpm_ostree_pulls_with_them(story: &Story<'_>, image: &MachineImage) {
    let (machine, registry) = (story.machine, story.lab.registry());
    machine.mark_changed_by_rpm_ostree();
    let proxy = TunnelProxy::start(story.lab.node().outside().into());
    let mut with = authority(story);
    with["mirrors"] = json!([{ "source": format!("{AWAY}/acme"),
        "mirrors": [registry.repository("lab")] }]);
    let reference = format!("{AWAY}/acme/os@{}", image.digest);
    let made = settings(&reference, &with, Some(&proxy.url()));
    let (code, report) = story.stage("daemon", &reference, Some(&made));
    assert_eq!(report.tool.unwrap().to_string(), "rpm-ostree");
    story.assert_staged((code, report), image);
    let opened = proxy.take_opened();
    assert!(opened.contains(&registry.host_port), "{opened:?}");
    // It was started anew, without them.
    let unknown = "certificate signed by unknown authority";
    story.assert_not_staged(story.stage("daemon-without", &image.reference, None), unknown);
    machine.unmark_changed_by_rpm_ostree();
}

/// SIGKILL while the unit pulls: it ends by itself, and removes what it was given.
fn settings_are_gone_after_a_kill(story: &Story<'_>, image: &MachineImage) {
    let machine = story.machine;
    let made = settings(&image.reference, &authority(story), None);
    story.lab.registry_away(true);
    story.start("killed", &image.reference, Some(&made));
    let unit =
        || machine.run("systemctl list-units --plain --no-legend 'mosb-stage-*'").ok().text();
    wait("the unit that stages", POD, || unit().contains("running").then_some(()));
    // Only what pulls sees them, and it has no rights.
    machine
        .run(
            "test -e /run/mosb-rollout/containers/certs.d/*/mosb-rollout.crt
             test ! -e /etc/containers/certs.d
             test \"$(stat -c %a /run/mosb-rollout)\" = 700
             test \"$(stat -c %a /run/mosb-rollout/auth.json)\" = 600",
        )
        .ok();
    story.namespace.kubectl(&["delete", "pod", "killed", "--wait=true", "--force"]).ok();
    story.lab.registry_away(false);
    wait("the end of the unit", POD, || unit().is_empty().then_some(()));
    assert_eq!(machine.staged_digest().as_ref(), Some(&image.digest));
    machine.run("test ! -e /run/mosb-rollout").ok();
}
