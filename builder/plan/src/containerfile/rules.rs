//! The rules of one instruction: what buildah refuses in any context.
//!
//! Tried with 1.28 and read in the sources of later versions; `tests/oracle/containerfile_rules.rs`
//! compares this with a real build.

use super::Error;
use super::administrator::{Instruction, Since, instructions, words};
use super::flags::{flags, known, shown};
use super::mount::Mount;
use super::variables::check_word;

const INSTRUCTIONS: [&str; 18] = [
    "ADD",
    "ARG",
    "CMD",
    "COPY",
    "ENTRYPOINT",
    "ENV",
    "EXPOSE",
    "FROM",
    "HEALTHCHECK",
    "LABEL",
    "MAINTAINER",
    "ONBUILD",
    "RUN",
    "SHELL",
    "STOPSIGNAL",
    "USER",
    "VOLUME",
    "WORKDIR",
];

/// The first version that knows here-documents.
const HEREDOC: Since = (1, 33);

/// Signals by their names, without `SIG`, beside the real-time ones.
const SIGNALS: [&str; 35] = [
    "ABRT", "ALRM", "BUS", "CHLD", "CLD", "CONT", "FPE", "HUP", "ILL", "INT", "IO", "IOT", "KILL",
    "PIPE", "POLL", "PROF", "PWR", "QUIT", "SEGV", "STKFLT", "STOP", "SYS", "TERM", "TRAP", "TSTP",
    "TTIN", "TTOU", "URG", "USR1", "USR2", "VTALRM", "WINCH", "XCPU", "XFSZ", "UNUSED",
];

/// Checks the text that mosb appends to its own Containerfile.
///
/// # Errors
/// An unknown instruction, arguments or flags that buildah refuses, an `escape` directive, a
/// here-document without an end.
pub fn check(text: &str) -> Result<(), Error> {
    instructions(text)?.iter().try_for_each(|instruction| instruction.check().map(drop))
}

impl Instruction {
    /// Checks the instruction by itself. Returns what only later versions of buildah know.
    pub fn check(&self) -> Result<Vec<(String, Since)>, Error> {
        let mut later = Vec::new();
        match self.check_parts(&mut later) {
            Ok(()) => Ok(later),
            Err(problem) => Err(super::scan::problem(self, &problem)),
        }
    }

    fn check_parts(&self, later: &mut Vec<(String, Since)>) -> Result<(), String> {
        let name = self.name.as_str();
        if !INSTRUCTIONS.contains(&name) {
            let known = INSTRUCTIONS.join(", ");
            return Err(format!("{name:?} is not an instruction; known are {known}"));
        }
        if !self.heredocs.is_empty() {
            later.push(("a here-document".to_owned(), HEREDOC));
        }
        let rest = self.check_flags(later)?;
        self.check_words(rest, later)?;
        self.check_arguments(rest)
    }

    /// Returns the text after the flags.
    fn check_flags(&self, later: &mut Vec<(String, Since)>) -> Result<&str, String> {
        let name = self.name.as_str();
        let flags_known = known(name);
        if flags_known.is_empty() {
            return Ok(&self.arguments);
        }
        let (flags, rest) = flags(&self.arguments);
        for flag in &flags {
            let (key, value) =
                flag.split_once('=').map_or((flag.as_str(), None), |(k, v)| (k, Some(v)));
            // A name that holds a variable is decided when its value is.
            if key.contains('$') {
                continue;
            }
            let Some(known) = flags_known.iter().find(|known| known.name == key) else {
                let names: Vec<&str> = flags_known.iter().map(|known| known.name).collect();
                return Err(format!(
                    "{name} {} is not a flag of buildah; it has {}",
                    shown(flag),
                    names.join(", ")
                ));
            };
            if value.is_none() && !known.is_switch {
                return Err(format!("{name} {key}: want {key}=…, with its value"));
            }
            let value = value.unwrap_or_default();
            check_word(value, later)?;
            if !value.contains('$') {
                check_flag(name, key, value, later)?;
            }
            let what = format!("{name} {key}");
            later.extend(known.since.map(|since| (what, since)));
        }
        Ok(rest)
    }

