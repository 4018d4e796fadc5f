//! Crashes a gateway under load and checks what its clients were told: `wakepost-crash kill|outbound|power|storm`.
//!
//! `clients` are the load: senders, workers, an operator. They know only the HTTP contract. What they are told
//! is kept in `told`, which notices contradictions at once, and is compared with what the API shows once faults
//! have stopped (`check`). `world` is what is crashed; `kill` and `power` are the two ways to crash it. `storm` is
//! another load: a fixed number of events, each sent three times. `outbound` is a third: events that are published, and
//! the receivers of their deliveries.

mod caller;
mod check;
mod clients;
mod kill;
mod options;
mod outbound;
mod power;
mod report;
mod storm;
mod world;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use wakepost_crash::{chance, exchange, plan, shown, told};

use crate::options::{Cli, Command, Common, Control, OutboundControl};

/// How long one fault may take on average, and all the rest.
const FAULT_MAX: Duration = Duration::from_secs(10);
const REST_MAX: Duration = Duration::from_secs(300);
/// How long one event of a storm may take on average, with its repeats, its job and the check.
const EVENT_MAX: Duration = Duration::from_millis(60);
/// The shell's convention for a command ended by Ctrl-C.
const INTERRUPTED: u8 = 130;

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let ran = tokio::select! {
        ran = bounded(cli.command) => ran,
        interrupted = interrupted() => interrupted,
    };
    ran.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// Runs within bounds: whatever hangs, hangs only so long.
async fn bounded(command: Command) -> anyhow::Result<ExitCode> {
    let (faults, events) = match &command {
        Command::Kill { kills, .. } | Command::Outbound { kills, .. } => (*kills, 0),
        Command::Power { cuts, .. } => (*cuts, 0),
        Command::Storm { kills, events, .. } => (*kills, *events),
    };
    let limit = REST_MAX + FAULT_MAX * faults + EVENT_MAX * events;
    match tokio::time::timeout(limit, run(command)).await {
        Ok(ran) => ran,
        Err(_) => anyhow::bail!("not done within {limit:?}"),
    }
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    let succeeded = match command {
        Command::Kill { common, kills, control } => {
            let outcome = kill::run(&common, seed(&common), kills, control).await?;
            report::print(&outcome);
            is_as_meant(&outcome.told.broken(), control.map(Control::breaks))
        }
        Command::Outbound { common, kills, control } => {
            let outcome = outbound::run(&common, seed(&common), kills, control).await?;
            outcome.print();
            is_as_meant(&outcome.told.broken(), control.map(OutboundControl::breaks))
        }
        Command::Storm { common, events, kills, control } => {
            let size = storm::Size { events, kills };
            let outcome = storm::run(&common, seed(&common), size, control).await?;
            outcome.print();
            is_as_meant(&outcome.broken(), control.map(Control::breaks))
        }
        Command::Power { common, cuts, control: false } => {
            let cut = power::run(&common, seed(&common), cuts, false).await?;
            report::print(&cut.outcome);
            is_as_meant(&cut.outcome.told.broken(), None)
        }
        Command::Power { common, cuts, control: true } => {
            let cut = power::run(&common, seed(&common), cuts, true).await?;
            let acknowledged = cut.outcome.told.acknowledged();
            println!("control: {}, events acknowledged {acknowledged}", cut.outcome.what);
            let enough = cut.with_loss >= power::LOSS_ENOUGH.min(cuts);
            if !enough {
                eprintln!("the control lost too little: power cuts are not what they should be");
            }
            enough
        }
    };
    Ok(if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether nothing was broken, or, where that was done on purpose, it was noticed.
fn is_as_meant(broken: &BTreeSet<&str>, on_purpose: Option<&[&str]>) -> bool {
    let Some(rules) = on_purpose else { return broken.is_empty() };
    let noticed = rules.iter().any(|rule| broken.contains(rule));
    match noticed {
        true => println!("the control was noticed: {broken:?}"),
        false => eprintln!("the control went unnoticed: none of {rules:?} in {broken:?}"),
    }
    noticed
}

fn seed(common: &Common) -> u64 {
    let random = || u64::from_str_radix(&wakepost_tests::random_text(8), 16).unwrap_or(1);
    let seed = common.seed.unwrap_or_else(random);
    println!("seed {seed}");
    seed
}

/// Ctrl-C and its kin: whatever is under way is dropped, and with it every process, directory and mount.
async fn interrupted() -> anyhow::Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed?,
        _ = terminate.recv() => {}
        _ = hang_up.recv() => {}
    }
    Ok(ExitCode::from(INTERRUPTED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_must_break_nothing_and_a_control_what_it_is_there_for() {
        let broken = BTreeSet::from(["L7", "U1"]);
        assert!(is_as_meant(&BTreeSet::new(), None));
        assert!(!is_as_meant(&broken, None));
        assert!(is_as_meant(&broken, Some(Control::Dedup.breaks())));
        assert!(!is_as_meant(&broken, Some(Control::Fencing.breaks())));
        assert!(!is_as_meant(&BTreeSet::new(), Some(Control::Dedup.breaks())));
    }
}
