//! Trees are as an unpacker has them that knows nothing but a map of paths.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// By path: letter, an inode's number, and the target of a link.
#[derive(Default)]
struct Naive {
    paths: BTreeMap<String, (char, usize, String)>,
    touched: BTreeSet<String>,
    inodes: usize,
}

impl Naive {
    fn below(&self, path: &str) -> Vec<String> {
        let prefix = format!("{path}/");
        self.paths.keys().filter(|p| p.starts_with(&prefix)).cloned().collect()
    }

    fn remove(&mut self, path: &str) {
        for gone in self.below(path) {
            self.paths.remove(&gone);
            self.touched.remove(&gone);
        }
        self.paths.remove(path);
        self.touched.remove(path);
    }

    /// The real path of a directory; made if `make`, through links of this layer only if so.
    fn directory(&mut self, path: &str, make: bool, own: bool, depth: usize) -> Option<String> {
        if depth > 200 {
            return None;
        }
        let mut here = String::new();
        let mut rest: Vec<&str> = path.split('/').filter(|c| !c.is_empty()).collect();
        rest.reverse();
        while let Some(name) = rest.pop() {
            if name == ".." {
                here = here.rsplit_once('/').map_or("", |(above, _)| above).to_owned();
                continue;
            }
            let next = format!("{here}/{name}").trim_start_matches('/').to_owned();
            match self.paths.get(&next).cloned() {
                Some(('d' | 'D', ..)) => {}
                Some(('l', _, target)) if !own || self.touched.contains(&next) => {
                    rest.reverse();
                    let start = if target.starts_with('/') { "" } else { &here };
                    let whole = format!("{start}/{target}/{}", rest.join("/"));
                    return self.directory(&whole, make, own, depth + 1);
                }
                Some(_) if !make || self.touched.contains(&next) => return None,
                None if !make => return None,
                Some(_) | None => {
                    self.remove(&next);
                    self.paths.insert(next.clone(), ('D', 0, String::new()));
                }
            }
            if make {
                self.touched.insert(next.clone());
            }
            here = next;
        }
        Some(here)
    }

    fn apply(&mut self, line: &str) -> Option<()> {
        let words: Vec<&str> = line.split(' ').collect();
        let (above, name) = words[1].rsplit_once('/').unwrap_or(("", words[1]));
        let at = |directory: String, name: &str| {
            format!("{directory}/{name}").trim_start_matches('/').to_owned()
        };
        match words[0] {
            "w" | "o" => {
                let Some(directory) = self.directory(above, false, true, 0) else {
                    return Some(());
                };
                let path = at(directory, name);
                for gone in self.below(&path) {
                    if !self.touched.contains(&gone) {
                        self.paths.remove(&gone);
                    }
                }
                if words[0] == "w" && !self.touched.contains(&path) {
                    self.remove(&path);
                }
            }
            "h" => {
                let (to_above, to_name) = words[2].rsplit_once('/').unwrap_or(("", words[2]));
                let directory = self.directory(to_above, false, false, 0)?;
                let (letter, inode, target) = self.paths.get(&at(directory, to_name))?.clone();
                if matches!(letter, 'd' | 'D') {
                    return None;
                }
                let path = at(self.directory(above, true, true, 0)?, name);
                self.touched.insert(path.clone());
                if self.paths.get(&path).is_none_or(|(_, old, _)| *old != inode) {
                    self.remove(&path);
                    self.touched.insert(path.clone());
                    self.paths.insert(path, (letter, inode, target));
                }
            }
            letter => {
                let path = at(self.directory(above, true, true, 0)?, name);
                let kept = letter == "d" && matches!(self.paths.get(&path), Some(('d' | 'D', ..)));
                if !kept {
                    self.remove(&path);
                }
                self.inodes += 1;
                let target = words.get(2).map_or(String::new(), |word| (*word).to_owned());
                self.paths.insert(path.clone(), (letter.chars().next()?, self.inodes, target));
                self.touched.insert(path);
            }
        }
        Some(())
    }
}

fn a_line() -> impl Strategy<Value = String> {
    let path = "[a-c](/[a-c]){0,3}";
    prop_oneof![
        4 => path.prop_map(|path| format!("f {path}")),
        2 => path.prop_map(|path| format!("d {path}")),
        2 => (path, "(/|[.][.]/)?[a-c](/[a-c]){0,1}").prop_map(|(path, to)| format!("l {path} {to}")),
        1 => (path, path).prop_map(|(path, to)| format!("h {path} {to}")),
        1 => path.prop_map(|path| format!("w {path}")),
        1 => path.prop_map(|path| format!("o {path}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn layers_equal_those_of_a_naive_unpacker(
        layers in proptest::collection::vec(proptest::collection::vec(a_line(), 0..12), 1..4),
    ) {
        let mut naive = Naive::default();
        let mut possible: Vec<Vec<String>> = Vec::new();
        for layer in layers {
            naive.touched.clear();
            let mut lines = Vec::new();
            for line in layer {
                // An entry that can't be unpacked is an error here; the rest must still agree.
                let before = (naive.paths.clone(), naive.touched.clone());
                match naive.apply(&line) {
                    Some(()) => lines.push(line),
                    None => (naive.paths, naive.touched) = before,
                }
            }
            possible.push(lines);
        }
        let tree = build(&possible).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let want: Vec<String> = naive.paths.iter().map(|(path, (letter, ..))| format!("{letter} {path}")).collect();
        prop_assert_eq!(list(&tree), want, "{:?}", possible);
        // A hard link to a later layer isn't there in the tree of the lower layers.
        for count in 0..possible.len() {
            if build(&possible[..count]).is_ok() {
                let on = build_on(&possible, count).map_err(|error| TestCaseError::fail(error.to_string()))?;
                prop_assert_eq!(&on, &tree, "{} of {:?}", count, possible);
            }
        }
    }
}
