//! Enabling: the links of `[Install]`, for a unit and for the units in its `Also=`.

use std::collections::VecDeque;

use mosb_image::TreePath;
use mosb_image::overlay::{Found, Node, Overlay};
use mosb_types::{Diagnostic as _, Finding};

use super::chroot::{self, FinalComponent, PathResolution, resolve_path};
use super::dialect::{Behavior, CONFIG, Dialect, path};
use super::error::{EmulationError, Failure, Unsupported, split_failure};
use super::name::{NameKind, UnitName};
use super::search::{Mode, Search, Unit};
use crate::name::expand;

const LOAD: Mode = Mode { load: true, follow_config: true };
const ALSO: Mode = Mode { load: true, follow_config: false };

/// Enables these units; if one of them can't be, none is.
pub(super) fn enable(
    tree: &mut Overlay<'_>,
    dialect: &Dialect,
    names: &[UnitName],
) -> Result<Vec<Finding>, EmulationError> {
    let mut units = Vec::new();
    for name in names {
        let unit = Search { tree, dialect }.unit(name, LOAD)?;
        match unit {
            Unit { masked: true, path, .. } => return Err(Failure::Masked(path).into()),
            unit if unit.is_transient() => return Err(Failure::Transient(unit.path).into()),
            unit => units.push(unit),
        }
    }
    let mut enabling = Enabling {
        tree,
        dialect,
        findings: Vec::new(),
        known: units.iter().map(|unit| unit.name.clone()).collect(),
        also: VecDeque::new(),
    };
    for unit in &units {
        if !unit.install.has_rules() && unit.install.also.is_empty() {
            enabling.say(
                "unit-no-install",
                &unit.name,
                format!("{} has nothing in [Install], so enabling it makes no link", unit.name),
            );
        }
        enabling.unit(unit)?;
    }
    while let Some(name) = enabling.also.pop_front() {
        enabling.auxiliary(&name)?;
    }
    Ok(enabling.findings)
}

/// Which existing links a new link may replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OverwritePolicy {
    AnyLink,
    /// Newer versions replace links without a target, older ones replace none.
    DanglingLink,
    Never,
}

struct Enabling<'t, 'b> {
    tree: &'t mut Overlay<'b>,
    dialect: &'t Dialect,
    findings: Vec<Finding>,
    known: Vec<UnitName>,
    also: VecDeque<UnitName>,
}

