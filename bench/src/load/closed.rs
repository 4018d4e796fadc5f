//! A closed loop: each connection sends as soon as it was answered.

use std::time::Instant;

use super::threads::run;
use super::{Load, Seen};

/// Loads as hard as the connections allow.
pub async fn closed(load: Load) -> anyhow::Result<Seen> {
    run(load, |_, mut client| async move {
        tokio::time::sleep_until(client.times.begin.into()).await;
        loop {
            let began = Instant::now();
            if began >= client.times.end {
                return Ok(client);
            }
            client.exchange(began).await?;
        }
    })
    .await
}
