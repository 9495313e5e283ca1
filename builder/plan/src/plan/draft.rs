//! The plan, made in two steps: first without the base's tree, then with it.

use super::apply::{Additions, apply, has_rpm_ostree, preset_units, real_paths};
use super::build_plan::{BuildPlan, BuildRequest};
use super::checks::{self, Facts};
use super::explain::{self, ImagePaths};
use super::inputs::{FORMAT, Inputs, Parts, annotations, image_labels};
use super::machine_part::kernel_part;
use super::method::{Method, MethodChoice, Reason};
use super::prepared::{
    BuilderNodes, Obstacle, OwnParts, Prepared, PreparedBase, is_trust_file, without_trust_files,
};
use super::var_files::{self, VarPaths};
use super::{Error, kernel_arguments, update_units};
use mosb_api::rollout::MachinePart;
use mosb_api::{BuildName, BuildOn, KernelType, RenderedConfig};
use mosb_ignition as ignition;
use mosb_image::Digest;
use mosb_image::overlay::{LayerEntry, Overlay};
use mosb_image::tree::BaseTree;
use mosb_types::Finding;

/// The Ignition config of a rendered config; none if it has none.
///
/// # Errors
/// It is invalid.
pub fn parse_ignition(config: &RenderedConfig) -> Result<Option<ignition::Parsed>, Error> {
    let parsed = config.ignition().map(ignition::parse).transpose();
    parsed.map_err(|source| Error::Ignition { config: config.name().to_string(), source })
}

/// The part of a plan that does not need the base's tree.
#[derive(Debug, Clone)]
pub struct Draft {
    request: BuildRequest,
    names: (Inputs, BuildName),
    ignition: Option<ignition::Config>,
    reasons: Vec<Reason>,
    warnings: Vec<Finding>,
    /// The paths that the image may have to bring to machines; nothing if it never does.
    var_paths: Vec<String>,
    /// The kernel arguments that machines need; nothing if an image never brings them.
    part: Option<MachinePart>,
}

impl Draft {
    /// Reads the config and checks the request against it and the base.
    ///
    /// # Errors
    /// An invalid Ignition config, a base that is itself a build, settings that can't be built,
    /// `--method direct` although a program must run.
    pub fn new(request: BuildRequest) -> Result<Self, Error> {
        let ignition = parse_ignition(&request.config)?;
        Self::with_ignition(request, ignition)
    }

    /// The same with the [parsed](parse_ignition) Ignition config of the request.
    ///
    /// # Errors
    /// As [`Draft::new`].
    pub fn with_ignition(
        request: BuildRequest,
        ignition: Option<ignition::Parsed>,
    ) -> Result<Self, Error> {
        let (ignition, warnings) = ignition.map(|parsed| (parsed.config, parsed.warnings)).unzip();
        let mut warnings: Vec<Finding> = warnings.unwrap_or_default();
        let reasons = reasons(&request, ignition.as_ref());
        let var_paths = match (&ignition, request.build_on) {
            (Some(config), BuildOn::EveryConfig) => VarPaths::of(config),
            (None, _) | (_, BuildOn::OsChange) => VarPaths::default(),
        };
        warnings.extend(var_paths.refused);
        let var_paths = var_paths.paths;
        let part = match request.build_on {
            BuildOn::EveryConfig => Some(kernel_part(&request.config, ignition.as_ref())),
            BuildOn::OsChange => None,
        };
        let names = names(&request);
        let mut draft = Self { request, names, ignition, reasons, warnings, var_paths, part };
        let has_own = draft.request.containerfile.is_some();
        draft.check(None, has_own)?;
        Ok(draft)
    }

    /// Whether the base's tree can affect the plan. It can't if a program must run anyway.
    pub fn needs_tree(&self) -> bool {
        self.reasons.is_empty()
    }

    /// The inputs of the image and the name of its build. They do not depend on the base's tree, so
    /// they are those of the complete plan.
    pub fn names(&self) -> (Inputs, BuildName) {
        self.names.clone()
    }

    /// The tags of the image: the name of the rendered config, which moves, and the name of the build.
    pub fn tags(&self) -> [String; 2] {
        [self.request.config.name().tag(), self.names.1.tag()]
    }

    /// Whether the image brings to machines what no update of an image does by itself: files below
    /// `/var`, kernel arguments, the boot check.
    fn brings_to_machines(&self) -> bool {
        brings_to_machines(&self.request)
    }

    /// The request that is planned.
    pub fn request(&self) -> &BuildRequest {
        &self.request
    }

    /// Why the build can't be direct, as far as known without the base's tree.
    pub fn reasons(&self) -> &[Reason] {
        &self.reasons
    }

    /// The prepared base that this build can be made on. `own` has the parts of its Containerfile.
    ///
    /// # Errors
    /// Why there is none.
    pub fn prepared(&self, own: OwnParts, nodes: BuilderNodes) -> Result<Prepared, Obstacle> {
        Prepared::new(&self.request, self.ignition.as_ref(), &self.reasons, own, nodes)
    }

