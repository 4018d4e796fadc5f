//! `webhookctl sources show`

use clap::Args;
use wakepost_client::Source;

use super::executor_words;
use super::flags::budget_words;
use super::list::state;
use crate::commands::secret_age::secret_age;
use crate::output::when::absolute;
use crate::output::{self, Cell, Fields, Tone};
use crate::session::Session;

#[derive(Args)]
pub struct Show {
    /// The source's id
    source: String,
}

impl Show {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let call = session.client.get_source(&self.source);
        let Some(source) = session.answer(call).await? else {
            return Ok(());
        };
        output::print(&fields(session, &source).render(session.paint))?;
        Ok(())
    }
}

fn fields(session: &Session, source: &Source) -> Fields {
    let text = |text: &Option<String>| text.as_deref().map(Cell::new);
    let list = |list: &[String]| (!list.is_empty()).then(|| Cell::new(&list.join(", ")));
    let count = |count: Option<u64>| count.map(|count| Cell::new(&count.to_string()));
    let seconds = |s: Option<u64>| s.map(|s| Cell::new(&format!("{s} s")));
    let old_secret = source.previous_expires_at.as_deref().map(|at| absolute(session.now, at));
    let backoff = source.backoff_s.as_ref().map(|waits| {
        let waits: Vec<String> = waits.iter().map(u64::to_string).collect();
        format!("{} s", waits.join(", "))
    });
    let created = source.created_at.as_deref();
    let order_wait = seconds(source.order_wait_s.filter(|_| source.sequence_by.is_some()));
    let talks = source.thread_policy.as_deref().filter(|policy| *policy != "off");
    let quiet = source.quiet_ms.zip(source.quiet_cap_ms).filter(|_| talks.is_some());
    let quiet = quiet.map(|(quiet, cap)| format!("{quiet} ms, at most {cap} ms"));
    let drafts = source.mode.as_deref() == Some("draft");
    let to_decide = seconds(source.approval_expires_s.filter(|_| drafts));
    let mut fields = Fields::default()
        .line("source", Cell::new(&source.id))
        .line("provider", Cell::new(&source.provider))
        .line("name", Cell::maybe(Some(&source.name)))
        .line_if("tenant", text(&source.tenant))
        .line("state", state(source))
        .line("ingest URL", Cell::maybe(source.ingest_url.as_deref()))
        .line_if("warning", source.warning.as_deref().map(|text| Cell::toned(Tone::Warn, text)))
        .line_if("secret", source.secret_age_days.map(secret_age))
        .line_if("old secret", old_secret.map(|at| Cell::new(&format!("accepted until {at}"))))
        .line_if("filter", list(&source.filter))
        .line_if("executor", source.executor.as_ref().map(|e| Cell::new(&executor_words(e))))
        .line_if("pre-flight", text(&source.preflight_url))
        .line_if("priority", text(&source.priority))
        .line_if("mode", text(&source.mode))
        .line_if("time to decide", to_decide)
        .line_if("owner", text(&source.owner))
        .line_if("attempts", count(source.max_attempts.map(u64::from)))
        .line_if("backoff", backoff.map(|text| Cell::new(&text)))
        .line_if("callback URL", source.callback_url.as_deref().map(Cell::new))
        .line_if("concurrency", count(source.concurrency.map(u64::from)))
        .line_if("lease", seconds(source.lease_s))
        .line_if("run timeout", seconds(source.run_timeout_s))
        .line_if("tolerance", seconds(source.tolerance_s))
        .line_if("largest body", source.max_body_bytes.map(|n| Cell::new(&format!("{n} bytes"))))
        .line_if("dedup key", text(&source.dedup_key))
        .line_if("dedup window", seconds(source.dedup_window_s))
        .line_if("dedup body", source.dedup_body.map(|on| Cell::new(if on { "yes" } else { "no" })))
        .line_if("in order by", text(&source.order_by))
        .line_if("numbered by", text(&source.sequence_by))
        .line_if("waits for a number", order_wait)
        .line_if("coalesced by", text(&source.coalesce_by))
        .line_if("thread policy", talks.map(Cell::new))
        .line_if("waits for quiet", quiet.map(|text| Cell::new(&text)))
        .line_if("rate", source.rate_per_s.map(|rate| Cell::new(&format!("{rate} per s"))))
        .line_if("budget", source.budget.as_ref().map(|budget| Cell::new(&budget_words(budget))))
        .line_if("accepts from", list(&source.allow_from))
        .line_if("hides", list(&source.redact))
        .line_if("created", created.map(|at| Cell::new(&absolute(session.now, at))));
    for (name, value) in &source.settings {
        let value = match value.as_str() {
            Some(text) => text.to_owned(),
            None => value.to_string(),
        };
        fields = fields.line("setting", Cell::new(&format!("{name} = {value}")));
    }
    fields
}
