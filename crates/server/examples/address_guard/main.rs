//! The address guard, held against everything hostile that we know of: `address_guard judge|prove`, run by
//! `cargo xtask addresses`.
//!
//! `judge` says what the guard makes of addresses and URLs, a line of JSON per question, so that another implementation
//! can be held against it. `prove` runs the real client with the real resolver in a network namespace in which every
//! address is this machine and a name server of ours answers (`namespace`, `name_server`), and counts what is dialled
//! (`dialled`): nothing, for all that is hostile.

#[path = "../../src/outbound/tests/corpus.rs"]
mod corpus;
mod dialled;
mod judge;
mod name_server;
mod names;
mod namespace;
mod prove;
mod sending;

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
enum Command {
    /// Answer questions on standard input until it ends
    Judge,
    /// Send to everything hostile, in namespaces that are made for it
    Prove,
}

fn main() -> ExitCode {
    let ran = match Command::parse() {
        Command::Judge => judge::run(),
        Command::Prove => prove::run(),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
