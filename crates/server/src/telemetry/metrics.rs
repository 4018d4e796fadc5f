//! Counters, gauges and histograms, as `/metrics` shows them: one list, in the order of the stages.

use std::collections::HashSet;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use wakepost_domain::figures::Figure;
use wakepost_store::moves::Claimed;

/// From half a millisecond to what nobody waits for.
const SHORT: [f64; 12] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];
/// From a millisecond to an hour.
const LONG: [f64; 14] =
    [0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0];

/// What tenants are called that are not named.
const OTHER: &str = "other";

fn short() -> Histogram {
    Histogram::new(SHORT)
}

fn long() -> Histogram {
    Histogram::new(LONG)
}

macro_rules! labels {
    ($($(#[$about:meta])* $name:ident { $($field:ident: $type:ty),* })*) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
        #[expect(missing_docs, reason = "a label is its name")]
        pub struct $name { $(pub $field: $type),* }
    )*};
}

labels! {
    /// One of a few words, so that the number of series stays small.
    Word { word: &'static str }
    /// A provider and what became of its request.
    Receipt { provider: &'static str, verdict: &'static str }
    /// A kind of work.
    Kind { kind: &'static str }
    /// A kind of work and where it stands.
    KindState { kind: &'static str, state: &'static str }
    /// A class of the queue.
    Priority { priority: &'static str }
    /// What came of a try.
    Outcome { outcome: &'static str }
    /// Where something stands.
    Stands { state: &'static str }
    /// A move of the store.
    Move { r#move: &'static str }
    /// A part of the API and what it answered.
    Answer { route: String, status: u16 }
    /// A part of the API.
    Route { route: String }
    /// A tenant, or `other`, and what was counted for it.
    TenantFigure { tenant: String, figure: &'static str }
}

macro_rules! metrics {
    ($($(#[$about:meta])* $field:ident: $type:ty = $make:expr, $name:literal, $help:literal;)*) => {
        /// What is counted.
        pub struct Metrics {
            registry: Registry,
            named_tenants: Mutex<HashSet<String>>,
            $($(#[$about])* pub $field: $type,)*
        }

        impl Default for Metrics {
            fn default() -> Metrics {
                let mut registry = Registry::with_prefix("wakepost");
                $(let $field: $type = $make; registry.register($name, $help, $field.clone());)*
                Metrics { registry, named_tenants: Mutex::default(), $($field,)* }
            }
        }

        /// The names, without what is put before and behind them.
        #[cfg(test)]
        const NAMES: &[&str] = &[$($name),*];
    };
}

/// A histogram for each set of labels.
type Histograms<L> = Family<L, Histogram>;

metrics! {
    /// Inbound requests by provider and verdict.
    received: Family<Receipt, Counter> = Family::default(), "inbound_requests", "Requests of providers";
    /// From the first byte of an accepted request to its answer.
    ack_seconds: Histogram = short(), "ack_seconds", "Time to answer an accepted request";
    /// Rows that wait, by class.
    queue: Family<Priority, Gauge> = Family::default(), "queue_depth", "Work that waits for its turn, of all tenants";
    /// How old the first of them is.
    queue_age: Family<Priority, Gauge> = Family::default(), "queue_oldest_age_seconds", "Age of the oldest work that waits for its turn";
    /// Live items by state, refreshed now and then.
    live: Family<Word, Gauge> = Family::default(), "live_work", "Live items by state";
    /// Items given out under a lease.
    claimed: Counter = Counter::default(), "claimed", "Items given out under a lease";
    /// From making to the first start.
    start_seconds: Histograms<Kind> = Family::new_with_constructor(long), "start_seconds", "From its making to its first start, delays that were asked for included";
    /// Pushed runs under way on this node.
    pushed_running: Gauge = Gauge::default(), "pushed_running", "Pushed runs under way";
    /// Calls of this server to itself, by whether they got through.
    fired: Family<Word, Counter> = Family::default(), "self_webhooks", "Calls to itself";
    /// Runs by kind of work and where they led.
    runs: Family<KindState, Counter> = Family::default(), "runs", "Ended runs, by where the work stands then";
    /// How long runs took.
    run_seconds: Histograms<Kind> = Family::new_with_constructor(long), "run_seconds", "How long ended runs took";
    /// Work that will be tried again.
    retries: Family<Kind, Counter> = Family::default(), "retries", "Runs after which the work is tried again";
    /// Leases that ran out and were rescued.
    rescued: Counter = Counter::default(), "leases_rescued", "Leases that ran out";
    /// Effects by what `begin` decided.
    effects: Family<Word, Counter> = Family::default(), "effects", "Decisions on effects";
    /// Work that was given up.
    dead_letters: Family<Kind, Counter> = Family::default(), "dead_letters", "Work that became a dead letter";
    /// Events published.
    published: Counter = Counter::default(), "published", "Events published";
    /// Tries to deliver, by what came of them.
    delivery_attempts: Family<Outcome, Counter> = Family::default(), "delivery_attempts", "Tries to deliver, by the class of the answer or of the failure";
    /// How long they took.
    delivery_seconds: Histogram = long(), "delivery_seconds", "How long tries to deliver took";
    /// Changes of circuits.
    circuit_changes: Family<Stands, Counter> = Family::default(), "circuit_changes", "Changes of webhooks' circuits, by where they stand then";
    /// Circuits that are not closed.
    open_circuits: Gauge = Gauge::default(), "open_circuits", "Webhooks whose circuit is not closed, of all tenants";
    /// Alerts told of.
    alerts: Family<Word, Counter> = Family::default(), "alerts", "Changes of alerts that this node told of";
    /// Spans, by whether they were sent.
    spans: Family<Word, Counter> = Family::default(), "trace_spans", "Spans that were sent to the collector, or dropped";
    /// Rows that retention removed.
    pruned: Counter = Counter::default(), "retention_pruned", "Rows that retention removed";
    /// How long moves of the store took.
    store_seconds: Histograms<Move> = Family::new_with_constructor(short), "store_seconds", "How long moves of the store took, waiting for their turn included";
    /// Moves that wait for the database.
    store_waiting: Gauge = Gauge::default(), "store_waiting", "Moves that wait for the database or are under way";
    /// Connections that are served.
    connections: Gauge = Gauge::default(), "connections", "Connections that are served";
    /// API answers by part and status.
    api: Family<Answer, Counter> = Family::default(), "api_answers", "API answers by part of the API and status";
    /// How long they took.
    api_seconds: Histograms<Route> = Family::new_with_constructor(long), "api_seconds", "How long API calls took, those that wait on purpose included";
    /// What was counted by tenant.
    tenants: Family<TenantFigure, Counter> = Family::default(), "tenant_figures", "What was counted for a tenant on this node; beyond the bound, for `other`";
    /// How much memory the process has.
    memory: Gauge = Gauge::default(), "process_resident_memory_bytes", "Memory of the process";
    /// How many files the process has open.
    files: Gauge = Gauge::default(), "process_open_fds", "Open files of the process, connections included";
}

impl Metrics {
    /// The text of `/metrics`.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }

    /// Counts a word.
    pub fn count(family: &Family<Word, Counter>, word: &'static str) {
        family.get_or_create(&Word { word }).inc();
    }

    /// Counts items that were given out.
    pub fn started<'c>(&self, items: impl Iterator<Item = &'c Claimed>) {
        for item in items {
            self.claimed.inc();
            if item.ticket.attempt <= 1 {
                let waited = item.ticket.started_at.since(item.ticket.work.0.time());
                let kind = Kind { kind: item.kind.as_str() };
                self.start_seconds.get_or_create(&kind).observe(waited.as_secs_f64());
            }
        }
    }

    /// Counts something for a tenant: by its name, if it is among the first `named_max`.
    pub fn figure(&self, tenant: &str, figure: Figure, more: u64, named_max: usize) {
        let mut named = self.named_tenants.lock();
        if !named.contains(tenant) && named.len() < named_max {
            named.insert(tenant.to_owned());
        }
        let tenant = if named.contains(tenant) { tenant } else { OTHER };
        let labels = TenantFigure { tenant: tenant.to_owned(), figure: figure.as_str() };
        self.tenants.get_or_create(&labels).inc_by(more);
    }

    /// Notes how long a move of the store took.
    pub fn stored(&self, r#move: &'static str, took: Duration) {
        self.store_seconds.get_or_create(&Move { r#move }).observe(took.as_secs_f64());
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The page has a row for each, and no other.
    #[test]
    fn the_page_lists_every_metric_and_no_other() {
        let page = include_str!("../../../../docs/reference/metrics.md");
        let listed: BTreeSet<&str> = page
            .split("| `wakepost_")
            .skip(1)
            .filter_map(|rest| rest.split(['`', '{']).next())
            .map(|name| name.strip_suffix("_total").unwrap_or(name))
            .collect();
        assert_eq!(listed, NAMES.iter().copied().collect::<BTreeSet<_>>());
    }

    #[test]
    fn however_many_tenants_there_are_so_many_are_named_and_the_others_are_summed_up() {
        let metrics = Metrics::default();
        for tenant in 0..100 {
            metrics.figure(&format!("t{tenant}"), Figure::Accepted, 1, 10);
        }
        let text = metrics.text();
        let lines = text.lines().filter(|line| line.starts_with("wakepost_tenant_figures_total{"));
        assert_eq!(lines.count(), 11);
        let others = "wakepost_tenant_figures_total{tenant=\"other\",figure=\"accepted\"} 90";
        assert!(text.contains(others), "{text}");
    }

    #[test]
    fn counters_end_in_total_on_the_page_as_they_do_in_the_text() {
        let metrics = Metrics::default();
        metrics.claimed.inc();
        assert!(metrics.text().contains("wakepost_claimed_total 1"));
        let page = include_str!("../../../../docs/reference/metrics.md");
        assert!(page.contains("| `wakepost_claimed_total`"));
    }
}
