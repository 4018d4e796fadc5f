//! The fields of a source that a request may set.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use wakepost_domain::executor::Executor;
use wakepost_domain::lease::{LEASE_MAX, LEASE_MIN, RUN_TIMEOUT_MAX};
use wakepost_domain::limits;
use wakepost_domain::source::Source;
use wakepost_domain::work::Priority;
use wakepost_providers::Provider;

use super::super::error::ApiError;
use super::super::work::{check_attempts, check_backoff, check_name};
use crate::config::Config;
use crate::outbound::{AddressPolicy, Target};

/// A source in a request. A field that is left out stays as it is; `null` sets it back to its default.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub struct SourceBody {
    pub provider: Option<String>,
    name: Option<String>,
    secret: Option<String>,
    settings: Option<Map<String, Value>>,
    enabled: Option<bool>,
    unsigned: Option<bool>,
    #[serde(deserialize_with = "given")]
    tolerance_s: Option<Option<u64>>,
    #[serde(deserialize_with = "given")]
    max_body_bytes: Option<Option<usize>>,
    #[serde(deserialize_with = "given")]
    dedup_window_s: Option<Option<u64>>,
    #[serde(deserialize_with = "given")]
    dedup_body: Option<Option<bool>>,
    filter: Option<Vec<String>>,
    #[serde(deserialize_with = "given")]
    priority: Option<Option<Priority>>,
    #[serde(deserialize_with = "given")]
    executor: Option<Option<Executor>>,
    #[serde(deserialize_with = "given")]
    max_attempts: Option<Option<u32>>,
    #[serde(deserialize_with = "given")]
    backoff_s: Option<Option<Vec<u64>>>,
    #[serde(deserialize_with = "given")]
    run_timeout_s: Option<Option<u64>>,
    #[serde(deserialize_with = "given")]
    lease_s: Option<Option<u64>>,
    #[serde(deserialize_with = "given")]
    concurrency: Option<Option<u32>>,
    allow_from: Option<Vec<String>>,
}

/// Tells `null` from a field that is left out.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(deserializer).map(Some)
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

impl SourceBody {
    /// Checks the fields and puts them in. `all_tenants`: the caller may name private addresses.
    pub fn apply(
        self,
        source: &mut Source,
        provider: &dyn Provider,
        config: &Config,
        all_tenants: bool,
    ) -> Result<(), ApiError> {
        self.check()?;
        if let Some(Some(executor)) = &self.executor {
            check_executor(executor, config, all_tenants)?;
            source.config.executor_trusted = all_tenants;
        }
        if let Some(settings) = self.settings {
            let secret = |name: &str| {
                provider
                    .settings()
                    .iter()
                    .any(|setting| setting.name == name && setting.secret)
            };
            (source.secrets.settings, source.config.settings) =
                settings.into_iter().partition(|(name, _)| secret(name));
        }
        if let Some(secret) = self.secret {
            source.secrets.current = Some(secret);
        }
        let target = &mut source.config;
        set(&mut target.name, self.name);
        set(&mut target.enabled, self.enabled);
        set(&mut target.unsigned, self.unsigned);
        set(&mut target.tolerance_s, self.tolerance_s);
        set(&mut target.max_body_bytes, self.max_body_bytes);
        set(&mut target.dedup_window_s, self.dedup_window_s);
        set(&mut target.dedup_body, self.dedup_body);
        set(&mut target.filter, self.filter);
        set(&mut target.priority, self.priority);
        set(&mut target.executor, self.executor);
        set(&mut target.max_attempts, self.max_attempts);
        set(&mut target.backoff_s, self.backoff_s);
        set(&mut target.run_timeout_s, self.run_timeout_s);
        set(&mut target.lease_s, self.lease_s);
        set(&mut target.concurrency, self.concurrency);
        set(&mut target.allow_from, self.allow_from);
        Ok(())
    }

    fn check(&self) -> Result<(), ApiError> {
        if let Some(name) = self.name.as_deref().filter(|name| !name.is_empty()) {
            check_name("name", name)?;
        }
        if self
            .secret
            .as_ref()
            .is_some_and(|secret| secret.is_empty() || secret.len() > 4096)
        {
            return Err(ApiError::field("secret", "must be 1 to 4096 characters"));
        }
        range("tolerance_s", self.tolerance_s.flatten(), 1, 7 * 24 * 3600)?;
        range(
            "dedup_window_s",
            self.dedup_window_s.flatten(),
            60,
            366 * 24 * 3600,
        )?;
        let bytes = self.max_body_bytes.flatten().map(|bytes| bytes as u64);
        range(
            "max_body_bytes",
            bytes,
            1,
            limits::BODY_BYTES_CEILING as u64,
        )?;
        range(
            "lease_s",
            self.lease_s.flatten(),
            LEASE_MIN.as_secs(),
            LEASE_MAX.as_secs(),
        )?;
        range(
            "run_timeout_s",
            self.run_timeout_s.flatten(),
            1,
            RUN_TIMEOUT_MAX.as_secs(),
        )?;
        range(
            "concurrency",
            self.concurrency.flatten().map(u64::from),
            1,
            u64::from(u32::MAX),
        )?;
        check_attempts(self.max_attempts.flatten())?;
        check_backoff(self.backoff_s.as_ref().and_then(Option::as_deref))?;
        let filters = self.filter.iter().flatten();
        if filters.clone().count() > 100 {
            return Err(ApiError::field("filter", "must have at most 100 patterns"));
        }
        for (index, pattern) in filters.enumerate() {
            check_name(&format!("filter.{index}"), pattern)?;
        }
        for (index, network) in self.allow_from.iter().flatten().enumerate() {
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

fn range(field: &str, value: Option<u64>, low: u64, high: u64) -> Result<(), ApiError> {
    match value {
        Some(value) if !(low..=high).contains(&value) => Err(ApiError::field(
            field,
            format!("must be from {low} to {high}"),
        )),
        _ => Ok(()),
    }
}

/// Whether an executor can be used: a known command, or an address we may reach.
pub fn check_executor(
    executor: &Executor,
    config: &Config,
    all_tenants: bool,
) -> Result<(), ApiError> {
    match executor {
        Executor::Pull => Ok(()),
        Executor::Exec { name } if config.exec.contains_key(name) => Ok(()),
        Executor::Exec { name } => Err(ApiError::field(
            "executor.name",
            format!("there is no [exec.{name}] in wakepost.toml on this node"),
        )),
        Executor::Http { url } => {
            let policy = if all_tenants {
                AddressPolicy::trusted()
            } else {
                config.addresses.clone()
            };
            Target::parse(url, &policy)
                .map(|_| ())
                .map_err(|refusal| ApiError::field("executor.url", refusal.to_string()))
        }
    }
}
