//! Isolation: how long events take to 99 webhooks while a hundredth one hangs, against how long they take when all
//! are well.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use serde_json::json;

use super::hooks::{HANGS, Hooks, event};
use super::rounds::{by_arm, order, so_many_rounds};
use super::timed::{self, Request, Round, Tasks, Timetable, sorted};
use super::window::Spent;
use crate::api::Api;
use crate::bench::Bench;
use crate::figure::{Figure, Target, Unit};
use crate::world::gateway::Gateway;

const WEBHOOKS: usize = 100;
/// A tenant may have so many, unless it was allowed more.
const PER_TENANT: usize = 20;
/// To the healthy ones in all, in turn.
const EVENTS_PER_SECOND: u32 = 200;
/// Published at once to the one that may hang, before the clock starts: more than it may have under way, so that all
/// its places are taken and more waits behind them.
const BURST: usize = 200;
/// And one more this often, as to all the others.
const MORE_EVERY: Duration = Duration::from_millis(500);
/// Not measured: each webhook has had one.
const UNCOUNTED: usize = 100;
/// The share of an arm that hangs must not end by itself before the arm does.
const LONGEST: Duration = Duration::from_secs(20);
const TIMEOUT_S: u64 = 30;
/// p99s differ more than medians do.
const ROUNDS_MIN: u32 = 7;
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the burst has to arrive where it hangs.
const SETTLE: Duration = Duration::from_millis(300);

/// Whether the one hangs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Well,
    Hanging,
}

/// The figures of the spec.
pub async fn figures(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let mut arms = Vec::new();
    for gateway in bench.gateways().await? {
        let hooks = Hooks::start().await?;
        subscribe(&gateway, &hooks).await?;
        arms.push((gateway, hooks));
    }
    let states = [State::Well, State::Hanging];
    let count = if bench.options.short { 1 } else { bench.options.rounds().max(ROUNDS_MIN) };
    let seen = so_many_rounds(bench, count, async |round| {
        let mut p99s = BTreeMap::new();
        for index in order(round, arms.len() * states.len()) {
            let ((gateway, hooks), state) = (&arms[index / 2], states[index % 2]);
            let seen = one(bench, gateway, hooks, state).await?;
            let other = if state == State::Hanging { "hangs" } else { "is well" };
            let what = format!("99 lanes on {:<10} the other {other:<8}", gateway.kind);
            p99s.insert(index, seen.told(round, &what).1);
        }
        Ok(p99s.into_values().collect())
    });
    let columns = by_arm(seen.await?);
    let mut figures = Vec::new();
    for (pair, (gateway, _)) in columns.chunks(2).zip(&arms) {
        let [well, hanging] = pair else { continue };
        let ratios = hanging.iter().zip(well).map(|(hanging, well)| hanging / well).collect();
        let name = "p99 to 99 webhooks";
        figures.extend([
            Figure::new(
                format!("{name}, one other hanging / well"),
                gateway.kind,
                Unit::Ratio,
                ratios,
            )
            .bound_to(Target::AtMost(1.5)),
            Figure::new(format!("{name}, all well"), gateway.kind, Unit::Millis, well.clone()),
            Figure::new(
                format!("{name}, one other hanging"),
                gateway.kind,
                Unit::Millis,
                hanging.clone(),
            ),
        ]);
    }
    Ok(figures)
}

/// A webhook's place: its tenant and the type that only it gets.
fn place(hook: usize) -> (String, String) {
    (format!("lanes-{}", hook / PER_TENANT), format!("lane.w{}", hook % PER_TENANT))
}

async fn subscribe(gateway: &Gateway, hooks: &Hooks) -> anyhow::Result<()> {
    let mut api = gateway.api().await?;
    for hook in 0..WEBHOOKS {
        let (tenant, event_type) = place(hook);
        if hook % PER_TENANT == 0 {
            let fields = json!({"slug": tenant, "name": tenant});
            api.post("/tenants", fields.to_string()).await?;
        }
        let path = format!("/webhooks?tenant={tenant}");
        let further = [("timeout_s", json!(TIMEOUT_S))];
        gateway.webhook(&path, &hooks.url(hook), &event_type, &further).await?;
    }
    Ok(())
}

fn published(hook: usize, number: usize) -> Request {
    let (tenant, event_type) = place(hook);
    event(&format!("/events?tenant={tenant}"), &event_type, number)
}

async fn one(
    bench: &Bench,
    gateway: &Gateway,
    hooks: &Hooks,
    state: State,
) -> anyhow::Result<Round> {
    hooks.hang(state == State::Hanging);
    let mut hung = hooks.hung();
    let hung_before = *hung.borrow_and_update();
    let mut api = gateway.api().await?;
    let burst = published(HANGS, 0);
    api.post(&burst.path, format!("[{}]", vec![burst.body; BURST].join(","))).await?;
    tokio::time::sleep(SETTLE).await;

    let seconds = (bench.options.window() * 2).min(LONGEST).as_secs_f64();
    let count = UNCOUNTED + (seconds * f64::from(EVENTS_PER_SECOND)) as usize;
    let timetable = Timetable {
        per_second: EVENTS_PER_SECOND,
        count,
        uncounted: UNCOUNTED,
        request: Arc::new(|number| published(HANGS + 1 + number % (WEBHOOKS - 1), number)),
    };
    let more = (seconds / MORE_EVERY.as_secs_f64()) as usize;
    let mut beside = Tasks::new();
    beside.spawn(publish_more(api, more));
    let before = Spent::so_far(bench, gateway);
    let mut tasks = Tasks::new();
    let seen = timed::micros(gateway, timetable, hooks.receipts(), &mut tasks);
    let seen = tokio::time::timeout(PATIENCE, seen)
        .await
        .context("the events were not all received in time")??;
    let others = Spent::so_far(bench, gateway).others(bench, before);

    // The next arm must not meet what this one left.
    while let Some(done) = beside.join_next().await {
        done??;
    }
    hooks.hang(false);
    let all = hung_before + (BURST + more) as u64;
    tokio::time::timeout(PATIENCE, hung.wait_for(|count| *count >= all))
        .await
        .context("what hung did not arrive when it could")??;
    tokio::time::sleep(SETTLE).await;
    Ok(Round { micros: sorted(seen), others })
}

/// What else is published to the one that may hang, at the pace of the others.
async fn publish_more(mut api: Api, count: usize) -> anyhow::Result<()> {
    for _ in 0..count {
        tokio::time::sleep(MORE_EVERY).await;
        let Request { path, body } = published(HANGS, 0);
        api.post(&path, body).await?;
    }
    Ok(())
}
