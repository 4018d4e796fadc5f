//! From when to when: the flags of bulk work on a webhook's deliveries.

use clap::Args;
use wakepost_client::Period;

use crate::output::when::When;
use crate::session::Session;

#[derive(Args)]
pub struct PeriodFlags {
    /// From this time on: 30m, 2h, 7d ago, or a date or time
    #[arg(long, value_name = "WHEN")]
    since: When,
    /// And before this one; until now unless told otherwise
    #[arg(long, value_name = "WHEN")]
    until: Option<When>,
}

impl PeriodFlags {
    /// As the server is asked.
    pub fn resolve(self, session: &Session) -> Period {
        Period {
            since: self.since.ago(session.now),
            until: self.until.map(|when| when.ago(session.now)),
        }
    }
}