impl Enabling<'_, '_> {
    fn search(&self) -> Search<'_> {
        Search { tree: self.tree, dialect: self.dialect }
    }

    fn say(&mut self, code: &'static str, unit: &UnitName, message: impl Into<String>) {
        self.findings.push(Finding::new(code, message).object(unit.to_string()));
    }

    /// A unit named in `Also=`: its errors don't stop the others.
    fn auxiliary(&mut self, name: &UnitName) -> Result<(), Unsupported> {
        match split_failure(self.search().unit(name, ALSO))? {
            Err(failure) => self.say(
                failure.code(),
                name,
                format!("{name}, named in Also=, is not enabled: {failure}"),
            ),
            Ok(unit) if unit.masked => {
                self.say(
                    "unit-masked",
                    name,
                    format!("{name}, named in Also=, is masked by {}", unit.path),
                );
            }
            Ok(unit) if unit.name != *name && self.known.contains(&unit.name) => {}
            Ok(unit) => {
                self.known.push(unit.name.clone());
                self.unit(&unit)?;
            }
        }
        Ok(())
    }

    fn unit(&mut self, unit: &Unit) -> Result<(), Unsupported> {
        for name in &unit.install.also {
            if !self.known.contains(name) {
                self.known.push(name.clone());
                self.also.push_back(name.clone());
            }
        }
        for alias in &unit.install.alias {
            self.alias(unit, alias)?;
        }
        for (list, directory) in [
            (&unit.install.wanted_by, "wants"),
            (&unit.install.required_by, "requires"),
            (&unit.install.upheld_by, "upholds"),
        ] {
            if !list.is_empty() {
                self.link_targets(unit, list, directory)?;
            }
        }
        self.linked(unit)
    }

    /// Replaces the specifiers of the word; `None` if one is not allowed, which is reported.
    fn expand(&mut self, unit: &Unit, word: &str) -> Result<Option<String>, Unsupported> {
        let expanded = expand(word, &unit.install.effective_name(&unit.name))?;
        if expanded.is_err() {
            self.say(
                "unit-bad-install",
                &unit.name,
                format!("{:?} in [Install] has an unknown specifier", word),
            );
        }
        Ok(expanded.ok())
    }

    fn alias(&mut self, unit: &Unit, word: &str) -> Result<(), Unsupported> {
        let Some(alias) = self.expand(unit, word)? else {
            return Ok(());
        };
        let place = match alias.rsplit_once('/') {
            Some((directory, name)) => wants_place(unit, directory, name),
            None => alias_place(unit, &alias),
        };
        match place {
            Place::At(place) => {
                let file = self.alias_target(unit, &place)?;
                self.link(unit, &place, &file, OverwritePolicy::DanglingLink)
            }
            Place::Itself => Ok(()),
            Place::Refused => {
                self.say(
                    "unit-bad-install",
                    &unit.name,
                    format!("{} can't have the alias {alias}", unit.name),
                );
                Ok(())
            }
        }
    }

    fn link_targets(
        &mut self,
        unit: &Unit,
        list: &[String],
        directory: &str,
    ) -> Result<(), Unsupported> {
        let name = unit.install.effective_name(&unit.name);
        if name != unit.name {
            match split_failure(self.search().unit(&name, Mode { load: false, ..LOAD }))? {
                Ok(Unit { masked: true, path, .. }) => {
                    self.say("unit-masked", &name, format!("{name} is masked by {path}"));
                    return Ok(());
                }
                Err(failure) => {
                    self.say(failure.code(), &name, format!("{name} is not enabled: {failure}"));
                    return Ok(());
                }
                Ok(_) => {}
            }
        }
        for word in list {
            let Some(wanting) = self.expand(unit, word)? else {
                continue;
            };
            let Ok(wanting) = wanting.parse::<UnitName>() else {
                continue;
            };
            // A template without instance can only be wanted by templates and instances.
            if name.kind() == NameKind::Template && wanting.kind() == NameKind::Plain {
                continue;
            }
            if let Ok(place) = path(CONFIG)
                .join(&format!("{wanting}.{directory}"))
                .and_then(|place| place.join(name.as_str()))
            {
                self.link(unit, &place, &unit.path, OverwritePolicy::AnyLink)?;
            }
        }
        Ok(())
    }

    /// A unit file outside the unit directories gets a link of its name.
    fn linked(&mut self, unit: &Unit) -> Result<(), Unsupported> {
        if self.is_in_unit_directory(&unit.path) {
            return Ok(());
        }
        let place = config_place(unit.name.as_str());
        self.link(unit, &place, &unit.path, OverwritePolicy::Never)
    }

    /// Where an alias leads: newer versions let it lead to the link of a unit file outside the unit
    /// directories.
    fn alias_target(&self, unit: &Unit, place: &TreePath) -> Result<TreePath, Unsupported> {
        if self.is_in_unit_directory(&unit.path) {
            return Ok(unit.path.clone());
        }
        match self.dialect.alias_leads_to_link() {
            Behavior::No => Ok(unit.path.clone()),
            Behavior::Yes => Ok(config_place(unit.name.as_str())),
            Behavior::Unknown => Err(Unsupported::Link(place.clone())),
        }
    }

    fn is_in_unit_directory(&self, file: &TreePath) -> bool {
        let parent = file.parent();
        self.dialect.unit_directories().iter().any(|directory| parent.as_ref() == Some(directory))
    }

    fn link(
        &mut self,
        unit: &Unit,
        place: &TreePath,
        file: &TreePath,
        may_overwrite: OverwritePolicy,
    ) -> Result<(), Unsupported> {
        let Some(real) = chroot::make_parents(self.tree, place)? else {
            self.say(
                "unit-link-refused",
                &unit.name,
                format!("{place} can't be made: a path above it is not a directory"),
            );
            return Ok(());
        };
        if let Some(found) = self.tree.get(&real) {
            if self.leads_to_unit(&real, &found, file)? {
                return Ok(());
            }
            if !self.may_overwrite(&real, &found, may_overwrite)? {
                self.say(
                    "unit-link-refused",
                    &unit.name,
                    format!(
                        "{place} is not made into a link to {}: something else stands there",
                        file
                    ),
                );
                return Ok(());
            }
        }
        let parent = real.parent().unwrap_or_default();
        let meta = chroot::inherit_ownership(self.tree, &parent, 0o777, false);
        self.tree.put(real, Node::Symlink { meta, target: file.to_string() });
        Ok(())
    }

    fn may_overwrite(
        &self,
        real: &TreePath,
        found: &Found,
        may_overwrite: OverwritePolicy,
    ) -> Result<bool, Unsupported> {
        let Some(target) = &found.target else {
            return Ok(false);
        };
        match may_overwrite {
            OverwritePolicy::AnyLink => Ok(true),
            OverwritePolicy::Never => Ok(false),
            OverwritePolicy::DanglingLink => {
                let there = match resolve_path(
                    self.tree,
                    &chroot::absolute(real, target),
                    FinalComponent::Follow,
                )? {
                    PathResolution::Found(_) | PathResolution::Loop => true,
                    // No layer holds it, and every container has it.
                    PathResolution::Missing(path_) => path_ == path("/dev/null"),
                    PathResolution::Unreachable => false,
                };
                match (there, self.dialect.replaces_dangling()) {
                    (true, _) | (false, Behavior::No) => Ok(false),
                    (false, Behavior::Yes) => Ok(true),
                    (false, Behavior::Unknown) => Err(Unsupported::Link(real.clone())),
                }
            }
        }
    }

    /// Whether a link is as good as one to the unit's file: it leads there, or to the same name in
    /// another unit directory.
    fn leads_to_unit(
        &self,
        real: &TreePath,
        found: &Found,
        file: &TreePath,
    ) -> Result<bool, Unsupported> {
        let Some(target) = &found.target else {
            return Ok(false);
        };
        let target = chroot::absolute(real, target);
        let direct = resolve_path(self.tree, &target, FinalComponent::NoFollow)?.path();
        if direct.is_some_and(|direct| {
            direct == *file
                || direct.name() == file.name()
                    && self.is_in_unit_directory(&direct)
                    && self.is_in_unit_directory(file)
        }) {
            return Ok(true);
        }
        let (target, file) = (
            resolve_path(self.tree, &target, FinalComponent::Follow)?,
            resolve_path(self.tree, &file.to_string(), FinalComponent::Follow)?,
        );
        Ok(target.path().is_some_and(|target| Some(target) == file.path()))
    }
}

