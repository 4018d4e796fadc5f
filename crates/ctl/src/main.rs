//! `webhookctl`, the operator's tool for Wakepost: it speaks only the HTTP API, through the client crate.
//!
//! `cli` has the commands and the global flags, `commands` one file per command, `output` everything that
//! reaches a terminal, and `exit` what a failure means: its code, and what to do next. `connection` finds out which
//! server is meant, by flags, the environment and `profiles`; `describe` tells of the commands: completions, man
//! pages, the reference.

mod cli;
mod commands;
mod connection;
mod describe;
mod exit;
mod output;
mod profiles;
mod session;

use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match cli::run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::hint(&exit::explain(&error));
            ExitCode::from(exit::code(&error))
        }
    }
}
