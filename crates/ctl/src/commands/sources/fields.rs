//! The flags that set a source's fields, the same for a new source and a changed one.

use clap::Args;
use serde_json::{Map, Value};
use wakepost_client::{Budget, Executor, SourceFields};

use super::flags::{self, Setting};
use crate::commands::input::read_secret;

#[derive(Args)]
pub struct FieldFlags {
    /// A name for people
    #[arg(long)]
    name: Option<String>,
    /// What requests are checked with; - reads it from standard input
    #[arg(long)]
    secret: Option<String>,
    /// A setting of the provider; NAME:=JSON for what is not text, NAME:=null takes it away; may be repeated
    #[arg(long = "setting", value_name = "NAME=TEXT")]
    settings: Vec<Setting>,
    /// How its jobs run: pull, exec:NAME or http:URL; self:exec:NAME or self:URL within a request of the server
    /// to itself
    #[arg(long, value_parser = flags::executor)]
    executor: Option<Executor>,
    /// Whom to ask, just before an agent runs, whether a job is still worth it
    #[arg(long, value_name = "URL")]
    preflight_url: Option<String>,
    /// Which event types make a job (issues.*); may be repeated
    #[arg(long, value_name = "TYPE")]
    filter: Vec<String>,
    /// Do not check signatures: events are marked unverified
    #[arg(
        long,
        value_name = "true|false",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    unsigned: Option<bool>,
    /// Who is in charge of it, by e-mail address
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
    /// How many requests it takes in a second, on each node (more get 429), and how many jobs may start
    #[arg(long, value_name = "N")]
    rate_per_s: Option<f64>,
    /// How much of its work may run on one day (runs=100,cost=25.5,over=refuse); beyond it work waits, or is held
    #[arg(long, value_parser = flags::budget)]
    budget: Option<Budget>,
    /// Accept only from this network; may be repeated
    #[arg(long, value_name = "CIDR")]
    allow_from: Vec<String>,
    /// Hide what is at this JSON pointer in payloads (/customer/email, /items/*/price); may be repeated
    #[arg(long, value_name = "POINTER")]
    redact: Vec<String>,
    /// How long a repeat is a duplicate
    #[arg(long, value_name = "SECONDS")]
    dedup_window_s: Option<u64>,
    /// What tells events apart in place of the provider's id ({/ticket/id}:{header:X-Rev})
    #[arg(long, value_name = "TEMPLATE")]
    dedup_key: Option<String>,
    /// Whether a repeated body is a duplicate too
    #[arg(long, value_name = "true|false")]
    dedup_body: Option<bool>,
    /// Run events one at a time, in order, that have the same value here (/ticket/id)
    #[arg(long, value_name = "POINTER")]
    order_by: Option<String>,
    /// Where the number of an event is among those; a later one waits for a missing one
    #[arg(long, value_name = "POINTER")]
    sequence_by: Option<String>,
    /// How long it waits
    #[arg(long, value_name = "SECONDS")]
    order_wait_s: Option<u64>,
    /// Let a newer event supersede a queued older one that has the same value here
    #[arg(long, value_name = "POINTER")]
    coalesce_by: Option<String>,
    /// What a message does while its conversation is busy
    #[arg(long, value_parser = ["queue", "merge", "interrupt", "off"])]
    thread_policy: Option<String>,
    /// How long a conversation must be quiet before its job runs
    #[arg(long, value_name = "MILLISECONDS")]
    quiet_ms: Option<u64>,
    /// How long a job waits for quiet at most
    #[arg(long, value_name = "MILLISECONDS")]
    quiet_cap_ms: Option<u64>,
    /// Whether a person must agree before its jobs act
    #[arg(long, value_parser = ["auto", "draft"])]
    mode: Option<String>,
    /// How long a person has to decide
    #[arg(long, value_name = "SECONDS")]
    approval_expires_s: Option<u64>,
    /// How often its jobs are tried
    #[arg(long, value_name = "N")]
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
    #[arg(long, value_name = "N")]
    concurrency: Option<u32>,
    /// Where the outcome of its jobs goes, as a signed webhook
    #[arg(long, value_name = "URL")]
    callback_url: Option<String>,
}

impl FieldFlags {
    /// As the API takes them.
    pub fn into_fields(self) -> anyhow::Result<SourceFields> {
        let settings: Map<String, Value> =
            self.settings.into_iter().map(|setting| (setting.name, setting.value)).collect();
        Ok(SourceFields {
            name: self.name,
            secret: self.secret.map(read_secret).transpose()?,
            settings: (!settings.is_empty()).then_some(settings),
            enabled: None,
            owner: self.owner,
            unsigned: self.unsigned,
            tolerance_s: self.tolerance_s,
            max_body_bytes: self.max_body_bytes,
            dedup_window_s: self.dedup_window_s,
            dedup_body: self.dedup_body,
            dedup_key: self.dedup_key,
            order_by: self.order_by,
            sequence_by: self.sequence_by,
            order_wait_s: self.order_wait_s,
            coalesce_by: self.coalesce_by,
            thread_policy: self.thread_policy,
            quiet_ms: self.quiet_ms,
            quiet_cap_ms: self.quiet_cap_ms,
            filter: self.filter,
            mode: self.mode,
            approval_expires_s: self.approval_expires_s,
            priority: self.priority,
            executor: self.executor,
            preflight_url: self.preflight_url,
            max_attempts: self.max_attempts,
            backoff_s: self.backoff_s,
            run_timeout_s: self.run_timeout_s,
            lease_s: self.lease_s,
            concurrency: self.concurrency,
            rate_per_s: self.rate_per_s,
            callback_url: self.callback_url,
            budget: self.budget,
            allow_from: self.allow_from,
            redact: self.redact,
            other: Map::new(),
        })
    }
}
