//! Ctrl-C and its kin (SIGINT, SIGTERM, SIGHUP), turned into a flag that the waiting loops look at.
//!
//! The process never dies from these signals: the command in progress returns [`Interrupted`], and
//! on the way out every guard cleans up what it started.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static PRESSED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// The reason a command ended early: someone asked it to stop.
#[derive(Debug)]
pub struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Starts to listen; before this call the signals end the process as usual.
pub fn listen() -> anyhow::Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&PRESSED))
            .context("listening to signals")?;
    }
    Ok(())
}

/// Whether a signal came since the last call; each is reported once, so a second Ctrl-C is seen too.
pub fn take() -> bool {
    PRESSED.swap(false, Ordering::SeqCst)
}
