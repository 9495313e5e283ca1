//! `make demo`: the main job on real input, as a user would do it. No server, no root, no network.
//!
//! Makes a small base image that is shaped like an OS, builds a worker's rendered MachineConfig
//! onto it with the real program, looks at the result, changes one file and builds again.

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

mod base;

const CONFIG: &str = include_str!("../../testdata/demo/worker.yaml");
const NAME: &str = "rendered-worker-4b5c8d0e6f7a49318c2d5e6f7a8b9c0d";
const NEXT_NAME: &str = "rendered-worker-91d3c7a2f0b84e6d85a1c4e2b7f60d3a";

fn main() -> ExitCode {
    match demo() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn demo() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let at = |name: &str| directory.path().join(name);
    let mosb = Mosb { program: program()?, directory: directory.path().to_owned() };

    print_heading(
        "A base image shaped like an OS, in the OCI layout base/: links as in CoreOS, a sudoers.d that only root reads, systemd units",
    );
    base::make(&at("base"))?;

    print_heading(
        "A worker's rendered MachineConfig: kubelet, CRI-O, sysctl, chrony, registries, a certificate, units, a script",
    );
    fs::write(at("worker.yaml"), CONFIG)?;

    print_heading("What would be done, and why? Nothing is written by this:");
    mosb.run(&["plan", "worker.yaml", "--base", "oci:base"])?;

    print_heading("The image:");
    mosb.run(&[
        "build",
        "worker.yaml",
        "--base",
        "oci:base",
        "--output",
        "oci:worker-os",
        "--digestfile",
        "digest",
    ])?;

    print_heading("What is in it, path by path:");
    mosb.run(&["files", &format!("oci:worker-os:{NAME}")])?;

    print_heading("One file changes: a new rendered config, a new image. What is different?");
    fs::write(
        at("worker-next.yaml"),
        CONFIG.replace(NAME, NEXT_NAME).replace("rp_filter%20%3D%200", "rp_filter%20%3D%201"),
    )?;
    mosb.diff(&["diff", "./worker.yaml", "./worker-next.yaml"])?;

    print_heading(
        "And what does it cost? The base's tree is cached, its blobs are there; one small layer is written:",
    );
    mosb.run(&["build", "worker-next.yaml", "--base", "oci:base", "--output", "oci:worker-os"])?;

    print_heading("The first config built again is the same image, to the byte:");
    let digest = fs::read_to_string(at("digest"))?;
    mosb.run(&[
        "build",
        "worker.yaml",
        "--base",
        "oci:base",
        "--output",
        "oci:again",
        "--digestfile",
        "digest-again",
        "-q",
    ])?;
    let again = fs::read_to_string(at("digest-again"))?;
    if digest != again {
        return Err(format!("{digest} and then {again}").into());
    }
    println!("{}", digest.trim());
    println!(
        "\nHow to look at it with other tools: skopeo inspect oci:worker-os:{NAME}, umoci unpack --image worker-os:{NAME} DIR"
    );
    Ok(())
}

struct Mosb {
    program: PathBuf,
    directory: PathBuf,
}

impl Mosb {
    fn command(&self, arguments: &[&str]) -> Command {
        println!("$ mosb {}", arguments.join(" "));
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .current_dir(&self.directory)
            .env("XDG_CACHE_HOME", self.directory.join("cache"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Result<(), Box<dyn Error>> {
        let status = self.command(arguments).status()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("mosb {}: {status}", arguments[0]).into())
        }
    }

    /// `diff` says by its exit code that something differs.
    fn diff(&self, arguments: &[&str]) -> Result<(), Box<dyn Error>> {
        let status = self.command(arguments).status()?;
        if status.code() == Some(1) {
            Ok(())
        } else {
            Err(format!("mosb diff: {status}, want 1: they differ").into())
        }
    }
}

/// The program that was built beside this one.
fn program() -> Result<PathBuf, Box<dyn Error>> {
    let program = std::env::current_exe()?.with_file_name("mosb");
    if program.is_file() {
        Ok(program)
    } else {
        Err(format!("{} is missing: run `make demo`", program.display()).into())
    }
}

fn print_heading(what: &str) {
    println!("\n# {what}\n");
}
