//! Extended attributes of files, such as SELinux's label.

use std::collections::BTreeMap;
use std::os::fd::AsFd;

use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fsetxattr};
use rustix::io::Errno;

/// The most bytes of the names of a file's attributes, and of one of them (xattr(7)).
const ATTRIBUTE: usize = 64 * 1024;
/// Attributes that depend on the content; the kernel writes them.
const OF_CONTENT: [&str; 2] = ["security.ima", "security.evm"];

/// The attributes of an open file or directory, by name.
pub(crate) fn attributes(file: impl AsFd) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Errno> {
    let mut names = vec![0_u8; ATTRIBUTE];
    let length = match flistxattr(&file, &mut names[..]) {
        Ok(length) => length,
        Err(Errno::NOTSUP) => 0,
        Err(error) => return Err(error),
    };
    let mut found = BTreeMap::new();
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        if OF_CONTENT.iter().any(|other| other.as_bytes() == name) {
            continue;
        }
        let mut value = vec![0_u8; ATTRIBUTE];
        let length = fgetxattr(&file, name, &mut value[..])?;
        value.truncate(length);
        found.insert(name.to_vec(), value);
    }
    Ok(found)
}

/// Gives a new file the attributes of an old one.
pub(crate) fn copy_attributes(old: impl AsFd, new: impl AsFd) -> Result<(), Errno> {
    for (name, value) in attributes(old)? {
        fsetxattr(&new, &*name, &value, XattrFlags::empty())?;
    }
    Ok(())
}
