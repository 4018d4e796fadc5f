//! Events as they arrive, over broken streams and restarts of the server, each once.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use wakepost_client::{Arrived, Client, Error, InboxEvents, InboxQuery};
use wakepost_domain::{EventId, Ulid};

use crate::output::{self, escape};
use crate::session::Session;

/// How many events of before one may begin with: a page, less the one that they come after.
pub const LAST_MAX: i64 = 499;
/// How many events one may wait for.
pub const COUNT_MAX: u64 = 1_000_000_000;
/// How many events wait here at most; then the server's stream waits.
const WAITING_MAX: usize = 16;
/// Another node's event may show up this much later than its time, and so behind what was told.
const OVERLAP: Duration = Duration::from_secs(10);
/// Before all events.
const BEGINNING: EventId = EventId(Ulid::MIN);
const PAUSE_FIRST: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// Begins with the last so many events that are there, and goes on with what arrives. Whatever will never work fails
/// here; what breaks later is taken up again.
pub async fn begin(
    session: &Session,
    query: InboxQuery,
    last: u32,
) -> Result<mpsc::Receiver<Result<Arrived, Error>>, Error> {
    let client = session.client.clone();
    let page = InboxQuery { limit: Some(last + 1), ..query.clone() };
    let page = client.list_inbox(&page).await?.data;
    // After the one before the first that is wanted; after nothing if there are not so many.
    let after = page.get(last as usize).and_then(|event| event.envelope.event_id.parse().ok());
    let position = Position::after(after.unwrap_or(BEGINNING));
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    let mut following = Following { client, query, position, is_lost: false };
    tokio::spawn(async move {
        if let Err(error) = following.tell(&sender).await {
            // Nobody may be there any more.
            let _ = sender.send(Err(error)).await;
        }
    });
    Ok(receiver)
}

/// How far the inbox was told.
#[derive(Debug)]
struct Position {
    /// Nothing at or before this is wanted.
    first: EventId,
    newest: EventId,
    /// What was told of the last moments.
    told: BTreeSet<EventId>,
}

impl Position {
    fn after(first: EventId) -> Position {
        Position { first, newest: first, told: BTreeSet::new() }
    }

    /// What a stream is asked to go on after: a little before the newest, since what was told is known.
    fn resume(&self) -> EventId {
        let floor = EventId(Ulid::floor(self.newest.0.time().before(OVERLAP)));
        if self.newest == self.first { self.first } else { floor.max(self.first) }
    }

    /// Takes note of an event; says whether it is new.
    fn note(&mut self, id: EventId) -> bool {
        if id <= self.first || !self.told.insert(id) {
            return false;
        }
        self.newest = self.newest.max(id);
        let floor = self.resume();
        self.told.retain(|id| *id > floor);
        true
    }
}

struct Following {
    client: Client,
    query: InboxQuery,
    position: Position,
    is_lost: bool,
}

impl Following {
    /// Tells of events until nobody listens, or the server refuses for good.
    async fn tell(&mut self, sender: &mpsc::Sender<Result<Arrived, Error>>) -> Result<(), Error> {
        let mut pause = PAUSE_FIRST;
        while !sender.is_closed() {
            let after = self.position.resume().to_string();
            let told = match self.client.watch_inbox(&self.query, Some(&after), None).await {
                Ok(stream) => {
                    self.found();
                    pause = PAUSE_FIRST;
                    self.pass(stream, sender).await
                }
                Err(error) => Err(error),
            };
            match told {
                Err(error) if !error.is_transient() => return Err(error),
                Err(error) => self.lost(&error),
                Ok(()) => {}
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(PAUSE_MAX),
                () = sender.closed() => {}
            }
        }
        Ok(())
    }

    async fn pass(
        &mut self,
        mut stream: InboxEvents,
        sender: &mpsc::Sender<Result<Arrived, Error>>,
    ) -> Result<(), Error> {
        loop {
            let arrived = tokio::select! {
                arrived = stream.next() => arrived?,
                () = sender.closed() => None,
            };
            let Some(arrived) = arrived else {
                return Ok(());
            };
            // Without an id it cannot be told apart from others.
            let is_new = arrived.id.parse().is_ok_and(|id| self.position.note(id));
            if is_new && sender.send(Ok(arrived)).await.is_err() {
                return Ok(());
            }
        }
    }

    fn lost(&mut self, error: &Error) {
        if !self.is_lost {
            let error = error.to_string();
            output::hint(&format!("lost the server, trying again: {}", escape(&error)));
        }
        self.is_lost = true;
    }

    fn found(&mut self) {
        if self.is_lost {
            output::hint("the server is back");
        }
        self.is_lost = false;
    }
}

/// Whether somebody wants it to end: Ctrl-C, or a polite word of the system.
pub struct Stop {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Stop {
    /// From now on.
    pub fn new() -> anyhow::Result<Stop> {
        #[cfg(unix)]
        {
            use anyhow::Context;
            use tokio::signal::unix::{SignalKind, signal};
            let terminate = signal(SignalKind::terminate()).context("signals cannot be awaited")?;
            Ok(Stop { terminate })
        }
        #[cfg(not(unix))]
        Ok(Stop {})
    }

    /// Returns when it is wanted.
    pub async fn wanted(&mut self) {
        let interrupted = async {
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        #[cfg(unix)]
        tokio::select! {
            () = interrupted => {}
            _ = self.terminate.recv() => {}
        }
        #[cfg(not(unix))]
        interrupted.await;
    }
}

/// `09:14:22Z`. A time that cannot be read is shown as it came.
pub fn clock(at: Option<&str>) -> String {
    let at = at.unwrap_or_default();
    match at.parse::<Timestamp>() {
        Ok(at) => at.strftime("%H:%M:%SZ").to_string(),
        Err(_) => at.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(at_ms: i64, more: u128) -> EventId {
        EventId(Ulid::from_parts(wakepost_domain::Timestamp::from_millis(at_ms), more))
    }

    #[test]
    fn each_event_is_told_once_and_late_ones_too() {
        let mut position = Position::after(id(1_000_000, 5));
        assert_eq!(position.resume(), id(1_000_000, 5), "nothing was told yet");
        assert!(!position.note(id(1_000_000, 5)), "it is where we began");
        assert!(position.note(id(1_020_000, 1)));
        assert!(!position.note(id(1_020_000, 1)));
        assert_eq!(position.resume(), id(1_010_000, 0));
        assert!(position.note(id(1_015_000, 0)), "another node's, a little late");
        assert!(!position.note(id(1_015_000, 0)));
    }

    #[test]
    fn what_was_told_long_ago_is_forgotten() {
        let mut position = Position::after(BEGINNING);
        for second in 0..1_000 {
            assert!(position.note(id(2_000_000 + second * 1_000, 7)));
        }
        assert!(position.told.len() <= 11, "{}", position.told.len());
    }

    #[test]
    fn a_clock_shows_what_it_can() {
        assert_eq!(clock(Some("2026-11-15T09:14:22.000Z")), "09:14:22Z");
        assert_eq!(clock(Some("soon")), "soon");
    }
}
