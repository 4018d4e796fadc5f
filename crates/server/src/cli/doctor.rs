//! `wakepost doctor`: looks at the settings, the database, the clock, the master key and every invariant that rows can show.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wakepost_domain::Timestamp;
use wakepost_domain::ports::{Clock, Entropy};
use wakepost_domain::retention::days_before;
use wakepost_store::moves::{CheckScope, Checks, DataKeys, EXAMPLES_MAX};
use wakepost_store::postgres::{Postgres, PostgresOptions};
use wakepost_store::sqlite::{Beside, FILE};
use wakepost_store::vault::{MasterKeys, Sampled, sample, unopened};

use super::findings::{Findings, Level};
use crate::config::{Config, master_keys};
use crate::system::{SystemClock, SystemEntropy};

/// How much of the history is looked at, unless all of it is asked for.
const DAYS: u64 = 7;
/// How many rows of each table.
const ROWS_MAX: i64 = 200_000;
/// Up to this size SQLite's file is read through.
const INTEGRITY_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// A log that is longer was not moved into the file for a while.
const LOG_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Less room than this is soon none.
const FREE_BYTES_MIN: u64 = 1024 * 1024 * 1024;
/// Clocks that are further apart make leases and timers odd.
const CLOCKS_APART_MAX: Duration = Duration::from_secs(2);
/// How many data keys are tried.
const KEYS_MAX: u32 = 100_000;
/// Of how many tenants a few records are opened, which are read whole.
const SAMPLED_KEYS_MAX: u32 = 1000;

