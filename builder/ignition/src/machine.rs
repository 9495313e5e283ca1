//! The sections `passwd` and `kernelArguments`, of which only the names are used.

use super::config::{KernelArguments, Passwd};
use super::object::Object;

/// Reads the section `kernelArguments`.
pub(super) fn kernel_arguments(root: &Object<'_, '_>) -> KernelArguments {
    let arguments = root.object("kernelArguments");
    let owned = |key| arguments.texts(key).into_iter().map(str::to_owned).collect();
    KernelArguments {
        should_exist: owned("shouldExist"),
        should_not_exist: owned("shouldNotExist"),
    }
}

/// Reads the section `passwd`.
pub(super) fn passwd(root: &Object<'_, '_>) -> Passwd {
    let passwd = root.object("passwd");
    let name = |o: &Object<'_, '_>| o.text("name").unwrap_or_default().to_owned();
    Passwd { users: passwd.each("users", name), groups: passwd.each("groups", name) }
}
