//! The gateway doing everything but the commit: it reads, verifies, maps and encrypts, and the ledger says
//! at once that the event is new.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use wakepost_server::app::App;
use wakepost_server::config::{Flags, load};
use wakepost_store::Result;
use wakepost_store::moves::{
    Accepted, AuditEntry, Ledger, NewEvent, NewReceipt, Received, SharedBody,
};

/// A ledger that keeps nothing.
struct NoCommit;

#[async_trait]
impl Ledger for NoCommit {
    async fn accept(&self, batch: Vec<NewEvent>) -> Vec<Received> {
        batch.iter().map(|_| Ok(Accepted::New)).collect()
    }

    async fn accept_together(&self, _: SharedBody, events: Vec<NewEvent>) -> Result<Vec<Accepted>> {
        self.accept(events).await.into_iter().collect()
    }

    async fn publish(&self, events: Vec<NewEvent>, _: Option<AuditEntry>) -> Result<Vec<Accepted>> {
        Ok(events.iter().map(|_| Accepted::New).collect())
    }

    async fn keep_rejections(&self, _batch: Vec<NewReceipt>) -> Result<()> {
        Ok(())
    }
}

/// Serves until SIGTERM. Settings live in SQLite in `data_dir`.
pub async fn serve(data_dir: PathBuf) -> anyhow::Result<()> {
    let flags = Flags {
        values: [
            ("listen", "127.0.0.1:0".to_owned()),
            ("data_dir", data_dir.display().to_string()),
        ]
        .into(),
        ..Flags::default()
    };
    let config = load(&flags, &|name| std::env::var(name).ok())?;
    let app = App::start_with(config, |_| Arc::new(NoCommit)).await?;
    let stop = super::stop_at_sigterm()?;
    let context = app.context.clone();
    tokio::spawn(async move {
        stop.cancelled().await;
        context.stop.cancel();
    });
    println!("listening on http://{}", app.address);
    app.serve().await;
    Ok(())
}
