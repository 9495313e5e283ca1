//! The question before machines reboot.

use std::io::{self, BufRead, IsTerminal as _, Write};

use tokio::task::spawn_blocking;

use crate::cli::error::Error;

/// Asks on a terminal. Without one, as in a script, nobody is asked.
///
/// # Errors
/// The answer is not yes.
pub async fn confirm(question: &str) -> Result<(), Error> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(());
    }
    let question = question.to_owned();
    // A signal must end the command while it waits for an answer: stderr stays free for that.
    let asked = spawn_blocking(move || ask(&question, &mut io::stdin().lock(), &mut io::stderr()));
    asked.await.map_err(Error::stopped("asking"))?
}

fn ask(question: &str, answers: &mut impl BufRead, to: &mut impl Write) -> Result<(), Error> {
    let question = mosb_types::escape_control(question);
    let asked = write!(to, "{question}. Go on? [y/N] ").and_then(|()| to.flush());
    let mut answer = String::new();
    // Who can't be asked, or whose answer can't be read, has not agreed.
    let is_read = asked.is_ok() && answers.read_line(&mut answer).is_ok();
    let is_yes = ["y", "yes"].contains(&&*answer.trim().to_ascii_lowercase());
    if is_read && is_yes { Ok(()) } else { Err(Error::NotConfirmed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_is_yes() {
        for (answer, want) in [
            ("y\n", true),
            ("Yes\n", true),
            (" YES ", true),
            ("\n", false),
            ("", false),
            ("n\n", false),
            ("yo\n", false),
        ] {
            let mut shown = Vec::new();
            let agreed = ask("3 machines reboot", &mut answer.as_bytes(), &mut shown).is_ok();
            assert_eq!(agreed, want, "{answer:?}");
            assert_eq!(shown, b"3 machines reboot. Go on? [y/N] ");
        }
    }
}
