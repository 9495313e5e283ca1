//! Which rendered configs get an image of their own: `mosb.dev/build-on`.

use std::fmt;
use std::str::FromStr;

/// The value of the annotation `mosb.dev/build-on`, and of `--build-on`.
///
/// It is an input of the image: where every config has its own image, nothing else brings files
/// below `/var` to a machine, so the image does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BuildOn {
    EveryConfig,
    /// Those that differ in OS image, kernel type, extensions or kernel arguments, which a
    /// machine-config-daemon can't apply. The image has nothing but what the config says.
    #[default]
    OsChange,
}

impl BuildOn {
    /// As the annotation spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EveryConfig => "every-config",
            Self::OsChange => "os-change",
        }
    }
}

impl FromStr for BuildOn {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        match s {
            "every-config" => Ok(Self::EveryConfig),
            "os-change" => Ok(Self::OsChange),
            _ => Err(format!("is {s:?}, and can be every-config or os-change")),
        }
    }
}

impl fmt::Display for BuildOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
