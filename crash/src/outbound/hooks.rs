//! The webhooks: who they are, what they want, and how patient the server is with them.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use wakepost_tests::Api;

use super::receiver::Receiver;

/// Attempts of a delivery, a second apart: none dies of what its receiver does.
const ATTEMPTS: usize = 100;

/// Types that are published.
pub const TYPES: [&str; 3] = ["order.paid", "order.noted", "stock.counted"];

/// A subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hook {
    /// Takes everything at once.
    Healthy,
    /// Fails now and then, or hangs until the server gives up; it has a circuit.
    Moody,
    /// Takes its time.
    Slow,
    /// Leases its deliveries.
    Pull,
}

impl Hook {
    /// All of them.
    pub const ALL: [Hook; 4] = [Hook::Healthy, Hook::Moody, Hook::Slow, Hook::Pull];

    /// Where it is found on the receiver.
    pub fn path(self) -> &'static str {
        match self {
            Hook::Healthy => "/healthy",
            Hook::Moody => "/moody",
            Hook::Slow => "/slow",
            Hook::Pull => "/pull",
        }
    }

    /// The patterns it subscribed to.
    fn patterns(self) -> &'static [&'static str] {
        match self {
            Hook::Healthy => &["*"],
            Hook::Moody => &["order.*"],
            Hook::Slow => &["order.paid"],
            Hook::Pull => &["order.paid", "stock.*"],
        }
    }

    /// Whether it wants a type. Said in its own words, and not by the server's matching of patterns.
    pub fn wants(self, event_type: &str) -> bool {
        match self {
            Hook::Healthy => true,
            Hook::Moody => event_type != "stock.counted",
            Hook::Slow => event_type == "order.paid",
            Hook::Pull => event_type != "order.noted",
        }
    }

    /// How long the server waits for its answer.
    pub fn timeout(self) -> Duration {
        match self {
            Hook::Moody => Duration::from_secs(2),
            _ => Duration::from_secs(15),
        }
    }
}

/// The webhooks as the server knows them.
pub struct Hooks {
    ids: HashMap<Hook, String>,
    secrets: HashMap<Hook, String>,
}

impl Hooks {
    /// Makes them.
    pub async fn make(api: &Api, receiver: &Receiver) -> anyhow::Result<Hooks> {
        let mut hooks = Hooks { ids: HashMap::new(), secrets: HashMap::new() };
        for hook in Hook::ALL {
            let made = api.post("/webhooks", fields(hook, receiver)).await;
            let webhook: Value = serde_json::from_slice(&made.body)?;
            anyhow::ensure!(made.status == 201, "a webhook was not made: {webhook}");
            let text = |name: &str| {
                let text = webhook[name].as_str().map(str::to_owned);
                text.with_context(|| format!("a webhook without its {name}: {webhook}"))
            };
            hooks.ids.insert(hook, text("id")?);
            hooks.secrets.insert(hook, text("secret")?);
        }
        Ok(hooks)
    }

    /// A webhook's id.
    pub fn id(&self, hook: Hook) -> &str {
        self.ids.get(&hook).map(String::as_str).unwrap_or_default()
    }

    /// What its deliveries are signed with.
    pub fn secret(&self, hook: Hook) -> &str {
        self.secrets.get(&hook).map(String::as_str).unwrap_or_default()
    }
}

fn fields(hook: Hook, receiver: &Receiver) -> Value {
    let mut retries = vec![1; ATTEMPTS];
    retries[0] = 0;
    let mut fields = json!({
        "events": hook.patterns(), "retry_s": retries, "timeout_s": hook.timeout().as_secs(),
        "circuit_settings": {"failures": 0},
    });
    match hook {
        Hook::Pull => fields["mode"] = json!("pull"),
        _ => fields["url"] = json!(receiver.url(hook)),
    }
    if hook == Hook::Moody {
        // Opens often, and not for long.
        fields["circuit_settings"] =
            json!({"failures": 3, "min": 100_000, "open_s": 2, "close_after": 1});
    }
    fields
}