    /// Checks quotes and variables where buildah looks for them.
    fn check_words(&self, rest: &str, later: &mut Vec<(String, Since)>) -> Result<(), String> {
        let is_json = json_words(rest)?.is_some();
        match self.name.as_str() {
            "COPY" | "ADD" | "VOLUME" if is_json => Ok(()),
            // Blanks separate these words, also within quotes.
            "COPY" | "ADD" | "VOLUME" | "EXPOSE" => {
                let mut words = rest.split_whitespace();
                words.try_for_each(|word| check_word(word, later))
            }
            "ENV" | "LABEL" | "ARG" | "WORKDIR" | "USER" | "STOPSIGNAL" | "FROM" => {
                check_word(rest, later)
            }
            _ => Ok(()),
        }
    }

    fn check_arguments(&self, rest: &str) -> Result<(), String> {
        let name = self.name.as_str();
        let json = json_words(rest)?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        let count = json.as_ref().map_or(words.len(), Vec::len);
        match (name, count) {
            // Without a command, an image has none.
            ("CMD" | "ENTRYPOINT", _) => Ok(()),
            (_, 0) => Err(format!("{name} needs arguments")),
            ("ENV" | "LABEL", _) => key_values(name, rest),
            ("FROM", 1) => Ok(()),
            ("FROM", 3) if words[1].eq_ignore_ascii_case("as") => Ok(()),
            ("FROM", _) => Err("FROM takes an image, or an image AS a name".to_owned()),
            ("COPY" | "ADD", 1) => Err(format!("{name} needs a source and a destination")),
            ("SHELL", _) if json.is_none() => {
                Err("SHELL needs a list, such as [\"/bin/bash\", \"-c\"]".to_owned())
            }
            ("VOLUME", _) if json.iter().flatten().any(|path| path.trim().is_empty()) => {
                Err("VOLUME: a path is empty".to_owned())
            }
            ("STOPSIGNAL", _) if !rest.contains('$') && !is_signal(rest.trim_matches('"')) => {
                Err(format!("STOPSIGNAL {} is not a signal", shown(rest)))
            }
            ("ARG", _) => match words.iter().find(|word| {
                word.starts_with("TARGETPLATFORM=") || word.starts_with("BUILDPLATFORM=")
            }) {
                Some(word) => {
                    Err(format!("ARG {}: buildah sets it; leave the value out", shown(word)))
                }
                None => Ok(()),
            },
            ("HEALTHCHECK", _) => healthcheck(&words),
            ("ONBUILD", _) => onbuild(rest),
            _ => Ok(()),
        }
    }
}

/// The strings of a JSON list; none if the text is something else, which then is words.
pub(super) fn json_words(text: &str) -> Result<Option<Vec<String>>, String> {
    if !text.starts_with('[') {
        return Ok(None);
    }
    match serde_json::from_str::<Vec<serde_json::Value>>(text) {
        Err(_) => Ok(None),
        Ok(values) => {
            let strings = values.iter().map(|value| value.as_str().map(str::to_owned));
            let strings: Option<Vec<String>> = strings.collect();
            strings
                .map(Some)
                .ok_or_else(|| format!("{}: a list must have strings only", shown(text)))
        }
    }
}

fn check_flag(
    name: &str,
    key: &str,
    value: &str,
    later: &mut Vec<(String, Since)>,
) -> Result<(), String> {
    let refuse = |why: &str| Err(format!("{name} {key}={}: {why}", shown(value)));
    match (name, key) {
        (_, "--link" | "--parents" | "--keep-git-dir")
            if !matches!(value, "" | "true" | "false") =>
        {
            refuse("must be true or false")
        }
        (_, "--from") if value.is_empty() => refuse("must name a stage or an image"),
        (_, "--chmod") if u32::from_str_radix(value, 8).is_err() => {
            refuse("must be an octal number, such as 0755")
        }
        ("FROM", "--platform") if value.parse::<mosb_image::Platform>().is_err() => {
            refuse("must be a platform, such as linux/amd64")
        }
        ("RUN", "--network") if !matches!(value, "default" | "host" | "none") => {
            refuse("must be default, host or none")
        }
        ("RUN", "--mount") => {
            later.extend(Mount::read(value)?.into_iter().flat_map(|mount| mount.later));
            Ok(())
        }
        ("HEALTHCHECK", "--retries") if !value.parse::<u32>().is_ok_and(|count| count > 0) => {
            refuse("must be a number above 0")
        }
        ("HEALTHCHECK", "--interval" | "--timeout" | "--start-period" | "--start-interval")
            if !is_duration(value) =>
        {
            refuse("must be a duration, such as 30s")
        }
        _ => Ok(()),
    }
}

