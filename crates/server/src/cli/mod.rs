//! The command line of `wakepost`: one file per command.

mod backup;
mod config;
mod describe;
mod doctor;
mod dump;
mod findings;
mod manifest;
mod master_key;
mod migrate;
mod progress;
mod restore;
mod serve;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use wakepost_store::failpoint;

use crate::config::{Config, ConfigError, Flags, check_names, load};
use crate::demo;

/// A webhook gateway for AI agents: takes every event in once, runs the work until it is done, lets no side
/// effect happen twice.
#[derive(Debug, Parser)]
#[command(name = "wakepost", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway. Needs nothing: SQLite in ./wakepost-data, on 127.0.0.1:8787.
    Serve(Settings),
    /// Watch one event go all the way through, in half a minute, on a throw-away database.
    Demo(demo::DemoArgs),
    /// Bring the database up to date, or only say whether it is.
    Migrate {
        /// Change nothing; exit with 1 if something is missing.
        #[arg(long)]
        check: bool,
        #[command(flatten)]
        settings: Settings,
    },
    /// Copy everything to a directory, as it is at one moment, while servers run.
    Backup {
        #[command(flatten)]
        to: backup::To,
        #[command(flatten)]
        settings: Settings,
    },
    /// Put a backup where there is nothing, and check it.
    Restore {
        #[command(flatten)]
        from: restore::From,
        #[command(flatten)]
        settings: Settings,
    },
    /// Look whether all is well: settings, files, clock, database, master key, and every invariant. Changes nothing.
    Doctor {
        /// Look at every row and page, however long that takes.
        #[arg(long)]
        full: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        settings: Settings,
    },
    /// Look at the master key, or rotate it.
    MasterKey {
        #[command(subcommand)]
        command: MasterKeyCommand,
    },
    /// Look at the settings.
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Print completions for a shell.
    Completions {
        /// For which shell.
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Write man pages.
    Man {
        /// Write a page for each command to this directory; left out: print that of the whole.
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// The demo's agent.
    #[command(hide = true)]
    DemoAgent,
}

#[derive(Debug, Subcommand)]
enum MasterKeyCommand {
    /// Wrap every data key by the new master key. Safe beside running servers, and to be run again after an interruption.
    Rotate {
        #[command(flatten)]
        new: master_key::NewKey,
        #[command(flatten)]
        settings: Settings,
    },
    /// Say how many data keys each master key wraps; exit with 1 if one of them is not in the settings.
    Status {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        settings: Settings,
    },
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print the settings in force and where each came from.
    Check(Settings),
}

/// Flags; each wins over its environment variable, which wins over wakepost.toml.
#[derive(Debug, Clone, Args)]
struct Settings {
    /// The settings file [default: ./wakepost.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where to listen [default: 127.0.0.1:8787]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// Where SQLite and the master key live [default: ./wakepost-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Use PostgreSQL in place of SQLite: postgres://…
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    /// The address the outside world reaches this server at
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Let agents be reached over plain http
    #[arg(long)]
    allow_http: bool,
    /// Let agents be reached at private addresses: `true`, or networks such as 10.0.0.0/8
    #[arg(long, value_name = "NETWORKS", num_args = 0..=1, default_missing_value = "true")]
    allow_private: Option<String>,
    /// `pretty` or `json`
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// What to log, such as `info` or `wakepost_server=debug`
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
}

impl Settings {
    fn load(&self) -> Result<Config, ConfigError> {
        let given = [
            ("listen", self.listen.clone()),
            ("data_dir", self.data_dir.clone()),
            ("database_url", self.database_url.clone()),
            ("public_url", self.public_url.clone()),
            ("allow_http", self.allow_http.then(|| "true".to_owned())),
            ("allow_private", self.allow_private.clone()),
            ("log_format", self.log_format.clone()),
            ("log_level", self.log_level.clone()),
        ];
        let values = given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        check_names(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()))?;
        load(&Flags { file: self.config.clone(), values }, &|name| std::env::var(name).ok())
    }
}

/// Runs the program.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match &cli.command {
        Command::DemoAgent => return demo::agent::main(),
        Command::Completions { shell } => {
            let done = describe::completions(Cli::command(), *shell);
            return done.unwrap_or_else(|error| complain(&error));
        }
        Command::Man { out } => {
            let done = describe::man(Cli::command(), out.as_deref());
            return done.unwrap_or_else(|error| complain(&error));
        }
        _ => {}
    }
    if let Err(problem) = failpoint::check() {
        return complain(&anyhow::anyhow!("WAKEPOST_FAILPOINTS: {problem}"));
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error.into()),
    };
    let done = runtime.block_on(async {
        match cli.command {
            Command::Serve(settings) => serve::run(settings.load()?).await,
            Command::Demo(args) => demo::run(args).await,
            Command::Migrate { check, settings } => migrate::run(&settings.load()?, check).await,
            Command::Backup { to, settings } => backup::run(&settings.load()?, &to).await,
            Command::Restore { from, settings } => restore::run(&settings.load()?, &from).await,
            Command::Doctor { full, json, settings } => {
                doctor::run(&settings.load()?, full, json).await
            }
            Command::MasterKey { command: MasterKeyCommand::Rotate { new, settings } } => {
                master_key::rotate(&settings.load()?, &new).await
            }
            Command::MasterKey { command: MasterKeyCommand::Status { json, settings } } => {
                master_key::status(&settings.load()?, json).await
            }
            Command::Config { command: ConfigCommand::Check(settings) } => {
                config::check(&settings.load()?)
            }
            Command::Completions { .. } | Command::Man { .. } | Command::DemoAgent => {
                Ok(ExitCode::SUCCESS)
            }
        }
    });
    // A read that hangs on a blocking thread must not hold up the end.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    done.unwrap_or_else(|error| complain(&error))
}

fn complain(error: &anyhow::Error) -> ExitCode {
    eprintln!("wakepost: {error:#}");
    ExitCode::FAILURE
}
