//! The fields of a source that a request may set.

use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use wakepost_domain::approval::{APPROVAL_EXPIRES_MAX, Mode};
use wakepost_domain::budget::{Budget, COST_MAX};
use wakepost_domain::executor::{BUDGET_S_MAX, Executor};
use wakepost_domain::lease::{LEASE_MAX, LEASE_MIN, RUN_TIMEOUT_MAX};
use wakepost_domain::redaction::{RULES_MAX, Redaction};
use wakepost_domain::source::{Source, SourceConfig};
use wakepost_domain::thread::ThreadPolicy;
use wakepost_domain::work::Priority;
use wakepost_domain::{Timestamp, limits};
use wakepost_providers::{Provider, Template};

use super::super::call::given;
use super::super::error::ApiError;
use super::super::work::{check_attempts, check_backoff, check_name, check_rate};
use crate::config::Config;
use crate::outbound::{AddressPolicy, Target};
use crate::schema;

/// A source in a request. A field that is left out stays as it is; `null` sets it back to its default.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SourceFields)]
pub struct SourceBody {
    /// Which adapter understands its requests. It cannot be changed.
    pub provider: Option<String>,
    /// A name for people.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, max_length = 200)]
    name: Option<Option<String>>,
    /// The signing secret, used as given; `null` is the same as leaving it out.
    #[schema(min_length = 1, max_length = 4096, write_only)]
    secret: Option<String>,
    /// The adapter's own settings: `GET /providers` says which there are. One that is left out stays as it is, and
    /// `null` takes it away.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Object>)]
    settings: Option<Option<Map<String, Value>>>,
    /// Off: requests get 404 and nothing is stored.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<bool>)]
    enabled: Option<Option<bool>>,
    /// No signature is checked, and every event is marked unverified.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<bool>)]
    unsigned: Option<Option<bool>>,
    /// How far a signed time may be off, either way.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 604800)]
    tolerance_s: Option<Option<u64>>,
    /// The largest body.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 67108864)]
    max_body_bytes: Option<Option<usize>>,
    /// How long a dedup key blocks a second job.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u64>, minimum = 60, maximum = 31622400)]
    dedup_window_s: Option<Option<u64>>,
    /// Whether the body's hash is a second dedup key.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<bool>)]
    dedup_body: Option<Option<bool>>,
    /// What tells its events apart in place of the provider's id: a template such as
    /// `ticket:{/ticket/id}:rev:{/ticket/rev}`, with JSON pointers and `{header:X-Name}`.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, max_length = 1000)]
    dedup_key: Option<Option<String>>,
    /// Where the payload holds what events are put in order by, as a JSON pointer: those with the same value run
    /// one at a time, in order of arrival.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, max_length = 500)]
    order_by: Option<Option<String>>,
    /// Where it holds the number of an event among those with the same value, as a JSON pointer; needs `order_by`. A
    /// later event waits for a missing one.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, max_length = 500)]
    sequence_by: Option<Option<String>>,
    /// How long it waits; then it runs, flagged `out_of_order`.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u64>, minimum = 0, maximum = 86400)]
    order_wait_s: Option<Option<u64>>,
    /// Where it holds what makes a newer event supersede a queued older one, as a JSON pointer: the older one's job
    /// is cancelled. With `order_by`, only among those of one order value.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, max_length = 500)]
    coalesce_by: Option<Option<String>>,
    /// What a message does while its thread is busy: `queue`, `merge`, `interrupt`, or `off`. `merge` by default for
    /// messaging platforms, else `off`. Not beside `order_by` or `coalesce_by`.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<schema::ThreadPolicy>)]
    thread_policy: Option<Option<ThreadPolicy>>,
    /// How long a thread must be quiet before its job runs.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u64>, minimum = 0, maximum = 3600000)]
    quiet_ms: Option<Option<u64>>,
    /// How long a job waits for quiet at most, from its first message on.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u64>, minimum = 0, maximum = 3600000)]
    quiet_cap_ms: Option<Option<u64>>,
    /// Which event types make a job (`issues.*`); empty: all.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Vec<schema::Name>>, max_items = 100)]
    filter: Option<Option<Vec<String>>>,
    /// `draft`: a person must agree before its jobs act, those that run now included; `auto` by default.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<schema::Mode>)]
    mode: Option<Option<Mode>>,
    /// How long a person has to decide; then the job is cancelled. A day by default.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 2592000)]
    approval_expires_s: Option<Option<u64>>,
    /// Which queue its jobs wait in.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<schema::Priority>)]
    priority: Option<Option<Priority>>,
    /// How its jobs run; by default as the tenant says.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<schema::Executor>)]
    executor: Option<Option<Executor>>,
    /// Whom to ask, just before the agent runs, whether a job is still worth it: posted as an http executor is, and
    /// answered `{"proceed": false, "reason": …}` it cancels the job.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, max_length = 2048)]
    preflight_url: Option<Option<String>>,
    /// How often its jobs are tried.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<schema::Attempts>)]
    max_attempts: Option<Option<u32>>,
    /// How long a failed job waits, attempt by attempt.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<schema::Backoff>)]
    backoff_s: Option<Option<Vec<u64>>>,
    /// How long a run may take in all.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 604800)]
    run_timeout_s: Option<Option<u64>>,
    /// How long a lease lasts.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<schema::LeaseSeconds>)]
    lease_s: Option<Option<u64>>,
    /// How many of its jobs may run at once.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u32>, minimum = 1)]
    concurrency: Option<Option<u32>>,
    /// How many requests it takes in a second, on each node (more get 429), and how many of its jobs may start in
    /// one, over all nodes (more wait).
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<f64>, exclusive_minimum = 0, maximum = 1000000)]
    rate_per_s: Option<Option<f64>>,
    /// Where the outcome of its jobs goes, as a signed webhook.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, max_length = 2048)]
    callback_url: Option<Option<String>>,
    /// How much of its work may run on one day.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<schema::Budget>)]
    budget: Option<Option<Budget>>,
    /// Who answers for it, by e-mail address.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, max_length = 200)]
    owner: Option<Option<String>>,
    /// The networks its requests must come from (CIDR); empty: any.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Vec<String>>)]
    allow_from: Option<Option<Vec<String>>>,
    /// What of its payloads nobody sees but operators in the raw bytes, as JSON pointers in which `*` stands for all
    /// members or elements (`/customer/email`, `/items/*/price`). Not what `order_by`, `coalesce_by` or `dedup_key`
    /// point at.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Vec<schema::RedactionRule>>, max_items = 64)]
    redact: Option<Option<Vec<String>>>,
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

