//! The kernel arguments of a config, in an image that only bootc brings to machines.
//!
//! Where the base has rpm-ostree, a machine sets its arguments itself, in the deployment of the
//! image. Whether a config wants arguments depends on the config alone, so that the names of a build
//! need no base.

use mosb_types::{Finding, canonical_json};

/// The file in the image (bootc, "Kernel arguments"). At an update, bootc adds what is new in it to
/// the machine's arguments, and removes what is not in it any more.
pub const FILE: &str = "/usr/lib/bootc/kargs.d/90-mosb.toml";
/// An image with this program has no such file.
pub(super) const RPM_OSTREE: &str = "/usr/bin/rpm-ostree";

/// The content of [`FILE`].
pub(crate) fn kargs_file(arguments: &[String]) -> String {
    let list = String::from_utf8(canonical_json(&arguments)).expect("JSON is UTF-8");
    // A list of strings in JSON is one in TOML, which has no plain DEL.
    format!("kargs = {}\n", list.replace('\x7f', "\\u007f"))
}

/// Which arguments the image brings, for people; nothing for none. `in_base` is whether the base is
/// known to lack rpm-ostree.
pub(super) fn findings(arguments: &[String], in_base: bool) -> Vec<Finding> {
    if arguments.is_empty() {
        return Vec::new();
    }
    let unsure = if in_base { "" } else { ", if the base has no rpm-ostree" };
    let message = format!(
        "bootc sets these kernel arguments when it brings the image to a machine{unsure}: {}",
        arguments.join(" ")
    );
    vec![Finding::new("kernel-arguments-file", message).path(FILE)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_toml() {
        for (arguments, want) in [
            (
                &["quiet", "console=ttyS0,115200n8"][..],
                "kargs = [\"quiet\",\"console=ttyS0,115200n8\"]\n",
            ),
            (&["a=\"b c\"\\"], "kargs = [\"a=\\\"b c\\\"\\\\\"]\n"),
            (&["ü\x7f\x01"], "kargs = [\"ü\\u007f\\u0001\"]\n"),
        ] {
            let arguments: Vec<String> = arguments.iter().map(|one| (*one).to_owned()).collect();
            assert_eq!(kargs_file(&arguments), want);
        }
    }
}
