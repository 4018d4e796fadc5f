//! Deliveries a second, publishing included, against the bare HTTP client's own rate to the same receiver.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::delivering::{Came, counted, deliver};
use super::rounds::{by_arm, order, rounds};
use super::window::Spent;
use crate::bench::Bench;
use crate::figure::{Figure, Target, Unit};
use crate::load::bare_client;
use crate::load::publications::delivered;
use crate::world::gateway::{Gateway, Kind};
use crate::world::receiver::Receiver;

/// As many as the gateway has under way to one webhook.
const CONNECTIONS: usize = 64;
/// Lets what the window before left behind come to rest.
const PAUSE: Duration = Duration::from_millis(200);

/// To how many webhooks an event goes, the type that goes there, and what the spec asks of it.
struct FanOut {
    webhooks: u64,
    event_type: &'static str,
    must: f64,
    aim: f64,
}

const FAN_OUTS: [FanOut; 2] = [
    FanOut { webhooks: 1, event_type: "bench.one", must: 0.12, aim: 0.25 },
    FanOut { webhooks: 10, event_type: "bench.ten", must: 0.25, aim: 0.4 },
];

/// What is measured.
enum Arm<'a> {
    Bare,
    Ours(&'a Gateway, &'static FanOut),
}

/// What one window saw of one arm.
#[derive(Debug, Clone, Copy)]
struct Seen {
    rate: f64,
    server_us: f64,
    database_us: f64,
}

/// The figures of the spec.
pub async fn figures(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let receiver = Receiver::start().await?;
    let gateways = bench.gateways().await?;
    for gateway in &gateways {
        for fan_out in &FAN_OUTS {
            subscribe(gateway, &receiver, fan_out.event_type, fan_out.webhooks).await?;
        }
    }
    let ours = FAN_OUTS
        .iter()
        .flat_map(|fan_out| gateways.iter().map(move |gateway| Arm::Ours(gateway, fan_out)));
    let arms: Vec<Arm<'_>> = std::iter::once(Arm::Bare).chain(ours).collect();
    let seen = rounds(bench, async |round| {
        let mut seen = BTreeMap::new();
        for index in order(round, arms.len()) {
            seen.insert(index, one(bench, &receiver, &arms[index], round).await?);
        }
        Ok(seen.into_values().collect())
    });
    let mut columns = by_arm(seen.await?).into_iter();
    let bare = columns.next().unwrap_or_default();
    let mut figures = Vec::new();
    for (arm, seen) in arms.iter().skip(1).zip(columns) {
        if let Arm::Ours(gateway, fan_out) = arm {
            figures.extend(of_arm(gateway.kind, fan_out, &seen, &bare));
        }
    }
    let rates = bare.iter().map(|seen| seen.rate).collect();
    figures.push(Figure::new("deliveries by the bare client", "bare", Unit::PerSecond, rates));
    Ok(figures)
}

/// Makes so many webhooks that get a type.
pub async fn subscribe(
    gateway: &Gateway,
    receiver: &Receiver,
    event_type: &str,
    webhooks: u64,
) -> anyhow::Result<()> {
    for _ in 0..webhooks {
        gateway.webhook("/webhooks", &receiver.url(), event_type, &[]).await?;
    }
    Ok(())
}

fn of_arm(kind: Kind, fan_out: &FanOut, seen: &[Seen], bare: &[Seen]) -> Vec<Figure> {
    let to = match fan_out.webhooks {
        1 => "1 webhook".to_owned(),
        many => format!("fan-out {many}"),
    };
    let ratios = seen.iter().zip(bare).map(|(ours, bare)| ours.rate / bare.rate).collect();
    let figure = |name: &str, unit, of: fn(&Seen) -> f64| {
        Figure::new(format!("deliveries, {to}{name}"), kind, unit, seen.iter().map(of).collect())
    };
    let mut figures = vec![
        Figure::new(format!("deliveries / bare client, {to}"), kind, Unit::Ratio, ratios)
            .held_to(Target::AtLeast(fan_out.must), Target::AtLeast(fan_out.aim)),
        figure("", Unit::PerSecond, |seen| seen.rate),
        figure(": server CPU per delivery", Unit::Micros, |seen| seen.server_us),
    ];
    if kind == Kind::Postgres {
        figures.push(figure(": database CPU per delivery", Unit::Micros, |seen| seen.database_us));
    }
    figures
}

async fn one(
    bench: &Bench,
    receiver: &Receiver,
    arm: &Arm<'_>,
    round: u32,
) -> anyhow::Result<Seen> {
    tokio::time::sleep(PAUSE).await;
    let gateway = match arm {
        Arm::Bare => None,
        Arm::Ours(gateway, _) => Some(*gateway),
    };
    let spent = || Spent::beside(bench, gateway, receiver.child.pid);
    let before = spent();
    let (name, came) = match arm {
        Arm::Bare => ("bare client".to_owned(), bare(bench, receiver).await?),
        Arm::Ours(gateway, fan_out) => {
            let FanOut { event_type, webhooks, .. } = fan_out;
            let came = deliver(bench, gateway, receiver, event_type, *webhooks).await?;
            (format!("{} to {webhooks}", gateway.kind), came)
        }
    };
    let after = spent();
    let (server_us, database_us, generator_us) = after.each(before, came.in_all);
    println!(
        "round {:>2}  deliveries, {name:<18} {:>8.0}/s   CPU µs each: server {server_us:>5.1}, database \
         {database_us:>5.1}, generator {generator_us:>5.1}; others took {:.0} %",
        round + 1,
        came.rate(),
        after.others(bench, before) * 100.0
    );
    anyhow::ensure!(came.rate() > 0.0, "nothing came in the window");
    Ok(Seen { rate: came.rate(), server_us, database_us })
}

/// The bare client's window.
async fn bare(bench: &Bench, receiver: &Receiver) -> anyhow::Result<Came> {
    let (warm_up, window) = (bench.options.warm_up(), bench.options.window());
    // A little longer than it is counted.
    let end = Instant::now() + warm_up + window + PAUSE;
    let body = delivered(FAN_OUTS[0].event_type)?;
    let mut tally = receiver.tally().await?;
    let posting = bare_client::post(receiver.url(), body, CONNECTIONS, end);
    let before = tally.count().await?;
    let (mut came, ()) = tokio::try_join!(counted(bench, &mut tally), posting)?;
    came.in_all = tally.count().await? - before;
    Ok(came)
}
