//! The settings beside the Ignition config, merged.

use super::Component;
use mosb_api::{EXTENSIONS, KernelType, MachineSettings};
use mosb_types::Finding;

/// A value, and the number of the MachineConfig that gives it.
#[derive(Debug, Clone)]
pub(super) struct Of<T> {
    pub value: T,
    pub from: usize,
}

/// The settings of all MachineConfigs, in their order.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// Only those of administrators: generated ones name no image of their own.
    pub os_images: Vec<Of<String>>,
    /// As `os_images`.
    pub extensions_images: Vec<Of<String>>,
    pub kernel_arguments: Vec<Of<String>>,
    pub extensions: Vec<Of<String>>,
    /// Only those that want another kernel.
    pub kernel_types: Vec<Of<KernelType>>,
    pub fips: Vec<usize>,
}

impl Settings {
    /// The last one with another kernel is used.
    pub fn kernel_type(&self) -> KernelType {
        let last = self.kernel_types.last();
        last.map_or(KernelType::Default, |setting| setting.value)
    }

    /// One that wants it is enough.
    pub fn fips(&self) -> bool {
        !self.fips.is_empty()
    }
}

/// Reads and merges the settings of all.
pub(super) fn merge(
    chosen: &[&Component],
    problems: &mut Vec<Finding>,
    warnings: &mut Vec<Finding>,
) -> Settings {
    let mut merged = Settings::default();
    for (from, one) in chosen.iter().enumerate() {
        let unknown = one.config.spec.keys();
        let unknown = unknown.filter(|key| !MachineSettings::FIELDS.contains(&key.as_str()));
        warnings.extend(unknown.map(|key| {
            let message = "is not a field of a MachineConfig, so it does nothing";
            let place = one.place(&format!("spec.{}", key.escape_debug()));
            Finding::new("unknown-setting", message).object(place)
        }));
        match MachineSettings::read(&one.config.spec) {
            Ok(settings) => merged.add(one, from, settings, problems),
            Err(wrong) => problems.extend(wrong.into_iter().map(|wrong| {
                let place = one.place(&format!("spec.{}", wrong.field));
                Finding::new("bad-setting", wrong.problem).object(place)
            })),
        }
    }
    let mut extensions = merged.extensions.iter();
    let devel = extensions.rfind(|setting| setting.value == "kernel-devel");
    if let (Some(kernel), Some(devel)) = (merged.kernel_types.last(), devel) {
        let message = format!(
            "kernel-devel is there for the default kernel only, and {} wants {}; take one of them out",
            chosen[kernel.from].name(),
            kernel.value.as_str()
        );
        let place = chosen[devel.from].place("spec.extensions");
        problems.push(Finding::new("kernel-devel", message).object(place));
    }
    merged
}

impl Settings {
    fn add(
        &mut self,
        one: &Component,
        from: usize,
        settings: MachineSettings,
        problems: &mut Vec<Finding>,
    ) {
        let of = |value: String| Of { value, from };
        if !one.is_generated() {
            self.os_images.extend(settings.os_image_url.map(of));
            self.extensions_images.extend(settings.extensions_image.map(of));
        }
        self.kernel_arguments.extend(settings.kernel_arguments.into_iter().map(of));
        let unknown = |name: &&String| !EXTENSIONS.contains(&name.as_str());
        problems.extend(settings.extensions.iter().filter(unknown).map(|name| {
            let message =
                format!("{name:?} is not an extension; known are {}", EXTENSIONS.join(", "));
            Finding::new("unknown-extension", message).object(one.place("spec.extensions"))
        }));
        self.extensions.extend(settings.extensions.into_iter().map(of));
        if settings.kernel_type != KernelType::Default {
            let value = settings.kernel_type;
            self.kernel_types.push(Of { value, from });
        }
        if settings.fips {
            self.fips.push(from);
        }
    }
}
