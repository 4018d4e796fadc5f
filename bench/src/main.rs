//! Measurements of Wakepost against its ceilings: `cargo xtask bench`.
//!
//! Every measure starts the programs it needs as child processes on 127.0.0.1 (`world`), loads them
//! from this process (`load`), and compares them in interleaved rounds (`measures`), because identical
//! runs on a shared machine differ by far more than the differences we look for. What was found is
//! printed and written down (`report`). Nothing here is part of the product.

mod api;
mod bench;
mod curve;
mod figure;
mod load;
mod machine;
mod measures;
mod options;
mod plot;
mod quiet;
mod report;
mod seed;
mod serve;
mod stats;
mod world;

use std::process::ExitCode;

use clap::Parser;

use crate::bench::Bench;
use crate::options::{Cli, Command};

// The same as in the program that is measured: the ceilings must not differ by their allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("wakepost-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Some(Command::ServeBare) => serve::runtime()?.block_on(serve::bare::serve()),
        Some(Command::ServeReceiver) => serve::runtime()?.block_on(serve::receiver::serve()),
        Some(Command::ServeCeiling { data_dir }) => {
            serve::runtime()?.block_on(serve::ceiling::serve(data_dir))
        }
        command => control()?.block_on(measure(cli.options, command)),
    }
}

/// The control side needs one thread; the load has threads of its own.
fn control() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

async fn measure(options: options::Options, command: Option<Command>) -> anyhow::Result<()> {
    let bench = Bench::new(options).await?;
    let done = tokio::select! {
        done = measures::run(&bench, command.unwrap_or(Command::All { full_growth: false, soak: None })) => done,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    bench.clean_up().await;
    done
}
