//! What every harness with clients shares: choices that follow from a seed, what a call came to, and the rules that
//! what clients were told must obey. The simulation goes by the same rules as the crashes.

pub mod chance;
pub mod exchange;
pub mod plan;
pub mod shown;
pub mod told;
