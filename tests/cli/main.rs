//! Tests of the program that need neither root nor Go, and no registry except Debian's.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]
#![expect(clippy::type_complexity, reason = "a table of cases is a list of tuples")]

mod bad_base;
mod bad_config;
mod bad_layer;
mod bad_target;
mod boot_check;
mod boot_images;
mod cli_commands;
mod cli_refusals;
mod dependencies;
mod documentation;
mod examples;
mod fetch_fixture;
mod injection;
mod part_program;
mod part_proxy;
mod real_directories;
mod render_commands;
mod render_fetch;
mod render_fetch_faults;
mod render_refusals;
mod reproducible;
mod support_bundle;
