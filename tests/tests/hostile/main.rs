//! Hostile: what peers send who mean harm, or know no better. Each gets what the specification says, nobody
//! else notices, and nothing is stored that should not be.

mod content;
mod flood;
mod forgeries;
mod http2;
mod signatures;
