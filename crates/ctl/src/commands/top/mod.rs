//! `webhookctl top`: how the server stands, live.
//!
//! `look` asks the server, `rates` counts between looks, `view` makes lines of it, and `screen` shows them until
//! somebody leaves. Whatever happens, the terminal is as it was afterwards.

mod look;
mod rates;
mod screen;
pub mod view;

use std::env;
use std::io::{self, IsTerminal};
use std::time::Duration;

use clap::Args;

use self::look::Looker;
use crate::output;
use crate::session::Session;

#[derive(Args)]
pub struct Top {
    /// Print how it stands now, and end; so it does where there is no terminal
    #[arg(long)]
    once: bool,
    /// How long between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=3600))]
    every_s: u64,
}

impl Top {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let looker = Looker::new(session);
        if is_live() && !self.once && !session.is_json() {
            return screen::run(looker, session.paint, Duration::from_secs(self.every_s)).await;
        }
        let snapshot = looker.once().await?;
        if session.is_json() {
            let text = serde_json::to_string(&snapshot)?;
            return Ok(output::print(&output::json::pretty(&text)?)?);
        }
        let lines = view::lines(&snapshot, session.paint);
        Ok(output::print(&lines.join("\n"))?)
    }
}

/// Whether there is a whole screen to show it on, and a keyboard to leave by.
fn is_live() -> bool {
    let dumb = env::var_os("TERM").is_some_and(|value| value == "dumb");
    io::stdout().is_terminal() && io::stdin().is_terminal() && !dumb
}
