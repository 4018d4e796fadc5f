//! What developers and continuous integration run: `cargo xtask <command>`.
//!
//! One file per command under `commands`. What the commands need beyond Rust is installed
//! (`packages`), started (`postgres`) and cleaned up by the library beside this program; child processes run
//! through `process`, so that Ctrl-C reaches them first and the clean-up still happens.

mod address_check;
mod asked;
mod commands;
mod database;
mod languages;
mod links;
mod own_sdks;
mod pinned;
mod sdk_check;
mod served;
mod skipping;
mod tracked_files;

use std::process::ExitCode;

use clap::Parser;
use xtask::interrupt::{self, Interrupted};

use crate::commands::Command;

/// What developers run on Wakepost.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let outcome = interrupt::listen().and_then(|()| command.run());
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // The shell's convention for a command ended by Ctrl-C.
        Err(error) if error.is::<Interrupted>() => ExitCode::from(130),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
