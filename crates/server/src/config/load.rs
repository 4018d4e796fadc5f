//! Reading the settings, and saying where each came from.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Config, KeyPlace, Retention, alerts, exec, outbound, traces};
use crate::listener::tls::TlsFiles;

/// Where a setting came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A flag.
    Flag,
    /// An environment variable.
    Environment(&'static str),
    /// The file.
    File,
    /// Nobody set it.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag => f.write_str("flag"),
            Origin::Environment(name) => f.write_str(name),
            Origin::File => f.write_str("wakepost.toml"),
            Origin::Default => f.write_str("default"),
        }
    }
}

/// One setting as it is shown: never a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Where it came from.
    pub origin: Origin,
}

/// The settings cannot be used; the text says which one and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// What the command line gave.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// The file, if not `wakepost.toml` in the working directory.
    pub file: Option<PathBuf>,
    /// Settings by name.
    pub values: BTreeMap<&'static str, String>,
}

/// A setting that is one value: its name, its environment variables, its default, whether it is secret.
struct Known {
    name: &'static str,
    env: &'static [&'static str],
    default: &'static str,
    secret: bool,
}

const fn known(name: &'static str, env: &'static [&'static str], default: &'static str) -> Known {
    Known { name, env, default, secret: false }
}

const fn secret(name: &'static str, env: &'static [&'static str]) -> Known {
    Known { name, env, default: "", secret: true }
}

const KNOWN: &[Known] = &[
    known("listen", &["WAKEPOST_LISTEN"], "127.0.0.1:8787"),
    known("api_listen", &["WAKEPOST_API_LISTEN"], ""),
    known("metrics_listen", &["WAKEPOST_METRICS_LISTEN"], ""),
    known("tls_cert_file", &["WAKEPOST_TLS_CERT_FILE"], ""),
    known("tls_key_file", &["WAKEPOST_TLS_KEY_FILE"], ""),
    known("tls_client_ca_file", &["WAKEPOST_TLS_CLIENT_CA_FILE"], ""),
    known("data_dir", &["WAKEPOST_DATA_DIR"], "wakepost-data"),
    secret("database_url", &["DATABASE_URL", "WAKEPOST_DATABASE_URL"]),
    known("public_url", &["WAKEPOST_PUBLIC_URL", "WEBHOOK_BASE_URL", "APP_URL", "URL"], ""),
    secret("admin_key", &["WAKEPOST_ADMIN_KEY"]),
    secret("master_key", &["WAKEPOST_MASTER_KEY"]),
    known("master_key_file", &["WAKEPOST_MASTER_KEY_FILE"], ""),
    known("master_key_command", &["WAKEPOST_MASTER_KEY_COMMAND"], ""),
    secret("master_key_previous", &["WAKEPOST_MASTER_KEY_PREVIOUS"]),
    known("master_key_previous_file", &["WAKEPOST_MASTER_KEY_PREVIOUS_FILE"], ""),
    known("master_key_previous_command", &["WAKEPOST_MASTER_KEY_PREVIOUS_COMMAND"], ""),
    known("allow_http", &["WAKEPOST_ALLOW_HTTP"], "false"),
    known("allow_private", &["WAKEPOST_ALLOW_PRIVATE"], "false"),
    known("ca_file", &["WAKEPOST_CA_FILE"], ""),
    known("trusted_proxies", &["WAKEPOST_TRUSTED_PROXIES"], ""),
    known("push_concurrency", &["WAKEPOST_PUSH_CONCURRENCY"], "256"),
    known("connections_max", &["WAKEPOST_CONNECTIONS_MAX"], "10000"),
    known("key_rate_per_s", &["WAKEPOST_KEY_RATE_PER_S"], "0"),
    known("max_hops", &["WAKEPOST_MAX_HOPS"], "10"),
    known("sweep_after_s", &["WAKEPOST_SWEEP_AFTER_S"], "90"),
    known("shutdown_grace_s", &["WAKEPOST_SHUTDOWN_GRACE_S"], "20"),
    known("metrics_tenants_max", &["WAKEPOST_METRICS_TENANTS_MAX"], "50"),
    known("otlp_endpoint", &["WAKEPOST_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"], ""),
    secret("otlp_headers", &["WAKEPOST_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"]),
    known("otlp_sample_ratio", &["WAKEPOST_OTLP_SAMPLE_RATIO"], "1"),
    known("otlp_service_name", &["WAKEPOST_OTLP_SERVICE_NAME", "OTEL_SERVICE_NAME"], "wakepost"),
    known("log_format", &["WAKEPOST_LOG_FORMAT"], "pretty"),
    known("log_level", &["WAKEPOST_LOG_LEVEL"], "info"),
    known("retention.bodies_days", &["WAKEPOST_RETENTION_BODIES_DAYS"], "30"),
    known("retention.events_days", &["WAKEPOST_RETENTION_EVENTS_DAYS"], "90"),
    known("retention.runs_days", &["WAKEPOST_RETENTION_RUNS_DAYS"], "30"),
    known("retention.dead_letters_days", &["WAKEPOST_RETENTION_DEAD_LETTERS_DAYS"], "30"),
    known("retention.receipts_days", &["WAKEPOST_RETENTION_RECEIPTS_DAYS"], "7"),
    known("alerts.every_s", &["WAKEPOST_ALERTS_EVERY_S"], "30"),
    known("alerts.window_minutes", &["WAKEPOST_ALERTS_WINDOW_MINUTES"], "15"),
    known("alerts.deliveries_min", &["WAKEPOST_ALERTS_DELIVERIES_MIN"], "20"),
    known("alerts.calm_s", &["WAKEPOST_ALERTS_CALM_S"], "300"),
    known("alerts.success_warning", &["WAKEPOST_ALERTS_SUCCESS_WARNING"], "99"),
    known("alerts.success_critical", &["WAKEPOST_ALERTS_SUCCESS_CRITICAL"], "95"),
    known("alerts.first_attempt_warning", &["WAKEPOST_ALERTS_FIRST_ATTEMPT_WARNING"], "95"),
    known("alerts.first_attempt_critical", &["WAKEPOST_ALERTS_FIRST_ATTEMPT_CRITICAL"], "90"),
    known("alerts.p50_ms", &["WAKEPOST_ALERTS_P50_MS"], "500"),
    known("alerts.p99_ms", &["WAKEPOST_ALERTS_P99_MS"], "5000"),
    known("alerts.dead_letters_warning", &["WAKEPOST_ALERTS_DEAD_LETTERS_WARNING"], "100"),
    known("alerts.dead_letters_critical", &["WAKEPOST_ALERTS_DEAD_LETTERS_CRITICAL"], "1000"),
    known("alerts.retry_queue", &["WAKEPOST_ALERTS_RETRY_QUEUE"], "10000"),
    known("alerts.failures_in_a_row", &["WAKEPOST_ALERTS_FAILURES_IN_A_ROW"], "5"),
    known("alerts.source_dead_letters", &["WAKEPOST_ALERTS_SOURCE_DEAD_LETTERS"], "3"),
    known("alerts.suspicious_replays", &["WAKEPOST_ALERTS_SUSPICIOUS_REPLAYS"], "5"),
    known("alerts.secret_days", &["WAKEPOST_ALERTS_SECRET_DAYS"], "180"),
];

/// Reads everything. `environment` is asked by name.
pub fn load(
    flags: &Flags,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, ConfigError> {
    let (file, commands) = read_file(flags.file.as_deref())?;
    assemble(flags, environment, &file, commands)
}

/// What the text of a file alone would make.
pub fn load_text(text: &str) -> Result<Config, ConfigError> {
    let (file, commands) = parse_file(text).map_err(ConfigError)?;
    assemble(&Flags::default(), &|_| None, &file, commands)
}

/// How many letters may differ between a variable and the one that was meant.
const TYPO_LETTERS: usize = 2;

/// Refuses a variable whose name is almost that of a setting: it would be ignored in silence. That a name begins as ours do
/// is no reason alone: our other programs have such variables, and Kubernetes makes some of a service's name.
pub fn check_names(names: impl Iterator<Item = String>) -> Result<(), ConfigError> {
    let known = || KNOWN.iter().flat_map(|known| known.env.iter().copied());
    let ours = |name: &str| name.starts_with("WAKEPOST_");
    for name in names.filter(|name| ours(name) && !known().any(|known| known == name)) {
        let near = known().filter(|known| ours(known)).map(|known| (distance(known, &name), known));
        if let Some((_, meant)) = near.min().filter(|(letters, _)| *letters <= TYPO_LETTERS) {
            let why = format!("there is no setting {name}; did you mean {meant}?");
            return Err(ConfigError(why));
        }
    }
    Ok(())
}

fn assemble(
    flags: &Flags,
    environment: &dyn Fn(&str) -> Option<String>,
    file: &BTreeMap<String, String>,
    commands: Commands,
) -> Result<Config, ConfigError> {
    let mut shown = Vec::new();
    let mut values = BTreeMap::new();
    for known in KNOWN {
        let (value, origin) = find(known, flags, environment, file);
        let text = match (known.secret, value.is_empty()) {
            (_, true) => "(not set)".to_owned(),
            (true, false) => "(hidden)".to_owned(),
            (false, false) => value.clone(),
        };
        shown.push(Setting { name: known.name.to_owned(), value: text, origin });
        values.insert(known.name, value);
    }
    shown.extend(commands.iter().map(|(name, command)| Setting {
        name: format!("exec.{name}"),
        value: command.command.join(" "),
        origin: Origin::File,
    }));
    build(&values, commands, shown).map_err(ConfigError)
}

fn find(
    known: &Known,
    flags: &Flags,
    environment: &dyn Fn(&str) -> Option<String>,
    file: &BTreeMap<String, String>,
) -> (String, Origin) {
    if let Some(value) = flags.values.get(known.name) {
        return (value.clone(), Origin::Flag);
    }
    for name in known.env {
        if let Some(value) = environment(name).filter(|value| !value.is_empty()) {
            return (value, Origin::Environment(name));
        }
    }
    match file.get(known.name) {
        Some(value) => (value.clone(), Origin::File),
        None => (known.default.to_owned(), Origin::Default),
    }
}

type Commands = BTreeMap<String, exec::ExecCommand>;

fn read_file(path: Option<&Path>) -> Result<(BTreeMap<String, String>, Commands), ConfigError> {
    let (path, must_exist) = match path {
        Some(path) => (path, true),
        None => (Path::new("wakepost.toml"), false),
    };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !must_exist => {
            return Ok(Default::default());
        }
        Err(error) => {
            return Err(ConfigError(format!("cannot read {}: {error}", path.display())));
        }
    };
    parse_file(&text).map_err(|problem| ConfigError(format!("{}: {problem}", path.display())))
}

fn parse_file(text: &str) -> Result<(BTreeMap<String, String>, Commands), String> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    let mut values = BTreeMap::new();
    let mut commands = Commands::new();
    for (name, value) in table {
        match value {
            toml::Value::Table(named) if name == "exec" => {
                for (name, command) in named {
                    check_exec_keys(&name, &command)?;
                    commands.insert(name.clone(), exec::read(&name, command)?);
                }
            }
            toml::Value::Table(section) => {
                for (key, value) in section {
                    put(&mut values, format!("{name}.{key}"), value)?;
                }
            }
            value => put(&mut values, name, value)?,
        }
    }
    Ok((values, commands))
}

fn put(
    values: &mut BTreeMap<String, String>,
    name: String,
    value: toml::Value,
) -> Result<(), String> {
    let names = KNOWN.iter().map(|known| known.name);
    if !names.clone().any(|known| known == name) {
        return Err(unknown(&name, names));
    }
    let text = match value {
        toml::Value::String(text) => text,
        toml::Value::Array(items) => {
            let texts: Option<Vec<&str>> = items.iter().map(toml::Value::as_str).collect();
            let texts = texts.ok_or_else(|| format!("{name} must be a list of texts"))?;
            // The parts of a command may hold anything.
            if name.ends_with("_command") { json_text(&texts) } else { texts.join(",") }
        }
        toml::Value::Table(_) => return Err(format!("{name} cannot be a table")),
        other => other.to_string(),
    };
    values.insert(name, text);
    Ok(())
}

fn json_text(texts: &[&str]) -> String {
    serde_json::to_string(texts).expect("texts are JSON")
}

/// Where keys are by the three settings of a name: at most one of them is set, and a command is a list.
fn key_places(name: &str, some: &dyn Fn(&str) -> Option<String>) -> Result<Vec<KeyPlace>, String> {
    let command = format!("{name}_command");
    let mut places: Vec<KeyPlace> = some(name).map(KeyPlace::Setting).into_iter().collect();
    places.extend(some(&format!("{name}_file")).map(|path| KeyPlace::File(path.into())));
    if let Some(text) = some(&command) {
        let parts: Vec<String> = serde_json::from_str(&text)
            .ok()
            .filter(|parts: &Vec<String>| !parts.is_empty())
            .ok_or_else(|| {
                format!("{command} must be a list, such as [\"program\", \"argument\"]")
            })?;
        places.push(KeyPlace::Command(parts));
    }
    Ok(places)
}

fn check_exec_keys(name: &str, command: &toml::Value) -> Result<(), String> {
    let table = command.as_table().ok_or_else(|| format!("exec.{name} must be a table"))?;
    match table.keys().find(|key| !exec::KEYS.contains(&key.as_str())) {
        Some(key) => Err(unknown(&format!("exec.{name}.{key}"), exec::KEYS.iter().copied())),
        None => Ok(()),
    }
}

/// Says which known name is nearest.
fn unknown<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let last = name.rsplit('.').next().unwrap_or(name);
    let near =
        |known: &&str| (!known.starts_with(name), distance(known, name).min(distance(known, last)));
    let nearest = names.min_by_key(near);
    match nearest {
        Some(nearest) => format!("there is no setting {name}; did you mean {nearest}?"),
        None => format!("there is no setting {name}"),
    }
}

