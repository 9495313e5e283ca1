//! Units on a plain base.

use serde_json::{Value, json};

use super::{SERVICE, units};

pub(super) fn plain() -> Vec<(&'static str, Value)> {
    vec![
        ("a unit", units(json!([{ "name": "a.service", "contents": SERVICE }]))),
        (
            "a unit enabled",
            units(json!([{ "name": "a.service", "contents": SERVICE, "enabled": true }])),
        ),
        (
            "a unit disabled",
            units(json!([{ "name": "a.service", "contents": SERVICE, "enabled": false }])),
        ),
        (
            "a unit without [Install], enabled",
            units(
                json!([{ "name": "a.service", "contents": "[Service]\nExecStart=/bin/true\n", "enabled": true }]),
            ),
        ),
        (
            "a unit without [Install], disabled",
            units(
                json!([{ "name": "a.service", "contents": "[Service]\nExecStart=/bin/true\n", "enabled": false }]),
            ),
        ),
        (
            "a unit of the base enabled",
            units(json!([{ "name": "systemd-networkd.service", "enabled": true }])),
        ),
        (
            "a unit of the base disabled",
            units(
                json!([{ "name": "getty@.service", "enabled": false }, { "name": "remote-fs.target", "enabled": false }]),
            ),
        ),
        (
            "a unit that nobody has, enabled",
            units(json!([{ "name": "none.service", "enabled": true }])),
        ),
        (
            "a unit that nobody has, disabled",
            units(json!([{ "name": "none.service", "enabled": false }])),
        ),
        (
            "drop-ins",
            units(json!([{ "name": "a.service", "dropins": [
            { "name": "10-a.conf", "contents": "[Service]\nType=simple\n" }, { "name": "20-b.conf", "contents": "" }, { "name": "30-c.conf" },
        ] }])),
        ),
        ("empty contents", units(json!([{ "name": "a.service", "contents": "" }]))),
        ("masked", units(json!([{ "name": "a.service", "mask": true }]))),
        (
            "masked with contents",
            units(json!([{ "name": "a.service", "contents": SERVICE, "mask": true }])),
        ),
        (
            "masked and enabled",
            units(
                json!([{ "name": "a.service", "contents": SERVICE, "mask": true, "enabled": true }]),
            ),
        ),
        (
            "masked and disabled, of the base",
            units(json!([{ "name": "remote-fs.target", "mask": true, "enabled": false }])),
        ),
        (
            "unmasked, never masked",
            units(json!([{ "name": "a.service", "mask": false, "contents": SERVICE }])),
        ),
        (
            "instances",
            units(json!([
                { "name": "e@.service", "contents": SERVICE }, { "name": "e@b.service", "enabled": true }, { "name": "e@a.service", "enabled": true },
                { "name": "e@c.service", "enabled": false },
            ])),
        ),
        (
            "a template enabled",
            units(
                json!([{ "name": "e@.service", "contents": "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\nDefaultInstance=x\n", "enabled": true }]),
            ),
        ),
        (
            "aliases and others",
            units(json!([
                { "name": "a.service", "contents": "[Service]\nExecStart=/bin/true\n[Install]\nAlias=b.service\nWantedBy=multi-user.target graphical.target\nRequiredBy=c.service\nAlso=d.socket\n", "enabled": true },
                { "name": "d.socket", "contents": "[Socket]\nListenStream=/run/x\n[Install]\nWantedBy=sockets.target\n" },
            ])),
        ),
    ]
}
