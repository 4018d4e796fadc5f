//! Stand-ins of platforms that only announce what happened: real servers that check what they are asked, and say the
//! rest.

mod drive;
mod mailbox;

pub use drive::{Channel, Drive};
pub use mailbox::Mailbox;
