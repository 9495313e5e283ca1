//! Starts the program; everything is called from `cli`.

use std::panic::resume_unwind;
use std::process::ExitCode;
use std::time::Duration;

/// How long threads may go on after a signal; then they end with the process.
const GRACE: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let ready = match mosb::cli::understand(std::env::args_os()) {
        Ok(ready) => ready,
        Err(code) => return code.into(),
    };
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: no threads: {error}; raise the limit of processes");
            return 3.into();
        }
    };
    // As a task: a thread that waits for the network then goes on with it without waking this one.
    let running = runtime.spawn(mosb::cli::run(ready));
    let code = match runtime.block_on(running) {
        Ok(code) => code,
        Err(error) => resume_unwind(error.into_panic()),
    };
    runtime.shutdown_timeout(GRACE);
    code.into()
}
