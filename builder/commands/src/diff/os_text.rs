//! The differences of the OS in two images, for people.

use super::text::{path_lines, setting_lines, sign, unit_lines};
use crate::page::{Align, Page};
use mosb_plan::plan::diff::{
    Changed, DirectoryChanges, FileChanges, GroupState, KernelChange, OsDiff, PackageChange,
    PackageChanges, UserState,
};

/// Directories that are shown; `-o json` has all.
const SHOWN_DIRECTORIES: usize = 20;

pub fn sections(page: &mut Page, os: &OsDiff) {
    page.section("OS");
    let (kernel, files) = (kernel(&os.kernel), counts(&os.files));
    let packages = package_counts(&os.packages);
    let pairs = [("kernel", &kernel), ("packages", &packages), ("files", &files)];
    page.pairs(&pairs.map(|(name, value)| (name, Some(value.as_str()))));
    page.findings(&os.warnings);
    if os.is_same() {
        page.line("  What is known of the files is the same, but the layers differ.");
    }
    directories(page, &os.files.directories);
    section(page, "Packages of the OS", &os.packages.all(), |page, package| {
        page.line(&format!("  {} {}  {}", sign(package.change()), package.name, versions(package)));
    });
    section(page, "Files of the OS", &os.files.list, path_lines);
    section(page, "Users of the OS", &os.users, |page, user| {
        account_lines(page, &user.name, &user.changed, user_fields);
    });
    section(page, "Groups of the OS", &os.groups, |page, group| {
        account_lines(page, &group.name, &group.changed, group_fields);
    });
    section(page, "Units of the OS", &os.units, unit_lines);
    section(page, "Presets of the OS", &os.presets, path_lines);
    section(page, "Labels of the image", &os.labels, setting_lines);
}

pub fn kernel(kernel: &KernelChange) -> String {
    let version = |version: &Option<String>| version.clone().unwrap_or_else(|| "none".to_owned());
    let (from, to) = (version(&kernel.from), version(&kernel.to));
    if kernel.is_same() { format!("{from} (the same)") } else { format!("{from} -> {to}") }
}

pub fn package_counts(packages: &PackageChanges) -> String {
    let PackageChanges { added, removed, changed } = packages;
    format!("{} added, {} removed, {} changed", added.len(), removed.len(), changed.len())
}

fn versions(package: &PackageChange) -> String {
    let versions = [&package.from, &package.to];
    versions.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" -> ")
}

pub fn counts(files: &FileChanges) -> String {
    format!("{} added, {} removed, {} changed", files.added, files.removed, files.changed)
}

/// The directories with the most paths that differ, and how many others there are.
pub fn most_changed(directories: &[DirectoryChanges]) -> (Vec<&DirectoryChanges>, usize) {
    let total = |counts: &DirectoryChanges| counts.added + counts.removed + counts.changed;
    let mut most: Vec<&DirectoryChanges> = directories.iter().collect();
    most.sort_by_key(|counts| std::cmp::Reverse(total(counts)));
    most.truncate(SHOWN_DIRECTORIES);
    let others = directories.len() - most.len();
    (most, others)
}

fn directories(page: &mut Page, directories: &[DirectoryChanges]) {
    let (most, others) = most_changed(directories);
    let row = |counts: &&DirectoryChanges| {
        vec![
            format!("  {}", counts.directory),
            format!("+{}", counts.added),
            format!("-{}", counts.removed),
            format!("~{}", counts.changed),
        ]
    };
    let aligns = [Align::Left, Align::Right, Align::Right, Align::Right];
    page.table(&aligns, &most.iter().map(row).collect::<Vec<_>>());
    if others > 0 {
        page.line(&format!("    and {others} other directories: see -o json"));
    }
}

fn section<T>(page: &mut Page, headline: &str, items: &[T], lines: impl Fn(&mut Page, &T)) {
    if !items.is_empty() {
        page.section(headline);
        items.iter().for_each(|item| lines(page, item));
    }
}

/// An account with its fields, and with those that differ if both sides have it.
fn account_lines<S>(
    page: &mut Page,
    name: &str,
    changed: &Changed<S>,
    fields: impl Fn(&S) -> Vec<(&'static str, &str)>,
) {
    let sign = sign(changed.change);
    let (Some(from), Some(to)) = (&changed.from, &changed.to) else {
        let state = changed.from.as_ref().or(changed.to.as_ref());
        let fields = state.map(fields).unwrap_or_default().into_iter();
        let fields = fields.filter(|(_, value)| !value.is_empty());
        let fields: Vec<_> = fields.map(|(field, value)| format!("{field} {value}")).collect();
        return page.line(&format!("  {sign} {name}  ({})", fields.join(", ")));
    };
    page.line(&format!("  {sign} {name}"));
    let or_none = |value: &str| if value.is_empty() { "none".to_owned() } else { value.to_owned() };
    for ((field, before), (_, after)) in fields(from).into_iter().zip(fields(to)) {
        if before != after {
            page.line(&format!("      {field}: {} -> {}", or_none(before), or_none(after)));
        }
    }
}

fn user_fields(user: &UserState) -> Vec<(&'static str, &str)> {
    vec![("uid", &user.uid), ("gid", &user.gid), ("home", &user.home), ("shell", &user.shell)]
}

fn group_fields(group: &GroupState) -> Vec<(&'static str, &str)> {
    vec![("gid", &group.gid), ("members", &group.members)]
}
