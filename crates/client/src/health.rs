//! Whether the server is up.

use crate::call::get;
use crate::{Call, Client, Nothing};

impl Client {
    /// `GET /healthz`: the process answers.
    pub fn health(&self) -> Call<Nothing> {
        self.call_under(&[], get(&["healthz"]))
    }

    /// `GET /readyz`: it can do work, its store included.
    pub fn ready(&self) -> Call<Nothing> {
        self.call_under(&[], get(&["readyz"]))
    }
}
