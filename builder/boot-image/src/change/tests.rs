use super::*;
use mosb_types::ErrorClass;

fn change(edits: Vec<Edit>) -> Change {
    let image = |text: &str| text.parse().unwrap();
    Change { edits, from: image("a"), to: image("b"), object: None }
}

fn edit(path: &str, old: Option<Value>, new: Option<Value>) -> Edit {
    Edit { path: path.to_owned(), old, new }
}

#[test]
fn edits_of_single_paths() {
    let value = json!({"a": {"b": 1, "c/d": [{"e": 1}]}, "f": null});
    let ok = |after: Value| Ok(after);
    let changed = |path: &str| Err(EditError::Changed { path: path.to_owned() });
    let no_path = |path: &str| Err(EditError::Path { path: path.to_owned() });
    let cases = [
        (
            "replace",
            vec![edit("/a/b", Some(json!(1)), Some(json!(2)))],
            ok(json!({"a": {"b": 2, "c/d": [{"e": 1}]}, "f": null})),
        ),
        (
            "add",
            vec![edit("/a/x", None, Some(json!(2)))],
            ok(json!({"a": {"b": 1, "c/d": [{"e": 1}], "x": 2}, "f": null})),
        ),
        (
            "remove",
            vec![edit("/a/b", Some(json!(1)), None)],
            ok(json!({"a": {"c/d": [{"e": 1}]}, "f": null})),
        ),
        (
            "below a list, with an escaped key",
            vec![edit("/a/c~1d/0/e", Some(json!(1)), Some(json!(2)))],
            ok(json!({"a": {"b": 1, "c/d": [{"e": 2}]}, "f": null})),
        ),
        (
            "null",
            vec![edit("/f", Some(Value::Null), Some(json!(1)))],
            ok(json!({"a": {"b": 1, "c/d": [{"e": 1}]}, "f": 1})),
        ),
        (
            "another value meanwhile",
            vec![edit("/a/b", Some(json!(7)), Some(json!(2)))],
            changed("/a/b"),
        ),
        ("there meanwhile", vec![edit("/a/b", None, Some(json!(2)))], changed("/a/b")),
        ("gone meanwhile", vec![edit("/a/x", Some(json!(1)), Some(json!(2)))], changed("/a/x")),
        (
            "all or none",
            vec![edit("/a/b", Some(json!(1)), Some(json!(2))), edit("/f", Some(json!(1)), None)],
            changed("/f"),
        ),
        ("no parent", vec![edit("/x/y", None, Some(json!(1)))], no_path("/x/y")),
        (
            "an entry of a list",
            vec![edit("/a/c~1d/0", Some(json!({"e": 1})), Some(json!(1)))],
            no_path("/a/c~1d/0"),
        ),
        ("no pointer", vec![edit("", Some(value.clone()), Some(json!(1)))], no_path("")),
    ];
    for (what, edits, want) in cases {
        let mut after = value.clone();
        let result = change(edits).apply(&mut after);
        match want {
            Ok(want) => assert_eq!((result, after), (Ok(()), want), "{what}"),
            Err(error) => assert_eq!((result, after), (Err(error), value.clone()), "{what}"),
        }
    }
}

#[test]
fn the_same_as_a_json_patch() {
    let edits = vec![
        edit("/ami", Some(json!({"id": "a"})), Some(json!({"id": "b"}))),
        edit("/x", None, Some(json!(1))),
        edit("/y", Some(json!(2)), None),
        edit("/z", None, None),
    ];
    let want = json!([
        {"op": "test", "path": "/spec/ami", "value": {"id": "a"}},
        {"op": "add", "path": "/spec/ami", "value": {"id": "b"}},
        {"op": "add", "path": "/spec/x", "value": 1},
        {"op": "test", "path": "/spec/y", "value": 2},
        {"op": "remove", "path": "/spec/y"},
    ]);
    assert_eq!(Value::from(change(edits).json_patch("/spec")), want);
}

#[test]
fn a_value_that_changed_is_read_again() {
    let error = EditError::Changed { path: "/a".to_owned() };
    assert_eq!(error.class(), ErrorClass::Transient);
}