impl SourceBody {
    /// Checks the fields and puts them in. `trusted`: the caller may name private addresses.
    pub fn apply(
        self,
        source: &mut Source,
        provider: &dyn Provider,
        config: &Config,
        trusted: bool,
        now: Timestamp,
    ) -> Result<(), ApiError> {
        self.check()?;
        if let Some(Some(executor)) = &self.executor {
            check_executor("executor", executor, config, trusted)?;
            source.config.executor_trusted = trusted;
        }
        if let Some(Some(url)) = &self.callback_url {
            check_url("callback_url", url, config, trusted)?;
            source.config.callback_trusted = trusted;
        }
        if let Some(Some(url)) = &self.preflight_url {
            check_url("preflight_url", url, config, trusted)?;
            source.config.preflight_trusted = trusted;
        }
        if let Some(settings) = self.settings {
            change_settings(source, provider, settings, trusted)?;
        }
        if let Some(secret) = self.secret {
            source.take_secret(secret, now);
        }
        let usual = SourceConfig::default();
        let target = &mut source.config;
        set(&mut target.name, self.name.map(Option::unwrap_or_default));
        set(&mut target.enabled, self.enabled.map(|on| on.unwrap_or(usual.enabled)));
        set(&mut target.unsigned, self.unsigned.map(|on| on.unwrap_or(usual.unsigned)));
        set(&mut target.tolerance_s, self.tolerance_s);
        set(&mut target.max_body_bytes, self.max_body_bytes);
        set(&mut target.dedup_window_s, self.dedup_window_s);
        set(&mut target.dedup_body, self.dedup_body);
        set(&mut target.dedup_key, self.dedup_key);
        set(&mut target.order_by, self.order_by);
        set(&mut target.sequence_by, self.sequence_by);
        set(&mut target.order_wait_s, self.order_wait_s);
        set(&mut target.coalesce_by, self.coalesce_by);
        set(&mut target.thread_policy, self.thread_policy);
        set(&mut target.quiet_ms, self.quiet_ms);
        set(&mut target.quiet_cap_ms, self.quiet_cap_ms);
        set(&mut target.filter, self.filter.map(Option::unwrap_or_default));
        set(&mut target.mode, self.mode.map(Option::unwrap_or_default));
        set(&mut target.approval_expires_s, self.approval_expires_s);
        set(&mut target.priority, self.priority);
        set(&mut target.executor, self.executor);
        set(&mut target.preflight_url, self.preflight_url);
        set(&mut target.max_attempts, self.max_attempts);
        set(&mut target.backoff_s, self.backoff_s);
        set(&mut target.run_timeout_s, self.run_timeout_s);
        set(&mut target.lease_s, self.lease_s);
        set(&mut target.concurrency, self.concurrency);
        set(&mut target.rate_per_s, self.rate_per_s);
        set(&mut target.callback_url, self.callback_url);
        set(&mut target.budget, self.budget);
        set(&mut target.owner, self.owner);
        set(&mut target.allow_from, self.allow_from.map(Option::unwrap_or_default));
        set(&mut target.redact, self.redact.map(Option::unwrap_or_default));
        check_redaction(target)?;
        check_order(target)
    }

