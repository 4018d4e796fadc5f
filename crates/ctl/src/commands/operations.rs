//! `webhookctl operations`

use clap::{Args, Subcommand};

use crate::commands::operation;
use crate::session::Session;

#[derive(Subcommand)]
pub enum Operations {
    /// Say how far bulk work is
    Show(Show),
    /// Wait until bulk work is through; a failure if any of it failed
    Wait(Show),
}

#[derive(Args)]
pub struct Show {
    /// The operation's id
    operation: String,
}

impl Operations {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        match self {
            Operations::Show(show) => operation::show(session, &show.operation).await,
            Operations::Wait(show) => operation::wait_for(session, &show.operation).await,
        }
    }
}
