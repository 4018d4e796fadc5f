//! One look at the server: its queue, its webhooks, its dead letters and alerts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::Serialize;
use wakepost_client::{
    Alert, AlertQuery, Client, DeadLetterQuery, Error, InboxQuery, PageQuery, Stats, Webhook,
};

use super::rates::{Rates, WINDOW, counted};
use crate::session::Session;

/// As many as the server gives at once.
const PAGE: u32 = 500;
/// How many sources' names are fetched at most, in pages.
const PAGES_MAX: usize = 4;
/// How often what changes slowly is asked for.
const SLOW: Duration = Duration::from_secs(10);
/// How long the two looks of a single snapshot lie apart: a rate needs two.
const APART: Duration = Duration::from_secs(1);

/// How the server stands.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Snapshot {
    /// When it was looked at, by this machine's clock.
    pub at: String,
    /// The server.
    pub url: String,
    /// The queue.
    pub stats: Stats,
    /// How many in a second.
    pub rates: BTreeMap<&'static str, f64>,
    /// Whose rates these are: `node`, with all tenants; or `tenant`, of those who may not see others'.
    pub rates_of: &'static str,
    /// Webhooks; the newest ones where there are very many.
    pub webhooks: Vec<Circuit>,
    /// How many dead letters there are.
    pub dead_letters: Counted,
    /// Alerts that fire now; none where they cannot be read.
    pub alerts: Vec<Alert>,
    /// The sources' names.
    pub source_names: BTreeMap<String, String>,
}

/// A webhook, and how its circuit stands.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Circuit {
    /// Its id.
    pub id: String,
    /// Where its deliveries go.
    pub url: Option<String>,
    /// `active`, `paused` or `disabled`.
    pub status: String,
    /// `closed`, `open` or `half_open`.
    pub circuit: String,
    /// How many deliveries failed in a row.
    pub failures: u64,
    /// Since when it is open.
    pub opened_at: Option<String>,
    /// Why it is disabled.
    pub disabled_reason: Option<String>,
}

/// A count that ends somewhere.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Counted {
    /// How many, at least.
    pub count: u64,
    /// Whether there are more.
    pub at_least: bool,
}

/// Looks again and again, and asks for what changes slowly less often.
pub struct Looker {
    client: Client,
    rates: Rates,
    slow: Option<(Instant, Slow)>,
}

#[derive(Clone, Default)]
struct Slow {
    dead_letters: Counted,
    alerts: Vec<Alert>,
    source_names: BTreeMap<String, String>,
}

impl Looker {
    pub fn new(session: &Session) -> Looker {
        Looker { client: session.client.clone(), rates: Rates::default(), slow: None }
    }

    /// A whole snapshot, with rates.
    pub async fn once(mut self) -> Result<Snapshot, Error> {
        self.look().await?;
        tokio::time::sleep(APART).await;
        self.look().await
    }

    /// One look.
    pub async fn look(&mut self) -> Result<Snapshot, Error> {
        let page = PageQuery { limit: Some(PAGE), cursor: None };
        let webhooks = self.client.list_webhooks(&page);
        let (stats, webhooks, metrics) =
            tokio::join!(self.client.stats(), webhooks, self.client.metrics());
        let stats = stats?;
        // A tenant's own key does not see the node's counters, or they are bound elsewhere.
        let (rates, rates_of) = match metrics {
            Ok(text) => {
                self.rates.add(Instant::now(), counted(&text));
                (self.rates.per_s().into_iter().collect(), "node")
            }
            Err(_) => (self.received(&stats).await?, "tenant"),
        };
        let slow = self.slow().await?;
        Ok(Snapshot {
            at: format!("{:.0}", Timestamp::now()),
            url: self.client.url().to_owned(),
            stats,
            rates,
            rates_of,
            webhooks: webhooks?.data.into_iter().map(Circuit::from).collect(),
            dead_letters: slow.dead_letters,
            alerts: slow.alerts,
            source_names: slow.source_names,
        })
    }

    /// What the tenant received in the last seconds, by the server's clock; a full page is all that is counted.
    async fn received(&self, stats: &Stats) -> Result<BTreeMap<&'static str, f64>, Error> {
        let at = stats.at.as_deref().and_then(|at| at.parse::<Timestamp>().ok());
        let Some(since) = at.and_then(|at| at.checked_sub(WINDOW).ok()) else {
            return Ok(BTreeMap::new());
        };
        let since = Some(format!("{since:.3}"));
        let query = InboxQuery { since, limit: Some(PAGE), ..InboxQuery::default() };
        let received = self.client.list_inbox(&query).await?.data.len();
        Ok(BTreeMap::from([("received", received as f64 / WINDOW.as_secs_f64())]))
    }

    async fn slow(&mut self) -> Result<Slow, Error> {
        if let Some((at, slow)) = &self.slow
            && at.elapsed() < SLOW
        {
            return Ok(slow.clone());
        }
        let letters = DeadLetterQuery { limit: Some(PAGE), ..DeadLetterQuery::default() };
        let firing =
            AlertQuery { status: Some("firing".to_owned()), limit: Some(PAGE), cursor: None };
        let letters = self.client.list_dead_letters(&letters);
        let (letters, alerts) = tokio::join!(letters, self.client.list_alerts(&firing));
        let letters = letters?;
        let slow = Slow {
            dead_letters: Counted {
                count: letters.data.len() as u64,
                at_least: letters.next_cursor.is_some(),
            },
            // An older server has none.
            alerts: alerts.map(|page| page.data).unwrap_or_default(),
            source_names: self.source_names().await?,
        };
        self.slow = Some((Instant::now(), slow.clone()));
        Ok(slow)
    }

    async fn source_names(&self) -> Result<BTreeMap<String, String>, Error> {
        let (mut names, mut cursor) = (BTreeMap::new(), None);
        for _ in 0..PAGES_MAX {
            let query = PageQuery { limit: Some(PAGE), cursor };
            let page = self.client.list_sources(&query).await?;
            let named = page.data.into_iter().map(|source| {
                let name = if source.name.is_empty() { source.provider } else { source.name };
                (source.id, name)
            });
            names.extend(named);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        Ok(names)
    }
}

impl From<Webhook> for Circuit {
    fn from(webhook: Webhook) -> Circuit {
        Circuit {
            id: webhook.id,
            url: webhook.url,
            status: webhook.status,
            circuit: webhook.circuit.state,
            failures: webhook.circuit.failures,
            opened_at: webhook.circuit.opened_at,
            disabled_reason: webhook.disabled_reason,
        }
    }
}