    /// Warnings about the image, as far as known without the base's tree.
    pub fn warnings(&self) -> Vec<Finding> {
        let mut warnings = self.warnings.clone();
        warnings.extend(explain::warnings(&self.request, self.ignition.as_ref()));
        warnings
    }

    /// Makes the [checks](checks::check) of what is known. Their warnings are those of the plan.
    /// `may_have_last`: instructions of the administrator may run after the config.
    fn check(&mut self, tree: Option<&BaseTree>, may_have_last: bool) -> Result<(), Error> {
        let (request, reasons) = (&self.request, &*self.reasons);
        let found = checks::check(Facts { request, reasons, tree, may_have_last })?;
        let new: Vec<_> = found.into_iter().filter(|one| !self.warnings.contains(one)).collect();
        self.warnings.extend(new);
        Ok(())
    }

    /// Completes a plan that does not [need](Self::needs_tree) the base's tree, of which nothing is known.
    pub fn finish_unread(self) -> BuildPlan {
        self.complete(None, None, None)
    }

    /// Completes the plan on a base with this tree. If it is not [needed](Self::needs_tree), only notes
    /// follow from it.
    ///
    /// # Errors
    /// Failures that the real Ignition has too; `--method direct` although a program must run.
    pub fn finish(mut self, tree: &BaseTree) -> Result<BuildPlan, Error> {
        let has_own = self.request.containerfile.is_some();
        self.check(Some(tree), has_own)?;
        if !self.needs_tree() {
            return Ok(self.complete(None, None, Some(tree)));
        }
        let written = self.write(tree, self.ignition.as_ref())?;
        self.reasons.clone_from(&written.reasons);
        self.check(Some(tree), has_own)?;
        Ok(self.complete(Some(written), None, Some(tree)))
    }

    /// Completes the plan on a prepared base, with its tree.
    ///
    /// If a program would have to run after the config, or the config and what the prepared base has
    /// don't go together, it is the plan without the prepared base. A warning says why.
    ///
    /// # Errors
    /// An invalid config.
    pub fn finish_on(
        mut self,
        prepared: PreparedBase,
        tree: &BaseTree,
    ) -> Result<BuildPlan, Error> {
        self.check(Some(tree), prepared.has_last)?;
        let without = match &self.ignition {
            Some(config) if prepared.has_trust_files => Some(without_trust_files(config)),
            Some(_) | None => None,
        };
        let why_not = match self.write(tree, without.as_ref().or(self.ignition.as_ref())) {
            Ok(written) if written.reasons.is_empty() => {
                return Ok(self.complete(Some(written), Some(prepared), Some(tree)));
            }
            Ok(written) => {
                let why = written.reasons.iter().map(Reason::to_string).collect::<Vec<_>>();
                self.reasons.extend(written.reasons);
                why.join("; ")
            }
            // Without the packages' files it may go together.
            Err(Error::Apply { source, .. }) => source.to_string(),
            Err(error) => return Err(error),
        };
        let message = format!("everything is run at once, because on the prepared base {why_not}");
        self.warnings
            .push(Finding::new("prepared-not-used", message).object(&prepared.image.image));
        Ok(self.complete(None, None, Some(tree)))
    }

    /// The layer of a config on an image.
    fn write(
        &self,
        tree: &BaseTree,
        ignition: Option<&ignition::Config>,
    ) -> Result<Written, Error> {
        let request = &self.request;
        let additions = Additions {
            var_paths: self.brings_to_machines().then_some(&*self.var_paths),
            kernel_arguments: self.part.as_ref().map(|part| &*part.kernel_arguments),
            boot_check: self.brings_to_machines(),
        };
        let current = request.config.current_config();
        let applied = apply(tree, ignition, current, additions, request.base.is_ostree())
            .map_err(|source| Error::Apply { config: request.config.name().to_string(), source })?;
        let layer =
            if applied.reasons.is_empty() { applied.tree.layer() } else { Default::default() };
        Ok(Written {
            notes: explain::directories_that_stay(request, tree, &layer),
            layer,
            reasons: applied.reasons,
            left_out: applied.left_out,
            var_files: applied.var_files,
            has_kernel_arguments: applied.has_kernel_arguments,
            warnings: applied.warnings,
        })
    }

