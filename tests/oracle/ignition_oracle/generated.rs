//! Generated configs: mostly realistic ones, with occasional errors.

use mosb_ignition::SpecVersion;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

/// A generator of values.
pub type Values = BoxedStrategy<Value>;

/// An object with some of these fields. Occasionally a field is misspelt, of a wrong type or
/// unknown.
pub fn object(fields: Vec<(&'static str, u32, Values)>) -> Values {
    let junk = select(vec![
        json!(null),
        json!(5),
        json!("x"),
        json!([]),
        json!({}),
        json!(true),
        json!(1.5),
        json!([null]),
    ]);
    let mut members: BoxedStrategy<Vec<(String, Value)>> = Just(Vec::new()).boxed();
    for (key, percent, value) in fields {
        let junk = junk.clone();
        let member = (0..100_u32, 0..1000_u32, value, junk).prop_map(
            move |(present, oddity, value, junk)| {
                let member = match oddity {
                    0..2 => (key.to_uppercase(), value),
                    2..7 => (key.to_owned(), junk),
                    7..10 => (format!("{key}s"), junk),
                    _ => (key.to_owned(), value),
                };
                (present < percent).then_some(member)
            },
        );
        members = (members, member)
            .prop_map(|(mut members, member)| {
                members.extend(member);
                members
            })
            .boxed();
    }
    members.prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())).boxed()
}

pub fn list(item: Values, longest: usize) -> Values {
    prop::collection::vec(item, 0..=longest).prop_map(Value::Array).boxed()
}

/// One of these values; the good ones are far more frequent than the odd ones.
pub fn mostly(good: &[Value], odd: &[Value]) -> Values {
    let (good, odd) = (select(good.to_vec()), select(odd.to_vec()));
    prop_oneof![30 => good, 1 => odd].boxed()
}

/// A text of up to `longest` of these pieces.
fn pieces(pieces: &[&str], longest: usize) -> BoxedStrategy<String> {
    let pieces: Vec<String> = pieces.iter().map(|&p| p.to_owned()).collect();
    prop::collection::vec(select(pieces), 0..=longest).prop_map(|parts| parts.concat()).boxed()
}

pub fn texts(all: &[&str]) -> Vec<Value> {
    all.iter().map(|text| json!(text)).collect()
}

pub fn truth() -> Values {
    mostly(&[json!(true), json!(false)], &[json!(null)])
}

fn path() -> Values {
    let made =
        pieces(&["/etc", "/a", "/b", "/systemd/system", "/a.service"], 4).prop_map(Value::String);
    let odd = pieces(&["/", "..", ".", "a", "/b", "\0", " ", "é"], 6).prop_map(Value::String);
    let units = select(texts(&[
        "/etc/systemd/system/a.service",
        "/etc/systemd/system/x@.service",
        "/etc/systemd/system/a.service.d/a.conf",
    ]));
    prop_oneof![30 => made, 1 => odd, 4 => units].boxed()
}

fn source() -> Values {
    let data = pieces(
        &[
            "data:", "text", "/", "plain", ";", "base64", ",", "=", "a", "aGk=", "%41", "%", "\"",
            "é", " ", "charset", "x-", "?", "(", "\n",
        ],
        9,
    );
    let good =
        texts(&["data:,a", "data:;base64,aGk=", "", "data:text/plain;charset=utf-8,%00", "data:,"]);
    let odd = texts(&[
        "http://a/b",
        "s3://b/k",
        "gs://b/k",
        "arn:aws:s3:::b/k",
        "ftp://a",
        "data:,a b",
        "tftp://a",
    ]);
    prop_oneof![20 => mostly(&good, &odd), 1 => data.prop_map(|d| json!(format!("data:{d}")))]
        .boxed()
}

fn contents(percent: u32) -> Values {
    let hash = mostly(
        &[
            json!(format!("sha512-{}", "a".repeat(128))),
            json!(format!("sha512-{}", "B".repeat(128))),
        ],
        &[json!(format!("sha256-{}", "a".repeat(64))), json!("sha512-a"), json!(null)],
    );
    let header = object(vec![
        ("name", 90, mostly(&texts(&["a", "b"]), &texts(&[""]))),
        ("value", 50, mostly(&texts(&["x"]), &texts(&[""]))),
    ]);
    object(vec![
        ("source", percent, source()),
        ("compression", 20, mostly(&texts(&["gzip", ""]), &texts(&["xz"]))),
        ("verification", 10, object(vec![("hash", 90, hash)])),
        ("httpHeaders", 2, list(header, 2)),
    ])
}

