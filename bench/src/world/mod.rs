//! The programs under measurement: started, watched and stopped.

pub mod child;
pub mod contents;
pub mod gateway;
pub mod peers;
pub mod postgres;
pub mod receiver;
pub mod usage;
