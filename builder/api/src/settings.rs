//! The settings of a MachineConfig beside its Ignition config.

use serde_json::{Map, Value};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KernelType {
    /// Absent, empty or `default`.
    #[default]
    Default,
    Realtime,
    /// `64k-pages`.
    Pages64k,
}

impl KernelType {
    /// As the API spells it; empty is the default.
    pub fn from_wire(text: &str) -> Option<Self> {
        match text {
            "" | "default" => Some(Self::Default),
            "realtime" => Some(Self::Realtime),
            "64k-pages" => Some(Self::Pages64k),
            _ => None,
        }
    }

    /// As the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Realtime => "realtime",
            Self::Pages64k => "64k-pages",
        }
    }
}

/// `spec` of a MachineConfig without `config`. Absent, null and empty mean the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineSettings {
    /// `osImageURL`, unchanged.
    pub os_image_url: Option<String>,
    /// `baseOSExtensionsContainerImage`, unchanged.
    pub extensions_image: Option<String>,
    pub kernel_arguments: Vec<String>,
    pub extensions: Vec<String>,
    pub kernel_type: KernelType,
    pub fips: bool,
}

/// A field of a wrong type or value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Below `spec`.
    pub field: &'static str,
    /// The problem and the remedy.
    pub problem: String,
}

impl MachineSettings {
    /// The fields that a spec has; others mean nothing.
    pub const FIELDS: [&str; 7] = [
        "baseOSExtensionsContainerImage",
        "config",
        "extensions",
        "fips",
        "kernelArguments",
        "kernelType",
        "osImageURL",
    ];

    /// Reads a spec.
    ///
    /// # Errors
    /// All fields that are wrong.
    pub fn read(spec: &Map<String, Value>) -> Result<Self, Vec<FieldError>> {
        let mut fields = Fields { spec, problems: Vec::new() };
        let settings = Self {
            os_image_url: fields.text("osImageURL"),
            extensions_image: fields.text("baseOSExtensionsContainerImage"),
            kernel_arguments: fields.list("kernelArguments"),
            extensions: fields.list("extensions"),
            kernel_type: fields.kernel_type(),
            fips: fields.fips(),
        };
        if fields.problems.is_empty() { Ok(settings) } else { Err(fields.problems) }
    }
}

struct Fields<'a> {
    spec: &'a Map<String, Value>,
    problems: Vec<FieldError>,
}

impl Fields<'_> {
    fn wrong(&mut self, field: &'static str, problem: impl Into<String>) {
        let problem = problem.into();
        self.problems.push(FieldError { field, problem });
    }

    fn text(&mut self, field: &'static str) -> Option<String> {
        match self.spec.get(field) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => (!text.is_empty()).then(|| text.clone()),
            Some(_) => {
                self.wrong(field, "want a text");
                None
            }
        }
    }

    fn list(&mut self, field: &'static str) -> Vec<String> {
        let texts = match self.spec.get(field) {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Array(items)) => {
                items.iter().map(|item| item.as_str().map(str::to_owned)).collect()
            }
            Some(_) => None,
        };
        texts.unwrap_or_else(|| {
            self.wrong(field, "want a list of texts");
            Vec::new()
        })
    }

    fn kernel_type(&mut self) -> KernelType {
        let text = self.text("kernelType").unwrap_or_default();
        KernelType::from_wire(&text).unwrap_or_else(|| {
            let problem = format!("{text:?} is none of default, realtime, 64k-pages");
            self.wrong("kernelType", problem);
            KernelType::Default
        })
    }

    fn fips(&mut self) -> bool {
        match self.spec.get("fips") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(fips)) => *fips,
            Some(_) => {
                self.wrong("fips", "want true or false");
                false
            }
        }
    }
}

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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_problems_are_reported() {
        let spec = json!({ "osImageURL": 1, "kernelArguments": ["a", 1], "extensions": {}, "kernelType": "rt", "fips": "yes" });
        let problems = MachineSettings::read(spec.as_object().unwrap()).unwrap_err();
        let fields: Vec<_> = problems.iter().map(|problem| problem.field).collect();
        let want = ["osImageURL", "kernelArguments", "extensions", "kernelType", "fips"];
        assert_eq!(fields, want);
        let nothing = json!({ "osImageURL": "", "kernelArguments": null, "kernelType": "default", "fips": null });
        let settings = MachineSettings::read(nothing.as_object().unwrap());
        assert_eq!(settings, Ok(MachineSettings::default()));
    }
}
