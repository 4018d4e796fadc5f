//! A source: one integration of one tenant, with its provider, secrets and settings.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::approval::{APPROVAL_EXPIRES, Mode};
use crate::budget::Budget;
use crate::executor::Executor;
use crate::id::SourceId;
use crate::sequence::ORDER_WAIT;
use crate::tenant::TenantId;
use crate::thread::{QUIET, QUIET_CAP, Quiet, ThreadPolicy};
use crate::time::Timestamp;
use crate::work::Priority;

/// How long a dedup key blocks a second job, unless the source says otherwise: vendors replay after days.
pub const DEDUP_WINDOW: Duration = Duration::from_secs(30 * 24 * 3600);

/// One source.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// Its id, which is also its public address.
    pub id: SourceId,
    /// Whose it is. The only place a request's tenant ever comes from.
    pub tenant: TenantId,
    /// Which adapter understands its requests.
    pub provider: String,
    /// What can be changed.
    pub config: SourceConfig,
    /// What must never be shown.
    pub secrets: SourceSecrets,
    /// When the secret was made that its requests are verified with; without meaning while it has none.
    pub secret_made_at: Timestamp,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

impl Source {
    /// When a change made now counts as made: two within a millisecond must still differ.
    pub fn changed_at(&self, now: Timestamp) -> Timestamp {
        now.max(Timestamp::from_millis(self.updated_at.as_millis() + 1))
    }

    /// Takes a secret, and answers the one before. The one it has, given again, is no younger for that.
    pub fn take_secret(&mut self, secret: String, now: Timestamp) -> Option<String> {
        if self.secrets.current.as_ref() != Some(&secret) {
            self.secret_made_at = now;
        }
        self.secrets.current.replace(secret)
    }
}

/// The part of a source that may be shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceConfig {
    /// A name for people.
    pub name: String,
    /// Off: requests get 404 and nothing is stored.
    pub enabled: bool,
    /// No signature is checked, and every event is marked unverified.
    pub unsigned: bool,
    /// The adapter's own settings that are not secret.
    pub settings: Map<String, Value>,
    /// How far a signed time may be off, either way. `None`: the provider's usual.
    pub tolerance_s: Option<u64>,
    /// The largest body. `None`: the provider's usual.
    pub max_body_bytes: Option<usize>,
    /// How long a dedup key blocks a second job.
    pub dedup_window_s: Option<u64>,
    /// Whether the body's hash is a second dedup key. `None`: the provider's usual.
    pub dedup_body: Option<bool>,
    /// A template over the payload and headers that tells events apart. `None`: the provider's id.
    pub dedup_key: Option<String>,
    /// Where the payload holds what events are put in order by.
    pub order_by: Option<String>,
    /// Where it holds the number of an event among those of its order value.
    pub sequence_by: Option<String>,
    /// How long an event waits for one with a lower number.
    pub order_wait_s: Option<u64>,
    /// Where it holds what makes a newer event supersede a queued older one.
    pub coalesce_by: Option<String>,
    /// What a message does while its thread is busy. `None`: the provider's usual.
    pub thread_policy: Option<ThreadPolicy>,
    /// How long a thread must be quiet before its job runs.
    pub quiet_ms: Option<u64>,
    /// How long a job waits for quiet at most.
    pub quiet_cap_ms: Option<u64>,
    /// Which event types make a job; empty: all.
    pub filter: Vec<String>,
    /// Whether a person must agree before its jobs act.
    pub mode: Mode,
    /// How long a person has to decide.
    pub approval_expires_s: Option<u64>,
    /// Which queue its jobs wait in. `None`: the provider's usual.
    pub priority: Option<Priority>,
    /// How its jobs run. `None`: the tenant's default.
    pub executor: Option<Executor>,
    /// Whom to ask whether a job is still worth an agent's work, just before it runs.
    pub preflight_url: Option<String>,
    /// How often its jobs are tried.
    pub max_attempts: Option<u32>,
    /// How long a failed job waits, attempt by attempt.
    pub backoff_s: Option<Vec<u64>>,
    /// How long a run may take in all.
    pub run_timeout_s: Option<u64>,
    /// How long a lease lasts.
    pub lease_s: Option<u64>,
    /// How many of its jobs may run at once.
    pub concurrency: Option<u32>,
    /// How many requests it takes in a second, and how many of its jobs may start in one.
    pub rate_per_s: Option<f64>,
    /// How much of its work may run on one day.
    pub budget: Option<Budget>,
    /// The networks its requests must come from; empty: any.
    pub allow_from: Vec<String>,
    /// What of its payloads nobody sees who may not read the raw bytes.
    pub redact: Vec<String>,
    /// Who answers for it: alerts name them.
    pub owner: Option<String>,
    /// Whether an administrator of all tenants set the executor's URL, which may then be private.
    pub executor_trusted: bool,
    /// Where the outcome of its jobs goes.
    pub callback_url: Option<String>,
    /// Whether such an administrator set that, which may then be private.
    pub callback_trusted: bool,
    /// Whether such an administrator set the pre-flight's URL.
    pub preflight_trusted: bool,
    /// Whether such an administrator set the adapter's settings, whose addresses may then be private.
    pub settings_trusted: bool,
}

