//! The config of spec 3.0.0 to 3.6.0. The normalized form of a config, [`super::super::Document`],
//! is that of 3.5.0.

use super::Items::{Names, Objects, Texts};
use super::Merging::{self, Concatenated, Keyed, KeyedAcross};
use super::{Key, Object, boolean, entry, integer, keyed, list, object, plain, string};
use crate::version::{Spec, SpecVersion};

const V3_1: Spec = Spec::V3(SpecVersion::V3_1);
const V3_2: Spec = Spec::V3(SpecVersion::V3_2);
const V3_3: Spec = Spec::V3(SpecVersion::V3_3);
const V3_4: Spec = Spec::V3(SpecVersion::V3_4);
const V3_5: Spec = Spec::V3(SpecVersion::V3_5);

pub(crate) static CONFIG: Object = plain(&[
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
    string("version"),
]);

static REFERENCES: Object = plain(&[keyed("merge", &REFERENCE), object("replace", &REFERENCE)]);

static PROXY: Object =
    plain(&[string("httpProxy"), string("httpsProxy"), list("noProxy", Names, Keyed)]);

static SECURITY: Object = plain(&[object("tls", &TLS)]);

static TLS: Object = plain(&[keyed("certificateAuthorities", &REFERENCE)]);

static TIMEOUTS: Object = plain(&[integer("httpResponseHeaders"), integer("httpTotal")]);

/// A reference to a config or a certificate. Only references to one source are merged, so that
/// compression, headers and hash always belong to it.
static REFERENCE: Object = entry(
    Key::Private("source"),
    &[
        string("compression").since(V3_1),
        keyed("httpHeaders", &HEADER).since(V3_1),
        string("source"),
        object("verification", &VERIFICATION),
    ],
);

static CONTENTS: Object = Object {
    fields: &[
        string("compression"),
        keyed("httpHeaders", &HEADER).since(V3_1),
        string("source"),
        object("verification", &VERIFICATION),
    ],
    key: Key::Private("source"),
    replaced_with: Some("source"),
    removed_without: None,
};

static HEADER: Object = Object {
    fields: &[string("name"), string("value")],
    key: Key::Name("name"),
    replaced_with: None,
    removed_without: Some("value"),
};

static VERIFICATION: Object = plain(&[string("hash")]);

const ARGUMENTS: Merging = KeyedAcross(&["shouldExist", "shouldNotExist"]);

static KERNEL_ARGUMENTS: Object =
    plain(&[list("shouldExist", Names, ARGUMENTS), list("shouldNotExist", Names, ARGUMENTS)]);

static PASSWD: Object = plain(&[keyed("groups", &GROUP), keyed("users", &USER)]);

static GROUP: Object = entry(
    Key::Name("name"),
    &[
        integer("gid"),
        string("name"),
        string("passwordHash"),
        boolean("shouldExist").since(V3_2),
        boolean("system"),
    ],
);

static USER: Object = entry(
    Key::Name("name"),
    &[
        string("gecos"),
        list("groups", Names, Keyed),
        string("homeDir"),
        string("name"),
        boolean("noCreateHome"),
        boolean("noLogInit"),
        boolean("noUserGroup"),
        string("passwordHash"),
        string("primaryGroup"),
        string("shell"),
        boolean("shouldExist").since(V3_2),
        list("sshAuthorizedKeys", Texts, Keyed),
        boolean("system"),
        integer("uid"),
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
        integer("mode"),
        boolean("overwrite"),
        string("path"),
        object("user", &OWNER),
    ],
);

static FILE: Object = entry(
    Key::Name("path"),
    &[
        list("append", Objects(&CONTENTS), Concatenated),
        object("contents", &CONTENTS),
        object("group", &OWNER),
        integer("mode"),
        boolean("overwrite"),
        string("path"),
        object("user", &OWNER),
    ],
);

static LINK: Object = entry(
    Key::Name("path"),
    &[
        object("group", &OWNER),
        boolean("hard"),
        boolean("overwrite"),
        string("path"),
        string("target"),
        object("user", &OWNER),
    ],
);

static OWNER: Object = plain(&[integer("id"), string("name")]);

static DISK: Object = entry(
    Key::Name("device"),
    &[string("device"), keyed("partitions", &PARTITION), boolean("wipeTable")],
);

static PARTITION: Object = entry(
    Key::Partition,
    &[
        string("guid"),
        string("label"),
        integer("number").zero_is_unset(),
        boolean("resize").since(V3_2),
        boolean("shouldExist"),
        integer("sizeMiB"),
        integer("startMiB"),
        string("typeGuid"),
        boolean("wipePartitionEntry"),
    ],
);

static FILESYSTEM: Object = entry(
    Key::Name("device"),
    &[
        string("device"),
        string("format"),
        string("label"),
        list("mountOptions", Texts, Concatenated).since(V3_1),
        list("options", Texts, Concatenated),
        string("path"),
        string("uuid"),
        boolean("wipeFilesystem"),
    ],
);

static LUKS: Object = entry(
    Key::Name("name"),
    &[
        object("cex", &CEX).since(V3_5),
        object("clevis", &CLEVIS),
        string("device"),
        boolean("discard").since(V3_4),
        object("keyFile", &CONTENTS),
        string("label"),
        string("name"),
        list("openOptions", Names, Keyed).since(V3_4),
        list("options", Texts, Concatenated),
        string("uuid"),
        boolean("wipeVolume"),
    ],
);

static CEX: Object = plain(&[boolean("enabled")]);

static CLEVIS: Object = plain(&[
    object("custom", &CUSTOM),
    keyed("tang", &TANG),
    integer("threshold"),
    boolean("tpm2"),
]);

static CUSTOM: Object = plain(&[string("config"), boolean("needsNetwork"), string("pin")]);

static TANG: Object = entry(
    Key::Private("url"),
    &[string("advertisement").since(V3_4), string("thumbprint"), string("url")],
);

static RAID: Object = entry(
    Key::Name("name"),
    &[
        list("devices", Names, Keyed),
        string("level"),
        string("name"),
        list("options", Texts, Concatenated),
        integer("spares"),
    ],
);

static SYSTEMD: Object = plain(&[keyed("units", &UNIT)]);

static UNIT: Object = entry(
    Key::Name("name"),
    &[
        string("contents"),
        keyed("dropins", &DROPIN),
        boolean("enabled"),
        boolean("mask"),
        string("name"),
    ],
);

static DROPIN: Object = entry(Key::Name("name"), &[string("contents"), string("name")]);
