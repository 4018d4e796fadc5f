//! The dashboard's pages on a ledger with many events: how long each takes to be answered.

use std::time::Instant;

use anyhow::{Context, bail, ensure};

use super::rounds::{by_arm, rounds};
use crate::bench::Bench;
use crate::figure::{Figure, Target, Unit, thousands};
use crate::load::connection::Connection;
use crate::seed::{self, Rows, Seed, Tenants};
use crate::stats::percentile;
use crate::world::gateway::{ADMIN_KEY, Gateway, Kind};

/// How often a page is asked for in a round.
const ASKED: usize = 60;
/// Jobs that wait, beside the events: as many as the figures of a queue look at.
const WAITING: usize = 20_000;

/// Pages by what they are called here. `{event}` is the latest event's id, `{job}` its job's.
pub const PAGES: [(&str, &str); 11] = [
    ("overview", "/"),
    ("overview of a day", "/?span=24h"),
    ("inbox", "/inbox"),
    ("inbox by status", "/inbox?status=succeeded"),
    ("inbox by a status that no event has", "/inbox?status=held"),
    ("inbox by type", "/inbox?type=order.paid"),
    ("inbox by text", "/inbox?q=msg_00000000000f"),
    ("event", "/inbox/{event}"),
    ("jobs", "/jobs"),
    ("job", "/jobs/{job}"),
    ("dead letters", "/dead-letters"),
];

/// The figures of the spec.
pub async fn figures(bench: &Bench, events: usize) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for kind in bench.databases() {
        figures.extend(of_one(bench, kind, events).await?);
    }
    Ok(figures)
}

async fn of_one(bench: &Bench, kind: Kind, events: usize) -> anyhow::Result<Vec<Figure>> {
    let mut gateway = Gateway::start(bench, kind).await?;
    gateway.child.stop().await?;
    seed::room(bench, &gateway, Rows { events, waiting: WAITING, ..Rows::default() }).await?;
    let mut seed = Seed::open(&gateway).await?;
    seed.lanes(Tenants::DEFAULT).await?;
    seed.waiting(Tenants::DEFAULT, WAITING).await?;
    seed.events(Tenants::DEFAULT, events).await?;
    seed.close().await?;
    gateway.start_again(bench).await?;
    println!("seeded {kind} with {events} events");
    let mut reader = Reader::sign_in(&gateway).await?;
    let seen = rounds(bench, async |round| {
        let mut slow = Vec::new();
        for (name, path) in PAGES {
            let millis = reader.p95(path).await.with_context(|| format!("page {path}"))?;
            println!("round {:>2}  {name:<36} on {kind:<11} {millis:>6.1} ms", round + 1);
            slow.push(millis);
        }
        Ok(slow)
    });
    let arms = by_arm(seen.await?);
    gateway.child.stop().await?;
    gateway.discard(bench).await?;
    let with = format!("with {} events", thousands(events as f64));
    let figure = |(name, _): (&str, &str), millis| {
        Figure::new(format!("page `{name}` {with}, p95"), kind, Unit::Millis, millis)
            .held_to(Target::Below(50.0), Target::Below(20.0))
    };
    Ok(PAGES.into_iter().zip(arms).map(|(page, millis)| figure(page, millis)).collect())
}

/// Somebody who signed in.
pub struct Reader {
    connection: Connection,
    head: String,
    event: String,
}

impl Reader {
    /// Signs in, and looks for the latest event.
    pub async fn sign_in(gateway: &Gateway) -> anyhow::Result<Reader> {
        let address = gateway.address();
        let mut connection = Connection::open(address).await?;
        let form = format!("to=/&key={ADMIN_KEY}");
        let request = format!(
            "POST /sign-in HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/x-www-form-urlencoded\r\n\
             content-length: {}\r\n\r\n{form}",
            form.len()
        );
        let answer = connection.exchange(request.as_bytes()).await?;
        ensure!(answer.status == 303, "signing in was answered {}", answer.status);
        let head = String::from_utf8_lossy(answer.head).into_owned();
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: "));
        let cookie = cookie.and_then(|cookie| cookie.split(';').next()).context("no cookie")?;
        let head = format!("host: {address}\r\ncookie: {cookie}\r\n\r\n");
        let mut reader = Reader { connection, head, event: String::new() };
        let inbox = reader.get("/inbox").await?;
        let id = inbox.split("data-id=\"evt_").nth(1).and_then(|rest| rest.get(..26));
        reader.event = id.context("an inbox without events")?.to_owned();
        Ok(reader)
    }

    async fn get(&mut self, path: &str) -> anyhow::Result<String> {
        let request = format!("GET {path} HTTP/1.1\r\n{}", self.head);
        let answer = self.connection.exchange(request.as_bytes()).await?;
        if answer.status != 200 {
            bail!("{path} was answered {}", answer.status);
        }
        Ok(String::from_utf8_lossy(answer.body).into_owned())
    }

    /// The p95 of a page that is asked for again and again, in milliseconds.
    pub async fn p95(&mut self, path: &str) -> anyhow::Result<f64> {
        let path = path.replace("{event}", &format!("evt_{}", self.event));
        let path = path.replace("{job}", &format!("job_{}", self.event));
        let mut micros = Vec::with_capacity(ASKED);
        for _ in 0..ASKED {
            let began = Instant::now();
            self.get(&path).await?;
            micros.push(u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX));
        }
        micros.sort_unstable();
        Ok(f64::from(percentile(&micros, 0.95)) / 1000.0)
    }
}