/// Where the link of an alias is created.
enum Place {
    At(TreePath),
    /// The unit's own name: nothing to do.
    Itself,
    Refused,
}

fn config_place(name: &str) -> TreePath {
    path(CONFIG).join(name).expect("a unit name is one component")
}

fn alias_place(unit: &Unit, alias: &str) -> Place {
    let alias =
        alias.parse::<UnitName>().and_then(|alias| match (alias.kind(), unit.name.kind()) {
            (NameKind::Template, NameKind::Instance) => alias.with_instance(unit.name.instance()),
            _ => Ok(alias),
        });
    match alias {
        Ok(alias) if alias == unit.name => Place::Itself,
        Ok(alias) if alias.may_lead_to(&unit.name) => Place::At(config_place(alias.as_str())),
        Ok(_) | Err(_) => Place::Refused,
    }
}

/// The old form of `WantedBy=`: an alias `x.target.wants/NAME`.
fn wants_place(unit: &Unit, directory: &str, name: &str) -> Place {
    let wanting = directory.strip_suffix(".wants").or_else(|| directory.strip_suffix(".requires"));
    let valid = wanting.is_some_and(|wanting| wanting.parse::<UnitName>().is_ok());
    match path(CONFIG).join(directory).and_then(|place| place.join(name)) {
        Ok(place) if valid && name == unit.name.as_str() => Place::At(place),
        Ok(_) | Err(_) => Place::Refused,
    }
}