fn owner() -> Values {
    object(vec![
        ("id", 40, mostly(&[json!(0), json!(1000)], &[json!(-1), json!(1_u64 << 40), json!(1.5)])),
        ("name", 10, mostly(&texts(&["core", ""]), &texts(&["root"]))),
    ])
}

fn storage() -> Values {
    let mode =
        || mostly(&[json!(420), json!(493), json!(0)], &[json!(-1), json!(0o1777), json!(0o10000)]);
    let node = || {
        vec![
            ("path", 99, path()),
            ("overwrite", 10, truth()),
            ("user", 30, owner()),
            ("group", 30, owner()),
        ]
    };
    let file = [
        node(),
        vec![
            ("mode", 50, mode()),
            ("contents", 80, contents(95)),
            ("append", 10, list(contents(98), 2)),
        ],
    ];
    let directory = [node(), vec![("mode", 50, mode())]];
    let target = || mostly(&texts(&["x", "../b", "/etc/a"]), &texts(&["", "/etc", "a\0"]));
    let link = [node(), vec![("target", 98, target()), ("hard", 30, truth())]];
    object(vec![
        ("files", 70, list(object(file.concat()), 3)),
        ("directories", 40, list(object(directory.concat()), 2)),
        ("links", 40, list(object(link.concat()), 2)),
        ("disks", 10, disks()),
        ("filesystems", 10, filesystems()),
        ("raid", 10, raid()),
        ("luks", 10, luks()),
    ])
}

fn disks() -> Values {
    let number = || mostly(&[json!(0), json!(1), json!(5)], &[json!(-1), json!(100)]);
    let partition = object(vec![
        ("number", 90, mostly(&[json!(1), json!(2), json!(3)], &[json!(0)])),
        ("label", 40, mostly(&texts(&["a", "b", "c"]), &texts(&["a:b", ""]))),
        ("shouldExist", 5, truth()),
        ("sizeMiB", 40, number()),
        ("startMiB", 40, number()),
        ("guid", 10, mostly(&texts(&["", "01234567-89AB-CDEF-EDCB-A98765432101"]), &texts(&["x"]))),
        ("resize", 10, truth()),
    ]);
    let device = mostly(&texts(&["/dev/a", "/dev/b"]), &texts(&["", "a"]));
    list(
        object(vec![
            ("device", 98, device),
            ("wipeTable", 30, truth()),
            ("partitions", 80, list(partition, 3)),
        ]),
        2,
    )
}

fn filesystems() -> Values {
    list(
        object(vec![
            ("device", 98, mostly(&texts(&["/dev/a", "/dev/b"]), &texts(&["", "a"]))),
            ("format", 80, mostly(&texts(&["ext4", "xfs", "vfat"]), &texts(&["none", "ext3", ""]))),
            (
                "label",
                30,
                mostly(&texts(&["a", "twelve bytes"]), &texts(&["", "more than sixteen"])),
            ),
            ("path", 30, mostly(&texts(&["/x", ""]), &texts(&["x"]))),
            ("options", 10, list(mostly(&texts(&["a"]), &[json!(null)]), 2)),
            ("mountOptions", 10, list(mostly(&texts(&["a"]), &[json!(5)]), 2)),
            ("wipeFilesystem", 10, truth()),
        ]),
        2,
    )
}

fn raid() -> Values {
    list(
        object(vec![
            ("name", 95, select(texts(&["a", "b", "c"])).boxed()),
            ("level", 95, mostly(&texts(&["raid1", "stripe", "10"]), &texts(&["", "raid2"]))),
            ("devices", 95, list(mostly(&texts(&["/a", "/b", "/c"]), &texts(&["a"])), 2)),
            ("spares", 10, select(vec![json!(0), json!(1)]).boxed()),
        ]),
        2,
    )
}

fn luks() -> Values {
    let tang = object(vec![
        (
            "url",
            95,
            mostly(&texts(&["http://a", "https://b:1/"]), &texts(&["x", "http://[", "http://a:b"])),
        ),
        ("thumbprint", 95, select(texts(&["t"])).boxed()),
        ("advertisement", 20, mostly(&texts(&["", "{}"]), &texts(&["{"]))),
    ]);
    let custom = object(vec![
        ("pin", 80, mostly(&texts(&["sss", "tpm2"]), &texts(&["x", ""]))),
        ("config", 80, mostly(&texts(&["c"]), &texts(&[""]))),
        ("needsNetwork", 30, truth()),
    ]);
    let clevis = object(vec![
        ("tang", 30, list(tang, 2)),
        ("tpm2", 30, truth()),
        ("custom", 20, custom),
        ("threshold", 20, select(vec![json!(0), json!(1)]).boxed()),
    ]);
    list(
        object(vec![
            ("name", 95, mostly(&texts(&["a", "b"]), &texts(&["a/b"]))),
            ("device", 97, mostly(&texts(&["/dev/a"]), &texts(&["", "a"]))),
            ("keyFile", 20, contents(90)),
            ("clevis", 30, clevis),
            ("cex", 20, object(vec![("enabled", 90, truth())])),
            ("openOptions", 10, list(select(texts(&["a", "b"])).boxed(), 2)),
            ("discard", 10, truth()),
        ]),
        2,
    )
}

