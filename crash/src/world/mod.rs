//! The world that is crashed: processes, databases, a disk.

mod cluster;
mod control;
mod disk;
mod node;

pub use cluster::{Cluster, Place, new_directory};
pub use control::break_promise;
pub use disk::Disk;
