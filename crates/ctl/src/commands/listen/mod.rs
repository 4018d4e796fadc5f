//! `webhookctl listen`: events as they arrive, shown and passed on to a program of one's own.

pub mod body;
mod deal;
mod line;

use std::time::{Duration, Instant};

use clap::Args;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use wakepost_client::Forwarder;

use self::deal::{Dealer, Dealt};
use crate::commands::following::{self, COUNT_MAX, LAST_MAX, Stop};
use crate::commands::inbox::filter::Kind;
use crate::output::{self, escape};
use crate::session::Session;

const NOTES: &str = "Each event is posted with the body and the headers that it came with, less its sender's \
                     credentials and those of the connection, and with Wakepost-Event-Id. A request that held many \
                     events is posted once for each.";

#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Listen {
    /// Post each event to this address, as it was received; left out: only show it
    #[arg(long, value_name = "URL")]
    forward: Option<String>,
    #[command(flatten)]
    kind: Kind,
    /// Show each body too
    #[arg(long)]
    print_body: bool,
    /// Begin with so many that are there already
    #[arg(long, value_name = "N", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(0..=LAST_MAX))]
    last: u32,
    /// End after so many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=COUNT_MAX))]
    count: Option<u64>,
    /// How many are posted at once; 1 keeps their order
    #[arg(long, value_name = "N", default_value_t = 4,
        value_parser = clap::value_parser!(u32).range(1..=64))]
    concurrency: u32,
    /// How long the local program has to answer
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
        value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout_s: u64,
}

impl Listen {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let timeout = Duration::from_secs(self.timeout_s);
        let forwarder = self.forward.as_deref().map(|url| Forwarder::new(url, timeout));
        let forwarder = forwarder.transpose()?;
        let mut stop = Stop::new()?;
        let mut arriving = following::begin(session, self.kind.into(), self.last).await?;
        greet(session, forwarder.as_ref());
        let dealer = Dealer::new(session.client.clone(), forwarder, self.print_body);
        let (mut dealing, mut summary) = (FuturesUnordered::new(), Summary::new());
        let mut left = self.count.unwrap_or(u64::MAX);
        while left > 0 || !dealing.is_empty() {
            let has_room = left > 0 && dealing.len() < self.concurrency as usize;
            tokio::select! {
                () = stop.wanted() => break,
                Some(dealt) = dealing.next(), if !dealing.is_empty() => {
                    summary.count(&dealt);
                    if !show(session, &dealt)? {
                        return Ok(());
                    }
                }
                arrived = arriving.recv(), if has_room => match arrived.transpose()? {
                    Some(arrived) => {
                        left -= 1;
                        dealing.push(dealer.deal(arrived));
                    }
                    None => left = 0,
                },
            }
        }
        output::hint(&summary.sentence());
        Ok(())
    }
}

fn greet(session: &Session, forwarder: Option<&Forwarder>) {
    let to = forwarder.map(|to| format!(", posting to {}", escape(to.url()))).unwrap_or_default();
    let tenant = session.tenant.as_deref().map(|slug| format!(" ({})", escape(slug)));
    let (url, tenant) = (session.client.url(), tenant.unwrap_or_default());
    output::hint(&format!("listening to {}{tenant}{to}; Ctrl-C ends it", escape(url)));
}

/// Prints what became of an event, and says whether anybody still reads.
fn show(session: &Session, dealt: &Dealt) -> anyhow::Result<bool> {
    let text = match session.is_json() {
        true => output::json::line(&line::as_json(dealt))?,
        false => line::text(dealt, session.paint),
    };
    Ok(output::print_while_read(&text)?)
}

/// What came of it all.
struct Summary {
    begun: Instant,
    events: u64,
    answered: u64,
    failed: u64,
}

impl Summary {
    fn new() -> Summary {
        Summary { begun: Instant::now(), events: 0, answered: 0, failed: 0 }
    }

    fn count(&mut self, dealt: &Dealt) {
        self.events += 1;
        match dealt.is_well() {
            Some(true) => self.answered += 1,
            Some(false) => self.failed += 1,
            None => {}
        }
    }

    /// `12 events, 11 answered with 2xx, 1 not, in 34 s`
    fn sentence(&self) -> String {
        let events = if self.events == 1 { "1 event" } else { &format!("{} events", self.events) };
        let passed = match self.answered + self.failed {
            0 => String::new(),
            _ => format!(", {} answered with 2xx, {} not", self.answered, self.failed),
        };
        format!("{events}{passed}, in {} s", self.begun.elapsed().as_secs())
    }
}