    fn check(&self) -> Result<(), ApiError> {
        if let Some(name) = self.name.iter().flatten().find(|name| !name.is_empty()) {
            check_name("name", name)?;
        }
        check_secret(self.secret.as_deref())?;
        range("tolerance_s", self.tolerance_s.flatten(), 1, 7 * 24 * 3600)?;
        range("dedup_window_s", self.dedup_window_s.flatten(), 60, 366 * 24 * 3600)?;
        let bytes = self.max_body_bytes.flatten().map(|bytes| bytes as u64);
        range("max_body_bytes", bytes, 1, limits::BODY_BYTES_CEILING as u64)?;
        range("lease_s", self.lease_s.flatten(), LEASE_MIN.as_secs(), LEASE_MAX.as_secs())?;
        range("run_timeout_s", self.run_timeout_s.flatten(), 1, RUN_TIMEOUT_MAX.as_secs())?;
        let expires = self.approval_expires_s.flatten();
        range("approval_expires_s", expires, 1, APPROVAL_EXPIRES_MAX.as_secs())?;
        range("concurrency", self.concurrency.flatten().map(u64::from), 1, u64::from(u32::MAX))?;
        if let Some(template) = self.dedup_key.iter().flatten().next() {
            if template.len() > 1000 {
                return Err(ApiError::field("dedup_key", "must have at most 1000 bytes"));
            }
            Template::read("dedup_key", template)
                .map_err(|problem| ApiError::field(problem.field, problem.message))?;
        }
        check_pointer("order_by", &self.order_by)?;
        check_pointer("sequence_by", &self.sequence_by)?;
        check_pointer("coalesce_by", &self.coalesce_by)?;
        range("order_wait_s", self.order_wait_s.flatten(), 0, 24 * 3600)?;
        range("quiet_ms", self.quiet_ms.flatten(), 0, QUIET_MS_MAX)?;
        range("quiet_cap_ms", self.quiet_cap_ms.flatten(), 0, QUIET_MS_MAX)?;
        check_rate("rate_per_s", self.rate_per_s.flatten())?;
        check_budget(self.budget.flatten())?;
        if let Some(owner) = self.owner.iter().flatten().next() {
            check_name("owner", owner)?;
        }
        check_attempts("max_attempts", self.max_attempts.flatten())?;
        check_backoff(self.backoff_s.as_ref().and_then(Option::as_deref))?;
        let filters = self.filter.iter().flatten().flatten();
        if filters.clone().count() > 100 {
            return Err(ApiError::field("filter", "must have at most 100 patterns"));
        }
        for (index, pattern) in filters.enumerate() {
            check_name(&format!("filter.{index}"), pattern)?;
        }
        for (index, network) in self.allow_from.iter().flatten().flatten().enumerate() {
            if network.parse::<ipnet::IpNet>().is_err() {
                return Err(ApiError::field(
                    format!("allow_from.{index}"),
                    "must be a network such as 192.30.252.0/22",
                ));
            }
        }
        Ok(())
    }
}

