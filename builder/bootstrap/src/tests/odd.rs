//! Installations in which one value is something else.

use super::*;

/// Every place in a value.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(fields) => fields
            .iter()
            .for_each(|(key, value)| places(value, &format!("{at}/{}", escaped(key)), found)),
        Value::Array(items) => (0..items.len())
            .for_each(|at_item| places(&items[at_item], &format!("{at}/{at_item}"), found)),
        _ => {}
    }
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 60, failure_persistence: None, ..Default::default() })]

    /// Replaces one value of an installation by any other: it is reported or accepted, and no login
    /// is in the output.
    #[test]
    fn no_value_is_too_odd(which in 0..10_000usize, instead in 0..8usize) {
        let (_, mut objects) = golden();
        let all = json!(objects);
        let mut found = Vec::new();
        places(&all, "", &mut found);
        let place = &found[which % found.len()];
        let values = [
            Value::Null, json!({}), json!([]), json!(""), json!("../x"), json!(-1), json!("a\nb"), json!("x".repeat(300)),
        ];
        let mut all = all;
        *all.pointer_mut(place).unwrap() = values[instead].clone();
        if let Some(list) = all.as_array() {
            objects.clone_from(list);
        }
        let Some(all) = sorted(&objects) else {
            return Ok(());
        };
        for cluster in [Cluster::Openshift, Cluster::Kubernetes] {
            let Ok(checked) = check(&all, &options(cluster)) else { continue };
            let files = match cluster {
                Cluster::Openshift => openshift::files(&all, &checked),
                Cluster::Kubernetes => {
                    let configs = kubernetes::configs(&all, &checked);
                    let Ok(requests) = kubernetes::requests(&all, &checked, &configs) else { continue };
                    let pools = requests.into_iter().map_while(|request| match render::render(&request, &Contents::new()) {
                        Ok(Outcome::Rendered(rendered)) => Some(kubernetes::RenderedPool { rendered: *rendered, pins: request.pins }),
                        _ => None,
                    });
                    match kubernetes::output(&all, &checked, &configs, &pools.collect::<Vec<_>>()) {
                        Ok(output) => output.files,
                        Err(_) => continue,
                    }
                }
            };
            for file in files {
                proptest::prop_assert!(!file.path.contains(".."), "{}", file.path);
                proptest::prop_assert!(!String::from_utf8(file.bytes).unwrap().contains("hunter2"));
            }
        }
    }
}