/// A duration as Go writes it: numbers with their units.
fn is_duration(text: &str) -> bool {
    let mut rest = text.trim_start_matches(['+', '-']);
    if rest == "0" {
        return true;
    }
    while !rest.is_empty() {
        let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let has_number = rest[..rest.len() - unit.len()].contains(|c: char| c.is_ascii_digit());
        let units = ["ns", "us", "µs", "ms", "s", "m", "h"];
        let Some(after) = units.iter().find_map(|known| unit.strip_prefix(known)) else {
            return false;
        };
        if !has_number {
            return false;
        }
        rest = after;
    }
    !text.is_empty()
}

/// `NAME=VALUE …`, or one `NAME VALUE`, where the value is all the rest.
fn key_values(name: &str, rest: &str) -> Result<(), String> {
    let words = words(rest);
    let has_value = |word: &String| word.contains('=');
    match (words.first().is_some_and(has_value), words.len()) {
        (false, 1) => Err(format!("{name} needs key=value")),
        (false, _) => Ok(()),
        (true, _) => match words.iter().find(|word| !has_value(word)) {
            Some(word) => Err(format!(
                "{name}: {} has no =; write key=value, with quotes around a value with blanks, and comments on lines of their own",
                shown(word)
            )),
            None => Ok(()),
        },
    }
}

fn is_signal(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let real_time = |start: &str, sign: &[char]| {
        let offset = name.strip_prefix(start);
        offset.is_some_and(|rest| {
            rest.is_empty()
                || rest.starts_with(sign) && rest[1..].parse::<u8>().is_ok_and(|n| n < 16)
        })
    };
    SIGNALS.contains(&name)
        || real_time("RTMIN", &['+'])
        || real_time("RTMAX", &['-'])
        || text.parse::<u32>().is_ok_and(|number| number > 0)
}

fn healthcheck(words: &[&str]) -> Result<(), String> {
    let (kind, rest) = words.split_first().expect("it has arguments");
    match (&*kind.to_ascii_uppercase(), rest) {
        ("NONE", []) => Ok(()),
        ("NONE", _) => Err("HEALTHCHECK NONE takes no arguments".to_owned()),
        ("CMD", []) => Err("HEALTHCHECK CMD needs a command".to_owned()),
        ("CMD", _) => json_words(&rest.join(" ")).map(drop),
        _ => Err(format!("HEALTHCHECK {}: must be CMD or NONE", shown(kind))),
    }
}

