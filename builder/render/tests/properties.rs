//! What the name depends on, and what it does not.

use super::*;
use proptest::prelude::*;

/// A few MachineConfigs that touch each other.
fn some_configs() -> impl Strategy<Value = Vec<Component>> {
    let one = (
        0..4_u8,
        "[ab]",
        prop::sample::select(vec!["worker", "infra"]),
        0..3_u8,
        any::<bool>(),
    );
    let all = prop::collection::vec(one, 1..6);
    all.prop_map(|all| {
        let each = all.into_iter().enumerate();
        each.map(|(number, (path, content, role, arguments, fips))| {
            let mut one = file(
                &format!("{content}-{number}"),
                role,
                &format!("/etc/{path}"),
                &content,
            );
            one.config.spec.insert("fips".to_owned(), json!(fips));
            one.config.spec.insert(
                "kernelArguments".to_owned(),
                json!(vec!["quiet"; arguments.into()]),
            );
            one
        })
        .collect()
    })
}

/// The same object, its keys in the reverse order.
fn reversed(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().rev();
            let fields: Vec<_> = fields
                .map(|(key, value)| format!("{}:{}", json!(key), reversed(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => format!(
            "[{}]",
            items.iter().map(reversed).collect::<Vec<_>>().join(",")
        ),
        other => other.to_string(),
    }
}

proptest! {
    #[test]
    fn order_files_and_labels_mean_nothing(configs in some_configs(), by in 0..6_usize) {
        let mut other = configs.clone();
        other.reverse();
        let by = by % other.len();
        other.rotate_left(by);
        for one in &mut other {
            one.origin = "stdin".to_owned();
            one.config.metadata.labels.insert("team".to_owned(), "red".to_owned());
            let text = reversed(&Value::Object(one.config.spec.clone()));
            one.config.spec = serde_json::from_str(&text).unwrap();
        }
        let (first, second) = (rendered(&request("infra", configs)), rendered(&request("infra", other)));
        prop_assert_eq!(first.object, second.object);
    }

    #[test]
    fn any_change_of_meaning_is_another_name(configs in some_configs(), which in 0..6_usize, change in 0..5_usize) {
        let first = rendered(&request("infra", configs.clone()));
        let mut other = configs;
        // The last one's word counts, whatever it says.
        let number = other.len();
        let (path, content) = (format!("/etc/new-{which}"), "c".to_owned());
        let mut last = file("zzz", "infra", &path, &content);
        match change {
            0 => {}
            1 => last = config("zzz", "infra", json!({ "kernelArguments": ["new"] })),
            2 => last = config("zzz", "infra", json!({ "extensions": ["sysstat"] })),
            3 => last = config("zzz", "infra", json!({ "kernelType": "realtime" })),
            _ => last = config("zzz", "infra", json!({ "osImageURL": format!("quay.io/x@{DIGEST}") })),
        }
        other.push(last);
        let second = rendered(&request("infra", other.clone()));
        prop_assert_ne!(first.config.name(), second.config.name());
        other.truncate(number);
        prop_assert_eq!(rendered(&request("infra", other)).object, first.object, "and back");
    }

    #[test]
    fn what_is_rendered_renders_to_itself(configs in some_configs()) {
        let first = rendered(&request("infra", configs));
        let again = config("a", "infra", first.object["spec"].clone());
        let again = rendered(&request("infra", vec![again]));
        prop_assert_eq!(again.config.name(), first.config.name());
    }
}
