//! What a machine reports about its `/etc`.

use serde::{Deserialize, Serialize};

/// The most paths of a list, and the most bytes of them together: a report has little space.
const MAX_PATHS: usize = 16;
const MAX_BYTES: usize = 480;

/// The `/etc` of a machine beside that of its image, and beside what its first config wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcReport {
    /// Paths of the booted image that the machine hides.
    pub hidden: PathList,
    /// Paths that are still as the config left them, and are not the image's; none if the machine
    /// has no record of its config.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub adoptable: Option<PathList>,
    /// Paths of the config that were changed since.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kept: Option<PathList>,
    /// Whether the next image brings those that can be adopted.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub adopted: bool,
}

/// How many paths there are, and the first of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PathList {
    pub count: usize,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub paths: Vec<String>,
}

impl PathList {
    /// `omitted`: how many there are beside these.
    pub fn new<'a>(paths: impl IntoIterator<Item = &'a str>, omitted: usize) -> Self {
        let mut list = Self { count: omitted, paths: Vec::new() };
        let mut bytes = 0;
        for path in paths {
            list.count += 1;
            // As JSON, a control character takes more.
            bytes += path.escape_default().count() + 3;
            if list.paths.len() + 1 == list.count - omitted
                && list.paths.len() < MAX_PATHS
                && bytes <= MAX_BYTES
            {
                list.paths.push(path.to_owned());
            }
        }
        list
    }
}

impl EtcReport {
    /// Only how many paths there are.
    pub(super) fn remove_paths(&mut self) {
        let lists = [Some(&mut self.hidden), self.adoptable.as_mut(), self.kept.as_mut()];
        lists.into_iter().flatten().for_each(|list| list.paths.clear());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_the_first_paths_and_counts_all() {
        let short: Vec<String> = (0..40).map(|number| format!("/etc/{number:02}")).collect();
        let list = PathList::new(short.iter().map(String::as_str), 2);
        assert_eq!((list.count, list.paths.len()), (42, MAX_PATHS));
        assert_eq!(list.paths[..2], ["/etc/00", "/etc/01"]);
        let long = "/etc/".to_owned() + &"\u{1}".repeat(200);
        let list = PathList::new(["/etc/a", &long, "/etc/b"], 0);
        assert_eq!((list.count, &*list.paths), (3, &["/etc/a".to_owned()][..]));
    }
}