fn onbuild(rest: &str) -> Result<(), String> {
    let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    match &*name.to_ascii_uppercase() {
        name @ ("ONBUILD" | "FROM" | "MAINTAINER") => {
            Err(format!("{name} can't stand behind ONBUILD; take it out"))
        }
        name @ ("ENV" | "LABEL") => key_values(name, arguments),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_instructions_are_rejected_with_their_line() {
        for (what, text, want) in [
            ("empty", "", None),
            ("comments", "# a\n\n  # b", None),
            (
                "as is usual",
                "FROM configs AS final\nRUN rpm-ostree install tree && \\\n    ostree container commit\n",
                None,
            ),
            ("flags", "FROM --platform=linux/amd64 quay.io/a/b AS c\nCOPY --from=c /a /b\n", None),
            ("no FROM", "RUN true", None),
            ("lower case", "from configs\nrun true", None),
            ("comment in a continuation", "RUN a && \\\n # why\n\n b", None),
            ("here-document", "RUN <<EOF\nNOT AN INSTRUCTION\nEOF\nRUN true", None),
            (
                "quoted values",
                "LABEL a=b c=\"d e\"\nENV A=\"b c\"\nHEALTHCHECK NONE\nCMD [\"a\"]\nCOPY [\"a\", \"b\"]",
                None,
            ),
            ("unknown", "FROM a\nINSTALL b", Some(2)),
            ("a word of a shell", "RUN a\nb", Some(2)),
            ("no arguments", "\nRUN", Some(2)),
            ("only flags", "RUN --network=none", Some(1)),
            ("one path", "COPY a", Some(1)),
            ("two words", "FROM a b", Some(1)),
            ("the old form", "ENV a b c\nLABEL a b", None),
            ("no command", "CMD\nENTRYPOINT []", None),
            ("no value", "ENV a", Some(1)),
            ("a value without its name", "FROM a\nENV a=b c", Some(2)),
            ("a comment behind a label", "LABEL a=b # c", Some(1)),
            ("a quote without its end", "RUN a\nLABEL a=it's", Some(2)),
            ("a quote with its end", "LABEL a=\"it's\"\nRUN echo it's", None),
            ("quotes around a blank", "COPY --from=c \"a b\" /c", Some(1)),
            ("a variable without its end", "USER ${A", Some(1)),
            ("a form of no buildah", "ARG A=${B-c}", Some(1)),
            ("a flag of FROM", "FROM --after=x a", Some(1)),
            ("no platform", "FROM --platform=amd64 a", Some(1)),
            ("a platform in a variable", "FROM --platform=$TARGETPLATFORM a", None),
            ("a flag of RUN", "RUN --security=insecure true", Some(1)),
            ("a flag without its value", "RUN --mount type=tmpfs,target=/m true", Some(1)),
            ("an owner without its value", "COPY --chown 1:1 --from=a /a /b", Some(1)),
            ("a flag of an unknown form", "COPY --chown=${A-b} --from=a /a /b", Some(1)),
            ("a switch of another value", "COPY --link=maybe --from=a /a /b", Some(1)),
            ("another network", "RUN --network=x true", Some(1)),
            ("a flag of COPY", "COPY --checksum=a --from=a /a /b", Some(1)),
            (
                "flags of later versions",
                "COPY --link --parents --exclude=x --from=a /a /b\nADD --keep-git-dir --checksum=a https://a /b\nRUN --network=none a",
                None,
            ),
            ("a mode by letters", "COPY --chmod=u+x --from=a /a /b", Some(1)),
            ("from nothing", "COPY --from= /a /b", Some(1)),
            ("a list of numbers", "RUN [\"a\", 1]", Some(1)),
            ("a list that is none", "RUN ['a']\nCMD [\"a\"", None),
            ("an empty list", "RUN []", Some(1)),
            ("SHELL", "SHELL /bin/bash -c", Some(1)),
            ("an empty volume", "VOLUME [\"\"]", Some(1)),
            (
                "signals",
                "STOPSIGNAL SIGTERM\nSTOPSIGNAL term\nSTOPSIGNAL 9\nSTOPSIGNAL RTMIN+3\nSTOPSIGNAL $A",
                None,
            ),
            ("no signal", "STOPSIGNAL FOO", Some(1)),
            ("signal 0", "STOPSIGNAL 0", Some(1)),
            ("health", "HEALTHCHECK NONE\nHEALTHCHECK --interval=1m30s --retries=3 CMD true", None),
            ("health of nothing", "HEALTHCHECK CMD", Some(1)),
            ("another kind of health", "HEALTHCHECK true", Some(1)),
            ("a duration without its unit", "HEALTHCHECK --interval=5 CMD true", Some(1)),
            ("a duration without a number", "HEALTHCHECK --interval=s CMD true", Some(1)),
            ("no retries", "HEALTHCHECK --retries=0 CMD true", Some(1)),
            ("a value of buildah's", "ARG TARGETPLATFORM=a", Some(1)),
            ("ONBUILD of a label", "ONBUILD LABEL a", Some(1)),
            ("ONBUILD FROM", "ONBUILD from a", Some(1)),
            (
                "mounts",
                "RUN --mount=type=bind,from=a,source=/a,target=/b,ro,z --mount=type=cache,dst=/c,sharing=locked,mode=0755,uid=0 --mount=type=tmpfs,target=/d,tmpfs-size=1m --mount=type=secret,id=a,required=false --mount=type=ssh true",
                None,
            ),
            ("a mount of a variable", "RUN --mount=type=$A,$B true", None),
            ("another kind of mount", "RUN --mount=type=Bind,target=/a true", Some(1)),
            ("another option of a mount", "RUN --mount=type=tmpfs,target=/a,size=1m true", Some(1)),
            ("a mount to nowhere", "RUN --mount=type=bind,from=a true", Some(1)),
            ("a mount from nothing", "RUN --mount=type=bind,from=,target=/a true", Some(1)),
            ("an option without its value", "RUN --mount=type=bind,from=a,target true", Some(1)),
            ("a private cache", "RUN --mount=type=cache,target=/a,sharing=private true", Some(1)),
            ("a secret that must be there", "RUN --mount=type=secret,id=a,required true", Some(1)),
            ("a secret without a name", "RUN --mount=type=secret true", Some(1)),
            ("nothing follows", "FROM a\nRUN a \\", Some(2)),
            ("open here-document", "RUN true\nRUN <<EOF\nfoo", Some(2)),
            ("escape", "# escape=`\nRUN a", Some(1)),
        ] {
            let line = check(text).err().map(|error| match error {
                Error::Administrator { line, .. } => line,
                other => panic!("{what}: {other}"),
            });
            assert_eq!(line, want, "{what}");
        }
    }
}
