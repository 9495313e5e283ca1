//! Images for the machines of a lab, made by the program under test.

use serde_json::{Value, json};

use super::{Lab, base};
use crate::build_fixture::{NAME, rendered};
use crate::layout::Layout;
use crate::mosb::Mosb;
use crate::node::NodeRegistry;
use crate::second_base;

/// The repository of the second base.
const SECOND: &str = "lab/second";

/// An image in the lab's registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineImage {
    /// `HOST:PORT/REPOSITORY@DIGEST`.
    pub reference: String,
    pub digest: String,
}

impl MachineImage {
    pub(super) fn new(registry: &NodeRegistry, repository: &str, digest: &str) -> Self {
        let reference = format!("{}@{digest}", registry.repository(repository));
        Self { reference, digest: digest.to_owned() }
    }
}

impl Lab {
    /// The image of a rendered MachineConfig that writes one file, on the base, by `mosb build`, in
    /// `repository:latest`.
    #[track_caller]
    pub fn build(&self, repository: &str, path: &str, content: &str) -> MachineImage {
        let ignition = json!({
            "ignition": { "version": "3.5.0" },
            "storage": { "files": [
                { "path": path, "mode": 0o644, "contents": { "source": format!("data:,{content}") } },
            ] },
        });
        self.build_with(&base::image(), repository, &ignition, &["--build-on", "os-change"])
    }

    /// The image of a rendered MachineConfig with this Ignition config, by `mosb build`.
    #[track_caller]
    pub fn build_from(&self, repository: &str, ignition: &Value) -> MachineImage {
        self.build_with(&base::image(), repository, ignition, &[])
    }

    /// The same on the second base.
    #[track_caller]
    pub fn build_on_second(&self, repository: &str, ignition: &Value) -> MachineImage {
        self.build_with(&second_base::lab_image(), repository, ignition, &[])
    }

    /// The second base, which the registry gets now.
    #[track_caller]
    pub fn second_stock(&self) -> MachineImage {
        let layout = second_base::lab_image();
        self.registry().push(&layout.reference(base::STOCK), &format!("{SECOND}:latest"));
        MachineImage::new(self.registry(), SECOND, &layout.digest(base::STOCK))
    }

    #[track_caller]
    fn build_with(
        &self,
        base: &Layout,
        repository: &str,
        ignition: &Value,
        flags: &[&str],
    ) -> MachineImage {
        let config = rendered(ignition);
        let mosb = Mosb::new();
        let (base, output) = (base.reference(base::STOCK), mosb.home().join("image"));
        let target = format!("oci:{}", output.display());
        let build = ["build", "-", "--base", &base, "--output", &target];
        // For what is run, such as the compilation of the trust store.
        let build = [&build[..], &["--isolation", "chroot"], flags].concat();
        mosb.run_with(build, config.to_string().as_bytes()).ok();
        let layout = Layout::at(output);
        let digest = layout.digest(NAME);
        self.registry().push(&layout.reference(NAME), &format!("{repository}:latest"));
        MachineImage::new(self.registry(), repository, &digest)
    }
}
