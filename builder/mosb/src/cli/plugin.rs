//! `kubectl mosb`: the program as a plug-in of kubectl or oc, with the file name `kubectl-mosb` or
//! `oc-mosb`. Its help then contains the plug-in's command.

use std::ffi::OsString;
use std::path::Path;

use clap::builder::{Resettable, StyledStr};
use clap::{Command, CommandFactory as _, FromArgMatches as _};

use super::command::Cli;

/// Parses a command line, with the command name of its first word.
///
/// # Errors
/// A usage error, help or version.
pub fn parse(typed: &[OsString]) -> Result<Cli, clap::Error> {
    let mut command = command(typed);
    let matches = command.try_get_matches_from_mut(typed)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

fn command(typed: &[OsString]) -> Command {
    let command = Cli::command();
    match typed.first().and_then(|first| called(first)) {
        Some(name) => {
            let below = command.get_subcommands();
            let below: Vec<_> = below.map(|one| one.get_name().to_owned()).collect();
            renamed(command, &|text| in_its_place(text, name, &below)).bin_name(name)
        }
        None => command,
    }
}

/// The words that run the plug-in.
fn called(program: &OsString) -> Option<&'static str> {
    match Path::new(program).file_name()?.to_str()? {
        "kubectl-mosb" => Some("kubectl mosb"),
        "oc-mosb" => Some("oc mosb"),
        _ => None,
    }
}

/// Applies a function to all texts of a command and its subcommands.
fn renamed(command: Command, through: &impl Fn(&str) -> String) -> Command {
    let new = |old: &StyledStr| StyledStr::from(through(&old.to_string()));
    let [about, long, after, after_long] = [
        command.get_about(),
        command.get_long_about(),
        command.get_after_help(),
        command.get_after_long_help(),
    ]
    .map(|text| Resettable::from(text.map(new)));
    let command = command.mut_args(|arg| {
        let [help, long] =
            [arg.get_help(), arg.get_long_help()].map(|text| Resettable::from(text.map(new)));
        arg.help(help).long_help(long)
    });
    command
        .about(about)
        .long_about(long)
        .after_help(after)
        .after_long_help(after_long)
        .mut_subcommands(|one| renamed(one, through))
}

/// Replaces `mosb` before the name of a command.
fn in_its_place(text: &str, name: &str, commands: &[String]) -> String {
    let mut new = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("mosb ") {
        let (before, here) = rest.split_at(at);
        let behind = &here["mosb ".len()..];
        let alone = !before.ends_with(|c: char| c.is_alphanumeric() || "-./".contains(c));
        let next = behind.split(|c: char| !(c.is_ascii_lowercase() || c == '-')).next();
        let command = commands.iter().any(|one| Some(one.as_str()) == next);
        new.push_str(before);
        new.push_str(if alone && command { name } else { "mosb" });
        rest = &here["mosb".len()..];
    }
    new + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn helps(mut command: Command, all: &mut Vec<String>) {
        all.push(command.render_long_help().to_string());
        all.push(command.render_help().to_string());
        for one in command.get_subcommands() {
            helps(one.clone(), all);
        }
    }

    fn all_helps(program: &str) -> Vec<String> {
        let mut command = command(&[OsString::from(program)]);
        command.build();
        let mut all = Vec::new();
        helps(command, &mut all);
        all
    }

    #[test]
    fn every_help_text_names_what_the_reader_types() {
        let plain = all_helps("/usr/bin/mosb");
        let plugin = all_helps("/usr/local/bin/kubectl-mosb");
        let least = if cfg!(feature = "cluster") { 40 } else { 20 };
        assert!(plugin.len() == plain.len() && plain.len() > least);
        for (plain, plugin) in plain.iter().zip(&plugin) {
            assert!(plugin.contains("Usage: kubectl mosb "), "{plugin}");
            // Lines wrap at the same words, and no other word differs.
            assert_eq!(&plugin.replace("kubectl mosb ", "mosb "), plain);
        }
        let wrong = plugin.iter().flat_map(|help| help.lines()).filter(|line| {
            let line = line.replace("kubectl mosb", "");
            line.contains("  mosb ") || line.contains("`mosb ") || line.contains("| mosb ")
        });
        assert_eq!(wrong.collect::<Vec<_>>(), Vec::<&str>::new());
    }

    #[test]
    fn names_of_the_program_and_of_other_things() {
        let commands = ["build".to_owned(), "wait".to_owned()];
        let cases = [
            ("an example", "  mosb build a && mosb wait b", "  oc mosb build a && oc mosb wait b"),
            ("in a text", "as `mosb build` does", "as `oc mosb build` does"),
            ("the product", "where mosb waits, and mosb built", "where mosb waits, and mosb built"),
            (
                "another program",
                "kubectl-mosb build /run/mosb build",
                "kubectl-mosb build /run/mosb build",
            ),
            ("the end", "mosb ", "mosb "),
        ];
        for (what, text, want) in cases {
            assert_eq!(in_its_place(text, "oc mosb", &commands), want, "{what}");
        }
    }

    #[test]
    fn a_plug_in_by_its_file_name() {
        let cases = [
            ("/usr/local/bin/kubectl-mosb", Some("kubectl mosb")),
            ("oc-mosb", Some("oc mosb")),
            ("mosb", None),
            ("/opt/kubectl-mosb/mosb", None),
            ("", None),
        ];
        for (program, want) in cases {
            assert_eq!(called(&program.into()), want, "{program}");
        }
    }
}
