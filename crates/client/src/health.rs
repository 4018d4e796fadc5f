//! Whether the server is up.

use crate::call::get;
use crate::{Call, Client, Error, Nothing};

impl Client {
    /// `GET /healthz`: the process answers.
    pub fn health(&self) -> Call<Nothing> {
        self.call_under(&[], get(&["healthz"]))
    }

    /// `GET /readyz`: it can do work, its store included.
    pub fn ready(&self) -> Call<Nothing> {
        self.call_under(&[], get(&["readyz"]))
    }

    /// `GET /metrics`: this node's counters, as Prometheus reads them.
    pub async fn metrics(&self) -> Result<String, Error> {
        // They are of the whole node, not of a tenant.
        let mut client = self.clone();
        client.tenant = None;
        client.call_under::<Nothing>(&[], get(&["metrics"])).text().await
    }
}
