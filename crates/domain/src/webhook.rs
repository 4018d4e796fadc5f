//! Webhooks: who subscribed to what, and how they are told.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backoff::{Backoff, DELIVERY_ATTEMPTS};
use crate::circuit::{Circuit, CircuitSettings, CircuitState};
use crate::event_type;
use crate::id::{EventId, Ulid, WebhookId, WorkId};
use crate::lane::{LaneId, LaneKey};
use crate::tenant::TenantId;
use crate::time::Timestamp;
use crate::work::{Priority, WorkKind};

/// How many a tenant may have, unless it was allowed more.
pub const PER_TENANT: u32 = 20;
/// How many patterns one may have.
pub const EVENTS_MAX: usize = 100;
/// How many headers of its own one may have.
pub const HEADERS_MAX: usize = 20;
/// How many attempts a schedule may have.
pub const RETRIES_MAX: usize = 100;
/// How many pieces of metadata.
pub const METADATA_MAX: usize = 50;
/// How long a receiver has for its answer, unless the webhook says otherwise, and at most.
pub const TIMEOUT: Duration = Duration::from_secs(15);
/// The longest timeout that can be set.
pub const TIMEOUT_MAX_S: u64 = 30;
/// How long the old secret signs too after a rotation, unless said otherwise.
pub const GRACE: Duration = Duration::from_secs(24 * 3600);
/// The longest such time.
pub const GRACE_MAX_S: u64 = 72 * 3600;
/// From this age on a secret is too old.
pub const SECRET_AGE_MAX: Duration = Duration::from_secs(180 * 24 * 3600);
/// From how many bytes of body on the event is only linked to.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;
/// How long after the latest attempt a link to the whole event is good.
pub const LINK_KEPT: Duration = Duration::from_secs(72 * 3600);

/// One webhook.
#[derive(Debug, Clone, PartialEq)]
pub struct Webhook {
    /// Its id.
    pub id: WebhookId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Where its deliveries wait.
    pub lane: LaneId,
    /// What may be shown.
    pub config: WebhookConfig,
    /// What may not.
    pub secrets: WebhookSecrets,
    /// How its receiver does.
    pub circuit: Circuit,
    /// What its owner has to hear of and has not yet.
    pub notices: Vec<Notice>,
    /// How often it was changed.
    pub version: i64,
}

/// The part of a webhook that may be shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WebhookConfig {
    /// Where deliveries go; none if they are pulled.
    pub url: Option<String>,
    /// Whether they are sent or fetched.
    pub mode: Mode,
    /// Which types it gets: `order.created`, `order.*`, `*`.
    pub events: Vec<String>,
    /// A text for people.
    pub description: String,
    /// Whether it is at rest by somebody's wish.
    pub paused: Option<Paused>,
    /// Why it gets nothing any more.
    pub disabled: Option<Disabled>,
    /// How deliveries are signed.
    pub signature: Signature,
    /// The kind of credentials it has.
    pub auth: Option<AuthKind>,
    /// How many deliveries may start in a second.
    pub rate_per_s: Option<f64>,
    /// Whether deliveries with the same order key go one after the other.
    pub order: bool,
    /// How long its receiver has for an answer.
    pub timeout_s: Option<u64>,
    /// How long each attempt waits, the first one included. `None`: the tenant's, else ours.
    pub retry_s: Option<Vec<u64>>,
    /// When its circuit opens and closes.
    pub circuit: CircuitSettings,
    /// The caller's own notes.
    pub metadata: BTreeMap<String, String>,
    /// Which key made it.
    pub created_by: String,
    /// When the current secret was made.
    pub secret_made_at: Timestamp,
    /// Whether its owner was told that it is too old.
    pub secret_told: bool,
    /// What was odd when it was made.
    pub warning: Option<String>,
}

impl Default for WebhookConfig {
    fn default() -> WebhookConfig {
        WebhookConfig {
            url: None,
            mode: Mode::Push,
            events: Vec::new(),
            description: String::new(),
            paused: None,
            disabled: None,
            signature: Signature::Hmac,
            auth: None,
            rate_per_s: None,
            order: false,
            timeout_s: None,
            retry_s: None,
            circuit: CircuitSettings::default(),
            metadata: BTreeMap::new(),
            created_by: String::new(),
            secret_made_at: Timestamp::from_millis(0),
            secret_told: false,
            warning: None,
        }
    }
}

/// How deliveries reach their receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// They are posted to its URL.
    #[default]
    Push,
    /// It leases them.
    Pull,
}

/// How deliveries are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signature {
    /// With secrets that the receiver knows: `v1`.
    #[default]
    Hmac,
    /// With a key whose public half everybody may know: `v1a`.
    Ed25519,
}

