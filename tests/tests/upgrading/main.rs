//! Upgrading: what an earlier release left behind opens in this one while it is used, an older program keeps away from
//! what a newer one wrote, and the way between them is never rewritten.

mod appending;
mod jobs;
mod load;
mod migrating;
mod older;
mod opening;
mod rolling;
mod senders;
mod subscribers;
mod upgraded;

/// The release whose data is opened.
const RELEASE: &str = "v0.1.0";
