//! A virtual machine (QEMU) boots images of ours from a registry, with their kernel arguments, and goes
//! back. For x86-64.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]

mod boot_check;
mod config;
mod disk;
mod image;
mod machine;
mod machine_part;
mod program_disk;
mod update;
