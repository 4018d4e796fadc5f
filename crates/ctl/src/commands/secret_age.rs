//! How old a secret is, and whether it should be replaced.

use crate::output::{Cell, Tone};

/// A secret this old should be replaced.
const SECRET_DAYS_MAX: u64 = 90;

/// The age of a webhook's or a source's secret.
pub fn secret_age(days: u64) -> Cell {
    let age = format!("{days} days old");
    match days >= SECRET_DAYS_MAX {
        true => Cell::toned(Tone::Warn, &format!("{age}: rotate it")),
        false => Cell::new(&age),
    }
}
