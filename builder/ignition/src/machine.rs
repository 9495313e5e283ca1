//! The sections `passwd` and `kernelArguments`: checked as Ignition does, kept by name only.

use super::config::{KernelArguments, Passwd};
use super::fields::Object;
use super::version::SpecVersion;

/// Reads the section `kernelArguments`.
pub(super) fn kernel_arguments(root: &mut Object<'_, '_>) -> KernelArguments {
    if !root.has("kernelArguments", SpecVersion::V3_3) {
        return KernelArguments::default();
    }
    let mut arguments = root.object("kernelArguments");
    let (wanted, unwanted) = (arguments.texts("shouldExist"), arguments.texts("shouldNotExist"));
    if arguments.sound() {
        arguments.no_duplicates_among([
            ("shouldExist", wanted.iter().copied()),
            ("shouldNotExist", unwanted.iter().copied()),
        ]);
    }
    arguments.finish();
    let owned = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect();
    KernelArguments { should_exist: owned(wanted), should_not_exist: owned(unwanted) }
}

/// Reads the section `passwd`.
pub(super) fn passwd(root: &mut Object<'_, '_>) -> Passwd {
    let mut passwd = root.object("passwd");
    let users = passwd.each("users", user);
    let groups = passwd.each("groups", group);
    if passwd.sound() {
        passwd.no_duplicates("users", users.iter().map(String::as_str));
        passwd.no_duplicates("groups", groups.iter().map(String::as_str));
    }
    passwd.finish();
    Passwd { users, groups }
}

fn user(o: &mut Object<'_, '_>) -> String {
    for key in ["gecos", "homeDir", "passwordHash", "primaryGroup", "shell"] {
        o.text(key);
    }
    for key in ["noCreateHome", "noLogInit", "noUserGroup", "system"] {
        o.truth(key);
    }
    if o.has("shouldExist", SpecVersion::V3_2) {
        o.truth("shouldExist");
    }
    o.number("uid");
    let (groups, keys) = (o.texts("groups"), o.texts("sshAuthorizedKeys"));
    if o.sound() {
        o.no_duplicates("groups", groups);
        o.no_duplicates("sshAuthorizedKeys", keys);
    }
    o.text("name").unwrap_or_default().to_owned()
}

fn group(o: &mut Object<'_, '_>) -> String {
    o.text("passwordHash");
    o.truth("system");
    if o.has("shouldExist", SpecVersion::V3_2) {
        o.truth("shouldExist");
    }
    o.number("gid");
    o.text("name").unwrap_or_default().to_owned()
}
