//! The `[Install]` section of a unit file and its drop-ins.

use mosb_image::TreePath;

use super::dialect::{Behavior, Dialect};
use super::error::{EmulationError, Failure, Unsupported};
use super::name::{NameKind, UnitName};
use super::text::{OpenQuote, is_space, lines, words};
use crate::name::expand;

/// The `[Install]` section of a unit. Specifiers in the three lists of links are not replaced
/// yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Install {
    pub(super) alias: Vec<String>,
    pub(super) wanted_by: Vec<String>,
    pub(super) required_by: Vec<String>,
    pub(super) upheld_by: Vec<String>,
    pub(super) also: Vec<UnitName>,
    pub(super) default_instance: Option<String>,
}

impl Install {
    /// Whether enabling the unit would make a link.
    pub(super) fn has_rules(&self) -> bool {
        [&self.alias, &self.wanted_by, &self.required_by, &self.upheld_by]
            .iter()
            .any(|list| !list.is_empty())
    }

    /// The unit that is enabled: the default instance of a template that has one.
    pub(super) fn effective_name(&self, unit: &UnitName) -> UnitName {
        match &self.default_instance {
            Some(instance) if unit.kind() == NameKind::Template => {
                unit.with_instance(instance).expect("a default instance is checked when it is read")
            }
            _ => unit.clone(),
        }
    }
}

/// Reads the files of one unit, the unit file first.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub(super) dialect: &'a Dialect,
    pub(super) unit: &'a UnitName,
    pub(super) install: Install,
}

