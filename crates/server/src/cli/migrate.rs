//! `wakepost migrate`: brings the database up to date apart from a start.

use std::process::ExitCode;
use std::sync::Arc;

use wakepost_store::postgres::{Postgres, PostgresOptions};
use wakepost_store::sqlite::{Drive, Durability, Sqlite};

use crate::config::Config;
use crate::system::SystemClock;

/// Migrates, or with `check` only says what is missing.
pub async fn run(config: &Config, check: bool) -> anyhow::Result<ExitCode> {
    let pending: Vec<String> = match &config.database_url {
        Some(url) => {
            let store = Postgres::connect(url, PostgresOptions::default()).await?;
            let pending = store.pending_migrations().await?;
            if !check {
                store.migrate().await?;
            }
            pending.iter().map(|step| format!("{:04} {}", step.version, step.name)).collect()
        }
        None => {
            let pending = Sqlite::pending(&config.data_dir)?;
            if !check {
                std::fs::create_dir_all(&config.data_dir)?;
                Sqlite::open(
                    &config.data_dir,
                    Arc::new(SystemClock),
                    Durability::Full,
                    Drive::Thread,
                )?;
            }
            pending.iter().map(|step| format!("{:04} {}", step.version, step.name)).collect()
        }
    };
    let word = if check { "missing" } else { "applied" };
    for step in &pending {
        println!("{word}: {step}");
    }
    if pending.is_empty() {
        println!("the database is up to date");
    }
    Ok(if check && !pending.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
