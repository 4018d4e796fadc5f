//! `webhookctl sources create`

use std::io::Read;

use anyhow::Context;
use clap::Args;
use wakepost_client::{Executor, NewSource, Source};

use super::flags::{self, Setting};
use super::next_step::next_step;
use crate::output::{self, Cell, Fields, Tone};
use crate::session::Session;

/// A secret is short; what is longer is some other file.
const SECRET_BYTES_MAX: u64 = 64 * 1024;

#[derive(Args)]
pub struct Create {
    /// Who sends: github, stripe, slack, generic, …
    provider: String,
    /// A name for people
    #[arg(long)]
    name: Option<String>,
    /// What requests are checked with; - reads it from standard input
    #[arg(long)]
    secret: Option<String>,
    /// A setting of the provider; NAME:=JSON for what is not text
    #[arg(long = "setting", value_name = "NAME=TEXT")]
    settings: Vec<Setting>,
    /// How its jobs run: pull, exec:NAME or http:URL
    #[arg(long, value_parser = flags::executor)]
    executor: Option<Executor>,
    /// Which event types make a job (issues.*); may be repeated
    #[arg(long, value_name = "TYPE")]
    filter: Vec<String>,
    /// Do not check signatures: events are marked unverified
    #[arg(long)]
    unsigned: bool,
    /// Make it, but do not accept requests yet
    #[arg(long)]
    disabled: bool,
    /// Who is in charge of it
    #[arg(long)]
    owner: Option<String>,
    /// Which queue its jobs wait in
    #[arg(long, value_parser = ["interactive", "webhook", "batch"])]
    priority: Option<String>,
    /// How far a signed time may be off
    #[arg(long, value_name = "SECONDS")]
    tolerance_s: Option<u64>,
    /// The largest body
    #[arg(long, value_name = "BYTES")]
    max_body_bytes: Option<u64>,
    /// How long a repeat is a duplicate
    #[arg(long, value_name = "SECONDS")]
    dedup_window_s: Option<u64>,
    /// How often its jobs are tried
    #[arg(long)]
    max_attempts: Option<u32>,
    /// How long a failed job waits, attempt by attempt (10,60,300)
    #[arg(long, value_delimiter = ',', value_name = "SECONDS")]
    backoff_s: Option<Vec<u64>>,
    /// How long a run may take
    #[arg(long, value_name = "SECONDS")]
    run_timeout_s: Option<u64>,
    /// How long a lease lasts
    #[arg(long, value_name = "SECONDS")]
    lease_s: Option<u64>,
    /// How many of its jobs may run at once
    #[arg(long)]
    concurrency: Option<u32>,
    /// Accept only from this network; may be repeated
    #[arg(long, value_name = "CIDR")]
    allow_from: Vec<String>,
}

impl Create {
    pub async fn run(self: Box<Self>, session: &Session) -> anyhow::Result<()> {
        let new = self.request()?;
        let call = session.client.create_source(&new);
        let Some(source) = session.answer(call).await? else {
            return Ok(());
        };
        output::print(&made(&source).render(session.paint))?;
        for line in next_step(&source) {
            output::hint(&line);
        }
        Ok(())
    }

    fn request(self) -> anyhow::Result<NewSource> {
        Ok(NewSource {
            provider: self.provider,
            name: self.name,
            secret: self.secret.map(secret).transpose()?,
            settings: self.settings.into_iter().map(|s| (s.name, s.value)).collect(),
            enabled: self.disabled.then_some(false),
            owner: self.owner,
            unsigned: self.unsigned.then_some(true),
            tolerance_s: self.tolerance_s,
            max_body_bytes: self.max_body_bytes,
            dedup_window_s: self.dedup_window_s,
            filter: self.filter,
            priority: self.priority,
            executor: self.executor,
            max_attempts: self.max_attempts,
            backoff_s: self.backoff_s,
            run_timeout_s: self.run_timeout_s,
            lease_s: self.lease_s,
            concurrency: self.concurrency,
            allow_from: self.allow_from,
            ..NewSource::default()
        })
    }
}

/// The secret itself, or what standard input says: a command line is in the shell's history.
fn secret(flag: String) -> anyhow::Result<String> {
    if flag != "-" {
        return Ok(flag);
    }
    let mut text = String::new();
    std::io::stdin()
        .take(SECRET_BYTES_MAX)
        .read_to_string(&mut text)
        .context("the secret cannot be read from standard input")?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn made(source: &Source) -> Fields {
    let once = |secret: &String| {
        Cell::toned(Tone::Bold, secret).then(Tone::Dim, "  (shown once: keep it now)")
    };
    let missing = (!source.missing_settings.is_empty())
        .then(|| Cell::toned(Tone::Warn, &source.missing_settings.join(", ")));
    Fields::default()
        .line("source", Cell::new(&source.id))
        .line("provider", Cell::new(&source.provider))
        .line("ingest URL", Cell::maybe(source.ingest_url.as_deref()))
        .line_if("secret", source.secret.as_ref().map(once))
        .line_if("executor secret", source.executor_secret.as_ref().map(once))
        .line_if("missing", missing)
}