    /// The plan, with the layer that was written unless something must be run for it.
    fn complete(
        mut self,
        written: Option<Written>,
        prepared: Option<PreparedBase>,
        tree: Option<&BaseTree>,
    ) -> BuildPlan {
        let tags = self.tags();
        let brings_to_machines = self.brings_to_machines();
        let written = written.filter(|written| written.reasons.is_empty());
        let is_certain = written.is_some();
        let mut notes = Vec::new();
        let mut layer = Vec::new();
        let mut emptied = Vec::new();
        let mut brought = self.var_paths.clone();
        if let Some(tree) = tree {
            brought = real_paths(tree, &self.var_paths);
            brought.retain(|path| path.starts_with("/var/"));
            brought.sort();
            brought.dedup();
        }
        if let Some(written) = written {
            (notes, layer, emptied) = (written.notes, written.layer, written.left_out);
            brought = written.var_files;
            if !written.has_kernel_arguments {
                self.part = None;
            }
            self.warnings.extend(written.warnings);
        }
        let lacks_rpm_ostree = match tree {
            Some(tree) => has_rpm_ostree(&Overlay::new(tree)).ok().map(|has| !has),
            None => None,
        };
        // Of a base with rpm-ostree, no image has the file.
        let part = self.part.as_ref().filter(|_| lacks_rpm_ostree != Some(false));
        let lacks_rpm_ostree = lacks_rpm_ostree == Some(true);
        let of_bootc = part.map(|part| kernel_arguments::warnings(part, lacks_rpm_ostree));
        let of_file =
            part.map(|part| kernel_arguments::findings(&part.kernel_arguments, lacks_rpm_ostree));
        self.warnings.extend(of_bootc.unwrap_or_default());
        self.warnings.extend(update_units::findings(self.ignition.as_ref(), tree));
        let warnings = self.warnings();
        let Self { request, names, ignition, reasons, var_paths, part, .. } = self;
        let (inputs, build_name) = names;
        let kernel_arguments = part.map(|part| part.kernel_arguments);
        let mut added = var_files::findings(&brought, tree.is_some());
        added.extend(of_file.unwrap_or_default());
        let paths = if is_certain {
            ImagePaths::of_layer(&layer)
        } else {
            ImagePaths::of_config(ignition.as_ref(), tree)
        };
        notes.extend(explain::notes(&request, &paths, &brought));
        let brings_arguments =
            is_certain && kernel_arguments.as_ref().is_some_and(|list| !list.is_empty());
        let mut left_out = explain::left_to_machine(&request, ignition.as_ref(), brings_arguments);
        left_out.extend(emptied);
        let method = match (is_certain, &prepared) {
            (true, Some(prepared)) if prepared.has_last => Method::LastPart(reasons),
            (true, Some(_)) => Method::Prepared(reasons),
            (true, None) => Method::Direct,
            (false, _) => Method::Containerfile(reasons),
        };
        let mut labels = image_labels(&request, &inputs);
        labels.extend(prepared.as_ref().map(PreparedBase::label));
        let lower = prepared.as_ref().map_or(&request.base, |prepared| &prepared.image);
        BuildPlan {
            tags,
            labels,
            annotations: annotations(&request.base, lower, &method),
            method,
            prepared,
            preset_units: ignition
                .as_ref()
                .map(|config| preset_units(&config.systemd))
                .unwrap_or_default(),
            notes,
            var_paths: brings_to_machines.then_some(var_paths),
            kernel_arguments,
            added,
            inputs,
            build_name,
            layer,
            left_out,
            warnings,
            ignition,
            request,
        }
    }
}

fn brings_to_machines(request: &BuildRequest) -> bool {
    match request.build_on {
        BuildOn::EveryConfig => true,
        BuildOn::OsChange => false,
    }
}

fn names(request: &BuildRequest) -> (Inputs, BuildName) {
    let inputs = Inputs::new(&Parts {
        format: FORMAT,
        every_config: brings_to_machines(request),
        config: request.config.as_value(),
        pool: request.config.pool(),
        base_name: request.base.name.as_str(),
        base: request.base.manifest_digest,
        extensions: request.extensions_image.as_ref(),
        containerfile: request.containerfile.as_deref(),
        context: request.context.as_ref(),
        build_args: &request.build_args,
        platform: &request.base.config.platform,
        trust_bundle: request.trust_bundle.as_ref().map(|bundle| Digest::of(bundle)),
    });
    let build = inputs.build_name(request.config.pool(), request.push.as_ref());
    (inputs, build)
}

/// A config on an image.
struct Written {
    layer: Vec<LayerEntry>,
    /// Why something must be run for it; then the layer is empty.
    reasons: Vec<Reason>,
    left_out: Vec<Finding>,
    var_files: Vec<String>,
    has_kernel_arguments: bool,
    notes: Vec<Finding>,
    warnings: Vec<Finding>,
}

fn reasons(request: &BuildRequest, ignition: Option<&ignition::Config>) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if request.method == MethodChoice::Containerfile {
        reasons.push(Reason::Requested);
    }
    if request.containerfile.is_some() {
        reasons.push(Reason::CustomContainerfile);
    }
    if !request.config.extensions.is_empty() {
        reasons.push(Reason::Extensions(request.config.extensions.clone()));
    }
    if request.config.kernel_type != KernelType::Default {
        reasons.push(Reason::KernelType(request.config.kernel_type.as_str()));
    }
    if request.trust_bundle.is_some() {
        reasons.push(Reason::CaTrust(None));
    }
    let files = ignition.into_iter().flat_map(|config| &config.storage.files);
    let links = ignition.into_iter().flat_map(|config| &config.storage.links);
    let paths = files.map(|file| &file.path).chain(links.map(|link| &link.path));
    if let Some(path) = paths.filter(|path| is_trust_file(path)).min() {
        reasons.push(Reason::CaTrust(Some(path.clone())));
    }
    reasons
}

#[cfg(test)]
#[path = "draft_tests.rs"]
mod tests;
