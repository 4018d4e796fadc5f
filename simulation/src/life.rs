//! One life of the server, or the time between two: everything runs on this thread until the server crashes, the time is
//! up, or the story has been told.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::{FuturesUnordered, Stream};
use tokio::time::Sleep;

use crate::server::{Making, Server};
use crate::world::World;

/// Everybody who is not the server.
pub type Clients = FuturesUnordered<LocalBoxFuture<'static, ()>>;

/// How a life ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The server crashed.
    Crashed,
    /// It could not be started.
    NotStarted,
    /// The time is up.
    TimeUp,
    /// The story has been told.
    Told,
}

/// Runs one life. `story` is the client that all others wait for.
pub fn live(
    world: &Rc<World>,
    making: Option<Making>,
    limit: Duration,
    clients: &mut Clients,
    story: &mut LocalBoxFuture<'static, ()>,
) -> anyhow::Result<End> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    Ok(runtime.block_on(async {
        world.time.begin();
        let up_to = world.time.passed() + limit;
        let making = making.map(|making| Box::pin(making.start()) as Starting);
        let mut life = Life { world, making, server: None, alarm: None, up_to, clients, story };
        let end = poll_fn(|context| life.poll(context)).await;
        drop(life);
        world.time.end();
        end
    }))
}

type Starting = Pin<Box<dyn Future<Output = anyhow::Result<Server>>>>;

struct Life<'a> {
    world: &'a Rc<World>,
    making: Option<Starting>,
    server: Option<Server>,
    alarm: Option<Pin<Box<Sleep>>>,
    up_to: Duration,
    clients: &'a mut Clients,
    story: &'a mut LocalBoxFuture<'static, ()>,
}

impl Life<'_> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<End> {
        loop {
            // Before anybody else: what a server that is gone had on its tongue is not said.
            if self.world.faults.is_crashed() {
                return Poll::Ready(End::Crashed);
            }
            if self.world.time.passed() >= self.up_to {
                return Poll::Ready(End::TimeUp);
            }
            if let Some(end) = self.start(context) {
                return Poll::Ready(end);
            }
            self.world.wake_sleepers();
            if self.story.as_mut().poll(context).is_ready() {
                return Poll::Ready(End::Told);
            }
            self.clients.extend(self.world.newcomers());
            while let Poll::Ready(Some(())) = Pin::new(&mut *self.clients).poll_next(context) {}
            for calling in self.world.calls() {
                // Where nobody listens the call is dropped, and with it the way of the answer.
                if let Some(server) = &self.server {
                    server.serve(calling);
                }
            }
            if !self.world.faults.is_crashed() && self.sleeps(context) {
                return Poll::Pending;
            }
        }
    }

    fn start(&mut self, context: &mut Context<'_>) -> Option<End> {
        let starting = self.making.as_mut()?;
        match starting.as_mut().poll(context) {
            Poll::Pending => None,
            Poll::Ready(Ok(server)) => {
                (self.server, self.making) = (Some(server), None);
                None
            }
            Poll::Ready(Err(error)) => {
                self.world.note(format_args!("the server could not be started: {error:#}"));
                Some(End::NotStarted)
            }
        }
    }

    /// Sleeps until the next timer of a client, or the end; false if that is now.
    fn sleeps(&mut self, context: &mut Context<'_>) -> bool {
        let next = self.world.next_timer().map_or(self.up_to, |timer| timer.min(self.up_to));
        let moment = self.world.time.moment(next);
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(moment)));
        if alarm.deadline() != moment {
            alarm.as_mut().reset(moment);
        }
        alarm.as_mut().poll(context).is_pending()
    }
}
