//! The real Ignition as a program that answers queries. `tests/parts/ignition-oracle` defines the
//! protocol.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::parts::{IGNITION, IGNITION_ORACLE};

/// The process, which ends when this value is dropped.
#[derive(Debug)]
pub struct Oracle {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    #[track_caller]
    pub fn start() -> Self {
        let mut child = Command::new(IGNITION_ORACLE.program())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let questions = child.stdin.take().expect("it was piped");
        let answers = BufReader::new(child.stdout.take().expect("it was piped"));
        Self { child, questions, answers }
    }

    /// Ignition's verdict on one config.
    #[track_caller]
    pub fn judge(&mut self, config: &Value) -> Value {
        self.ask(&json!({"do": "judge", "configs": [config]}))
    }

    /// The merge result of the configs. Later ones override earlier ones.
    #[track_caller]
    pub fn merge(&mut self, configs: &[Value]) -> Value {
        self.ask(&json!({"do": "merge", "configs": configs}))
    }

    /// The merge result with mosb's deliberate difference: contents replace compression, hash and
    /// headers together.
    #[track_caller]
    pub fn merge_as_decided(&mut self, configs: &[Value]) -> Value {
        self.ask(&json!({"do": "merge", "configs": configs, "ownContents": true}))
    }

    #[track_caller]
    fn ask(&mut self, question: &Value) -> Value {
        writeln!(self.questions, "{question}").expect("the oracle reads on");
        let mut answer = String::new();
        let read = self.answers.read_line(&mut answer);
        assert_ne!(read.unwrap(), 0, "the oracle ended on {question}");
        serde_json::from_str(&answer).expect("the oracle prints JSON")
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // The process may have exited already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The real Ignition; by the name `ignition-apply` it applies a config.
#[track_caller]
pub fn ignition_program() -> PathBuf {
    IGNITION.program()
}
