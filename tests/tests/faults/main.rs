//! Faults: what clients see when something below or beside the gateway goes wrong, and that it goes on afterwards with
//! nothing lost and nothing doubled. `docs/faults.md` is the table; one file here for each family of faults.

mod failover;
mod load;
mod restarts;
