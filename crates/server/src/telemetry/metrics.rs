//! Counters and histograms, as `/metrics` shows them.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// One label with one of a few words, so that the number of series stays small.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Word {
    /// The word.
    pub word: &'static str,
}

/// A provider and what became of its request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Receipt {
    /// The provider.
    pub provider: &'static str,
    /// The verdict.
    pub verdict: &'static str,
}

/// What is counted.
pub struct Metrics {
    registry: Registry,
    /// Inbound requests by provider and verdict.
    pub received: Family<Receipt, Counter>,
    /// From the first byte of an accepted request to its answer.
    pub ack_seconds: Histogram,
    /// Items given out under a lease.
    pub claimed: Counter,
    /// Events published.
    pub published: Counter,
    /// Runs by how they ended.
    pub runs: Family<Word, Counter>,
    /// Leases that ran out and were rescued.
    pub rescued: Counter,
    /// Effects by what `begin` decided.
    pub effects: Family<Word, Counter>,
    /// Pushed runs under way on this node.
    pub pushed_running: Gauge,
    /// Calls of this server to itself, by whether they got through.
    pub fired: Family<Word, Counter>,
    /// API answers by class of status.
    pub api: Family<Word, Counter>,
    /// Live items by state, refreshed now and then.
    pub live: Family<Word, Gauge>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut registry = Registry::with_prefix("wakepost");
        let buckets = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];
        let metrics = Metrics {
            received: Family::default(),
            ack_seconds: Histogram::new(buckets),
            claimed: Counter::default(),
            published: Counter::default(),
            runs: Family::default(),
            rescued: Counter::default(),
            effects: Family::default(),
            pushed_running: Gauge::default(),
            fired: Family::default(),
            api: Family::default(),
            live: Family::default(),
            registry: Registry::default(),
        };
        registry.register("inbound_requests", "Inbound requests", metrics.received.clone());
        registry.register(
            "ack_seconds",
            "Time to answer an accepted request",
            metrics.ack_seconds.clone(),
        );
        registry.register("claimed", "Items given out under a lease", metrics.claimed.clone());
        registry.register("published", "Events published", metrics.published.clone());
        registry.register("runs", "Ended runs", metrics.runs.clone());
        registry.register("leases_rescued", "Leases that ran out", metrics.rescued.clone());
        registry.register("effects", "Decisions on effects", metrics.effects.clone());
        registry.register(
            "pushed_running",
            "Pushed runs under way",
            metrics.pushed_running.clone(),
        );
        registry.register("self_webhooks", "Calls to itself", metrics.fired.clone());
        registry.register("api_answers", "API answers by status", metrics.api.clone());
        registry.register("live_work", "Live items by state", metrics.live.clone());
        Metrics { registry, ..metrics }
    }
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
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}
