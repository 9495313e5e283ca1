//! The config of spec 2.0.0 to 2.4.0. Its duplicates are joined when it is translated, so no list
//! is keyed.

use super::Items::{Objects, Texts};
use super::Merging::Concatenated;
use super::{Field, Key, Object, boolean, entry, integer, list, object, plain, string};
use crate::version::{Spec, SpecV2};

const V2_1: Spec = Spec::V2(SpecV2::V2_1);
const V2_2: Spec = Spec::V2(SpecV2::V2_2);
const V2_3: Spec = Spec::V2(SpecV2::V2_3);
const V2_4: Spec = Spec::V2(SpecV2::V2_4);

const fn objects(name: &'static str, of: &'static Object) -> Field {
    list(name, Objects(of), Concatenated)
}

const fn texts(name: &'static str) -> Field {
    list(name, Texts, Concatenated)
}

pub(crate) static CONFIG: Object = plain(&[
    object("ignition", &IGNITION),
    object("passwd", &PASSWD),
    object("storage", &STORAGE),
    object("systemd", &SYSTEMD),
    object("networkd", &NETWORKD),
]);

static IGNITION: Object = plain(&[
    string("version"),
    object("config", &REFERENCES),
    object("timeouts", &TIMEOUTS).since(V2_1),
    object("security", &SECURITY).since(V2_2),
    object("proxy", &PROXY).since(V2_4),
]);

static REFERENCES: Object = plain(&[objects("append", &REFERENCE), object("replace", &REFERENCE)]);

static TIMEOUTS: Object = plain(&[integer("httpResponseHeaders"), integer("httpTotal")]);

static SECURITY: Object = plain(&[object("tls", &TLS)]);

static TLS: Object = plain(&[objects("certificateAuthorities", &REFERENCE)]);

static PROXY: Object = plain(&[
    string("httpProxy").zero_is_unset(),
    string("httpsProxy").zero_is_unset(),
    texts("noProxy"),
]);

static REFERENCE: Object = plain(&[
    string("source"),
    object("verification", &VERIFICATION),
    objects("httpHeaders", &HEADER).since(V2_4),
]);

static CONTENTS: Object = plain(&[
    string("source"),
    string("compression").zero_is_unset(),
    object("verification", &VERIFICATION),
    objects("httpHeaders", &HEADER).since(V2_4),
]);

static VERIFICATION: Object = plain(&[string("hash")]);

static HEADER: Object = plain(&[string("name"), string("value").zero_is_unset()]);

static PASSWD: Object = plain(&[objects("users", &USER), objects("groups", &GROUP)]);

static USER: Object = plain(&[
    string("name"),
    string("passwordHash"),
    texts("sshAuthorizedKeys"),
    string("gecos").since(V2_1).zero_is_unset(),
    string("homeDir").since(V2_1).zero_is_unset(),
    string("primaryGroup").since(V2_1).zero_is_unset(),
    string("shell").since(V2_1).zero_is_unset(),
    boolean("noCreateHome").since(V2_1).zero_is_unset(),
    boolean("noLogInit").since(V2_1).zero_is_unset(),
    boolean("noUserGroup").since(V2_1).zero_is_unset(),
    boolean("system").since(V2_1).zero_is_unset(),
    integer("uid").since(V2_1),
    texts("groups").since(V2_1),
    object("create", &CREATE),
]);

static CREATE: Object = plain(&[
    string("gecos"),
    string("homeDir"),
    string("primaryGroup"),
    string("shell"),
    boolean("noCreateHome"),
    boolean("noLogInit"),
    boolean("noUserGroup"),
    boolean("system"),
    integer("uid"),
    texts("groups"),
]);

static GROUP: Object = plain(&[
    string("name"),
    integer("gid"),
    string("passwordHash").zero_is_unset(),
    boolean("system").zero_is_unset(),
]);

static STORAGE: Object = plain(&[
    objects("filesystems", &FILESYSTEM),
    objects("files", &FILE),
    objects("directories", &DIRECTORY).since(V2_1),
    objects("links", &LINK).since(V2_1),
    objects("disks", &DISK),
    objects("raid", &RAID),
]);

static FILESYSTEM: Object = plain(&[string("name"), string("path"), object("mount", &MOUNT)]);

static MOUNT: Object = plain(&[
    string("device"),
    string("format").zero_is_unset(),
    object("create", &CREATE_FILESYSTEM),
    string("label").since(V2_1),
    string("uuid").since(V2_1),
    texts("options").since(V2_1),
    boolean("wipeFilesystem").since(V2_1).zero_is_unset(),
]);

static CREATE_FILESYSTEM: Object = plain(&[boolean("force"), texts("options")]);

/// A file, a directory or a link: the fields of all three, and its own.
macro_rules! node {
    ($($own:expr),+ $(,)?) => {
        entry(
            Key::Name("path"),
            &[
                string("path"),
                string("filesystem"),
                object("user", &OWNER),
                object("group", &OWNER),
                boolean("overwrite").since(V2_2),
                $($own),+
            ],
        )
    };
}

static FILE: Object = node!(
    boolean("append").since(V2_2).zero_is_unset(),
    integer("mode"),
    object("contents", &CONTENTS),
);

static DIRECTORY: Object = node!(integer("mode"));

static LINK: Object = node!(boolean("hard").zero_is_unset(), string("target"));

static OWNER: Object = plain(&[integer("id"), string("name").since(V2_1).zero_is_unset()]);

static DISK: Object = plain(&[
    string("device"),
    boolean("wipeTable").zero_is_unset(),
    objects("partitions", &PARTITION),
]);

static PARTITION: Object = plain(&[
    integer("number").zero_is_unset(),
    string("label"),
    integer("size"),
    integer("start"),
    string("typeGuid").zero_is_unset(),
    string("guid").since(V2_1).zero_is_unset(),
    integer("sizeMiB").since(V2_3),
    integer("startMiB").since(V2_3),
    boolean("shouldExist").since(V2_3),
    boolean("wipePartitionEntry").since(V2_3).zero_is_unset(),
]);

static RAID: Object = plain(&[
    string("name"),
    string("level"),
    texts("devices"),
    integer("spares").zero_is_unset(),
    texts("options").since(V2_2),
]);

static SYSTEMD: Object = plain(&[objects("units", &UNIT)]);

static UNIT: Object = plain(&[
    string("name"),
    boolean("enable").zero_is_unset(),
    boolean("enabled").since(V2_1),
    boolean("mask").zero_is_unset(),
    string("contents").zero_is_unset(),
    objects("dropins", &DROPIN),
]);

static DROPIN: Object = plain(&[string("name"), string("contents").zero_is_unset()]);

static NETWORKD: Object = plain(&[objects("units", &NETWORKD_UNIT)]);

static NETWORKD_UNIT: Object =
    plain(&[string("name"), string("contents"), objects("dropins", &DROPIN).since(V2_2)]);