/// The longest wait for quiet: an hour.
const QUIET_MS_MAX: u64 = 3_600_000;

/// Sets and takes away settings, and keeps the others.
fn change_settings(
    source: &mut Source,
    provider: &dyn Provider,
    given: Option<Map<String, Value>>,
    trusted: bool,
) -> Result<(), ApiError> {
    let Source { config, secrets, .. } = source;
    let was = config.settings.clone();
    match &given {
        Some(given) => {
            config.settings.retain(|name, _| !given.contains_key(name));
            secrets.settings.retain(|name, _| !given.contains_key(name));
        }
        None => (config.settings, secrets.settings) = (Map::new(), Map::new()),
    }
    // Secrets go where a setting says. Whoever changes it without knowing them must not get them sent.
    let given = given.unwrap_or_default();
    let declared = |name: &str| provider.settings().iter().find(|setting| setting.name == name);
    let leads = |name: &str| declared(name).is_some_and(|setting| setting.destination);
    let moved = given
        .iter()
        .find(|(name, to)| leads(name) && was.get(*name).unwrap_or(&Value::Null) != *to);
    if let (Some((name, _)), false) = (moved, secrets.settings.is_empty()) {
        let kept: Vec<&str> = secrets.settings.keys().map(String::as_str).collect();
        let why = format!("says where secrets are sent: give {} again with it", kept.join(" and "));
        return Err(ApiError::field(format!("settings.{name}"), why));
    }
    // Trust is about addresses, which any setting may hold: all must have come from those who are trusted.
    let none_kept = config.settings.is_empty() && secrets.settings.is_empty();
    config.settings_trusted = trusted && (config.settings_trusted || none_kept);
    let is_secret = |name: &str| declared(name).is_some_and(|setting| setting.secret);
    for (name, value) in given.into_iter().filter(|(_, value)| !value.is_null()) {
        let place = if is_secret(&name) { &mut secrets.settings } else { &mut config.settings };
        place.insert(name, value);
    }
    Ok(())
}

fn check_pointer(field: &str, pointer: &Option<Option<String>>) -> Result<(), ApiError> {
    let Some(pointer) = pointer.iter().flatten().next() else {
        return Ok(());
    };
    if pointer.len() > limits::KEY_CHARS_MAX {
        return Err(ApiError::field(field, "must have at most 500 bytes"));
    }
    Template::pointer(field, pointer)
        .map(|_| ())
        .map_err(|problem| ApiError::field(problem.field, problem.message))
}

/// Rules that can be read, and hide nothing that events are found or put in order by: that is stored in the clear.
fn check_redaction(config: &SourceConfig) -> Result<(), ApiError> {
    if config.redact.len() > RULES_MAX {
        return Err(ApiError::field("redact", format!("must have at most {RULES_MAX} pointers")));
    }
    let redaction = Redaction::read(&config.redact)
        .map_err(|(index, why)| ApiError::field(format!("redact.{index}"), why))?;
    let template = |text: &String| Template::read("dedup_key", text).ok();
    let template = config.dedup_key.as_ref().and_then(template);
    let pointers = |by: &Option<String>| by.iter().cloned().collect();
    let used: [(&str, Vec<String>); 4] = [
        ("order_by", pointers(&config.order_by)),
        ("sequence_by", pointers(&config.sequence_by)),
        ("coalesce_by", pointers(&config.coalesce_by)),
        ("dedup_key", template.iter().flat_map(Template::pointers).map(str::to_owned).collect()),
    ];
    for (field, pointers) in used {
        if let Some(pointer) = pointers.iter().find(|pointer| redaction.covers(pointer)) {
            let message = format!("hides {pointer}, which {field} needs and shows");
            return Err(ApiError::field("redact", message));
        }
    }
    Ok(())
}

