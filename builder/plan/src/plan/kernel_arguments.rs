//! The kernel arguments of a config, in an image that only bootc brings to machines.
//!
//! Where the base has rpm-ostree, a machine sets its arguments itself, in the deployment of the
//! image. Whether a config wants arguments depends on the config alone, so that the names of a build
//! need no base.

use mosb_api::rollout::MachinePart;
use mosb_types::{Finding, canonical_json};

/// The file in the image (bootc, "Kernel arguments"). At an update, bootc adds what is new in it to
/// the machine's arguments, and removes what is not in it any more. If the new image has no such file,
/// they stay, so an image without arguments has it too.
pub const FILE: &str = "/usr/lib/bootc/kargs.d/90-mosb.toml";
/// An image with this program has no such file.
pub(super) const RPM_OSTREE: &str = "/usr/bin/rpm-ostree";

/// The content of [`FILE`].
pub(crate) fn kargs_file(arguments: &[String]) -> String {
    let list = String::from_utf8(canonical_json(&arguments)).expect("JSON is UTF-8");
    // A list of strings in JSON is one in TOML, which has no plain DEL.
    format!("kargs = {}\n", list.replace('\x7f', "\\u007f"))
}

/// The arguments of the text of such a [file](FILE) of ours; none of another text.
pub fn parse_kargs_file(text: &str) -> Vec<String> {
    let list = text.strip_prefix("kargs = ").map(serde_json::from_str::<Vec<String>>);
    list.and_then(Result::ok).unwrap_or_default()
}

/// Which arguments the image brings, for people; nothing for none. `is_certain` is whether the base is known to lack
/// rpm-ostree.
pub(super) fn findings(arguments: &[String], is_certain: bool) -> Vec<Finding> {
    if arguments.is_empty() {
        return Vec::new();
    }
    let unsure = if_unsure(is_certain);
    let message = format!(
        "bootc sets these kernel arguments when it brings the image to a machine{unsure}: {}",
        arguments.join(" ")
    );
    vec![Finding::new("kernel-arguments-file", message).path(FILE)]
}

/// What bootc can't do with the arguments of a config.
pub(super) fn warnings(part: &MachinePart, is_certain: bool) -> Vec<Finding> {
    let unsure = if_unsure(is_certain);
    let has_blank = |argument: &&String| argument.contains(|c: char| c.is_ascii_whitespace());
    let with_blanks = part.kernel_arguments.iter().filter(has_blank).map(|argument| {
        let message = format!(
            "a kernel argument with a blank: bootc 1.1.4 sets it and can never remove it from a machine{unsure}; 1.16.9 can; update bootc in the base before you remove the argument"
        );
        Finding::new("kernel-argument-blank", message).object(argument)
    });
    let stay = part.removed_kernel_arguments.iter().map(|argument| {
        let message = format!(
            "bootc can't remove this kernel argument of shouldNotExist from a machine{unsure}: a machine that has it does not get the image; remove it there by hand, or from shouldNotExist"
        );
        Finding::new("kernel-argument-stays", message).object(argument)
    });
    with_blanks.chain(stay).collect()
}

fn if_unsure(is_certain: bool) -> &'static str {
    if is_certain { "" } else { ", if the base has no rpm-ostree" }
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
            (&[], "kargs = []\n"),
            (&["ü\x7f\x01"], "kargs = [\"ü\\u007f\\u0001\"]\n"),
        ] {
            let arguments: Vec<String> = arguments.iter().map(|one| (*one).to_owned()).collect();
            assert_eq!(kargs_file(&arguments), want);
            assert_eq!(parse_kargs_file(want), arguments);
        }
    }
}
