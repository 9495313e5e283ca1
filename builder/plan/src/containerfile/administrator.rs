//! The administrator's own Containerfile: read as far as needed to refuse what can't be built, with
//! the line it is in.

use super::Error;

/// One instruction with its continuation lines joined.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    pub line: usize,
    /// The last line of its text or here-document.
    pub last_line: usize,
    /// Where its here-documents begin: after its own lines.
    pub heredoc_line: usize,
    /// In upper case.
    pub name: String,
    pub arguments: String,
    /// The ends of its here-documents.
    pub heredocs: Vec<String>,
}

/// Major and minor number of the first version of buildah that knows something.
pub type Since = (u32, u32);

/// Something that an old buildah refuses or misreads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// From 1.
    pub line: usize,
    /// Such as `COPY --link`.
    pub what: String,
    pub since: Since,
}

/// What a text needs of buildah beyond version 1.28; nothing of a text that can't be built.
pub fn needs(text: &str) -> Vec<Need> {
    let checked = |instruction: &Instruction| {
        let later = instruction.check().unwrap_or_default();
        let line = instruction.line;
        later.into_iter().map(move |(what, since)| Need { line, what, since }).collect::<Vec<_>>()
    };
    instructions(text).unwrap_or_default().iter().flat_map(checked).collect()
}

/// Whether it holds more than comments.
pub fn has_instruction(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    lines.any(|line| !line.is_empty() && !line.starts_with('#'))
}

/// All of them; those that there aren't too.
pub(super) fn instructions(text: &str) -> Result<Vec<Instruction>, Error> {
    let mut out: Vec<Instruction> = Vec::new();
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    while let Some((number, line)) = lines.next() {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix('#') {
            if out.is_empty() && comment.trim().to_ascii_lowercase().starts_with("escape=") {
                let problem = "an escape directive belongs at the top of a file, and this text is appended to another; use backslashes";
                return Err(wrong(number, problem));
            }
            continue;
        }
        if line.is_empty() {
            continue;
        }
        let mut whole = line.to_owned();
        let mut last_line = number;
        while whole.ends_with('\\') {
            let Some((at, next)) = lines.next() else {
                return Err(wrong(
                    number,
                    "the last line ends in a backslash, and nothing follows",
                ));
            };
            last_line = at;
            // Comments and empty lines inside an instruction are not part of it.
            let comment = next.trim_start().starts_with('#') || next.trim().is_empty();
            if !comment {
                whole.pop();
                whole += next.trim_end();
            }
        }
        let (name, arguments) = whole.split_once(char::is_whitespace).unwrap_or((&whole, ""));
        let mut instruction = Instruction {
            line: number,
            last_line,
            heredoc_line: last_line + 1,
            name: name.to_ascii_uppercase(),
            arguments: arguments.trim().to_owned(),
            heredocs: heredocs(name, arguments),
        };
        for end in &instruction.heredocs {
            let Some((at, _)) = lines.find(|(_, line)| line.trim_start_matches('\t') == end) else {
                return Err(wrong(
                    number,
                    &format!("the here-document has no end; write {end} on a line of its own"),
                ));
            };
            instruction.last_line = at;
        }
        out.push(instruction);
    }
    Ok(out)
}

/// The ends of the here-documents of an instruction: the words `<<END`, `<<-END`, `<<"END"`, with a
/// file descriptor before them if any.
fn heredocs(name: &str, arguments: &str) -> Vec<String> {
    if !["RUN", "COPY", "ADD"].iter().any(|known| name.eq_ignore_ascii_case(known)) {
        return Vec::new();
    }
    words(arguments).iter().filter_map(|word| heredoc_end(word)).collect()
}

/// The end of the here-document that a word begins.
pub(super) fn heredoc_end(word: &str) -> Option<String> {
    let rest = word.trim_start_matches(|c: char| c.is_ascii_digit()).strip_prefix("<<")?;
    let rest = rest.strip_prefix('-').unwrap_or(rest);
    let end = rest.trim_matches(['"', '\'']);
    let first = end.chars().next()?;
    let plain = |c: char| c.is_alphanumeric() || "_.-".contains(c);
    (first.is_alphabetic() || first == '_').then(|| end.chars().take_while(|c| plain(*c)).collect())
}

/// Words that blanks separate outside of quotes, with their quotes.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in text.chars() {
        match c {
            '"' | '\'' if quote.is_none() => quote = Some(c),
            _ if quote == Some(c) => quote = None,
            _ => {}
        }
        match words.last_mut() {
            Some(word) if quote.is_some() || !c.is_whitespace() => word.push(c),
            _ => words.push(String::new()),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

pub(super) fn wrong(line: usize, problem: &str) -> Error {
    Error::Administrator { line, problem: problem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_no_instructions() {
        for (text, want) in [
            ("", false),
            ("\n \t\r\n", false),
            ("# syntax=x\n  # RUN a\n", false),
            ("# a\n RUN b", true),
            ("FROM configs", true),
        ] {
            assert_eq!(has_instruction(text), want, "{text:?}");
        }
    }

    #[test]
    fn here_documents_are_recognised() {
        for (text, want) in [
            ("RUN <<EOF\na\nEOF", true),
            ("RUN cat <<-'E' > /x\n\ta\n\tE", true),
            ("COPY <<one <<two /\na\none\nb\ntwo", true),
            ("RUN python3 3<<X\nX", true),
            ("RUN cat <<< word", false),
            ("RUN sh -c 'cat <<EOF'", false),
            ("RUN echo \"a <<EOF b\"", false),
            ("RUN echo $((1<<2))", false),
            ("RUN echo 1 << 2", false),
            ("LABEL a=<<EOF", false),
            ("# RUN <<EOF", false),
        ] {
            let found = instructions(text).unwrap();
            assert_eq!(found.iter().any(|one| !one.heredocs.is_empty()), want, "{text}");
        }
    }
}
