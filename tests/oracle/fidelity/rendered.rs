//! MachineConfigs of all versions, rendered and built through a pipe. The tree equals that of the
//! real tools with a config that the real Ignition merged.

use std::fmt::Write as _;
use std::fs;

use serde_json::{Value, json};

use super::{BASES, Base, without_current_config};
use mosb_tests::{Layout, Oracle, PlainBase};

const VERSIONS: [&str; 12] = [
    "2.0.0", "2.1.0", "2.2.0", "2.3.0", "2.4.0", "3.0.0", "3.1.0", "3.2.0", "3.3.0", "3.4.0",
    "3.5.0", "3.6.0",
];
const COUNT: usize = 30;

/// `printf hello | gzip -n | base64`
const GZIP: &str = "data:;base64,H4sIAAAAAAAAA8tIzcnJBwCGphA2BQAAAA==";

/// Every third MachineConfig has the pool's own role. All share paths, units and drop-ins.
fn machine_config(n: usize) -> (String, &'static str, Value) {
    let version = VERSIONS[n % VERSIONS.len()];
    let old = version.starts_with('2');
    let in_root = |mut entry: Value| {
        if old {
            entry["filesystem"] = json!("root");
        }
        entry
    };
    let mut files = vec![in_root(json!({
        "path": format!("/etc/app/{}", n % 7), "mode": 0o600 + (n % 2) * 0o2040, "contents": { "source": format!("data:,{n}") },
    }))];
    if n.is_multiple_of(5) && !old {
        files[0]["contents"] = json!({ "source": GZIP, "compression": "gzip" });
    }
    let later = version > "3.0.0";
    if n % 6 == 1 && !old {
        files.push(json!({ "path": format!("/etc/app/list-{}", n % 2), "append": [{ "source": format!("data:,{n}%0A") }] }));
    }
    let mut storage = json!({ "files": files });
    if n % 8 == 3 && version != "2.0.0" {
        let directory = in_root(json!({ "path": format!("/etc/dir-{}", n % 3), "mode": 0o750 }));
        let link = in_root(
            json!({ "path": format!("/etc/link-{}", n % 3), "target": format!("/etc/app/{n}") }),
        );
        storage["directories"] = json!([directory]);
        storage["links"] = json!([link]);
    }
    let text =
        format!("[Service]\nExecStart=/bin/echo {n}\n[Install]\nWantedBy=multi-user.target\n");
    let mut unit = json!({ "name": format!("app-{}.service", n % 4), "contents": text });
    let enabled = if version == "2.0.0" { "enable" } else { "enabled" };
    if n % 4 != 3 {
        unit[enabled] = json!(true);
    }
    if n % 3 == 1 && (old || later) && version != "2.0.0" {
        unit["dropins"] = json!([{ "name": format!("{}.conf", n % 2), "contents": format!("[Service]\nNice={}\n", n % 9) }]);
    }
    let config = json!({ "ignition": { "version": version }, "storage": storage, "systemd": { "units": [unit] } });
    let role = if n.is_multiple_of(3) { "infra" } else { "worker" };
    (format!("{:02}-app", (n * 7) % COUNT), role, config)
}

#[test]
fn a_rendered_directory_is_as_by_real_tools() {
    BASES.into_iter().for_each(rendered_on);
}

fn rendered_on(plain: PlainBase) {
    let base = Base::new(plain, Vec::new());
    let folder = base.mosb.home().join("work/mcs");
    fs::create_dir(&folder).unwrap();
    let all: Vec<_> = (0..COUNT).map(machine_config).collect();
    for (number, three) in all.chunks(3).enumerate() {
        let mut text = String::new();
        for (name, role, config) in three {
            let object = json!({
                "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "spec": { "config": config },
                "metadata": { "name": name, "labels": { "machineconfiguration.openshift.io/role": role } },
            });
            writeln!(text, "---\n{object}").unwrap();
        }
        fs::write(folder.join(format!("{number}.yaml")), text).unwrap();
    }
    let rendered = base.mosb.run(["render", "--pool", "infra", "mcs"]).ok();
    let output = base.directory.path().join("output");
    let target = format!("oci:{}", output.display());
    let reference = base.layout.reference("base");
    let line = ["build", "-", "--method", "direct", "--base", &reference, "--output", &target];
    let line = [&line[..], &["--build-on", "os-change", "-o", "json"]].concat();
    let built = base.mosb.run_with(line, &rendered.stdout).ok().json();
    let layer = Layout::at(output).layers(built["renderedConfig"].as_str().unwrap()).pop().unwrap();
    let direct = base.snapshot.with_layer(layer).unwrap();

    let mut ordered = all;
    ordered.sort_by_key(|(name, role, _)| (*role != "worker", name.clone()));
    let configs: Vec<Value> = ordered.into_iter().map(|(_, _, config)| config).collect();
    let answer = Oracle::start().merge_as_decided(&configs);
    let mut merged = answer["config"].clone();
    assert!(merged.is_object(), "{answer:#}");
    for file in merged["storage"]["files"].as_array_mut().unwrap() {
        // The default in a rendered config.
        if !file["contents"]["source"].is_null() && file["overwrite"].is_null() {
            file["overwrite"] = json!(true);
        }
    }
    let real = base.real(&merged).unwrap();
    let paths = real.0.keys().filter(|path| path.starts_with("etc/app/")).count();
    assert!(paths >= 8, "{paths}");
    without_current_config(direct).assert_same(&real, "30 MachineConfigs");
}