/// How many letters must change to get from one word to the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let cost = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

fn build(
    values: &BTreeMap<&'static str, String>,
    exec: Commands,
    shown: Vec<Setting>,
) -> Result<Config, String> {
    let text = |name: &str| values.get(name).cloned().unwrap_or_default();
    let some = |name: &str| Some(text(name)).filter(|text| !text.is_empty());
    let number = |name: &str| -> Result<u64, String> {
        text(name)
            .parse()
            .map_err(|_| format!("{name} must be a whole number, not {:?}", text(name)))
    };
    let decimal = |name: &str| -> Result<f64, String> {
        let name = format!("alerts.{name}");
        let parsed = text(&name).parse().ok().filter(|value: &f64| value.is_finite());
        parsed.ok_or_else(|| format!("{name} must be a number, not {:?}", text(&name)))
    };
    let flag = |name: &str| -> Result<bool, String> {
        text(name)
            .parse()
            .map_err(|_| format!("{name} must be true or false, not {:?}", text(name)))
    };
    let admin_key = some("admin_key");
    if admin_key.as_ref().is_some_and(|key| key.chars().count() < 32) {
        return Err("WAKEPOST_ADMIN_KEY must have at least 32 characters".to_owned());
    }
    let database_url = some("database_url");
    if database_url
        .as_ref()
        .is_some_and(|url| !url.starts_with("postgres://") && !url.starts_with("postgresql://"))
    {
        return Err(
            "DATABASE_URL must begin with postgres:// (without it, SQLite is used)".to_owned()
        );
    }
    let log_json = match text("log_format").as_str() {
        "json" => true,
        "pretty" => false,
        other => return Err(format!("log_format must be pretty or json, not {other:?}")),
    };
    Ok(Config {
        listen: address("listen", &text("listen"))?,
        api_listen: some("api_listen").map(|text| address("api_listen", &text)).transpose()?,
        metrics_listen: some("metrics_listen")
            .map(|text| address("metrics_listen", &text))
            .transpose()?,
        tls: tls(some("tls_cert_file"), some("tls_key_file"), some("tls_client_ca_file"))?,
        data_dir: text("data_dir").into(),
        database_url,
        public_url: public_url(some("public_url"))?,
        admin_key,
        master_key: one_place(key_places("master_key", &some)?)?,
        master_key_previous: key_places("master_key_previous", &some)?,
        addresses: outbound::policy(flag("allow_http")?, &text("allow_private"))
            .map_err(|problem| format!("allow_private: {problem}"))?,
        authorities: outbound::authorities(some("ca_file").as_deref())
            .map_err(|problem| format!("ca_file: {problem}"))?,
        trusted_proxies: networks(&text("trusted_proxies"))?,
        push_concurrency: number("push_concurrency")?.clamp(1, 100_000) as usize,
        connections_max: number("connections_max")?.clamp(1, 1_000_000) as usize,
        key_rate_per_s: rate(&text("key_rate_per_s"))?,
        max_hops: u32::try_from(number("max_hops")?).unwrap_or(u32::MAX),
        sweep_after: Duration::from_secs(number("sweep_after_s")?),
        shutdown_grace: Duration::from_secs(number("shutdown_grace_s")?),
        metrics_tenants_max: number("metrics_tenants_max")?.min(10_000) as usize,
        retention: Retention {
            bodies_days: number("retention.bodies_days")?,
            events_days: number("retention.events_days")?,
            runs_days: number("retention.runs_days")?,
            dead_letters_days: number("retention.dead_letters_days")?,
            receipts_days: number("retention.receipts_days")?,
        },
        alerts: alerts::read(decimal)?,
        alerts_every: Duration::from_secs(number("alerts.every_s")?.clamp(1, 3600)),
        traces: traces::read(
            some("otlp_endpoint"),
            &text("otlp_headers"),
            &text("otlp_sample_ratio"),
            text("otlp_service_name"),
        )?,
        exec,
        log_json,
        log_level: text("log_level"),
        shown,
    })
}

