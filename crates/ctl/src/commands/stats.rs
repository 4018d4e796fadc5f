//! `webhookctl stats`

use clap::Args;
use wakepost_client::{SourceStats, Stats as Answer};

use super::top::view::age_words;
use crate::output::when::relative;
use crate::output::{self, Cell, Fields, Table, Tone};
use crate::session::Session;

#[derive(Args)]
pub struct Stats {}

impl Stats {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let Some(stats) = session.answer(session.client.stats()).await? else {
            return Ok(());
        };
        let mut text = fields(&stats).render(session.paint);
        let tables = [standings(&stats), lanes(&stats), sources(&stats), workers(session, &stats)];
        for table in tables.into_iter().flatten() {
            text.push('\n');
            text.push_str(&table.render(session.paint));
        }
        output::print(&text)?;
        if stats.at_least {
            output::hint("there is more work than was counted: these are the oldest items");
        }
        Ok(())
    }
}

fn fields(stats: &Answer) -> Fields {
    let limits = &stats.limits;
    let running = limits.concurrency.map(|most| format!("{} of {most}", limits.running));
    let rate = limits.rate_per_s.map(|rate| format!("{rate} per s"));
    Fields::default()
        .line("tenant", Cell::new(&stats.tenant))
        .line_if("concurrency", running.map(|text| Cell::new(&text)))
        .line_if("rate", rate.map(|text| Cell::new(&text)))
}

fn standings(stats: &Answer) -> Option<Table> {
    let mut table = Table::new(&["STATUS", "COUNT", "OLDEST"]);
    for (state, standing) in stats.states.iter().filter(|(_, standing)| standing.count > 0) {
        let age = standing.oldest_age_s.map(age_words);
        table.row([
            Cell::status(state),
            Cell::new(&standing.count.to_string()),
            Cell::maybe(age.as_deref()),
        ]);
    }
    stats.states.values().any(|standing| standing.count > 0).then_some(table)
}

fn lanes(stats: &Answer) -> Option<Table> {
    let columns =
        ["FROM OR TO", "WORK", "KIND", "PRIORITY", "READY", "RUNNING", "WAITING", "OLDEST"];
    let mut table = Table::new(&columns);
    for lane in &stats.lanes {
        table.row([
            Cell::maybe(lane.source.as_deref().or(lane.webhook.as_deref())),
            Cell::maybe(lane.work.as_deref()),
            Cell::maybe(Some(&lane.kind)),
            Cell::maybe(lane.priority.as_deref()),
            Cell::new(&lane.ready.to_string()),
            Cell::new(&lane.running.to_string()),
            Cell::new(&lane.waiting.to_string()),
            Cell::maybe(lane.oldest_age_s.map(age_words).as_deref()),
        ]);
    }
    (!stats.lanes.is_empty()).then_some(table)
}

fn sources(stats: &Answer) -> Option<Table> {
    let mut table = Table::new(&["SOURCE", "NAME", "CONCURRENCY", "RATE", "TODAY"]);
    for source in &stats.sources {
        let limits = &source.limits;
        let running = limits.concurrency.map(|most| format!("{} of {most}", limits.running));
        let rate = limits.rate_per_s.map(|rate| format!("{rate} per s"));
        table.row([
            Cell::new(&source.source),
            Cell::maybe(Some(&source.name)),
            Cell::maybe(running.as_deref()),
            Cell::maybe(rate.as_deref()),
            today(source),
        ]);
    }
    (!stats.sources.is_empty()).then_some(table)
}

fn today(source: &SourceStats) -> Cell {
    let Some(budget) = &source.budget else {
        return Cell::maybe(None);
    };
    let runs = budget.runs_per_day.map(|most| format!("{} of {most} runs", budget.runs));
    let cost = budget.cost_per_day.map(|most| format!("cost {} of {most}", budget.cost));
    let words = [runs, cost].into_iter().flatten().collect::<Vec<_>>().join(", ");
    Cell::toned(if budget.spent { Tone::Warn } else { Tone::Plain }, &words)
}

fn workers(session: &Session, stats: &Answer) -> Option<Table> {
    let mut table = Table::new(&["WORKER", "LEASES", "SEEN"]);
    for worker in &stats.workers {
        let seen = worker.last_seen_at.as_deref().map(|at| relative(session.now, at));
        table.row([
            Cell::new(&worker.name),
            Cell::new(&worker.leases.to_string()),
            Cell::maybe(seen.as_deref()),
        ]);
    }
    (!stats.workers.is_empty()).then_some(table)
}
