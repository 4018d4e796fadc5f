//! The hub: how nodes tell each other what happened.
//!
//! Differs from SQLite, which serves one process. Messages are hints: opaque words, put together and sent
//! after the commit they speak of, never inside it (a commit with a pending NOTIFY holds a server-wide
//! lock). One that is lost costs time, not work; whenever some may be lost, the message `resync` says so.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Pool;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio_postgres::AsyncMessage;

use super::Postgres;
use super::connect::{COOL, Dial};
use crate::error::{Result, StoreError};

const CHANNEL: &str = "wakepost";
/// Messages may have been lost: look at everything.
const RESYNC: &str = "resync";
/// The first message goes at once; after it, this long passes before the next.
const PAUSE: Duration = Duration::from_millis(5);
/// PostgreSQL refuses payloads of 8,000 bytes.
const PAYLOAD_BYTES_MAX: usize = 7_900;
/// When more than this wait to be sent, "everything" is the shorter message.
const WAITING_MAX: usize = 10_000;
/// How many messages may wait for the listener.
const HEARD_MAX: usize = 16_384;
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);
/// How often a silent listening connection is asked whether it lives, and how long it may think.
const PULSE: Duration = Duration::from_secs(15);
const PULSE_TIMEOUT: Duration = Duration::from_secs(5);

impl Postgres {
    /// Tells all nodes something: one word, or several separated by spaces. Words that wait together are
    /// sent together, each once.
    pub fn notify(&self, message: &str) {
        self.inner.hub.say(message);
    }

    /// What all nodes, this one included, say from now on, word by word. `resync` comes first, once the
    /// connection listens, and again after each time it was lost.
    pub fn listen(&self) -> mpsc::Receiver<String> {
        let (heard, words) = mpsc::channel(HEARD_MAX);
        tokio::spawn(listen(self.inner.listening.clone(), heard));
        words
    }
}

/// The sending side.
pub struct Hub {
    waiting: Arc<Waiting>,
    sender: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct Waiting {
    words: Mutex<Words>,
    some: Notify,
}

/// Words in the order they were first said.
#[derive(Default)]
struct Words {
    order: Vec<String>,
    known: HashSet<String>,
}

impl Hub {
    pub fn start(pool: Pool) -> Hub {
        let waiting = Arc::new(Waiting::default());
        let sender = tokio::spawn(send(pool, waiting.clone()));
        Hub { waiting, sender }
    }

    fn say(&self, message: &str) {
        self.waiting.words.lock().add(message);
        self.waiting.some.notify_one();
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.sender.abort();
    }
}

impl Words {
    fn add(&mut self, message: &str) {
        for word in message.split_ascii_whitespace() {
            if word.len() > PAYLOAD_BYTES_MAX || self.order.len() >= WAITING_MAX {
                return self.lose();
            }
            if self.known.insert(word.to_owned()) {
                self.order.push(word.to_owned());
            }
        }
    }

    fn lose(&mut self) {
        *self = Words::default();
        self.known.insert(RESYNC.to_owned());
        self.order.push(RESYNC.to_owned());
    }

    /// As much as fits into one payload.
    fn take(&mut self) -> String {
        let mut payload = String::new();
        let mut taken = 0;
        for word in &self.order {
            if payload.len() + 1 + word.len() > PAYLOAD_BYTES_MAX {
                break;
            }
            if !payload.is_empty() {
                payload.push(' ');
            }
            payload.push_str(word);
            taken += 1;
        }
        for word in self.order.drain(..taken) {
            self.known.remove(&word);
        }
        payload
    }
}

async fn send(pool: Pool, waiting: Arc<Waiting>) {
    loop {
        waiting.some.notified().await;
        loop {
            let payload = waiting.words.lock().take();
            if payload.is_empty() {
                break;
            }
            if let Err(error) = send_one(&pool, &payload).await {
                tracing::warn!(%error, "other nodes could not be told; they will look for themselves");
                waiting.words.lock().lose();
                tokio::time::sleep(RECONNECT_PAUSE).await;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// One round trip, and one transaction: the server wraps statements that come together. Nothing is lost
/// with a notification, so its commit need not wait for the disk; the setting ends with the transaction.
async fn send_one(pool: &Pool, payload: &str) -> Result<()> {
    let client = pool.get().await?;
    let quoted = payload.replace('\'', "''");
    let sql = format!("SET LOCAL synchronous_commit = off; NOTIFY {CHANNEL}, '{quoted}'");
    client.batch_execute(&sql).await?;
    Ok(())
}

/// Keeps one connection listening until nobody wants to hear any more.
async fn listen(dial: Dial, heard: mpsc::Sender<String>) {
    while !heard.is_closed() {
        tokio::select! {
            () = heard.closed() => return,
            ended = listen_once(&dial, &heard) => {
                if let Err(error) = ended {
                    tracing::warn!(%error, "not listening to other nodes; connecting again");
                }
            }
        }
        tokio::time::sleep(RECONNECT_PAUSE).await;
    }
}

async fn listen_once(dial: &Dial, heard: &mpsc::Sender<String>) -> Result<()> {
    let words = heard.clone();
    let lost = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let overflow = lost.clone();
    let (client, connection) = dial
        .dial(COOL, move |message| {
            if let AsyncMessage::Notification(note) = message {
                for word in note.payload().split_ascii_whitespace() {
                    if words.try_send(word.to_owned()).is_err() {
                        overflow.store(true, std::sync::atomic::Ordering::Relaxed);
                    }
                }
            }
        })
        .await?;
    client.batch_execute(&format!("LISTEN {CHANNEL}")).await?;
    // What was said before this moment went unheard.
    if heard.send(RESYNC.to_owned()).await.is_err() {
        return Ok(());
    }
    let mut connection = std::pin::pin!(connection);
    loop {
        tokio::select! {
            _ = &mut connection => return Err(gone()),
            () = tokio::time::sleep(PULSE) => {}
        }
        let pulse = tokio::time::timeout(PULSE_TIMEOUT, client.batch_execute("")).await;
        pulse.map_err(|_| gone())??;
        // A listener that was too slow has missed words.
        if lost.swap(false, std::sync::atomic::Ordering::Relaxed)
            && heard.send(RESYNC.to_owned()).await.is_err()
        {
            return Ok(());
        }
    }
}

fn gone() -> StoreError {
    StoreError::Unavailable("the listening connection is gone".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_wait_together_are_sent_together_each_once() {
        let mut words = Words::default();
        words.add("lane:1 lane:2");
        words.add("lane:1");
        assert_eq!(words.take(), "lane:1 lane:2");
        assert_eq!(words.take(), "");
    }

    #[test]
    fn a_payload_stays_below_the_servers_limit() {
        let mut words = Words::default();
        (0..4000).for_each(|number| words.add(&format!("lane:{number}")));
        let mut total = 0;
        loop {
            let payload = words.take();
            if payload.is_empty() {
                break;
            }
            assert!(payload.len() <= PAYLOAD_BYTES_MAX);
            total += payload.split(' ').count();
        }
        assert_eq!(total, 4000);
    }

    #[test]
    fn too_many_words_become_one_that_means_all() {
        let mut words = Words::default();
        (0..=WAITING_MAX).for_each(|number| words.add(&number.to_string()));
        assert_eq!(words.take(), RESYNC);
    }
}
