//! The extensions that exist.

/// What `spec.extensions` of a MachineConfig may name. Which packages each is, the plan knows.
pub const EXTENSIONS: [&str; 7] = [
    "two-node-ha",
    "ipsec",
    "usbguard",
    "kerberos",
    "kernel-devel",
    "sandboxed-containers",
    "sysstat",
];
