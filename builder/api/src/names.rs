//! Names with rules.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

/// Why a text is not such a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It breaks the rule of Kubernetes names.
    #[error(
        "{0:?} is not a name of a Kubernetes object: at most 253 lower-case letters, digits, - and ., each part between dots beginning and ending with a letter or digit"
    )]
    Subdomain(String),
    /// It is not a rendered name.
    #[error(
        "{0:?} is not rendered: want rendered-<pool>-<32 hex digits>, as the machine-config-controller names it"
    )]
    Rendered(String),
    /// It is not a build name.
    #[error("{0:?} is not a build name: want <pool>-<32 hex digits>")]
    Build(String),
}

/// Name of a MachineConfigPool (RFC 1123 subdomain).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PoolName(String);

/// Name of a rendered MachineConfig: `rendered-<pool>-<32 hex digits>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RenderedName(String);

/// Name of a build: `<pool>-<32 hex digits>`. The MachineOSBuild's name and a tag of the image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BuildName(String);

/// The longest name of an object.
const NAME: usize = 253;
/// The longest value of a label.
const LABEL: usize = 63;

/// An RFC 1123 subdomain: what the name of most objects must be.
pub fn is_subdomain(s: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let part = |p: &str| {
        let bytes = p.as_bytes();
        bytes.first().is_some_and(|b| alphanumeric(*b))
            && bytes.last().is_some_and(|b| alphanumeric(*b))
            && bytes.iter().all(|b| alphanumeric(*b) || *b == b'-')
    };
    s.len() <= NAME && s.split('.').all(part)
}

/// `<pool>-<32 hex digits>` taken apart.
fn pool_and_hash(s: &str) -> Option<(&str, &str)> {
    let (pool, hash) = s.rsplit_once('-')?;
    let hex =
        hash.len() == 32 && hash.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    (hex && is_subdomain(pool)).then_some((pool, hash))
}

/// Cuts a name that is too long for a tag, a label or an object, and adds a hash of the whole, so
/// that two long names stay two.
pub fn shortened(name: &str, most: usize) -> String {
    use sha2::Digest as _;
    if name.len() <= most {
        return name.to_owned();
    }
    let hash = HEXLOWER.encode(&sha2::Sha256::digest(name)[..4]);
    format!("{}.{hash}", name[..most - 9].trim_end_matches(['-', '.']))
}

/// Name of an object that serves a build: `<prefix>-<build name>`, cut with a hash where no
/// object's name is so long.
pub fn object_name(prefix: &str, build: &BuildName) -> String {
    shortened(&format!("{prefix}-{build}"), NAME)
}

/// Name of a build's Job, which is a label of its pods: `build-<build name>`, cut with a hash where
/// no label is so long.
pub fn job_name(build: &BuildName) -> String {
    label_value(&format!("build-{build}"))
}

/// A name as a label's value: cut with a hash where no label is so long.
pub fn label_value(name: &str) -> String {
    shortened(name, LABEL)
}

impl PoolName {
    /// The name as the API has it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl RenderedName {
    /// The name as the API has it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The pool inside the name.
    pub fn pool(&self) -> PoolName {
        let (pool, _) =
            self.0["rendered-".len()..].rsplit_once('-').expect("checked when it was made");
        PoolName(pool.to_owned())
    }

    /// The tag of the image: the name, cut with a hash where a pool's name is too long for the 128
    /// characters of a tag.
    pub fn tag(&self) -> String {
        shortened(&self.0, 128)
    }
}

impl BuildName {
    /// The build of this pool with the first 32 of these hex digits; a pool's name that is too
    /// long for them is shortened.
    pub fn new(pool: &PoolName, hex: &str) -> Result<Self, NameError> {
        let pool = shortened(&pool.0, NAME - "-".len() - 32);
        format!("{pool}-{}", hex.get(..32).unwrap_or(hex)).parse()
    }

    /// The name as the API has it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The tag of the image.
    pub fn tag(&self) -> String {
        shortened(&self.0, 128)
    }
}

impl FromStr for PoolName {
    type Err = NameError;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        if is_subdomain(s) {
            Ok(Self(s.to_owned()))
        } else {
            Err(NameError::Subdomain(s.to_owned()))
        }
    }
}

impl FromStr for RenderedName {
    type Err = NameError;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let rest = s.strip_prefix("rendered-").and_then(pool_and_hash);
        if rest.is_some() && s.len() <= NAME {
            Ok(Self(s.to_owned()))
        } else {
            Err(NameError::Rendered(s.to_owned()))
        }
    }
}

impl FromStr for BuildName {
    type Err = NameError;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        if pool_and_hash(s).is_some() && s.len() <= NAME {
            Ok(Self(s.to_owned()))
        } else {
            Err(NameError::Build(s.to_owned()))
        }
    }
}

macro_rules! through_text {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(s: String) -> Result<Self, Self::Error> {
                s.parse()
            }
        }
        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }
    )*};
}
through_text!(PoolName, RenderedName, BuildName);

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn rendered_name_has_a_pool_and_a_hash() {
        for (pool, good) in [
            ("worker", true),
            ("a.b-c", true),
            ("", false),
            ("a_b", false),
            ("a\nb", false),
            ("a b", false),
            ("a/b", false),
            ("-a", false),
            ("A", false),
        ] {
            let name = format!("rendered-{pool}-{HEX}");
            if good {
                assert_eq!(name.parse::<RenderedName>().unwrap().pool().as_str(), pool)
            } else {
                assert_eq!(
                    name.parse::<RenderedName>(),
                    Err(NameError::Rendered(name.clone())),
                    "{pool:?}"
                )
            }
        }
        for bad in [
            "worker",
            "99-worker-ssh",
            "rendered-worker-",
            "rendered-worker-0123",
            &format!("rendered-worker-{}", HEX.to_uppercase()),
        ] {
            assert_eq!(bad.parse::<RenderedName>(), Err(NameError::Rendered(bad.to_owned())));
        }
    }

    #[test]
    fn tag_fits_and_two_long_names_stay_two() {
        let name = |last: char| {
            format!("rendered-{}{last}-{HEX}", "p".repeat(150)).parse::<RenderedName>().unwrap()
        };
        assert_eq!(name('a').tag().len(), 128);
        assert_ne!(name('a').tag(), name('b').tag());
        let short: RenderedName = format!("rendered-worker-{HEX}").parse().unwrap();
        assert_eq!(short.tag(), short.as_str());
        let pool: PoolName = "worker".parse().unwrap();
        assert_eq!(
            BuildName::new(&pool, &"0a".repeat(32)).unwrap().as_str(),
            format!("worker-{}", "0a".repeat(16))
        );
        // An owner's name may be as long as any object's.
        let [a, b] = ['a', 'b'].map(|last| {
            let pool: PoolName = format!("{}{last}", "p".repeat(252)).parse().unwrap();
            BuildName::new(&pool, &"0a".repeat(32)).unwrap()
        });
        assert_eq!(a.as_str().len(), 253);
        assert_ne!(a, b);
    }
}
