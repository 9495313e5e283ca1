//! The whole config of spec 3.5.0 as one table: which fields an object has and since when, and how lists are merged.
//! Reading checks a config field by field in the modules that know what the fields mean; this table is for what is
//! done to all fields alike, [`super::Document`] and [`super::Merger`].

use super::fields::same_field;
use super::version::SpecVersion;

/// The fields of an object, and what its like is found by in a list.
#[derive(Debug)]
pub(super) struct Object {
    pub fields: &'static [Field],
    pub key: Key,
    /// Who says this field says all of the object: nothing of an earlier config's is left.
    pub whole_with: Option<&'static str>,
    /// Who names an entry of a list without this field takes it away.
    pub gone_without: Option<&'static str>,
}

/// What an object is found by in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    /// It never stands in a list.
    None,
    /// This field, which every entry has.
    Name(&'static str),
    /// This field; its text may be long or secret.
    Private(&'static str),
    /// Its number, or, if that is 0, its label.
    Partition,
}

/// A field of an object.
#[derive(Debug)]
pub(super) struct Field {
    /// As the spec writes it.
    pub name: &'static str,
    /// The first version that has it there.
    pub since: SpecVersion,
    pub kind: Kind,
}

/// What a field holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// A string, a number, true or false.
    Scalar,
    Object(&'static Object),
    List(Items, Merging),
}

/// What a list holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Items {
    /// Strings that stand for themselves in a place, as `groups[wheel]`.
    Names,
    /// Strings that may be long or secret.
    Texts,
    Objects(&'static Object),
}

/// How a later list joins an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Merging {
    /// It follows, whatever it holds.
    Concatenated,
    /// An entry is merged with the one that has its key, in that one's place; the others follow.
    Keyed,
    /// The same, and an entry takes away the one that has its key in another of these lists.
    KeyedAcross(&'static [&'static str]),
}

impl Object {
    /// The field that `key` names, in whatever case.
    pub fn field(&self, key: &str) -> Option<&'static Field> {
        let exact = self.fields.iter().find(|field| field.name == key);
        exact.or_else(|| self.fields.iter().find(|field| same_field(key, field.name)))
    }
}

impl Field {
    const fn new(name: &'static str, kind: Kind) -> Self {
        let since = SpecVersion::V3_0;
        Self { name, since, kind }
    }

    const fn since(self, since: SpecVersion) -> Self {
        Self { since, ..self }
    }
}

const fn scalar(name: &'static str) -> Field {
    Field::new(name, Kind::Scalar)
}

const fn object(name: &'static str, object: &'static Object) -> Field {
    Field::new(name, Kind::Object(object))
}

const fn list(name: &'static str, items: Items, merging: Merging) -> Field {
    Field::new(name, Kind::List(items, merging))
}

const fn keyed(name: &'static str, object: &'static Object) -> Field {
    list(name, Items::Objects(object), Merging::Keyed)
}

const fn plain(fields: &'static [Field]) -> Object {
    entry(Key::None, fields)
}

const fn entry(key: Key, fields: &'static [Field]) -> Object {
    Object { fields, key, whole_with: None, gone_without: None }
}

const fn contents(fields: &'static [Field]) -> Object {
    Object { fields, key: Key::Private("source"), whole_with: Some("source"), gone_without: None }
}

use Items::{Names, Objects, Texts};
use Merging::{Concatenated, Keyed, KeyedAcross};
use SpecVersion::{V3_1, V3_2, V3_3, V3_4, V3_5};

/// The config.
pub(super) static CONFIG: Object = plain(&[
    object("ignition", &IGNITION),
    object("kernelArguments", &KERNEL_ARGUMENTS).since(V3_3),
    object("passwd", &PASSWD),
    object("storage", &STORAGE),
    object("systemd", &SYSTEMD),
]);

static IGNITION: Object = plain(&[
    object("config", &REFERENCES),
    object("proxy", &PROXY).since(V3_1),
    object("security", &SECURITY),
    object("timeouts", &TIMEOUTS),
    scalar("version"),
]);

static REFERENCES: Object = plain(&[keyed("merge", &REFERENCE), object("replace", &REFERENCE)]);

static PROXY: Object =
    plain(&[scalar("httpProxy"), scalar("httpsProxy"), list("noProxy", Names, Keyed)]);

static SECURITY: Object = plain(&[object("tls", &TLS)]);

static TLS: Object = plain(&[keyed("certificateAuthorities", &REFERENCE)]);

static TIMEOUTS: Object = plain(&[scalar("httpResponseHeaders"), scalar("httpTotal")]);

/// Another config, or a certificate. Only those of one source are merged, so they can share what belongs to it.
static REFERENCE: Object = entry(
    Key::Private("source"),
    &[
        scalar("compression").since(V3_1),
        keyed("httpHeaders", &HEADER).since(V3_1),
        scalar("source"),
        object("verification", &VERIFICATION),
    ],
);

static CONTENTS: Object = contents(&[
    scalar("compression"),
    keyed("httpHeaders", &HEADER).since(V3_1),
    scalar("source"),
    object("verification", &VERIFICATION),
]);

