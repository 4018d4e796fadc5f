//! The database a command works on: the one it was given, or a server of its own.

use std::env::VarError;
use std::fmt;

use anyhow::Context;
use xtask::postgres::{Durability, Postgres};

/// A PostgreSQL database to hand to a child process.
#[derive(Debug)]
pub enum Database {
    /// Named by whoever runs the command; left as it is afterwards.
    Given(String),
    /// Started for this command; gone when dropped.
    Own(Postgres),
}

impl Database {
    /// The database that an environment variable names, else a server of our own.
    pub fn given_or_own(variable: &str, durability: Durability) -> anyhow::Result<Self> {
        match std::env::var(variable) {
            Ok(url) if !url.is_empty() => Ok(Self::Given(url)),
            Ok(_) | Err(VarError::NotPresent) => Ok(Self::Own(Postgres::start(durability)?)),
            Err(error) => Err(error).with_context(|| format!("reading {variable}")),
        }
    }

    /// Its address.
    pub fn url(&self) -> String {
        match self {
            Self::Given(url) => url.clone(),
            Self::Own(postgres) => postgres.url(),
        }
    }
}

impl fmt::Display for Database {
    // Never the address: a given one may hold a password.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(_) => formatter.write_str("the PostgreSQL server given"),
            Self::Own(postgres) => write!(formatter, "PostgreSQL {}", postgres.version()),
        }
    }
}