/// The kinds of credentials beside the signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthKind {
    /// A bearer token.
    Bearer,
    /// A name and a password.
    Basic,
    /// A client certificate.
    Mtls,
}

/// A webhook at rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// Since when.
    pub since: Timestamp,
    /// Whether events of that time are delivered afterwards.
    pub keep: bool,
}

/// A webhook that gets nothing any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disabled {
    /// Since when.
    pub since: Timestamp,
    /// Why.
    pub reason: String,
}

/// The part of a webhook that is never shown, and is encrypted at rest.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WebhookSecrets {
    /// What deliveries are signed with: `whsec_…`, or by Ed25519 `whsk_…`.
    pub current: String,
    /// What they are also signed with for a while after a rotation, newest first.
    pub previous: Vec<Retired>,
    /// Headers that go with each delivery.
    pub headers: BTreeMap<String, String>,
    /// Credentials.
    pub auth: Option<Auth>,
}

/// A secret that was rotated away.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retired {
    /// It.
    pub secret: String,
    /// Until when it signs too.
    pub until: Timestamp,
}

/// How many rotated secrets may sign at a time beside the current one.
pub const RETIRED_MAX: usize = 3;

impl std::fmt::Debug for WebhookSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WebhookSecrets(…)")
    }
}

/// Credentials beside the signature.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Auth {
    /// `Authorization: Bearer …`.
    Bearer {
        /// The token.
        token: String,
    },
    /// `Authorization: Basic …`.
    Basic {
        /// The name.
        username: String,
        /// The password.
        password: String,
    },
    /// A client certificate, both as PEM.
    Mtls {
        /// The chain, the client's own first.
        cert: String,
        /// Its key.
        key: String,
    },
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Auth({:?}, …)", self.kind())
    }
}

impl Auth {
    /// Which kind it is.
    pub fn kind(&self) -> AuthKind {
        match self {
            Auth::Bearer { .. } => AuthKind::Bearer,
            Auth::Basic { .. } => AuthKind::Basic,
            Auth::Mtls { .. } => AuthKind::Mtls,
        }
    }
}

impl WebhookSecrets {
    /// What to sign with now: the current secret, and those before it until they end.
    pub fn live(&self, now: Timestamp) -> impl Iterator<Item = &str> {
        let retired = self.previous.iter().filter(move |old| now < old.until);
        std::iter::once(self.current.as_str()).chain(retired.map(|old| old.secret.as_str()))
    }

    /// When the last of those before ends, if one still signs.
    pub fn previous_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.previous.iter().map(|old| old.until).filter(|until| now < *until).max()
    }

    /// Signs with another secret from now on, and with this one too for a while. What signed before it goes on until
    /// its own end: whoever rotates again, because an answer was lost, must not cut off receivers that know only the
    /// oldest. `false`: too many sign already.
    #[must_use]
    pub fn rotate(&mut self, fresh: String, grace: Duration, now: Timestamp) -> bool {
        self.previous.retain(|old| now < old.until);
        if !grace.is_zero() {
            if self.previous.len() >= RETIRED_MAX {
                return false;
            }
            let secret = std::mem::take(&mut self.current);
            self.previous.insert(0, Retired { secret, until: now.after(grace) });
        } else {
            self.previous.clear();
        }
        self.current = fresh;
        true
    }
}

/// Something that a webhook's owner has to hear of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// What.
    pub kind: NoticeKind,
    /// When it came to be.
    pub at: Timestamp,
    /// Why.
    pub reason: String,
}

/// What an owner is told of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// Its receiver fails.
    CircuitOpened,
    /// It gets nothing any more.
    Disabled,
    /// Its secret is too old.
    SecretExpiring,
}

impl NoticeKind {
    /// The type of the event that tells it.
    pub fn event_type(self) -> &'static str {
        match self {
            NoticeKind::CircuitOpened => "webhook.circuit_opened",
            NoticeKind::Disabled => "webhook.disabled",
            NoticeKind::SecretExpiring => "webhook.secret_expiring",
        }
    }
}

/// How many notices may wait.
const NOTICES_MAX: usize = 20;

impl Webhook {
    /// What makes its deliveries share a lane.
    pub fn lane_key(tenant: TenantId, id: WebhookId) -> LaneKey {
        LaneKey {
            tenant,
            kind: WorkKind::Delivery,
            priority: Priority::Webhook,
            origin: Some(id.0),
            name: String::new(),
            executor: None,
        }
    }

