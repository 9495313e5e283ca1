//! The question before machines reboot.

use std::io::{self, BufRead, IsTerminal as _, Write};

use tokio::task::spawn_blocking;

use mosb_commands::error::Error;

/// What a person agreed to.
#[derive(Debug)]
pub struct Consent {
    to_all: bool,
    question: Option<String>,
}

impl Consent {
    /// `to_all`: nothing is asked.
    pub fn new(to_all: bool) -> Self {
        Self { to_all, question: None }
    }

    /// Asks, unless this very question was agreed to.
    ///
    /// # Errors
    /// The answer is not yes.
    pub async fn obtain(&mut self, question: &str) -> Result<(), Error> {
        if !self.covers(question) {
            confirm(question).await?;
            self.add(question);
        }
        Ok(())
    }

    fn covers(&self, question: &str) -> bool {
        self.to_all || self.question.as_deref() == Some(question)
    }

    fn add(&mut self, question: &str) {
        self.question = Some(question.to_owned());
    }
}

/// Asks on a terminal. Without one, as in a script, nothing is asked.
///
/// # Errors
/// The answer is not yes.
async fn confirm(question: &str) -> Result<(), Error> {
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
    fn consent_to_one_image_is_none_to_another() {
        let mut consent = Consent::new(false);
        assert!(!consent.covers("reboot into B"));
        consent.add("reboot into B");
        assert!(consent.covers("reboot into B"));
        assert!(!consent.covers("reboot into C"), "C came into service meanwhile");
        assert!(Consent::new(true).covers("reboot into B"));
    }

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