pub fn unit_text() -> Values {
    let long: Vec<String> = [900, 1000, 2040, 2047, 3000].iter().map(|&n| "y".repeat(n)).collect();
    let mut all = vec![
        "[Install]",
        "[Unit]\n",
        "\n",
        "\nA=b\n",
        "\nA=",
        "\r\n",
        "\\",
        "\\\n",
        "#",
        ";",
        " ",
        "=",
        "é",
        "\u{a0}",
        "]",
        "[",
    ];
    all.extend(long.iter().map(String::as_str));
    let good = texts(&[
        "",
        "[Unit]\nA=b\n",
        "[Unit]\nA=b\n[Install]\nWantedBy=c\n",
        "[Service]\nA=b\\\n c\n# d\n",
    ]);
    prop_oneof![
        3 => select(good),
        1 => pieces(&all, 14).prop_map(|text| json!(format!("[Unit]\n{text}"))),
        1 => pieces(&["\nA=b", "=yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy", "\n#"], 200).prop_map(|text| json!(format!("[Unit]{text}"))),
    ]
    .boxed()
}

fn systemd() -> Values {
    let names =
        texts(&["a.service", "b.socket", "x@.service", "x@y.service", "x@z.service", "a.timer"]);
    let odd = texts(&["", "a", "../a.service", "a b.service", "a.conf", ".service"]);
    let dropin = object(vec![
        (
            "name",
            98,
            mostly(&texts(&["a.conf", "b.conf", ".conf"]), &texts(&["a", "../a.conf", ""])),
        ),
        ("contents", 80, unit_text()),
    ]);
    let unit = object(vec![
        ("name", 99, mostly(&names, &odd)),
        ("enabled", 60, truth()),
        ("mask", 20, truth()),
        ("contents", 60, unit_text()),
        ("dropins", 20, list(dropin, 2)),
    ]);
    object(vec![("units", 95, list(unit, 3))])
}

/// A config with a version and random sections.
pub fn config() -> Values {
    let keys = || list(mostly(&texts(&["a", "b", "c", "d"]), &[json!(null)]), 2);
    let user = object(vec![
        ("name", 98, select(texts(&["core", "root", "a"])).boxed()),
        ("sshAuthorizedKeys", 40, keys()),
        ("groups", 40, keys()),
        ("uid", 30, select(vec![json!(5), json!(-5)]).boxed()),
        ("shouldExist", 30, truth()),
    ]);
    let group = object(vec![
        ("name", 98, select(texts(&["a", "b"])).boxed()),
        ("gid", 50, Just(json!(5)).boxed()),
    ]);
    let proxies =
        || mostly(&texts(&["http://a", "https://a:1"]), &texts(&["", "x", "ftp://a", "http://%"]));
    let ignition = object(vec![
        (
            "config",
            3,
            object(vec![("merge", 40, list(contents(95), 2)), ("replace", 40, contents(30))]),
        ),
        (
            "proxy",
            10,
            object(vec![
                ("httpProxy", 50, proxies()),
                ("httpsProxy", 50, proxies()),
                ("noProxy", 50, keys()),
            ]),
        ),
        (
            "security",
            10,
            object(vec![(
                "tls",
                90,
                object(vec![("certificateAuthorities", 90, list(contents(95), 2))]),
            )]),
        ),
        (
            "timeouts",
            10,
            object(vec![("httpTotal", 90, select(vec![json!(5), json!(1.5)]).boxed())]),
        ),
    ]);
    let root = object(vec![
        ("ignition", 100, ignition),
        ("storage", 80, storage()),
        ("systemd", 60, systemd()),
        ("passwd", 30, object(vec![("users", 80, list(user, 2)), ("groups", 50, list(group, 2))])),
        (
            "kernelArguments",
            20,
            object(vec![("shouldExist", 80, keys()), ("shouldNotExist", 80, keys())]),
        ),
    ]);
    (root, select(SpecVersion::ALL.to_vec()))
        .prop_map(|(mut config, version)| {
            let members = config.as_object_mut().expect("an object was generated");
            let ignition = members.entry("ignition").or_insert_with(|| json!({}));
            if !ignition.is_object() {
                *ignition = json!({});
            }
            ignition["version"] = json!(version.as_str());
            config
        })
        .boxed()
}