    /// The word for where it stands.
    pub fn status(&self) -> &'static str {
        match (&self.config.disabled, &self.config.paused) {
            (Some(_), _) => "disabled",
            (None, Some(_)) => "paused",
            (None, None) => "active",
        }
    }

    /// Whether an event of this type makes a delivery for it.
    pub fn wants(&self, event_type: &str) -> bool {
        let drops = self.config.paused.is_some_and(|paused| !paused.keep);
        self.config.disabled.is_none() && !drops && self.subscribes(event_type)
    }

    /// Whether it subscribed to this type.
    pub fn subscribes(&self, event_type: &str) -> bool {
        self.config.events.iter().any(|pattern| event_type::fits(pattern, event_type))
    }

    /// Until when its lane hands out nothing; none: it does.
    pub fn shut_until(&self) -> Option<Timestamp> {
        if self.config.disabled.is_some() {
            // What still waits is given up by whoever claims it.
            return None;
        }
        let paused = self.config.paused.map(|_| Timestamp::from_millis(i64::MAX));
        let open = self.circuit.open_until.filter(|_| self.circuit.state == CircuitState::Open);
        paused.or(open)
    }

    /// Whether only one delivery at a time is tried.
    pub fn is_probed(&self) -> bool {
        self.circuit.state != CircuitState::Closed && self.config.disabled.is_none()
    }

    /// When somebody must look at it next, though nobody asked for that.
    pub fn due_at(&self) -> Option<Timestamp> {
        if !self.notices.is_empty() {
            return Some(Timestamp::from_millis(0));
        }
        if self.config.disabled.is_some() {
            return None;
        }
        let old = self.config.secret_made_at.after(SECRET_AGE_MAX);
        let old = (!self.config.secret_told).then_some(old);
        self.circuit.due_at(&self.config.circuit).into_iter().chain(old).min()
    }

    /// Gives it up.
    pub fn disable(&mut self, now: Timestamp, reason: &str) {
        if self.config.disabled.is_none() {
            self.config.disabled = Some(Disabled { since: now, reason: reason.to_owned() });
            self.notify(NoticeKind::Disabled, now, reason);
        }
    }

    /// Takes it up again, as if nothing had failed.
    pub fn enable(&mut self, now: Timestamp) {
        self.config.disabled = None;
        self.circuit.close(now, "it was enabled".to_owned());
    }

    /// Notes something that its owner has to hear of.
    pub fn notify(&mut self, kind: NoticeKind, at: Timestamp, reason: &str) {
        self.notices.push(Notice { kind, at, reason: reason.to_owned() });
        if self.notices.len() > NOTICES_MAX {
            self.notices.remove(0);
        }
    }

    /// How long a receiver has for its answer.
    pub fn timeout(&self) -> Duration {
        self.config.timeout_s.map_or(TIMEOUT, Duration::from_secs)
    }
}

/// How long each attempt waits, the first one included, and how many there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retries {
    /// How long the first waits.
    pub first: Duration,
    /// How long the others wait.
    pub backoff: Backoff,
    /// How many there are.
    pub attempts: i32,
}

impl Retries {
    /// The webhook's own, else the tenant's, else ours.
    pub fn of(webhook: Option<&[u64]>, tenant: Option<&[u64]>) -> Retries {
        let own = webhook.or(tenant).filter(|list| !list.is_empty());
        let Some((first, rest)) = own.and_then(<[u64]>::split_first) else {
            return Retries {
                first: Duration::ZERO,
                backoff: Backoff::deliveries(),
                attempts: DELIVERY_ATTEMPTS as i32,
            };
        };
        Retries {
            first: Duration::from_secs(*first),
            backoff: Backoff::new(rest.iter().copied().map(Duration::from_secs).collect()),
            attempts: rest.len() as i32 + 1,
        }
    }
}

/// The id of an event's delivery to a webhook, which follows from both: the time of the event, and its bits of chance
/// moved by 80 bits of a hash over the webhook. So the deliveries of one webhook sort as their events do, also those
/// of one millisecond: that is their order within an order key.
pub fn delivery_id(event: EventId, hash: [u8; 10]) -> WorkId {
    let mut bits = [0u8; 16];
    bits[6..].copy_from_slice(&hash);
    let chance = event.0.as_u128().wrapping_add(u128::from_be_bytes(bits));
    WorkId(Ulid::from_parts(event.0.time(), chance))
}

