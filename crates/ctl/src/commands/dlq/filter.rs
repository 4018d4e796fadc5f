//! Which dead letters: the flags that several commands share.

use clap::Args;
use wakepost_client::DeadLetterFilter;

use crate::output::when::When;
use crate::session::Session;

#[derive(Args)]
pub struct Filter {
    /// This one; may be repeated, for several
    #[arg(long = "id", value_name = "ID")]
    ids: Vec<String>,
    /// Of this kind of work
    #[arg(long, value_parser = ["job", "delivery", "reply", "callback"])]
    kind: Option<String>,
    /// Of this source
    #[arg(long, value_name = "SRC")]
    source: Option<String>,
    /// Given up since: 30m, 2h, 7d ago, or a date or time
    #[arg(long, value_name = "WHEN")]
    since: Option<When>,
    /// Given up before
    #[arg(long, value_name = "WHEN")]
    until: Option<When>,
    /// Whose id, event, kind or subject begins so, or whose last error has it
    #[arg(long, value_name = "TEXT")]
    q: Option<String>,
}

impl Filter {
    /// As the server is asked.
    pub fn resolve(self, session: &Session) -> DeadLetterFilter {
        DeadLetterFilter {
            ids: self.ids,
            kind: self.kind,
            source: self.source,
            since: self.since.map(|when| when.ago(session.now)),
            until: self.until.map(|when| when.ago(session.now)),
            q: self.q,
        }
    }

    /// Whether it leaves out anything.
    pub fn is_given(&self) -> bool {
        let Filter { ids, kind, source, since, until, q } = self;
        let is_narrow = kind.is_some() || source.is_some() || q.is_some();
        !ids.is_empty() || is_narrow || since.is_some() || until.is_some()
    }
}
