//! The differences of two configs or images, for people.

use std::collections::BTreeSet;

use super::{Diff, Side, os_text};
use crate::output::Object;
use crate::page::{Page, size};
use mosb_plan::plan::diff::{
    Change, ChangeCost, ContentState, Disruption, PathChange, PathState, SettingChange, UnitChange,
    UnitState,
};
use mosb_plan::plan::live::{LiveAction, LiveChange};

impl Object for Diff {
    const KIND: &'static str = "Diff";

    fn text(&self) -> String {
        let mut page = Page::default();
        page.pairs(&[("from", Some(&self.from.title())), ("to", Some(&self.to.title()))]);
        let changes = &self.changes;
        if self.same {
            page.section("Nothing changes.");
        }
        if !changes.settings.is_empty() {
            page.section("Settings");
            changes.settings.iter().for_each(|setting| setting_lines(&mut page, setting));
        }
        if !changes.paths.is_empty() {
            page.section("Paths");
            changes.paths.iter().for_each(|path| path_lines(&mut page, path));
        }
        if !changes.units.is_empty() {
            page.section("Units");
            changes.units.iter().for_each(|unit| unit_lines(&mut page, unit));
        }
        if let Some(os) = &self.os {
            os_text::sections(&mut page, os);
        }
        if !self.same {
            page.section("On machines that mosb brings images to (docs/what-reaches-a-machine.md)");
            cost_lines(&mut page, &changes.cost);
            page.findings(&changes.notes);
        }
        page.into_text()
    }
}

impl Side {
    /// Its rendered config, if it has one, and the operand.
    pub fn title(&self) -> String {
        match &self.rendered_config {
            Some(name) => format!("{name} ({})", self.operand),
            None => self.operand.clone(),
        }
    }
}

pub fn cost_lines(page: &mut Page, cost: &ChangeCost) {
    page.line(&format!("  {}", disruption(cost.disruption)));
    if let Some(live) = &cost.live {
        page.line(&format!("  {}", live_change(live)));
    }
    page.findings(&cost.unreconcilable);
}

fn disruption(disruption: Disruption) -> &'static str {
    match disruption {
        Disruption::None => "No reboot: they have all of it.",
        Disruption::Live => "No reboot: a roll-out sets keys and password on the machines.",
        Disruption::SoftReboot => {
            "One reboot, into another image with the same kernel: a soft one with mosb.dev/soft-reboot."
        }
        Disruption::Reboot => "One reboot, into another image.",
        Disruption::Reinstall => {
            "No image is built: they can't take this on without a reinstallation."
        }
    }
}

fn live_change(live: &LiveChange) -> String {
    let done = if live.actions.contains(&LiveAction::ReloadCrio) {
        "files are written, and crio.service is reloaded"
    } else {
        "files are written"
    };
    format!("With mosb.dev/live-apply, they take it on while they run: {done}.")
}

pub(super) fn sign(change: Change) -> char {
    match change {
        Change::Added => '+',
        Change::Removed => '-',
        Change::Changed => '~',
    }
}

pub(super) fn setting_lines(page: &mut Page, setting: &SettingChange) {
    let value = |value: &Option<String>| value.clone().unwrap_or_default();
    match (&setting.from, &setting.to) {
        (None, None) => page.line(&format!("  {} {}", sign(setting.change), setting.field)),
        (Some(from), Some(to)) => {
            page.line(&format!("  ~ {}", setting.field));
            page.line(&format!("      from  {from}"));
            page.line(&format!("      to    {to}"));
        }
        (from, to) => {
            let value = value(if from.is_some() { from } else { to });
            page.line(&format!("  {} {}: {value}", sign(setting.change), setting.field));
        }
    }
}

pub(super) fn path_lines(page: &mut Page, PathChange { path, changed }: &PathChange) {
    let sign = sign(changed.change);
    let (Some(from), Some(to)) = (&changed.from, &changed.to) else {
        let state = changed.from.as_ref().or(changed.to.as_ref());
        let attributes = state.map(whole).unwrap_or_default();
        return page.line(&format!("  {sign} {path}  ({attributes})"));
    };
    page.line(&format!("  {sign} {path}"));
    for what in &changed.what {
        let (from, to) = (property(from, what), property(to, what));
        page.line(&format!("      {what}: {from} -> {to}"));
    }
}

/// The properties of an added or removed path.
fn whole(state: &PathState) -> String {
    let mut attributes = vec![state.kind.to_owned()];
    attributes.extend(state.mode.clone());
    if state.user.is_some() || state.group.is_some() {
        attributes.push(format!("{}:{}", property(state, "user"), property(state, "group")));
    }
    attributes.extend(state.content.as_ref().map(|content| size(content.size)));
    attributes.extend(state.target.as_ref().map(|target| format!("-> {target}")));
    if !state.append.is_empty() {
        attributes.push("appends".to_owned());
    }
    attributes.join(", ")
}

fn property(state: &PathState, what: &str) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "unsaid".to_owned());
    match what {
        "type" => state.kind.to_owned(),
        "content" => content(state.content.as_ref()),
        "append" if state.append.is_empty() => "nothing".to_owned(),
        "append" => {
            state.append.iter().map(|part| content(Some(part))).collect::<Vec<_>>().join(" + ")
        }
        "mode" => text(&state.mode),
        "user" => text(&state.user),
        "group" => text(&state.group),
        "target" => state.target.clone().unwrap_or_else(|| "none".to_owned()),
        _ => flag(state.overwrite),
    }
}

pub(super) fn unit_lines(page: &mut Page, UnitChange { name, changed }: &UnitChange) {
    page.line(&format!("  {} {name}", sign(changed.change)));
    let (Some(from), Some(to)) = (&changed.from, &changed.to) else {
        return;
    };
    for what in &changed.what {
        if *what == "dropins" {
            dropin_lines(page, from, to);
            continue;
        }
        let show = |state: &UnitState| match *what {
            "enabled" => flag(state.enabled),
            "masked" => flag(state.masked),
            _ => content(state.content.as_ref()),
        };
        page.line(&format!("      {what}: {} -> {}", show(from), show(to)));
    }
}

fn dropin_lines(page: &mut Page, from: &UnitState, to: &UnitState) {
    let names: BTreeSet<_> = from.dropins.keys().chain(to.dropins.keys()).collect();
    for name in names {
        let (from, to) = (from.dropins.get(name), to.dropins.get(name));
        if from != to {
            page.line(&format!("      drop-in {name}: {} -> {}", content(from), content(to)));
        }
    }
}

/// Size and the first digits of the digest, which are enough to compare two files.
fn content(state: Option<&ContentState>) -> String {
    let Some(state) = state else {
        return "none".to_owned();
    };
    match &state.digest {
        Some(digest) => {
            format!("{} ({}…)", size(state.size), digest.get(..19).unwrap_or(digest))
        }
        // Two of them differ in this.
        None => format!("{} B", state.size),
    }
}

fn flag(flag: Option<bool>) -> String {
    flag.map_or_else(|| "unsaid".to_owned(), |flag| if flag { "yes" } else { "no" }.to_owned())
}