fn address(name: &str, text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!("{name} must be an address and a port, such as 127.0.0.1:8787, not {text:?}")
    })
}

fn tls(
    cert: Option<String>,
    key: Option<String>,
    client_ca: Option<String>,
) -> Result<Option<TlsFiles>, String> {
    match (cert, key) {
        (Some(cert), Some(key)) => {
            let client_ca = client_ca.map(Into::into);
            Ok(Some(TlsFiles { cert: cert.into(), key: key.into(), client_ca }))
        }
        (None, None) if client_ca.is_none() => Ok(None),
        (None, None) => Err("tls_client_ca_file needs tls_cert_file and tls_key_file".to_owned()),
        (Some(_), None) => Err("tls_cert_file needs tls_key_file".to_owned()),
        (None, Some(_)) => Err("tls_key_file needs tls_cert_file".to_owned()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: Option<f64> = text.parse().ok().filter(|rate| (0.0..=1_000_000.0).contains(rate));
    rate.ok_or_else(|| format!("key_rate_per_s must be a number from 0 to 1000000, not {text:?}"))
}

fn one_place(mut places: Vec<KeyPlace>) -> Result<Option<KeyPlace>, String> {
    if places.len() > 1 {
        return Err(
            "set one of master_key, master_key_file and master_key_command, not several".to_owned()
        );
    }
    Ok(places.pop())
}

fn public_url(text: Option<String>) -> Result<Option<String>, String> {
    let Some(text) = text else { return Ok(None) };
    let wrong = || format!("public_url must be a plain http or https address, not {text:?}");
    let url = url::Url::parse(&text).map_err(|_| wrong())?;
    let plain = matches!(url.scheme(), "http" | "https")
        && url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty();
    if plain { Ok(Some(text)) } else { Err(wrong()) }
}

fn networks(text: &str) -> Result<Vec<ipnet::IpNet>, String> {
    text.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(|part| {
            part.parse::<ipnet::IpNet>()
                .or_else(|_| part.parse::<std::net::IpAddr>().map(ipnet::IpNet::from))
                .map_err(|_| {
                    format!("trusted_proxies: {part:?} is not a network such as 10.0.0.0/8")
                })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use wakepost_domain::retention::History;

    use super::*;

    fn nothing(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn flags_win_over_environment_and_environment_over_defaults() {
        let env = |name: &str| (name == "WAKEPOST_LISTEN").then(|| "127.0.0.1:1".to_owned());
        let config = load(&Flags::default(), &env).unwrap();
        assert_eq!(config.listen.port(), 1);
        let flags =
            Flags { values: [("listen", "127.0.0.1:2".to_owned())].into(), ..Flags::default() };
        assert_eq!(load(&flags, &env).unwrap().listen.port(), 2);
        assert_eq!(load(&Flags::default(), &nothing).unwrap().listen.port(), 8787);
    }

    #[test]
    fn a_certificate_needs_its_key() {
        let load = |given: &[(&'static str, &str)]| {
            let given = given.iter().map(|(name, value)| (*name, (*value).to_owned()));
            let flags = Flags { values: given.collect(), ..Flags::default() };
            load(&flags, &nothing).map(|config| config.tls.is_some())
        };
        let both = [("tls_cert_file", "c"), ("tls_key_file", "k")];
        assert_eq!(load(&both).ok(), Some(true));
        assert_eq!(load(&[]).ok(), Some(false));
        for one in [both[0], both[1], ("tls_client_ca_file", "ca")] {
            assert!(load(&[one]).is_err(), "{one:?}");
        }
        assert!(load(&[("api_listen", "nowhere")]).is_err());
    }

    #[test]
    fn an_unknown_key_names_the_nearest_known_one() {
        let problem = parse_file("lsten = \"x\"").unwrap_err();
        assert_eq!(problem, "there is no setting lsten; did you mean listen?");
        let problem = parse_file("[exec.a]\ncomand = [\"x\"]").unwrap_err();
        assert_eq!(problem, "there is no setting exec.a.comand; did you mean command?");
        let problem = parse_file("[retention]\nbodies = 3").unwrap_err();
        assert!(problem.contains("retention.bodies_days"), "{problem}");
    }

    #[test]
    fn a_misspelt_variable_names_the_one_that_was_meant_and_others_are_let_be() {
        let check = |name: &str| check_names([name.to_owned()].into_iter());
        for (name, meant) in [
            ("WAKEPOST_PUBLIC_ULR", "WAKEPOST_PUBLIC_URL"),
            ("WAKEPOST_LISTN", "WAKEPOST_LISTEN"),
            ("WAKEPOST_RETENTION_BODIES_DAY", "WAKEPOST_RETENTION_BODIES_DAYS"),
            ("WAKEPOST_MASTERKEY", "WAKEPOST_MASTER_KEY"),
        ] {
            let why = format!("there is no setting {name}; did you mean {meant}?");
            assert_eq!(check(name), Err(ConfigError(why)));
        }
        for known in KNOWN.iter().flat_map(|known| known.env) {
            assert_eq!(check(known), Ok(()));
        }
        let others = [
            "URI",
            "WAKEPOST_KEY",
            "WAKEPOST_URL",
            "WAKEPOST_TENANT",
            "WAKEPOST_BIN",
            "WAKEPOST_JOB_ID",
            "WAKEPOST_RUN_ID",
            "WAKEPOST_EVENT_ID",
            "WAKEPOST_LEASE_TOKEN",
            "WAKEPOST_CHAIN",
            "WAKEPOST_SOURCE_SECRET",
            "WAKEPOST_FAILPOINTS",
            "WAKEPOST_FAILPOINTS_ALL",
            "WAKEPOST_NEXT_MIGRATION",
            "WAKEPOST_CLOCK_FILE",
            "WAKEPOST_PROFILE",
            "WAKEPOST_SEED",
            "WAKEPOST_MODEL_SEED",
            "WAKEPOST_TEST_DATABASE_URL",
            "WAKEPOST_BENCH_DATABASE_URL",
            "WAKEPOST_PORT",
            "WAKEPOST_SERVICE_HOST",
            "WAKEPOST_API_PORT",
            "WAKEPOST_METRICS_PORT_9090_TCP_ADDR",
        ];
        for name in others {
            assert_eq!(check(name), Ok(()));
        }
    }

    #[test]
    fn every_setting_that_is_one_value_has_a_variable_of_its_name() {
        for known in KNOWN {
            let own = format!("WAKEPOST_{}", known.name.replace('.', "_").to_uppercase());
            assert!(known.env.contains(&own.as_str()), "{own}");
        }
        let env = |name: &str| match name {
            "WAKEPOST_RETENTION_RECEIPTS_DAYS" => Some("3".to_owned()),
            "WAKEPOST_ALERTS_P99_MS" => Some("1.5".to_owned()),
            _ => None,
        };
        let config = load(&Flags::default(), &env).unwrap();
        assert_eq!(config.retention.days(History::Receipts), 3);
        let shown = config.shown.iter().find(|setting| setting.name == "alerts.p99_ms").unwrap();
        assert_eq!(shown.value, "1.5");
        assert_eq!(shown.origin, Origin::Environment("WAKEPOST_ALERTS_P99_MS"));
    }

    #[test]
    fn secrets_are_never_shown() {
        let env = |name: &str| (name == "WAKEPOST_ADMIN_KEY").then(|| "s".repeat(40));
        let config = load(&Flags::default(), &env).unwrap();
        assert!(config.shown.iter().all(|setting| !setting.value.contains("sss")));
    }

    #[test]
    fn the_thresholds_of_alerts_are_the_usual_ones_unless_they_are_set() {
        use wakepost_domain::alert::Thresholds;
        assert_eq!(load(&Flags::default(), &nothing).unwrap().alerts, Thresholds::default());
        let (values, _) = parse_file("[alerts]\np99_ms = 1.5\nsuccess_warning = 90").unwrap();
        assert_eq!(values["alerts.p99_ms"], "1.5");
        assert!(parse_file("[alerts]\np98_ms = 1").unwrap_err().contains("alerts.p9"));
    }

    #[test]
    fn a_master_key_comes_from_one_place_and_a_command_is_a_list() {
        let file = |text: &str| {
            let (values, _) = parse_file(text).unwrap();
            key_places("master_key", &|name: &str| values.get(name).cloned())
        };
        let command = file("master_key_command = [\"vault\", \"read\", \"a, b\"]").unwrap();
        let parts = ["vault", "read", "a, b"].map(str::to_owned).to_vec();
        assert_eq!(command, [KeyPlace::Command(parts)]);
        assert!(file("master_key_command = \"vault read\"").is_err());
        assert!(file("master_key_command = []").is_err());
        let two = file("master_key = \"x\"\nmaster_key_file = \"y\"").unwrap();
        assert!(one_place(two).unwrap_err().contains("not several"));
    }

    #[test]
    fn a_command_needs_a_program() {
        assert!(parse_file("[exec.a]\ncommand = []").is_err());
        let (_, commands) = parse_file("[exec.a]\ncommand = [\"sh\", \"-c\", \"true\"]").unwrap();
        assert_eq!(commands["a"].concurrency, 4);
    }
}
