//! Workers that wait for work, in the order they came.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use wakepost_domain::lane::Lane;

use super::{Ask, Rings};

#[derive(Default)]
pub struct Waiting {
    workers: VecDeque<Worker>,
    next: u64,
}

struct Worker {
    id: u64,
    ask: Ask,
    bell: Arc<Notify>,
}

impl Waiting {
    /// Wakes workers that want the lane's work, one an item.
    pub fn wake(&mut self, lane: &Lane, mut count: usize) {
        while count > 0 {
            let Some(index) = self.workers.iter().position(|worker| worker.ask.wants(lane)) else {
                return;
            };
            let Some(worker) = self.workers.remove(index) else {
                return;
            };
            worker.bell.notify_one();
            // One worker may take many.
            count = count.saturating_sub(worker.ask.max as usize);
        }
    }
}

/// A worker's place among the waiting. If it leaves for good after it was woken, the wake-up goes to the
/// next one: there may be work that nobody else was told of.
pub struct Place<'a> {
    rings: &'a Mutex<Rings>,
    id: u64,
    bell: Arc<Notify>,
    passes_on: bool,
}

impl<'a> Place<'a> {
    pub fn take(rings: &'a Mutex<Rings>, ask: &Ask) -> Place<'a> {
        let bell = Arc::new(Notify::new());
        let mut inner = rings.lock();
        let id = inner.waiting.next;
        inner.waiting.next += 1;
        inner.waiting.workers.push_back(Worker { id, ask: ask.clone(), bell: bell.clone() });
        drop(inner);
        Place { rings, id, bell, passes_on: true }
    }

    pub async fn woken(&self) {
        self.bell.notified().await;
    }

    /// The worker will look again itself.
    pub fn look_again(mut self) {
        self.passes_on = false;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut rings = self.rings.lock();
        let still_waiting = rings.waiting.workers.iter().position(|worker| worker.id == self.id);
        match still_waiting {
            Some(index) => {
                rings.waiting.workers.remove(index);
            }
            None if !self.passes_on => {}
            None => {
                if let Some(worker) = rings.waiting.workers.pop_front() {
                    worker.bell.notify_one();
                }
            }
        }
    }
}