static HEADER: Object = Object {
    fields: &[scalar("name"), scalar("value")],
    key: Key::Name("name"),
    whole_with: None,
    gone_without: Some("value"),
};

static VERIFICATION: Object = plain(&[scalar("hash")]);

const ARGUMENTS: Merging = KeyedAcross(&["shouldExist", "shouldNotExist"]);

static KERNEL_ARGUMENTS: Object =
    plain(&[list("shouldExist", Names, ARGUMENTS), list("shouldNotExist", Names, ARGUMENTS)]);

static PASSWD: Object = plain(&[keyed("groups", &GROUP), keyed("users", &USER)]);

static GROUP: Object = entry(
    Key::Name("name"),
    &[
        scalar("gid"),
        scalar("name"),
        scalar("passwordHash"),
        scalar("shouldExist").since(V3_2),
        scalar("system"),
    ],
);

static USER: Object = entry(
    Key::Name("name"),
    &[
        scalar("gecos"),
        list("groups", Names, Keyed),
        scalar("homeDir"),
        scalar("name"),
        scalar("noCreateHome"),
        scalar("noLogInit"),
        scalar("noUserGroup"),
        scalar("passwordHash"),
        scalar("primaryGroup"),
        scalar("shell"),
        scalar("shouldExist").since(V3_2),
        list("sshAuthorizedKeys", Texts, Keyed),
        scalar("system"),
        scalar("uid"),
    ],
);

const NODES: Merging = KeyedAcross(&["directories", "files", "links"]);

static STORAGE: Object = plain(&[
    list("directories", Objects(&DIRECTORY), NODES),
    keyed("disks", &DISK),
    list("files", Objects(&FILE), NODES),
    keyed("filesystems", &FILESYSTEM),
    list("links", Objects(&LINK), NODES),
    keyed("luks", &LUKS).since(V3_2),
    keyed("raid", &RAID),
]);

static DIRECTORY: Object = entry(
    Key::Name("path"),
    &[
        object("group", &OWNER),
        scalar("mode"),
        scalar("overwrite"),
        scalar("path"),
        object("user", &OWNER),
    ],
);

static FILE: Object = entry(
    Key::Name("path"),
    &[
        list("append", Objects(&CONTENTS), Concatenated),
        object("contents", &CONTENTS),
        object("group", &OWNER),
        scalar("mode"),
        scalar("overwrite"),
        scalar("path"),
        object("user", &OWNER),
    ],
);

static LINK: Object = entry(
    Key::Name("path"),
    &[
        object("group", &OWNER),
        scalar("hard"),
        scalar("overwrite"),
        scalar("path"),
        scalar("target"),
        object("user", &OWNER),
    ],
);

static OWNER: Object = plain(&[scalar("id"), scalar("name")]);

static DISK: Object = entry(
    Key::Name("device"),
    &[scalar("device"), keyed("partitions", &PARTITION), scalar("wipeTable")],
);

static PARTITION: Object = entry(
    Key::Partition,
    &[
        scalar("guid"),
        scalar("label"),
        scalar("number"),
        scalar("resize").since(V3_2),
        scalar("shouldExist"),
        scalar("sizeMiB"),
        scalar("startMiB"),
        scalar("typeGuid"),
        scalar("wipePartitionEntry"),
    ],
);

static FILESYSTEM: Object = entry(
    Key::Name("device"),
    &[
        scalar("device"),
        scalar("format"),
        scalar("label"),
        list("mountOptions", Texts, Concatenated).since(V3_1),
        list("options", Texts, Concatenated),
        scalar("path"),
        scalar("uuid"),
        scalar("wipeFilesystem"),
    ],
);

static LUKS: Object = entry(
    Key::Name("name"),
    &[
        object("cex", &CEX).since(V3_5),
        object("clevis", &CLEVIS),
        scalar("device"),
        scalar("discard").since(V3_4),
        object("keyFile", &CONTENTS),
        scalar("label"),
        scalar("name"),
        list("openOptions", Names, Keyed).since(V3_4),
        list("options", Texts, Concatenated),
        scalar("uuid"),
        scalar("wipeVolume"),
    ],
);

static CEX: Object = plain(&[scalar("enabled")]);

static CLEVIS: Object =
    plain(&[object("custom", &CUSTOM), keyed("tang", &TANG), scalar("threshold"), scalar("tpm2")]);

static CUSTOM: Object = plain(&[scalar("config"), scalar("needsNetwork"), scalar("pin")]);

static TANG: Object = entry(
    Key::Private("url"),
    &[scalar("advertisement").since(V3_4), scalar("thumbprint"), scalar("url")],
);

static RAID: Object = entry(
    Key::Name("name"),
    &[
        list("devices", Names, Keyed),
        scalar("level"),
        scalar("name"),
        list("options", Texts, Concatenated),
        scalar("spares"),
    ],
);

static SYSTEMD: Object = plain(&[keyed("units", &UNIT)]);

static UNIT: Object = entry(
    Key::Name("name"),
    &[
        scalar("contents"),
        keyed("dropins", &DROPIN),
        scalar("enabled"),
        scalar("mask"),
        scalar("name"),
    ],
);

static DROPIN: Object = entry(Key::Name("name"), &[scalar("contents"), scalar("name")]);