/// What must fit together, whichever of it was set now.
fn check_order(config: &SourceConfig) -> Result<(), ApiError> {
    let refused = |field: &str, message: &str| Err(ApiError::field(field, message));
    let ordered = config.order_by.is_some();
    let talks = config.thread_policy.is_some_and(|policy| policy != ThreadPolicy::Off);
    match config {
        _ if config.sequence_by.is_some() && !ordered => {
            refused("sequence_by", "needs order_by: numbers count among events of one order value")
        }
        _ if config.order_wait_s.is_some() && config.sequence_by.is_none() => {
            refused("order_wait_s", "needs sequence_by: it is how long a later number waits")
        }
        _ if talks && ordered => {
            refused("thread_policy", "stands beside order_by: a message is in order by its thread")
        }
        _ if talks && config.coalesce_by.is_some() => {
            refused("thread_policy", "stands beside coalesce_by: choose one")
        }
        SourceConfig { quiet_ms: Some(quiet), quiet_cap_ms: Some(cap), .. } if cap < quiet => {
            refused("quiet_cap_ms", "must not be less than quiet_ms")
        }
        _ => Ok(()),
    }
}

/// A signing secret: some text, and not too much of it.
pub fn check_secret(secret: Option<&str>) -> Result<(), ApiError> {
    match secret {
        Some(text) if text.is_empty() || text.len() > 4096 => {
            Err(ApiError::field("secret", "must be 1 to 4096 characters"))
        }
        _ => Ok(()),
    }
}

/// A budget that bounds something, within reason.
fn check_budget(budget: Option<Budget>) -> Result<(), ApiError> {
    let Some(budget) = budget else {
        return Ok(());
    };
    if budget.runs_per_day.is_none() && budget.cost_per_day.is_none() {
        return Err(ApiError::field("budget", "must have runs_per_day or cost_per_day"));
    }
    if budget.runs_per_day == Some(0) {
        return Err(ApiError::field("budget.runs_per_day", "must be at least 1"));
    }
    if budget.cost_per_day.is_some_and(|most| !(most > 0.0 && most <= COST_MAX)) {
        let message = "must be above 0 and at most 1000000000000";
        return Err(ApiError::field("budget.cost_per_day", message));
    }
    Ok(())
}

fn range(field: &str, value: Option<u64>, low: u64, high: u64) -> Result<(), ApiError> {
    match value {
        Some(value) if !(low..=high).contains(&value) => {
            Err(ApiError::field(field, format!("must be from {low} to {high}")))
        }
        _ => Ok(()),
    }
}

/// Whether an executor can be used: a known command, or an address we may reach.
pub fn check_executor(
    field: &str,
    executor: &Executor,
    config: &Config,
    trusted: bool,
) -> Result<(), ApiError> {
    match executor {
        // No request can name the gateway itself.
        Executor::Pull | Executor::Gateway => Ok(()),
        Executor::Exec { name } if config.exec.contains_key(name) => Ok(()),
        Executor::Exec { name } => Err(ApiError::field(
            format!("{field}.name"),
            format!("there is no [exec.{name}] in wakepost.toml on this node"),
        )),
        Executor::SelfWebhook { run, budget_s } => {
            range(&format!("{field}.budget_s"), *budget_s, 1, BUDGET_S_MAX)?;
            let runs = matches!(**run, Executor::Http { .. } | Executor::Exec { .. });
            if !runs {
                return Err(ApiError::field(format!("{field}.run.kind"), "must be http or exec"));
            }
            check_executor(&format!("{field}.run"), run, config, trusted)
        }
        Executor::Http { url } => {
            check_url(&format!("{field}.url"), url, config, trusted).map(|_| ())
        }
    }
}

/// Whether requests may go to an address. Answers it, read.
pub fn check_url(
    field: &str,
    url: &str,
    config: &Config,
    trusted: bool,
) -> Result<Target, ApiError> {
    let policy = if trusted { &AddressPolicy::trusted() } else { &config.addresses };
    Target::parse(url, policy).map_err(|refusal| ApiError::field(field, refusal.to_string()))
}