/// Headers that a webhook may not set: they frame the message, or are the gateway's own word.
pub fn is_reserved_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    const OWN: [&str; 12] = [
        "host",
        "content-length",
        "content-type",
        "content-encoding",
        "transfer-encoding",
        "connection",
        "te",
        "trailer",
        "upgrade",
        "authorization",
        "user-agent",
        "traceparent",
    ];
    OWN.contains(&name.as_str())
        || ["proxy-", "webhook-", "svix-", "keep-alive"].iter().any(|part| name.starts_with(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::circuit::Outcome;

    fn webhook() -> Webhook {
        Webhook {
            id: WebhookId(Ulid::MIN),
            tenant: TenantId::DEFAULT,
            lane: LaneId(1),
            config: WebhookConfig { events: vec!["*".to_owned()], ..WebhookConfig::default() },
            secrets: WebhookSecrets::default(),
            circuit: Circuit::default(),
            notices: Vec::new(),
            version: 0,
        }
    }

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(1_800_000_000 + secs)
    }

    #[test]
    fn all_is_all_but_our_own_types() {
        let mut webhook = webhook();
        assert!(webhook.wants("order.created") && !webhook.wants("webhook.disabled"));
        webhook.config.events.push("webhook.*".to_owned());
        assert!(webhook.wants("webhook.disabled"));
    }

    #[test]
    fn a_paused_one_keeps_or_drops_and_a_disabled_one_gets_nothing() {
        let mut webhook = webhook();
        webhook.config.paused = Some(Paused { since: at(0), keep: true });
        assert!(webhook.wants("a.b") && webhook.shut_until().is_some());
        webhook.config.paused = Some(Paused { since: at(0), keep: false });
        assert!(!webhook.wants("a.b"));
        webhook.disable(at(1), "gone");
        webhook.disable(at(2), "again");
        assert!(!webhook.wants("a.b"));
        assert_eq!(
            (webhook.status(), webhook.shut_until(), webhook.notices.len()),
            ("disabled", None, 1)
        );
        assert_eq!(
            webhook.due_at(),
            Some(Timestamp::from_millis(0)),
            "its owner has to hear of it"
        );
    }

    #[test]
    fn an_open_circuit_shuts_the_lane_until_its_rest_is_over() {
        let mut webhook = webhook();
        for secs in 0..5 {
            let outcome = Outcome { started_at: at(secs), ok: false, ok_before: 0 };
            webhook.circuit.note(&webhook.config.circuit, outcome, at(secs));
        }
        assert_eq!(webhook.shut_until(), Some(at(4 + 1800)));
        assert!(webhook.is_probed());
        webhook.enable(at(9));
        assert!(!webhook.is_probed() && webhook.shut_until().is_none());
    }

    #[test]
    fn secrets_before_sign_each_until_its_own_end() {
        let mut secrets = WebhookSecrets { current: "a".to_owned(), ..WebhookSecrets::default() };
        let mut rotate = |fresh: &str, grace: u64, now: i64| {
            let rotated = secrets.rotate(fresh.to_owned(), Duration::from_secs(grace), at(now));
            (rotated, secrets.clone())
        };
        let live = |secrets: &WebhookSecrets, now| {
            secrets.live(at(now)).map(str::to_owned).collect::<Vec<_>>().join(" ")
        };
        let (_, secrets) = rotate("b", 10, 0);
        assert_eq!((live(&secrets, 9), live(&secrets, 10)), ("b a".to_owned(), "b".to_owned()));
        let (_, secrets) = rotate("c", 10, 5);
        assert_eq!((live(&secrets, 9), live(&secrets, 10)), ("c b a".to_owned(), "c b".to_owned()));
        assert_eq!(secrets.previous_until(at(9)), Some(at(15)));
        assert!(rotate("d", 10, 6).0);
        let (rotated, secrets) = rotate("e", 10, 7);
        assert!(!rotated && live(&secrets, 7) == "d c b a");
        let (rotated, secrets) = rotate("f", 0, 8);
        assert!(rotated && live(&secrets, 8) == "f" && secrets.previous_until(at(8)).is_none());
    }

    #[test]
    fn retries_are_the_webhooks_else_the_tenants_else_ours() {
        let ours = Retries::of(None, None);
        assert_eq!((ours.first, ours.attempts), (Duration::ZERO, 10));
        let tenants = Retries::of(None, Some(&[5, 60]));
        assert_eq!((tenants.first.as_secs(), tenants.attempts), (5, 2));
        assert_eq!(tenants.backoff.after(1, 0.5).as_secs(), 60);
        assert_eq!(Retries::of(Some(&[0]), Some(&[5, 60])).attempts, 1);
    }

    #[test]
    fn deliveries_of_one_webhook_sort_as_their_events() {
        let first = Ulid::from_parts(at(0), 7 << 70);
        let events = std::iter::successors(Some(first), |id| Some(id.next())).take(50);
        for hash in [[0x11; 10], [0x2f; 10]] {
            let ids: Vec<WorkId> =
                events.clone().map(|event| delivery_id(EventId(event), hash)).collect();
            assert!(ids.is_sorted() && ids.iter().all(|id| id.0.time() == at(0)));
        }
        let of = |hash| delivery_id(EventId(first), [hash; 10]);
        assert_ne!(of(0x11), of(0x2f));
    }

    #[test]
    fn framing_headers_and_our_own_are_reserved() {
        for name in ["Host", "content-length", "Proxy-Authorization", "webhook-id", "TE", "upgrade"]
        {
            assert!(is_reserved_header(name), "{name}");
        }
        assert!(!is_reserved_header("x-api-key"));
    }
}
