//! `wakepost master-key`: which master key wraps what, and rotation to a new one.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use wakepost_domain::ports::{Clock, Entropy};
use wakepost_domain::{AuditId, Ulid};
use wakepost_store::moves::{AuditEntry, DataKeys};
use wakepost_store::postgres::{Postgres, PostgresOptions};
use wakepost_store::sqlite::Beside;
use wakepost_store::vault::{MasterKey, MasterKeyId, MasterKeys, rotate as rewrap_all};

use crate::config::{Config, KeyPlace, Keys, master_keys, one_key, previous_file, turn_file};
use crate::system::{SystemClock, SystemEntropy};

/// Where the new key is, if the settings do not say it.
#[derive(Debug, Args)]
pub struct NewKey {
    /// The new master key's file. Nodes that run must know it already, as a previous key
    #[arg(long, value_name = "FILE", conflicts_with = "new_key_command")]
    new_key_file: Option<PathBuf>,
    /// A program that prints the new master key, as a list: '["vault", "read", "…"]'
    #[arg(long, value_name = "LIST")]
    new_key_command: Option<String>,
}

impl NewKey {
    async fn read(&self) -> anyhow::Result<Option<MasterKey>> {
        let place = match (&self.new_key_file, &self.new_key_command) {
            (Some(path), _) => KeyPlace::File(path.clone()),
            (None, Some(list)) => KeyPlace::Command(serde_json::from_str(list).map_err(|_| {
                anyhow::anyhow!(
                    "--new-key-command must be a list, such as [\"program\", \"argument\"]"
                )
            })?),
            (None, None) => return Ok(None),
        };
        one_key(&place).await.map(Some)
    }
}

/// Wraps every data key by the new master key. It can end anywhere, and be run again.
pub async fn rotate(config: &Config, new: &NewKey) -> anyhow::Result<ExitCode> {
    let store = open(config).await?;
    let configured = configured(config).await?;
    let keys = match new.read().await? {
        Some(key) => {
            let known = configured.read()?;
            let others = known.all().filter(|known| known.id() != key.id()).cloned().collect();
            MasterKeys::new(key, others)
        }
        None => turned(config, &configured)?,
    };
    let id = keys.current().id();
    note(store.as_ref(), id).await?;
    let shows = std::io::stderr().is_terminal();
    let rotated = rewrap_all(store.as_ref(), &keys, &SystemEntropy, |done| {
        if shows {
            eprint!("\rwrapped anew: {done}");
        }
    })
    .await?;
    if shows && rotated.rewrapped > 0 {
        eprintln!();
    }
    println!("wrapped {} data key(s) anew by {id}", rotated.rewrapped);
    let counts = store.data_keys_by_master().await?;
    let left: i64 = counts.iter().filter(|(by, _)| *by != id).map(|(_, count)| count).sum();
    if left > 0 {
        let tenants: Vec<String> =
            rotated.unopened.iter().map(|tenant| tenant.0.to_string()).collect();
        eprintln!(
            "{left} data key(s) are still wrapped by another master key{}: give their key as \
             master_key_previous, and run this again",
            if tenants.is_empty() {
                String::new()
            } else {
                format!(" (tenants {})", tenants.join(", "))
            }
        );
        return Ok(ExitCode::FAILURE);
    }
    println!(
        "nothing is wrapped by another key: once every node has {id} as its master key, the old one may go."
    );
    println!("Backups from before this open only with the old one: keep it with them.");
    if let Some(path) = previous_file(config).filter(|path| path.exists()) {
        println!("The old one is in {}.", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Says which master key wraps how many data keys.
pub async fn status(config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let store = open(config).await?;
    let ids = configured(config).await?.read()?.ids();
    let mut counts = store.data_keys_by_master().await?;
    for id in &ids {
        if !counts.iter().any(|(by, _)| by == id) {
            counts.push((*id, 0));
        }
    }
    let role = |id: &MasterKeyId| match ids.iter().position(|known| known == id) {
        Some(0) => "current",
        Some(_) => "previous",
        None => "unknown",
    };
    if json {
        let rows: Vec<_> = counts
            .iter()
            .map(|(id, count)| {
                serde_json::json!({"master_key": id.to_string(), "role": role(id), "data_keys": count})
            })
            .collect();
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        for (id, count) in &counts {
            println!("{id}  {:8}  wraps {count} data key(s)", role(id));
        }
    }
    let lacking = counts.iter().any(|(id, count)| *count > 0 && role(id) == "unknown");
    if lacking {
        eprintln!("some data keys are wrapped by a master key that the settings do not have");
    }
    Ok(if lacking { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The keys that the settings name; none is made.
async fn configured(config: &Config) -> anyhow::Result<Keys> {
    let file = config.data_dir.join("master.key");
    anyhow::ensure!(
        config.master_key.is_some() || file.exists(),
        "there is no master key: neither a setting nor {}",
        file.display()
    );
    Ok(master_keys(config, &SystemEntropy).await?.0)
}

/// The keys to rotate by where no new one was named: a new one in the data directory's file, or the settings' own.
fn turned(config: &Config, configured: &Keys) -> anyhow::Result<MasterKeys> {
    if let Some(path) = previous_file(config).filter(|_| config.master_key_previous.is_empty()) {
        if turn_file(config, &SystemEntropy)? {
            println!("made a new master key; the old one is in {}", path.display());
        } else {
            println!("going on with the rotation that began before");
        }
        return configured.read();
    }
    let keys = configured.read()?;
    anyhow::ensure!(
        keys.ids().len() > 1,
        "there is no key to rotate from: set the new key as master_key (or master_key_file, \
         master_key_command) and the old one as master_key_previous (or …_file, …_command)"
    );
    Ok(keys)
}

async fn open(config: &Config) -> anyhow::Result<Arc<dyn DataKeys + Send + Sync>> {
    let Some(url) = &config.database_url else {
        return Ok(Arc::new(Beside::open(&config.data_dir)?));
    };
    let store = Postgres::connect(url, PostgresOptions::default()).await?;
    anyhow::ensure!(
        store.pending_migrations().await?.is_empty(),
        "the database is not up to date: run `wakepost migrate` first"
    );
    Ok(Arc::new(store))
}

async fn note(store: &(dyn DataKeys + Send + Sync), to: MasterKeyId) -> anyhow::Result<()> {
    let entropy: &dyn Entropy = &SystemEntropy;
    let audit = AuditEntry {
        id: AuditId(Ulid::new(SystemClock.now(), entropy)),
        tenant: None,
        actor: "wakepost".to_owned(),
        action: "master_key.rotate".to_owned(),
        target: to.to_string(),
        note: None,
    };
    Ok(store.note_rotation(audit).await?)
}
