//! The store against a model of it: random sequences of moves by two tenants, with crashes and clock steps.
//!
//! The rules stand here a second time, in plain maps (`rules/`), written from the specification. After each move both
//! the answer and the rows must be what the model says, and the invariants hold of the rows alone. A sequence is a
//! list of wishes (`wish`), which are turned into calls (`call`) by what there is at that moment, so that a shorter
//! sequence still means something; `runner` makes the sequences and looks for the shortest that fails.

#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod call;
mod chance;
mod compare;
mod databases;
mod invariants;
mod kept;
mod planning;
mod rules;
mod runner;
mod sequence;
mod tally;
mod wish;
mod world;

use databases::{OnPostgres, OnSqlite};

#[test]
fn sqlite_holds_exactly_what_the_model_says() {
    runner::run::<OnSqlite>();
}

#[test]
fn postgres_holds_exactly_what_the_model_says() {
    runner::run::<OnPostgres>();
}
