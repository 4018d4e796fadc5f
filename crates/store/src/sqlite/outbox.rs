//! What was published through SQL. Differs from PostgreSQL: nobody but this process can write to the database, so there
//! is nothing.

use async_trait::async_trait;

use super::Sqlite;
use crate::error::Result;
use crate::moves::{Outbox, Outboxed};

#[async_trait]
impl Outbox for Sqlite {
    async fn outbox(&self, _: u32) -> Result<Vec<Outboxed>> {
        Ok(Vec::new())
    }

    async fn outbox_done(&self, _: Vec<i64>) -> Result<()> {
        Ok(())
    }

    async fn outbox_refused(&self, _: i64, _: String) -> Result<()> {
        Ok(())
    }
}
