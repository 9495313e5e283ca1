//! A virtual machine (QEMU) boots images of ours from a registry, and goes back. For x86-64.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]

mod config;
mod disk;
mod machine;
mod update;