impl Reader<'_> {
    /// Adds the settings of one file.
    pub(super) fn file(&mut self, path: &TreePath, bytes: &[u8]) -> Result<(), EmulationError> {
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        let mut section = Section::None;
        for line in logical_lines(bytes) {
            let Ok(line) = std::str::from_utf8(&line) else {
                continue;
            };
            let line = line.trim_matches(is_space);
            if let Some(header) = line.strip_prefix('[') {
                section = match header.strip_suffix(']') {
                    Some("Install") => Section::Install,
                    Some(_) => Section::Other,
                    None => return Err(Failure::Install(line.to_owned()).into()),
                };
            } else if section == Section::Install
                && let Some((key, value)) = line.split_once('=')
            {
                self.assign(
                    path,
                    line,
                    key.trim_end_matches(is_space),
                    value.trim_start_matches(is_space),
                )?;
            }
        }
        Ok(())
    }

    fn assign(
        &mut self,
        path: &TreePath,
        line: &str,
        key: &str,
        value: &str,
    ) -> Result<(), EmulationError> {
        let line = Line { path, line };
        match key {
            "Alias" if !self.unit.may_have_aliases() => {}
            "Alias" => add(self.dialect, &mut self.install.alias, value, line)?,
            "WantedBy" => add(self.dialect, &mut self.install.wanted_by, value, line)?,
            "RequiredBy" => add(self.dialect, &mut self.install.required_by, value, line)?,
            "UpheldBy" if self.dialect.upholds() => {
                add(self.dialect, &mut self.install.upheld_by, value, line)?;
            }
            "Also" => self.also(value, line)?,
            "DefaultInstance" if self.unit.kind() == NameKind::Template => {
                self.install.default_instance = self.default_instance(value)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn also(&mut self, value: &str, line: Line<'_>) -> Result<(), EmulationError> {
        for word in words(value).map_err(|_| line.differs())? {
            let name = self.expand(&word)?;
            let name = name.parse().map_err(|_| Failure::Install(word))?;
            self.install.also.push(name);
        }
        Ok(())
    }

    fn default_instance(&self, value: &str) -> Result<Option<String>, EmulationError> {
        let instance = self.expand(value)?;
        if instance.is_empty() {
            return Ok(None);
        }
        match self.unit.with_instance(&instance) {
            Ok(_) => Ok(Some(instance)),
            Err(_) => Err(Failure::Install(value.to_owned()).into()),
        }
    }

    fn expand(&self, word: &str) -> Result<String, EmulationError> {
        let name = self.install.effective_name(self.unit);
        expand(word, &name)?.map_err(|no| Failure::Install(no.0).into())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    None,
    Install,
    Other,
}

#[derive(Debug, Clone, Copy)]
struct Line<'a> {
    path: &'a TreePath,
    line: &'a str,
}

impl Line<'_> {
    fn differs(self) -> Unsupported {
        Unsupported::Line { file: self.path.clone(), line: self.line.to_owned() }
    }
}

/// Adds the words of a value; an empty value empties the list.
fn add(
    dialect: &Dialect,
    list: &mut Vec<String>,
    value: &str,
    line: Line<'_>,
) -> Result<(), Unsupported> {
    if value.is_empty() {
        list.clear();
        return Ok(());
    }
    match words(value) {
        Ok(words) => list.extend(words),
        Err(OpenQuote(before)) => match dialect.open_quote_drops_line() {
            Behavior::Yes => {}
            Behavior::No => list.extend(before),
            Behavior::Unknown => return Err(line.differs()),
        },
    }
    Ok(())
}

/// The lines without comments, those joined that end in an odd number of backslashes.
fn logical_lines(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut joined = Vec::new();
    let mut open: Option<Vec<u8>> = None;
    for line in lines(bytes) {
        let line = line.trim_ascii_start();
        if matches!(line.first(), Some(b'#' | b';')) {
            continue;
        }
        let mut text = open.take().unwrap_or_default();
        text.extend_from_slice(line);
        let backslashes = line.iter().rev().take_while(|b| **b == b'\\').count();
        if backslashes % 2 == 1 {
            text.pop();
            text.push(b' ');
            open = Some(text);
        } else {
            joined.push(text);
        }
    }
    joined.extend(open);
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(version: u32, unit: &str, files: &[&str]) -> Result<Install, EmulationError> {
        let (dialect, unit) = (Dialect::new(version, false), unit.parse().unwrap());
        let mut reader = Reader { dialect: &dialect, unit: &unit, install: Install::default() };
        for file in files {
            reader.file(&"/f".parse().unwrap(), file.as_bytes())?;
        }
        Ok(reader.install)
    }

    #[test]
    fn wanted_by_is_read_as_systemd_reads_it() {
        for (what, files, want) in [
            (
                "words and quotes",
                &["[Install]\nWantedBy= a.target \"b.target\"\n"][..],
                &["a.target", "b.target"][..],
            ),
            (
                "other sections, other keys",
                &[
                    "WantedBy=0\n[Unit]\nWantedBy=1\n[Install]\nwantedby=2\nWantedBy\n=3\n[X]\nWantedBy=4",
                ],
                &[],
            ),
            ("again", &["[Install]\nWantedBy=a\n[X]\n[Install]\nWantedBy=b"], &["a", "b"]),
            (
                "continued, with a comment between",
                &["[Install]\nWantedBy=a \\\n# c\n  b\\\n\nWantedBy=c\\\\\n"],
                &["a", "b", "c\\\\"],
            ),
            (
                "reset by a drop-in",
                &["[Install]\nWantedBy=a", "[Install]\nWantedBy=\nWantedBy=b"],
                &["b"],
            ),
            ("byte order mark, spaces", &["\u{feff}  [Install]  \n  WantedBy  =  a  \n"], &["a"]),
            ("open quote", &["[Install]\nWantedBy=a \"b\nWantedBy=c"], &["a", "c"]),
        ] {
            assert_eq!(read(252, "u.service", files).unwrap().wanted_by, want, "{what}");
        }
        assert_eq!(
            read(257, "u.service", &["[Install]\nWantedBy=a \"b\nWantedBy=c"]).unwrap().wanted_by,
            ["c"]
        );
        assert!(matches!(
            read(255, "u.service", &["[Install]\nWantedBy=a \"b"]),
            Err(EmulationError::Unsupported(Unsupported::Line { .. }))
        ));
    }

    #[test]
    fn a_broken_section_breaks_the_unit() {
        for (what, file) in [
            ("header", "[Install\nWantedBy=a"),
            ("header", "[Unit]x"),
            ("no name", "[Install]\nAlso=foo"),
            ("no specifier", "[Install]\nAlso=%z.service"),
            ("no instance", "[Install]\nDefaultInstance=a b"),
        ] {
            let read = read(252, "u@.service", &[file]);
            assert!(
                matches!(read, Err(EmulationError::Failed(Failure::Install(_)))),
                "{what}: {read:?}"
            );
        }
    }

    #[test]
    fn keys_count_where_they_make_sense() {
        let file =
            "[Install]\nAlias=b.mount\nUpheldBy=x.service\nDefaultInstance=%p\nAlso=%p@%i.socket";
        let install = read(252, "u@.mount", &[file]).unwrap();
        assert_eq!(install.default_instance.as_deref(), Some("u"));
        assert_eq!(install.also[0].as_str(), "u@u.socket");
        assert!(!install.has_rules());
        let install = read(254, "u@q.service", &[file]).unwrap();
        assert_eq!(
            (install.default_instance, install.alias.len(), install.upheld_by.len()),
            (None, 1, 1)
        );
    }
}
