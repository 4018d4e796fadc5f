//! What the commands of `cargo xtask` stand on, for them and for the programs that they start: packages that
//! are installed, PostgreSQL servers of one's own, child processes, Ctrl-C.

pub mod interrupt;
pub mod packages;
pub mod postgres;
pub mod process;
pub mod workspace;
