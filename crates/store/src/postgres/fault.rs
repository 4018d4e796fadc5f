//! What a failure of the database means to the caller.

use std::error::Error as _;
use std::io;

use deadpool_postgres::PoolError;
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

use crate::error::StoreError;

/// A failed statement, by what the batcher does about it.
#[derive(Debug)]
pub enum Fault {
    /// Nothing was written, and the same again may succeed: a deadlock, or a race for a key.
    Again(StoreError),
    /// A row of the batch is at fault.
    Row(StoreError),
    /// The database, or the way to it, is at fault.
    Down(StoreError),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        let class = class(&error);
        let error = StoreError::from(error);
        match class {
            Class::Conflict => Fault::Again(error),
            Class::Row => Fault::Row(error),
            Class::Slow | Class::Lost | Class::Refused => Fault::Down(error),
        }
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Fault {
        Fault::Down(error)
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> StoreError {
        let (Fault::Again(error) | Fault::Row(error) | Fault::Down(error)) = fault;
        error
    }
}

impl From<Error> for StoreError {
    fn from(error: Error) -> StoreError {
        match class(&error) {
            // Both were rolled back by the server: nothing was written.
            Class::Conflict | Class::Slow => StoreError::Busy,
            Class::Row | Class::Lost | Class::Refused => StoreError::Unavailable(describe(&error)),
        }
    }
}

impl From<PoolError> for StoreError {
    fn from(error: PoolError) -> StoreError {
        match error {
            PoolError::Backend(error) => error.into(),
            PoolError::Timeout(deadpool_postgres::TimeoutType::Wait) => StoreError::Busy,
            PoolError::Timeout(_) => {
                StoreError::Unavailable("PostgreSQL does not answer".to_owned())
            }
            _ => StoreError::Unavailable("the store is closed".to_owned()),
        }
    }
}

/// Whether a unique index refused the row.
pub fn is_taken(error: &Error) -> bool {
    error.code() == Some(&SqlState::UNIQUE_VIOLATION)
}

enum Class {
    /// Another transaction was in the way.
    Conflict,
    /// A lock or a statement took longer than it may.
    Slow,
    /// A value is at fault.
    Row,
    /// The connection broke, or could not be made.
    Lost,
    /// The server will not do it now, or not for us.
    Refused,
}

fn class(error: &Error) -> Class {
    let Some(code) = error.code() else {
        return if is_unsendable(error) { Class::Row } else { Class::Lost };
    };
    match (code.code(), &code.code()[..2]) {
        ("40001" | "40P01", _) => Class::Conflict,
        ("55P03" | "57014", _) => Class::Slow,
        (_, "08" | "57") => Class::Lost,
        // Resources, read-only, credentials, no such database, no such table, I/O on the server.
        (_, "25" | "28" | "3D" | "42" | "53" | "55" | "58" | "XX") => Class::Refused,
        _ => Class::Row,
    }
}

/// The driver itself could not turn a value into bytes: its cause is not the connection's.
fn is_unsendable(error: &Error) -> bool {
    error.source().is_some_and(|source| match source.downcast_ref::<io::Error>() {
        Some(io) => io.kind() == io::ErrorKind::InvalidInput,
        None => true,
    })
}

/// A short text. The server's message never holds the password, and its detail, which may hold a row's
/// values, is left out.
fn describe(error: &Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(refusal), _) => refused(refusal),
        (None, Some(source)) => format!("PostgreSQL: {error}: {source}"),
        (None, None) => format!("PostgreSQL: {error}"),
    }
}

fn refused(refusal: &DbError) -> String {
    let message = wakepost_domain::limits::truncate(refusal.message(), 200);
    format!("PostgreSQL: {message} ({})", refusal.code().code())
}