impl Default for SourceConfig {
    fn default() -> SourceConfig {
        SourceConfig {
            name: String::new(),
            enabled: true,
            unsigned: false,
            settings: Map::new(),
            tolerance_s: None,
            max_body_bytes: None,
            dedup_window_s: None,
            dedup_body: None,
            dedup_key: None,
            order_by: None,
            sequence_by: None,
            order_wait_s: None,
            coalesce_by: None,
            thread_policy: None,
            quiet_ms: None,
            quiet_cap_ms: None,
            filter: Vec::new(),
            mode: Mode::Auto,
            approval_expires_s: None,
            priority: None,
            executor: None,
            preflight_url: None,
            max_attempts: None,
            backoff_s: None,
            run_timeout_s: None,
            lease_s: None,
            concurrency: None,
            rate_per_s: None,
            budget: None,
            allow_from: Vec::new(),
            redact: Vec::new(),
            owner: None,
            executor_trusted: false,
            callback_url: None,
            callback_trusted: false,
            preflight_trusted: false,
            settings_trusted: false,
        }
    }
}

impl SourceConfig {
    /// How long a dedup key of this source blocks a second job.
    pub fn dedup_window(&self) -> Duration {
        self.dedup_window_s.map_or(DEDUP_WINDOW, Duration::from_secs)
    }

    /// How long an event waits for one with a lower number.
    pub fn order_wait(&self) -> Duration {
        self.order_wait_s.map_or(ORDER_WAIT, Duration::from_secs)
    }

    /// How long a person has to decide on what its jobs would do.
    pub fn approval_expires(&self) -> Duration {
        self.approval_expires_s.map_or(APPROVAL_EXPIRES, Duration::from_secs)
    }

    /// How long a job waits for its thread to be quiet.
    pub fn quiet(&self) -> Quiet {
        let for_ = self.quiet_ms.map_or(QUIET, Duration::from_millis);
        let cap = self.quiet_cap_ms.map_or(QUIET_CAP, Duration::from_millis);
        Quiet { for_, cap: cap.max(for_) }
    }

    /// Whether an event of this type makes a job.
    pub fn wants(&self, event_type: &str) -> bool {
        self.filter.is_empty() || self.filter.iter().any(|pattern| matches(pattern, event_type))
    }
}

/// Whether a type fits a pattern: exact (`issues.opened`), prefix (`issues.*`) or all (`*`).
pub fn matches(pattern: &str, event_type: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some("") => true,
        Some(prefix) => {
            event_type.starts_with(prefix)
                || prefix.strip_suffix('.').is_some_and(|whole| whole == event_type)
        }
        None => pattern == event_type,
    }
}

/// The part of a source that must never be shown, and is encrypted at rest.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceSecrets {
    /// What requests are verified with.
    pub current: Option<String>,
    /// What they may still be verified with for a while after a rotation.
    pub previous: Option<String>,
    /// When the previous one ends.
    pub previous_expires_at: Option<Timestamp>,
    /// What requests to an http executor and to a pre-flight are signed with.
    pub executor: Option<String>,
    /// What callbacks are signed with.
    pub callback: Option<String>,
    /// A secret that the provider sent and no operator has seen yet: it is shown once.
    pub unseen: Option<String>,
    /// The adapter's own settings that are secret.
    pub settings: Map<String, Value>,
}

impl std::fmt::Debug for SourceSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SourceSecrets(…)")
    }
}

impl SourceSecrets {
    /// The secrets that verify a request now: the current one, and the previous one until it ends.
    pub fn live(&self, now: Timestamp) -> impl Iterator<Item = &str> {
        let previous = self
            .previous
            .as_deref()
            .filter(|_| self.previous_expires_at.is_some_and(|end| now < end));
        self.current.as_deref().into_iter().chain(previous)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_exact_or_a_prefix_or_all() {
        assert!(matches("*", "anything"));
        assert!(matches("issues.*", "issues.opened"));
        assert!(matches("issues.*", "issues"));
        assert!(!matches("issues.*", "issues_other"));
        assert!(matches("issues.opened", "issues.opened"));
        assert!(!matches("issues.opened", "issues.opened.again"));
        assert!(!matches("", "x"));
    }

    #[test]
    fn a_secret_is_as_old_as_when_it_was_first_taken() {
        let at = Timestamp::from_millis;
        let mut source = Source {
            id: SourceId::from_bytes([0; 16]),
            tenant: TenantId::DEFAULT,
            provider: String::new(),
            config: SourceConfig::default(),
            secrets: SourceSecrets::default(),
            secret_made_at: at(0),
            created_at: at(0),
            updated_at: at(0),
        };
        assert_eq!(source.take_secret("a".into(), at(1)), None);
        assert_eq!(source.take_secret("a".into(), at(2)), Some("a".into()));
        assert_eq!(source.secret_made_at, at(1));
        assert_eq!(source.take_secret("b".into(), at(3)), Some("a".into()));
        assert_eq!((source.secret_made_at, source.secrets.current), (at(3), Some("b".into())));
    }

    #[test]
    fn a_previous_secret_verifies_until_it_ends() {
        let secrets = SourceSecrets {
            current: Some("new".into()),
            previous: Some("old".into()),
            previous_expires_at: Some(Timestamp::from_millis(10)),
            ..SourceSecrets::default()
        };
        let live = |ms| secrets.live(Timestamp::from_millis(ms)).collect::<Vec<_>>();
        assert_eq!(live(9), ["new", "old"]);
        assert_eq!(live(10), ["new"]);
    }
}
