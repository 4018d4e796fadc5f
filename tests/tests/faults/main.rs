//! Faults: what clients see when something below or beside the gateway goes wrong, and that it goes on afterwards with
//! nothing lost and nothing doubled. `docs/faults.md` is the table; one file here for each family of faults.

mod after_commit;
mod clock;
mod failover;
mod file_limit;
mod load;
mod paused;
mod restarts;
mod slow_disk;
mod wire;
