//! What a failpoint is made to do, and that it did.

use crate::gateway::Gateway;
use crate::waiting::until;

/// What happens at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// The process dies.
    Kill,
    /// The place fails, twice: the same server must recover.
    Error,
    /// The place waits, twice.
    Delay,
}

impl Act {
    /// The usual one, or with `WAKEPOST_FAILPOINTS_ALL=1` all three.
    pub fn tried(usual: Act) -> Vec<Act> {
        let all = std::env::var_os("WAKEPOST_FAILPOINTS_ALL").is_some_and(|all| all == "1");
        if all { vec![Act::Kill, Act::Error, Act::Delay] } else { vec![usual] }
    }

    /// The failpoint that does this at a place, from the Nth time on that it is reached.
    pub fn at(self, place: &str, nth: u32) -> String {
        match self {
            Act::Kill => format!("{place}=kill@{nth}"),
            Act::Error => format!("{place}=error@{nth}x2"),
            Act::Delay => format!("{place}=delay:300@{nth}x2"),
        }
    }

    /// Waits until it was done. A server that died of it is started again.
    pub async fn done(self, gateway: &mut Gateway, place: &str) {
        let line = format!("failpoint {place} acts");
        if self == Act::Kill {
            gateway.ended().await;
            assert!(gateway.logged().contains(&line), "it died of {place}");
            return gateway.restart().await;
        }
        until(&line, || async { gateway.logged().contains(&line).then_some(()) }).await;
    }
}
