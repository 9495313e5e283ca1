//! Origins of fields: other servers, other MachineConfigs.

use super::*;

#[test]
fn remote_content_is_needed_with_its_machine_config() {
    let remote = |source: &str| json!({ "ignition": { "version": "3.2.0" }, "storage": { "files": [{ "path": "/etc/r", "contents": { "source": source } }] } });
    let merge = json!({ "ignition": { "version": "3.2.0", "config": { "merge": [{ "source": "https://h/m?token=hunter2" }] } } });
    let mut request = request(
        "worker",
        vec![
            config("a", "worker", json!({ "config": remote("https://h/overridden") })),
            config("b", "worker", json!({ "config": remote("https://u:hunter2@h/f") })),
            config("c", "worker", json!({ "config": merge })),
        ],
    );
    let mut contents = Contents::new();
    let mut asked = Vec::new();
    let done = loop {
        match render(&request, &contents).unwrap() {
            Outcome::Rendered(done) => break done,
            Outcome::Needs(needs) => {
                for need in needs {
                    asked.push(need.to_string());
                    let answer = match need.request().url().path() {
                        "/m" => json!({ "ignition": { "version": "3.1.0" } }).to_string(),
                        _ => "hello".to_owned(),
                    };
                    contents.insert(need.request().clone(), answer.into());
                }
            }
        }
    };
    assert_eq!(asked.len(), 2, "what is overridden is not fetched: {asked:?}");
    assert!(asked[0].starts_with("c.yaml: c: spec.config.ignition.config.merge[0]"), "{asked:?}");
    assert!(
        asked[1].starts_with(
            "a.yaml: a, b.yaml: b: spec.config.storage.files[/etc/r].contents: https://h/f"
        ),
        "{asked:?}"
    );
    assert!(!format!("{asked:?}").contains("hunter2"));
    let text = done.object.to_string();
    assert!(text.contains("data:;base64,aGVsbG8=") || text.contains("data:,hello"), "{text}");
    assert!(!text.contains("https://"), "{text}");
    request.explain = true;
    let Ok(Outcome::Rendered(again)) = render(&request, &contents) else { panic!() };
    assert_eq!(again.object, done.object, "an account of it changes nothing");
}

#[test]
fn it_can_be_explained() {
    let base = format!("quay.io/release@{DIGEST}");
    let image = format!("quay.io/mine@{DIGEST}");
    let mut configs = vec![
        file("a", "worker", "/etc/x", "a"),
        file("b", "worker", "/etc/x", "b"),
        config(
            "c",
            "worker",
            json!({ "osImageURL": image, "kernelArguments": ["quiet"], "fips": true }),
        ),
    ];
    configs[1].config.spec["config"]["storage"]["files"][0]["mode"] = json!(384);
    let request = Request { explain: true, os_image: Some(base), ..request("worker", configs) };
    let explanation = rendered(&request).explanation.unwrap();
    let names: Vec<_> = explanation.machine_configs.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let origin = |field: &str| {
        let origin = explanation.fields.iter().find(|origin| origin.field == field);
        let origin = origin.unwrap_or_else(|| panic!("{field} in {:#?}", explanation.fields));
        (origin.from.as_str(), origin.overrides.join(","))
    };
    let of = |from, overrides: &str| (from, overrides.to_owned());
    assert_eq!(origin("spec.config.storage.files[/etc/x].contents"), of("b", "a"));
    assert_eq!(origin("spec.config.storage.files[/etc/x].mode"), of("b", ""));
    assert_eq!(origin("spec.osImageURL"), of("c", "the image that was given"));
    assert_eq!(origin("spec.kernelArguments[quiet]"), of("c", ""));
    assert_eq!(origin("spec.fips"), of("c", ""));
}
