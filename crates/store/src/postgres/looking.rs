//! How a database server is set up, for whoever asks whether it is safe.

use wakepost_domain::Timestamp;

use super::Postgres;
use super::rows::{get, time};
use crate::error::Result;

/// The settings that decide whether what is committed stays.
const SETTINGS: [&str; 4] = ["server_version", "fsync", "synchronous_commit", "full_page_writes"];

/// What a server says of itself.
#[derive(Debug, Clone)]
pub struct Looked {
    /// Settings, by name.
    pub settings: Vec<(&'static str, String)>,
    /// Its clock.
    pub now: Timestamp,
    /// How large the database is.
    pub bytes: i64,
    /// Whether it is a copy that follows another server.
    pub is_standby: bool,
}

impl Postgres {
    /// Looks at the server.
    pub async fn look(&self) -> Result<Looked> {
        let client = self.cool().await?;
        let row = client
            .query_one(
                "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
                        pg_database_size(current_database()), pg_is_in_recovery()",
                &[],
            )
            .await?;
        let (now, bytes, is_standby) = (time(&row, 0)?, get(&row, 1)?, get(&row, 2)?);
        let mut settings = Vec::with_capacity(SETTINGS.len());
        for name in SETTINGS {
            let row = client.query_one("SELECT current_setting($1::text)", &[&name]).await?;
            settings.push((name, get(&row, 0)?));
        }
        Ok(Looked { settings, now, bytes, is_standby })
    }
}
