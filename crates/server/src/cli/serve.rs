//! `wakepost serve`: runs the gateway until it is told to stop.

use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

use crate::app::App;
use crate::config::{Config, MasterKeySource};
use crate::telemetry::log;

/// Serves. The first SIGTERM or Ctrl-C stops gracefully, the second at once; neither loses anything.
pub async fn run(config: Config) -> anyhow::Result<ExitCode> {
    log::start(&config.log_level, config.log_json)?;
    let database = match config.database_url {
        Some(_) => "PostgreSQL".to_owned(),
        None => format!("SQLite in {}", config.data_dir.display()),
    };
    let app = App::start(config).await?;
    let stop = app.context.stop.clone();
    // Before anybody is told that it listens, who may then ask it to stop at once.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    if let MasterKeySource::NewFile(path) = &app.master_key {
        println!("made a master key in {}: keep a copy, nothing opens without it", path.display());
    }
    if let Some(key) = &app.first_key {
        println!("your first admin key, shown once: {key}");
        println!("sign in with it to the dashboard: {}", app.context.local_url);
        println!("try: webhookctl --url {} --key {key} sources list", app.context.local_url);
    }
    println!("storing in {database}");
    let url_of = |address| app.context.config.url_of(address);
    for (what, address) in &app.further {
        println!("{what} on {}", url_of(*address));
    }
    // Clients wait for this line.
    println!("listening on {}", url_of(app.address));
    let serving = tokio::spawn(app.serve());
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    eprintln!("stopping: waiting for what is under way (once more to stop at once)");
    stop.cancel();
    tokio::select! {
        _ = serving => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(ExitCode::SUCCESS)
}
