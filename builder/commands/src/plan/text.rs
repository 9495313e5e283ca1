//! The text of a plan.

use super::view::{Plan, PlanLayer, PlannedStage};
use crate::build::result::TreeSource;
use crate::build::verified_image::VerifiedImage;
use crate::diff::{cost_lines, os_text};
use crate::files::{COLUMNS, path_row};
use crate::output::Object;
use crate::page::{Align, Page, count, size};
use mosb_api::image_checks::CheckResult;
use mosb_plan::containerfile::Part;

impl Object for Plan {
    const KIND: &'static str = "Plan";

    fn text(&self) -> String {
        let mut page = Page::default();
        page.line(&format!("Plan for {} (pool {})", self.rendered_config, self.pool));
        self.method_section(&mut page);
        page.section(&format!("Build on: {}", self.build_on));
        page.line(&format!("  {}", self.build_on_reason));
        self.inputs_section(&mut page);
        VerifiedImage::section(&self.verified, &mut page);
        if !self.stages.is_empty() {
            stages_section(&mut page, &self.stages);
        }
        if let Some(layer) = &self.layer {
            layer_section(&mut page, layer);
        }
        if !self.preset_units.is_empty() {
            page.section("Units whose [Install] links follow the config");
            for unit in &self.preset_units {
                page.line(&format!("  {unit}"));
            }
        }
        if !self.commands.is_empty() {
            page.section(
                "Commands that a build would run, in a work folder that it makes and removes",
            );
            for command in &self.commands {
                page.line(&format!("  {command}"));
            }
        }
        for (headline, findings) in [
            ("Added by mosb, for what no update of an image brings", &self.added),
            ("Left out of the image (docs/what-reaches-a-machine.md)", &self.left_out),
            ("Warnings", &self.warnings),
            ("What a node makes of it (docs/what-reaches-a-machine.md)", &self.notes),
        ] {
            if !findings.is_empty() {
                page.section(headline);
                page.findings(findings);
            }
        }
        if let Some(change) = &self.change {
            page.section(&format!("On machines that have {}", change.from.title()));
            cost_lines(&mut page, &change.cost);
            if let Some(os) = &change.os {
                os_text::sections(&mut page, os);
            }
        }
        if !self.checks.is_empty() {
            page.section("Checks before the image comes into service (docs/checks.md)");
            page.table(&[Align::Left; 3], &self.checks.iter().map(check_row).collect::<Vec<_>>());
        }
        self.image_section(&mut page);
        page.into_text()
    }
}

impl Plan {
    fn method_section(&self, page: &mut Page) {
        if self.reasons.is_empty() {
            page.section("Method: direct");
            page.line("  One layer on the base's own layers. Nothing has to be run.");
            return;
        }
        page.section(&format!("Method: {}", self.method));
        let has_last =
            self.stages.iter().any(|stage| matches!(stage.part, Part::Last | Part::Both));
        let is_there = self.prepared.as_ref().map(|prepared| prepared.image.is_some());
        page.line(match (is_there, has_last) {
            (Some(true), false) => {
                "  One layer on a prepared base, which is there. It was made because"
            }
            (Some(false), false) => {
                "  buildah makes a prepared base once, and one layer is put on it, because"
            }
            (Some(true), true) => {
                "  buildah runs your last part on a prepared base, which is there, with the config's layer, because"
            }
            (Some(false), true) => {
                "  buildah makes a prepared base once, and runs your last part on it with the config's layer, because"
            }
            (None, _) => "  buildah runs a Containerfile, because",
        });
        page.findings(&self.reasons);
    }

    fn inputs_section(&self, page: &mut Page) {
        page.section("Inputs, pinned");
        let base = &self.base;
        let bootable = if base.bootable { "yes" } else { "no, see the warnings" };
        let tree = self.base_tree.as_ref().map(|tree| {
            let source = match tree.source {
                TreeSource::Cache => "from the cache",
                TreeSource::Computed => "read from the base's layers",
            };
            format!("{} ({source})", tree.digest)
        });
        let build_args = (!self.build_args.is_empty()).then(|| self.build_args.join(", "));
        page.pairs(&[
            ("base", Some(&base.pinned.image)),
            ("base is called", Some(&base.name)),
            ("found in index", base.pinned.index.as_deref()),
            ("platform", Some(&base.platform)),
            ("bootable", Some(bootable)),
            ("base tree", tree.as_deref()),
            ("prepared base", self.prepared.as_ref().and_then(|one| one.image.as_deref())),
            ("prepared inputs", self.prepared.as_ref().map(|one| &*one.inputs)),
            ("extensions image", self.extensions_image.as_deref()),
            ("Containerfile", self.containerfile.as_deref()),
            ("build arguments", build_args.as_deref()),
            ("trust bundle", self.trust_bundle.as_deref()),
            ("all together", Some(&self.inputs)),
        ]);
    }

    fn image_section(&self, page: &mut Page) {
        page.section("Image");
        let target = self.target.as_deref();
        let target = target.unwrap_or("an OCI layout; for a registry, give --output host/repo");
        let mut pairs =
            vec![("goes to", Some(target)), ("build name", Some(self.build_name.as_str()))];
        pairs.extend(self.tags.iter().map(|tag| ("tag", Some(tag.as_str()))));
        page.pairs(&pairs);
        page.labels(&self.labels);
    }
}

/// Verdict, name, what a failed one does, message.
fn check_row(check: &CheckResult) -> Vec<String> {
    let words = [check.verdict.as_str(), &check.check, check.mode.as_str(), &check.message];
    words.map(str::to_owned).into()
}

fn stages_section(page: &mut Page, stages: &[PlannedStage]) {
    page.section(
        "Stages of your Containerfile, and what they run again at the next change of the config",
    );
    let rows: Vec<Vec<String>> = stages.iter().map(stage_row).collect();
    page.table(&[Align::Left, Align::Left, Align::Left, Align::Left], &rows);
    for stage in stages {
        if let Some(hint) = &stage.hint {
            page.line(&format!("  line {}: {hint}", stage.line));
        }
        for unchecked in &stage.unchecked {
            page.line(&format!("  not checked: {unchecked}"));
        }
    }
}

/// Line and name, part, instructions, reason.
fn stage_row(stage: &PlannedStage) -> Vec<String> {
    let name = stage.name.as_deref().unwrap_or_default();
    let part = match stage.part {
        Part::Prepared => "prepared part, before the config",
        Part::Last => "last part, after the config",
        Part::Both => "in both parts",
        Part::Unused => "not built",
    };
    let reason = stage.reason.as_deref().unwrap_or("no stage that is built refers to it");
    vec![
        format!("line {} {name}", stage.line).trim_end().to_owned(),
        part.to_owned(),
        count(stage.runs_again, "instruction"),
        reason.to_owned(),
    ]
}

fn layer_section(page: &mut Page, layer: &PlanLayer) {
    let repeated = layer.paths.iter().filter(|path| path.unchanged).count();
    let changed = layer.paths.len() - repeated;
    let mut headline = format!("Layer: {}, {} of files", count(changed, "path"), size(layer.bytes));
    if repeated > 0 {
        headline.push_str(&format!("; {repeated} of the base's directories repeated as they are"));
    }
    page.section(&headline);
    let paths: Vec<_> = layer.paths.iter().filter(|path| !path.unchanged).collect();
    page.table(&COLUMNS, &paths.into_iter().map(path_row).collect::<Vec<_>>());
}
