//! The sections `systemd` and `networkd`.

use serde_json::{Value, json};

use super::super::error::shown;
use super::super::object::Object;
use super::origins::{Origins, Places};
use super::shape::{Fields, copy, override_fields};

/// A unit, with its drop-ins apart.
struct Unit {
    fields: Fields,
    dropins: Vec<Fields>,
}

/// Translates the section `systemd`.
pub(super) fn translate(root: &Object<'_, '_>, origins: &mut Origins) -> Value {
    json!({ "units": by_name(root.object("systemd").each("units", unit), origins) })
}

fn unit(o: &Object<'_, '_>) -> Unit {
    let mut fields = copy(o, &["enable", "dropins"]);
    if o.bool("enable") == Some(true) {
        fields.entry("enabled").or_insert(true.into());
    }
    Unit { fields, dropins: o.each("dropins", |o| copy(o, &[])) }
}

/// A unit of the translation, joined from all of its name.
#[derive(Default)]
struct JoinedUnit {
    fields: Fields,
    dropins: Vec<Fields>,
    dropin_places: Places,
}

/// Joins units with the same name at the place of the first, and their drop-ins likewise. Later
/// fields override earlier ones.
fn by_name(units: Vec<Unit>, origins: &mut Origins) -> Vec<Value> {
    let mut places = Places::default();
    let mut out: Vec<JoinedUnit> = Vec::new();
    for (index, unit) in units.into_iter().enumerate() {
        let place = places.of(unit.fields.get("name"), out.len(), origins);
        let (to, from) = (format!("systemd.units[{place}]"), format!("systemd.units[{index}]"));
        if place == out.len() {
            origins.add(&to, &from);
            out.push(JoinedUnit::default());
        } else if unit.fields.contains_key("contents") {
            origins.add(format!("{to}.contents"), format!("{from}.contents"));
        }
        let joined = &mut out[place];
        override_fields(&mut joined.fields, unit.fields, &[]);
        for (index, dropin) in unit.dropins.into_iter().enumerate() {
            let dropins = &mut joined.dropins;
            let place = joined.dropin_places.of(dropin.get("name"), dropins.len(), origins);
            if place == dropins.len() {
                dropins.push(Fields::new());
            }
            override_fields(&mut dropins[place], dropin, &[]);
            origins.add(format!("{to}.dropins[{place}]"), format!("{from}.dropins[{index}]"));
        }
    }
    let units = out.into_iter().map(|unit| {
        let mut fields = unit.fields;
        fields.insert("dropins".to_owned(), unit.dropins.into());
        Value::Object(fields)
    });
    units.collect()
}

/// Refuses the section `networkd`.
pub(super) fn refuse_networkd(root: &Object<'_, '_>) {
    root.object("networkd").each("units", |o| {
        let message = format!(
            "spec 3 has no `networkd`; write {} as a file in /etc/systemd/network, with mode 420",
            shown(o.text("name").unwrap_or_default())
        );
        o.problem_here("no-spec3-equal", message);
    });
}

#[cfg(test)]
mod tests {
    use super::super::tests::{are_refused, become_these, warned};
    use serde_json::{Value, json};

    fn units(units: Value) -> Value {
        json!({ "systemd": { "units": units } })
    }

    #[test]
    fn enabled_follows_enabled_and_enable() {
        for (what, unit, want) in [
            ("nothing", json!({}), json!(null)),
            ("enable", json!({ "enable": true }), json!(true)),
            ("not enable", json!({ "enable": false }), json!(null)),
            ("enabled", json!({ "enabled": true, "enable": false }), json!(true)),
            ("disabled", json!({ "enabled": false }), json!(false)),
            ("both", json!({ "enabled": false, "enable": true }), json!(false)),
        ] {
            let mut unit = unit;
            unit["name"] = "a.service".into();
            let config = super::super::tests::translated("2.1.0", units(json!([unit]))).unwrap();
            assert_eq!(config["systemd"]["units"][0]["enabled"], want, "{what}");
        }
    }

    #[test]
    fn units_are_translated() {
        let (one, two) = ("[Unit]\nA=1\n", "[Unit]\nA=2\n");
        become_these([
            (
                "empty and false are unsaid",
                "2.0.0",
                units(
                    json!([{ "name": "a.service", "contents": "", "mask": false, "dropins": [{ "name": "b.conf", "contents": "" }] }]),
                ),
                units(json!([{ "name": "a.service", "dropins": [{ "name": "b.conf" }] }])),
            ),
            (
                "masked",
                "2.4.0",
                units(json!([{ "name": "a.service", "mask": true, "contents": one }])),
                units(json!([{ "name": "a.service", "mask": true, "contents": one }])),
            ),
            (
                "twice",
                "2.2.0",
                units(json!([
                    { "name": "a.service", "enabled": true, "contents": one, "dropins": [{ "name": "x.conf", "contents": one }, { "name": "y.conf", "contents": one }] },
                    { "name": "b.service" },
                    { "name": "a.service", "enabled": false, "dropins": [{ "name": "z.conf" }, { "name": "x.conf", "contents": two }, { "name": "y.conf" }] },
                ])),
                units(json!([
                    { "name": "a.service", "enabled": false, "contents": one, "dropins": [{ "name": "x.conf", "contents": two }, { "name": "y.conf", "contents": one }, { "name": "z.conf" }] },
                    { "name": "b.service" },
                ])),
            ),
        ]);
    }

    #[test]
    fn invalid_units_are_rejected() {
        let bad = "[Unit\n";
        are_refused([
            (
                "the contents of a later duplicate",
                "2.2.0",
                units(
                    json!([{ "name": "a.service" }, { "name": "b.service" }, { "name": "a.service", "contents": bad }]),
                ),
                &["systemd.units[2].contents: bad-unit"],
            ),
            (
                "the contents that are replaced",
                "2.2.0",
                units(
                    json!([{ "name": "a.service", "contents": bad }, { "name": "a.service", "contents": "[Unit]\n" }]),
                ),
                &["systemd.units[0].contents: bad-unit"],
            ),
            (
                "a drop-in of a later duplicate",
                "2.2.0",
                units(
                    json!([{ "name": "a.service", "dropins": [{ "name": "a.conf" }] }, { "name": "a.service", "dropins": [{ "name": "a.conf" }, { "name": "b.conf", "contents": bad }] }]),
                ),
                &["systemd.units[1].dropins[1].contents: bad-unit"],
            ),
            (
                "networkd",
                "2.2.0",
                json!({ "networkd": { "units": [{ "name": "a.network", "contents": "[Match]\n", "dropins": [{ "name": "b.conf" }] }] } }),
                &["networkd.units[0]: no-spec3-equal"],
            ),
        ]);
        assert_eq!(warned("2.2.0", json!({ "networkd": { "units": [] } })), [""; 0]);
    }
}
