//! What can be wrong with a config, and with the contents it carries.

use std::fmt;

use super::data_url::DataUrlError;
use mosb_types::{Diagnostic, Finding};

/// The most findings of a config: a hostile one could have millions.
pub(super) const MAX_FINDINGS: usize = 1000;

/// Why a config was refused.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[diagnostic(class = InvalidInput)]
#[non_exhaustive]
pub enum Error {
    /// Spec 1 or 2.
    #[error(
        "ignition.version: spec {} is of before 3.0.0, and an image is built from spec 3 only; render the config first",
        shown(found)
    )]
    #[diagnostic(code = "old-ignition-spec")]
    OldSpec {
        /// The value in the config.
        found: String,
    },
    /// No version, or none that is read.
    #[error(
        "ignition.version: {} is not a spec version that is read; accepted are {accepted}",
        shown(found)
    )]
    #[diagnostic(code = "unknown-ignition-spec")]
    UnknownSpec {
        /// The value in the config.
        found: String,
        /// The versions that are read here, with commas.
        accepted: String,
    },
    /// The rules of its version are broken.
    #[error("{}", Listed(problems))]
    #[diagnostic(code = "invalid-ignition", findings = problems.clone())]
    Invalid {
        /// All that is wrong, or the first thousand faults: `object` is the field, as
        /// `storage.files[3].path`.
        problems: Vec<Finding>,
    },
}

/// Why the bytes of a content can't be had. Says nothing of which file: the caller knows.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[diagnostic(class = InvalidInput)]
#[non_exhaustive]
pub enum ContentError {
    /// It lies elsewhere. A parsed config has none.
    #[error("the contents are not a data URL; render the config first")]
    #[diagnostic(code = "remote-source")]
    Remote,
    /// Not a data URL as Ignition takes them.
    #[error("the data URL is not readable")]
    #[diagnostic(code = "bad-data-url")]
    DataUrl(#[from] DataUrlError),
    /// Larger than the caller takes, before or after unpacking.
    #[error(
        "the contents are larger than {limit} bytes; put them into the base image, or fetch them on the machine"
    )]
    #[diagnostic(code = "contents-too-large")]
    TooLarge { limit: u64 },
    /// Broken gzip, or something after its end.
    #[error(
        "the contents are said to be gzip, but do not unpack; compress them again, or leave `compression` out"
    )]
    #[diagnostic(code = "bad-gzip")]
    Gzip(#[source] std::io::Error),
    /// Not what the config says they are.
    #[error(
        "the contents have another {function} than `verification.hash` says; the hash counts for the unpacked bytes"
    )]
    #[diagnostic(code = "wrong-hash")]
    HashMismatch {
        /// `sha256` or `sha512`.
        function: &'static str,
    },
}

/// More problems than this are counted, not shown.
const SHOWN_PROBLEMS: usize = 20;

/// All problems as one text, a line each.
struct Listed<'a>(&'a [Finding]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = |f: &mut fmt::Formatter<'_>, p: &Finding| {
            let field = p.object.as_deref().unwrap_or("the config");
            match &p.path {
                Some(path) => write!(f, "{field} ({}): {}", shown(path), p.message),
                None => write!(f, "{field}: {}", p.message),
            }
        };
        if let [only] = self.0 {
            f.write_str("the Ignition config is not valid: ")?;
            return one(f, only);
        }
        let or_more = if self.0.len() < MAX_FINDINGS { "" } else { " or more" };
        write!(f, "the Ignition config has {}{or_more} faults:", self.0.len())?;
        for problem in self.0.iter().take(SHOWN_PROBLEMS) {
            f.write_str("\n  ")?;
            one(f, problem)?;
        }
        match self.0.len().saturating_sub(SHOWN_PROBLEMS) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

/// Text of the config as a message may carry it: quoted, on one line, not long.
pub(super) fn shown(text: &str) -> String {
    const LONGEST: usize = 120;
    match text.char_indices().nth(LONGEST) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}…", &text[..end]),
    }
}

/// What should be one of a few short words. Something longer was meant for another field, and may
/// be secret.
pub(super) fn shown_word(text: &str) -> String {
    const LONGEST: usize = 16;
    match text.chars().count() {
        0..=LONGEST => format!("{text:?}"),
        count => format!("a text of {count} characters"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_counted_to_its_end() {
        let problem = |n: usize| {
            Finding::new("bad-path", "is wrong").object(format!("storage.files[{n}].path"))
        };
        let text = |n| Error::Invalid { problems: (0..n).map(problem).collect() }.to_string();
        assert_eq!(text(1), "the Ignition config is not valid: storage.files[0].path: is wrong");
        assert_eq!(text(20).lines().count(), 21);
        assert!(text(5000).ends_with("\n  and 4980 more"));
    }

    #[test]
    fn shown_text_is_one_short_line() {
        assert_eq!(shown("a\nb"), r#""a\nb""#);
        assert_eq!(shown(&"é".repeat(500)).chars().count(), 123);
        assert_eq!(shown_word("zstd"), r#""zstd""#);
        assert_eq!(shown_word(&"é".repeat(17)), "a text of 17 characters");
    }
}