/// Looks at everything. Changes nothing.
pub async fn run(config: &Config, full: bool, json: bool) -> anyhow::Result<ExitCode> {
    let mut findings = Findings::default();
    settings(config, &mut findings);
    files(config, &mut findings);
    clock(&mut findings).await;
    match &config.database_url {
        Some(url) => postgres(config, url, full, &mut findings).await?,
        None => sqlite(config, full, &mut findings).await?,
    }
    findings.print(json)?;
    Ok(if findings.worst() == Level::Fail { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Whether the invariants hold, one line each.
pub async fn invariants(
    store: &(dyn Checks + Send + Sync),
    config: &Config,
    full: bool,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let now = SystemClock.now();
    let days = |days: u64| days_before(now, days);
    let ages = &config.retention;
    let kept = days(ages.runs_days.min(ages.dead_letters_days).min(ages.events_days));
    let since = if full { Timestamp::from_millis(0) } else { days(DAYS) };
    let rows_max = if full { i64::MAX } else { ROWS_MAX };
    let scope = CheckScope { since, runs_since: since.max(kept), rows_max };
    for checked in store.check(scope).await? {
        let (name, says) = (checked.check.invariants, checked.check.says);
        if checked.wrong.is_empty() {
            findings.ok(name, says);
            continue;
        }
        let many = if checked.wrong.len() == EXAMPLES_MAX { "at least " } else { "" };
        let wrong =
            format!("not so: {says} ({many}{}: {})", checked.wrong.len(), checked.wrong.join(", "));
        findings.fail(
            name,
            wrong,
            "keep a copy of the database, and report this with the ids: no move makes such rows",
        );
    }
    let looked = match full {
        true => "looked at every row".to_owned(),
        false => format!(
            "looked at live work and the last {DAYS} days, at most {ROWS_MAX} rows of a table; --full looks at all"
        ),
    };
    findings.ok("invariants", looked);
    Ok(())
}

/// Whether the master keys open every data key, and these what they sealed.
pub async fn master_key(
    store: &(dyn DataKeys + Send + Sync),
    config: &Config,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let next = "set the key the database was made with as master_key, or as master_key_previous during a rotation";
    let none = config.master_key.is_none() && !config.data_dir.join("master.key").exists();
    if none {
        findings.fail("master key", "there is none", next);
        return Ok(());
    }
    let keys = match master_keys(config, &SystemEntropy).await.and_then(|(keys, _)| keys.read()) {
        Ok(keys) => keys,
        Err(error) => {
            findings.fail("master key", format!("cannot be read: {error:#}"), next);
            return Ok(());
        }
    };
    let closed = unopened(store, &keys, KEYS_MAX).await?;
    let counts = store.data_keys_by_master().await?;
    let all: i64 = counts.iter().map(|(_, count)| count).sum();
    if !closed.is_empty() {
        findings.fail(
            "master key",
            format!("{} of {all} data keys do not open", closed.len()),
            next,
        );
    } else if counts.iter().any(|(id, _)| *id != keys.current().id()) {
        let says = format!("opens all {all} data keys; some are wrapped by a previous key");
        findings.warn(
            "master key",
            says,
            "a rotation is not over: run `wakepost master-key rotate`",
        );
    } else {
        findings.ok("master key", format!("{} opens all {all} data keys", keys.current().id()));
    }
    records(store, &keys, findings).await
}

/// Whether each tenant's data key opens what it sealed last.
async fn records(
    store: &(dyn DataKeys + Send + Sync),
    keys: &MasterKeys,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
    let Sampled { records, closed } = sample(store, keys, &entropy, SAMPLED_KEYS_MAX).await?;
    if closed.is_empty() {
        let bound = format!("{records} tried, of at most {SAMPLED_KEYS_MAX} tenants");
        findings.ok("records", format!("what each tenant's key sealed last opens ({bound})"));
        return Ok(());
    }
    let named = closed.iter().take(EXAMPLES_MAX);
    let named: Vec<String> =
        named.map(|(tenant, slot)| format!("{slot} (tenant {})", tenant.0)).collect();
    findings.fail(
        "records",
        format!("{} of {records} do not open: {}", closed.len(), named.join(", ")),
        "they are damaged, or were sealed with another key than their tenant's: keep a copy, and restore a backup",
    );
    Ok(())
}

fn settings(config: &Config, findings: &mut Findings) {
    let is = |name: &str| {
        config.shown.iter().find(|setting| setting.name == name).map_or("", |found| &found.value)
    };
    let secure = config.public_url.as_ref().is_some_and(|url| url.starts_with("https://"));
    match config.listen.ip().is_loopback() {
        true => {
            findings.ok("listen", format!("{}, which only this machine reaches", config.listen))
        }
        false if secure => {
            findings.ok("listen", format!("{}, as {}", config.listen, is("public_url")))
        }
        false => findings.warn(
            "listen",
            format!("{} is open to others, and public_url is not https", config.listen),
            "put TLS in front of it, and set public_url to the https address",
        ),
    }
    if config.public_url.is_none() {
        findings.warn(
            "public_url",
            "is not set: links and signed URLs name the listen address",
            "set it to the address that providers and agents reach this server at",
        );
    }
    if is("allow_private") == "true" {
        findings.warn(
            "allow_private",
            "tenants' URLs may reach every private address",
            "name the networks they may reach, such as 10.1.0.0/16",
        );
    }
    if is("allow_http") == "true" {
        findings.warn("allow_http", "tenants' URLs may be plain http", "use https where you can");
    }
    if config.trusted_proxies.iter().any(|network| network.prefix_len() == 0) {
        findings.warn("trusted_proxies", "everybody is trusted", "name your proxies only");
    }
    let kept = &config.retention;
    if kept.bodies_days > kept.events_days {
        findings.warn(
            "retention",
            "bodies are kept for longer than their events",
            "keep events for at least as long",
        );
    }
}

fn files(config: &Config, findings: &mut Findings) {
    for (path, most) in [
        (config.data_dir.clone(), 0o700),
        (config.data_dir.join("master.key"), 0o600),
        (config.data_dir.join("master.key.previous"), 0o600),
        (config.data_dir.join(FILE), 0o700),
    ] {
        let Ok(found) = std::fs::metadata(&path) else { continue };
        let mode = found.permissions().mode() & 0o777;
        // Whoever may not enter the directory reads none of its files.
        let is_open = mode & 0o077 & !most != 0 && !path.ends_with(FILE);
        if is_open {
            let next = format!("chmod {most:o} {}", path.display());
            findings.warn(
                "files",
                format!("{} is open to others ({mode:o})", path.display()),
                &next,
            );
        } else {
            findings.ok("files", format!("{} ({mode:o})", path.display()));
        }
    }
}

/// Whether the machine's clock goes as fast as time does.
async fn clock(findings: &mut Findings) {
    let (wall, steady) = (SystemClock.now(), Instant::now());
    tokio::time::sleep(Duration::from_millis(200)).await;
    let passed = steady.elapsed();
    let shown = SystemClock.now().distance(wall);
    match shown.abs_diff(passed) > Duration::from_millis(100) {
        false => findings.ok("clock", format!("goes evenly; it is {}", SystemClock.now())),
        true => findings.warn(
            "clock",
            format!("showed {shown:?} while {passed:?} passed"),
            "something sets the clock in steps: let it be slewed (chrony, ntpd -x)",
        ),
    }
}

async fn sqlite(config: &Config, full: bool, findings: &mut Findings) -> anyhow::Result<()> {
    let store = match Beside::open(&config.data_dir) {
        Ok(store) => store,
        Err(error) => {
            findings.fail(
                "database",
                error.to_string(),
                "check data_dir, or start the server once",
            );
            return Ok(());
        }
    };
    let bytes = std::fs::metadata(store.path())?.len();
    let used = if store.server_runs() { "a server uses it" } else { "no server uses it" };
    findings
        .ok("database", format!("SQLite in {}, {}; {used}", store.path().display(), size(bytes)));
    let log = std::fs::metadata(store.path().with_extension("db-wal")).map_or(0, |log| log.len());
    if log > LOG_BYTES_MAX {
        findings.warn(
            "log",
            format!("{} wait to be moved into the file", size(log)),
            "look for a reader that never ends, such as an open backup",
        );
    } else {
        findings.ok("log", size(log));
    }
    room(&config.data_dir, findings);
    if full || bytes <= INTEGRITY_BYTES_MAX {
        let problems = store.integrity(full, 10).await?;
        match problems.is_empty() {
            true => findings.ok(
                "integrity",
                if full { "every page and index is sound" } else { "every page is sound" },
            ),
            false => findings.fail(
                "integrity",
                problems.join("; "),
                "stop the server, keep a copy, and restore a backup",
            ),
        }
    } else {
        findings.ok(
            "integrity",
            format!("not looked at: {} is much to read; --full does", size(bytes)),
        );
    }
    master_key(&store, config, findings).await?;
    invariants(&store, config, full, findings).await
}

async fn postgres(
    config: &Config,
    url: &str,
    full: bool,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let unreachable = "check DATABASE_URL, and whether the server takes connections from here";
    let store = match Postgres::connect(url, PostgresOptions::default()).await {
        Ok(store) => store,
        Err(error) => {
            findings.fail("database", error.to_string(), unreachable);
            return Ok(());
        }
    };
    let before = SystemClock.now();
    let looked = store.look().await?;
    let after = SystemClock.now();
    let is = |name: &str| {
        looked.settings.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    };
    let bytes = u64::try_from(looked.bytes).unwrap_or(0);
    findings.ok("database", format!("PostgreSQL {}, {}", is("server_version"), size(bytes)));
    if looked.is_standby {
        findings.fail(
            "database",
            "is a standby, which takes no writes",
            "name the primary in DATABASE_URL",
        );
    }
    for (name, loses) in [
        ("fsync", "a crash of its machine may destroy the database"),
        ("synchronous_commit", "a crash of its machine loses events that were acknowledged"),
        ("full_page_writes", "a crash of its machine may leave torn pages"),
    ] {
        match is(name) {
            "off" => findings.fail(name, format!("is off: {loses}"), "switch it on"),
            value => findings.ok(name, value),
        }
    }
    let between = before.before(CLOCKS_APART_MAX)..=after.after(CLOCKS_APART_MAX);
    match between.contains(&looked.now) {
        true => findings.ok("clocks", "this machine's and the database's agree"),
        false => findings.warn(
            "clocks",
            format!("the database's is {}, this machine's {after}", looked.now),
            "keep both in time (NTP): leases go by the database's, ids by this machine's",
        ),
    }
    let pending = store.pending_migrations().await?;
    if !pending.is_empty() {
        findings.fail(
            "migrations",
            format!("{} are missing", pending.len()),
            "run `wakepost migrate`, or start the server",
        );
        return Ok(());
    }
    findings.ok("migrations", "the schema is up to date");
    master_key(&store, config, findings).await?;
    invariants(&store, config, full, findings).await
}

fn room(directory: &Path, findings: &mut Findings) {
    let Ok(disk) = rustix::fs::statvfs(directory) else { return };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free < FREE_BYTES_MIN {
        findings.warn(
            "disk",
            format!("{} are free", size(free)),
            "make room: without it nothing is accepted (503), and nothing lost",
        );
    } else {
        findings.ok("disk", format!("{} are free", size(free)));
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{} KB", bytes / 1000),
        10_000_000..10_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} GB", bytes / 1_000_000_000),
    }
}
