//! Logs: one line a thing that happened, with its ids, on standard error.

use tracing_subscriber::EnvFilter;

/// Starts logging.
pub fn start(level: &str, json: bool) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(level).map_err(|_| {
        anyhow::anyhow!("log_level {level:?} is not a level such as info or wakepost_server=debug")
    })?;
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started =
        if json { subscriber.json().try_init() } else { subscriber.with_target(false).try_init() };
    started.map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))
}
