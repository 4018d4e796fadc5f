//! The dashboard's pages on a ledger with many events, received and published: how long each takes to be answered.

use std::time::Instant;

use anyhow::{Context, bail, ensure};

use super::deliver::subscribe;
use super::delivering::deliver;
use super::rounds::{by_arm, rounds};
use crate::bench::Bench;
use crate::figure::{Figure, Target, Unit, thousands};
use crate::load::connection::Connection;
use crate::seed::{self, Rows, Seed, Tenants};
use crate::stats::percentile;
use crate::world::gateway::{ADMIN_KEY, Gateway, Kind};
use crate::world::receiver::Receiver;

/// How often a page is asked for in a round.
const ASKED: usize = 60;
/// Ids are longer than this behind their prefix.
const ID_CHARS_MIN: usize = 20;
/// Jobs that wait, beside the events: as many as the figures of a queue look at.
const WAITING: usize = 20_000;

/// Published, and delivered to the webhook that took the seeded ones, before the pages are asked for.
const EVENT_TYPE: &str = "bench.page";

/// Pages by what they are called here. What stands in braces is the first of its kind ([`Reader::sign_in`]).
pub const PAGES: [(&str, &str); 23] = [
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
    ("approvals", "/approvals"),
    ("sources", "/sources"),
    ("source", "/sources/{source}"),
    ("published events", "/events"),
    ("published event", "/events/{published}"),
    ("webhooks", "/webhooks"),
    ("webhook", "/webhooks/{webhook}"),
    ("delivery", "/deliveries/{delivery}"),
    ("event types", "/event-types"),
    ("tenants", "/tenants"),
    ("keys", "/keys"),
    ("audit", "/audit"),
];

/// On which page the first of a kind stands, and how its id begins.
const FIRST: [(&str, &str, &str); 5] = [
    ("{event}", "/inbox", "evt_"),
    ("{source}", "/sources", "src_"),
    ("{published}", "/events", "evt_"),
    ("{webhook}", "/webhooks", "wh_"),
    ("{delivery}", "/webhooks/{webhook}", "dlv_"),
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
    let receiver = Receiver::start().await?;
    subscribe(&gateway, &receiver, EVENT_TYPE, 1).await?;
    gateway.child.stop().await?;
    let rows = Rows { events, waiting: WAITING, deliveries: events, ..Rows::default() };
    seed::room(bench, &gateway, rows).await?;
    let mut seed = Seed::open(&gateway).await?;
    seed.lanes(Tenants::DEFAULT).await?;
    seed.waiting(Tenants::DEFAULT, WAITING).await?;
    seed.events(Tenants::DEFAULT, events).await?;
    seed.deliveries(Tenants::DEFAULT, events).await?;
    seed.close().await?;
    gateway.start_again(bench).await?;
    println!("seeded {kind} with {events} events, and as many deliveries to one webhook");
    deliver(bench, &gateway, &receiver, EVENT_TYPE, 1).await?;
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
    /// What stands for what in a path.
    ids: Vec<(&'static str, String)>,
}

impl Reader {
    /// Signs in, and looks for the first of each kind. A kind that there is none of stays as it is written.
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
        let mut reader = Reader { connection, head, ids: Vec::new() };
        for (place, page, prefix) in FIRST {
            let page = reader.filled_in(page);
            if page.contains('{') {
                continue;
            }
            if let Some(id) = first_id(&reader.get(&page).await?, prefix) {
                if place == "{event}" {
                    reader.ids.push(("{job}", id.replace("evt_", "job_")));
                }
                reader.ids.push((place, id));
            }
        }
        Ok(reader)
    }

    fn filled_in(&self, path: &str) -> String {
        self.ids.iter().fold(path.to_owned(), |path, (place, id)| path.replace(place, id))
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
        let path = self.filled_in(path);
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

/// The first id on a page that begins so; what only stands for one in an example is shorter.
fn first_id(page: &str, prefix: &str) -> Option<String> {
    let ids = page.match_indices(prefix).map(|(at, _)| {
        let rest = &page[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        &rest[..end.unwrap_or(rest.len())]
    });
    ids.into_iter().find(|id| id.len() > prefix.len() + ID_CHARS_MIN).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_id_of_a_kind_is_found_in_a_page() {
        let id = "wh_01KAB2C3D4E5F6G7H8J9KMNPQR";
        let page = format!(r#"<code>wh_1</code><tr data-id="{id}"><a href="/webhooks/wh_02CD">"#);
        assert_eq!(first_id(&page, "wh_").as_deref(), Some(id));
        assert_eq!(first_id(&page, "src_"), None);
    }
}
