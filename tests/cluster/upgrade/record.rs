//! Records what this version leaves in a cluster.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::recorded::{IMAGES, KINDS};
use super::upgrade_cluster::{LONG, M, NOT_RECORDED, POOLS, UpgradeCluster, text};
use mosb_plan::api::yaml;
use mosb_tests::{Image, Layout, wait};

/// Tells each pool's story, and writes all objects into a new folder.
pub fn record(folder: &Path) {
    let images = Layout::create(&folder.join(IMAGES));
    images.put("base", &Image::new().label("containers.bootc", "1"));
    let image = Image::new().label("containers.bootc", "1").label("image", "1");
    let digest = images.put("image", &image);
    let mut cluster = UpgradeCluster::new(&images);
    let pre_built = format!("{}@{digest}", cluster.push());
    cluster.start();
    for (pool, _) in POOLS {
        let mut config = json!({ "kind": "MachineOSConfig", "metadata": { "name": pool },
            "spec": { "machineConfigPool": { "name": pool }, "imageBuilder": { "imageBuilderType": "Job" },
                "renderedImagePushSecret": { "name": "push" },
                "renderedImagePushSpec": format!("{}:latest", cluster.push()) } });
        match pool {
            "containerfile" => {
                let file = json!({ "containerfileArch": "NoArch", "content": "FROM configs AS final\nRUN true\n" });
                config["spec"]["containerFile"] = json!([file]);
            }
            "seeded" => {
                config["metadata"]["annotations"] =
                    json!({ format!("{M}/pre-built-image"): pre_built });
            }
            _ => {}
        }
        cluster.renders(pool, 0xa1, None, &[]);
        cluster.apply(&config);
    }
    for pool in ["direct", "containerfile"] {
        let (job, pod) = cluster.pod_of(pool);
        cluster.run(&pod);
        cluster.succeed(&job, &pod);
    }
    let (job, pod) = cluster.pod_of("failed");
    cluster.run(&pod);
    cluster.fail(&job, &pod);
    let (_, pod) = cluster.pod_of("building");
    cluster.run(&pod);
    let component = wait("what brings the pre-built image", LONG, || {
        let all = cluster.all("machineconfigs");
        let mut names = all.iter().map(|config| text(&config["metadata"]["name"]));
        let found = names.find(|name| name.ends_with("-seeded") && !name.starts_with("rendered-"));
        found.map(str::to_owned)
    });
    cluster.renders("seeded", 0xa2, Some(&pre_built), &[&component]);
    cluster.until_all_are("building");
    wait("the end of all other Jobs", LONG, || (cluster.all("jobs").len() == 2).then_some(()));
    cluster.stop();
    for kind in KINDS {
        let objects = cluster.all(kind).into_iter();
        let objects = objects.filter(|one| !NOT_RECORDED.contains(&text(&one["metadata"]["name"])));
        let texts = objects.map(|object| format!("---\n{}", yaml::to_text(&bare(object))));
        fs::write(folder.join(format!("{kind}.yaml")), texts.collect::<String>()).unwrap();
    }
}

/// Without what every API server gives anew, and without anything secret.
fn bare(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in ["creationTimestamp", "generation", "managedFields", "resourceVersion"] {
        metadata.remove(field);
    }
    match text(&object["kind"]) {
        "Job" => {
            object["spec"].as_object_mut().unwrap().remove("selector");
            object.as_object_mut().unwrap().remove("status");
            // What the Job's own UID is in.
            for labels in ["/metadata/labels", "/spec/template/metadata/labels"] {
                let labels = object.pointer_mut(labels).and_then(Value::as_object_mut);
                labels.unwrap().retain(|key, _| {
                    !key.ends_with("controller-uid") && !key.ends_with("job-name")
                });
            }
        }
        "Secret" => {
            for value in object["data"].as_object_mut().into_iter().flatten() {
                // {"auths":{}}
                *value.1 = json!("eyJhdXRocyI6e319");
            }
        }
        _ => {}
    }
    object
}
