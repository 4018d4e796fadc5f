//! How the server stands, as lines.

use jiff::Timestamp;
use wakepost_client::{LaneStats, Standing};

use super::look::{Circuit, Snapshot};
use crate::commands::alerts::severity;
use crate::output::when::{amount, relative};
use crate::output::{Cell, Paint, Table, Tone};

const LABEL_WIDTH: usize = 14;
/// As much of a lane's name, and of a URL, as a line can show.
const NAME_CHARS_MAX: usize = 40;
const URL_CHARS_MAX: usize = 60;

/// All there is to see, the most pressing first.
pub fn lines(snapshot: &Snapshot, paint: Paint) -> Vec<String> {
    let now = snapshot.at.parse().unwrap_or(Timestamp::UNIX_EPOCH);
    let mut lines: Vec<String> =
        summary(snapshot).iter().map(|cell| cell.render(paint).trim_end().to_owned()).collect();
    let tables = [lanes(snapshot), workers(snapshot, now), circuits(snapshot, now)];
    for (title, table) in tables.into_iter().flatten() {
        lines.push(String::new());
        lines.push(title.render(paint));
        lines.extend(table.render(paint).lines().map(str::to_owned));
    }
    lines
}

/// Who is looked at, and when.
pub fn title(snapshot: &Snapshot) -> Cell {
    Cell::toned(Tone::Bold, "wakepost ")
        .then(Tone::Plain, &snapshot.url)
        .then(Tone::Dim, "  tenant ")
        .then(Tone::Plain, &snapshot.stats.tenant)
        .then(Tone::Dim, &format!("  {}", crate::commands::following::clock(Some(&snapshot.at))))
}

fn summary(snapshot: &Snapshot) -> Vec<Cell> {
    let mut cells = vec![title(snapshot), Cell::new("")];
    cells.push(rates(snapshot));
    cells.push(states(snapshot));
    cells.push(priorities(snapshot));
    cells.push(dead_letters(snapshot));
    cells.push(webhooks(snapshot));
    for alert in &snapshot.alerts {
        let tone = severity(&alert.severity);
        let what = if alert.title.is_empty() { &alert.kind } else { &alert.title };
        let about = if alert.subject.is_empty() { "" } else { "  " };
        cells.push(
            label("alert")
                .then(tone, &format!("{}: {what}", alert.severity))
                .then(Tone::Dim, &format!("{about}{}", alert.subject)),
        );
    }
    cells
}

fn label(text: &str) -> Cell {
    Cell::default().then_padded(Tone::Dim, text, LABEL_WIDTH)
}

fn rates(snapshot: &Snapshot) -> Cell {
    let order = ["received", "started", "ended", "rescued", "published"];
    let known = order.iter().filter_map(|word| Some((*word, *snapshot.rates.get(word)?)));
    // What hardly ever happens is told only when it does.
    let known: Vec<_> = known.filter(|(word, rate)| *word != "rescued" || *rate > 0.0).collect();
    if known.is_empty() {
        return label("rates").then(Tone::Dim, "not known yet");
    }
    let cell = known.into_iter().fold(label("rates"), |cell, (word, rate)| {
        let tone = if word == "rescued" { Tone::Warn } else { Tone::Plain };
        cell.then(Tone::Dim, &format!("{word} ")).then(tone, &format!("{rate:.1}/s  "))
    });
    let whose =
        if snapshot.rates_of == "tenant" { "(this tenant)" } else { "(this node, all tenants)" };
    cell.then(Tone::Dim, whose)
}

fn states(snapshot: &Snapshot) -> Cell {
    standings("work", snapshot.stats.states.iter(), snapshot.stats.at_least, Tone::of_status)
}

fn priorities(snapshot: &Snapshot) -> Cell {
    standings("classes", snapshot.stats.priorities.iter(), false, |_| Tone::Plain)
}

fn standings<'a>(
    name: &str,
    all: impl Iterator<Item = (&'a String, &'a Standing)>,
    at_least: bool,
    tone: impl Fn(&str) -> Tone,
) -> Cell {
    let mut cell = label(name);
    let mut any = false;
    for (word, standing) in all.filter(|(_, standing)| standing.count > 0) {
        any = true;
        cell = cell.then(tone(word), &format!("{word} {}", standing.count));
        let age = standing.oldest_age_s.map(|age| format!(" ({})", age_words(age)));
        cell = cell.then(Tone::Dim, &format!("{}  ", age.unwrap_or_default()));
    }
    match (any, at_least) {
        (false, _) => cell.then(Tone::Dim, "none waits or runs"),
        (true, true) => cell.then(Tone::Warn, "and more"),
        (true, false) => cell,
    }
}

fn dead_letters(snapshot: &Snapshot) -> Cell {
    let letters = snapshot.dead_letters;
    let more = if letters.at_least { "+" } else { "" };
    let tone = if letters.count > 0 { Tone::Bad } else { Tone::Plain };
    label("dead letters").then(tone, &format!("{}{more}", letters.count))
}

fn webhooks(snapshot: &Snapshot) -> Cell {
    let count = |fits: fn(&Circuit) -> bool| snapshot.webhooks.iter().filter(|w| fits(w)).count();
    let counts = [
        (count(|w| w.status == "active" && !is_spared(w)), "well", Tone::Good),
        (count(|w| w.status == "active" && w.circuit == "open"), "circuit open", Tone::Bad),
        (count(|w| w.status == "active" && w.circuit == "half_open"), "half open", Tone::Warn),
        (count(|w| w.status == "paused"), "paused", Tone::Warn),
        (count(|w| w.status == "disabled"), "disabled", Tone::Dim),
    ];
    if snapshot.webhooks.is_empty() {
        return label("webhooks").then(Tone::Dim, "none");
    }
    let told = counts.into_iter().filter(|(count, ..)| *count > 0);
    told.fold(label("webhooks"), |cell, (count, word, tone)| {
        cell.then(tone, &format!("{count} {word}  "))
    })
}

/// Whether its receiver is being spared.
fn is_spared(webhook: &Circuit) -> bool {
    matches!(webhook.circuit.as_str(), "open" | "half_open")
}

fn heading(name: &str, count: usize) -> Cell {
    Cell::toned(Tone::Bold, name).then(Tone::Dim, &format!(" {count}"))
}

fn lanes(snapshot: &Snapshot) -> Option<(Cell, Table)> {
    let columns = ["FROM OR TO", "WORK", "KIND", "CLASS", "READY", "RUNNING", "WAITING", "OLDEST"];
    let mut table = Table::new(&columns);
    for lane in &snapshot.stats.lanes {
        table.row(lane_row(snapshot, lane));
    }
    let count = snapshot.stats.lanes.len();
    (count > 0).then(|| (heading("LANES", count), table))
}

fn lane_row(snapshot: &Snapshot, lane: &LaneStats) -> [Cell; 8] {
    let source = lane.source.as_ref().map(|id| snapshot.source_names.get(id).unwrap_or(id));
    let name = source.or(lane.webhook.as_ref());
    let number = |number: u64, tone: Tone| match number {
        0 => Cell::toned(Tone::Dim, "0"),
        number => Cell::toned(tone, &number.to_string()),
    };
    [
        Cell::clipped(name.map(String::as_str), NAME_CHARS_MAX),
        Cell::maybe(lane.work.as_deref()),
        Cell::clipped(Some(&lane.kind), NAME_CHARS_MAX),
        Cell::maybe(lane.priority.as_deref()),
        number(lane.ready, Tone::Plain),
        number(lane.running, Tone::Busy),
        number(lane.waiting, Tone::Warn),
        Cell::maybe(lane.oldest_age_s.map(age_words).as_deref()),
    ]
}

fn workers(snapshot: &Snapshot, now: Timestamp) -> Option<(Cell, Table)> {
    let mut table = Table::new(&["WORKER", "LEASES", "SEEN"]);
    for worker in &snapshot.stats.workers {
        let seen = worker.last_seen_at.as_deref().map(|at| relative(now, at));
        table.row([
            Cell::clipped(Some(&worker.name), NAME_CHARS_MAX),
            Cell::new(&worker.leases.to_string()),
            Cell::maybe(seen.as_deref()),
        ]);
    }
    let count = snapshot.stats.workers.len();
    (count > 0).then(|| (heading("WORKERS", count), table))
}

/// The webhooks that something is amiss with.
fn circuits(snapshot: &Snapshot, now: Timestamp) -> Option<(Cell, Table)> {
    let mut table = Table::new(&["WEBHOOK", "STATE", "FAILURES", "SINCE", "URL"]);
    let amiss = |webhook: &&Circuit| {
        webhook.status != "active" || is_spared(webhook) || webhook.failures > 0
    };
    let amiss: Vec<&Circuit> = snapshot.webhooks.iter().filter(amiss).collect();
    for webhook in &amiss {
        let state = match (webhook.status.as_str(), webhook.circuit.as_str()) {
            ("active", "open") => Cell::toned(Tone::Bad, "circuit open"),
            ("active", "half_open") => Cell::toned(Tone::Warn, "half open"),
            ("disabled", _) => {
                let reason = webhook.disabled_reason.as_deref();
                let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
                Cell::clipped(Some(&format!("disabled{reason}")), NAME_CHARS_MAX)
            }
            (status, _) => Cell::status(status),
        };
        table.row([
            Cell::new(&webhook.id),
            state,
            Cell::new(&webhook.failures.to_string()),
            Cell::ago(now, webhook.opened_at.as_deref()),
            Cell::clipped(webhook.url.as_deref().or(Some("(pull)")), URL_CHARS_MAX),
        ]);
    }
    (!amiss.is_empty()).then(|| (heading("WEBHOOKS WITH TROUBLE", amiss.len()), table))
}

/// How old the oldest is.
pub fn age_words(seconds: u64) -> String {
    amount(i64::try_from(seconds).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::super::look::Counted;
    use super::*;

    fn snapshot() -> Snapshot {
        let stats = json!({"tenant": "acme", "states": {"pending": {"count": 12, "oldest_age_s": 300},
                "running": {"count": 0}},
            "lanes": [{"source": "src_1", "work": "job", "kind": "issues\u{1b}[2J", "priority": "webhook",
                "ready": 12, "running": 0, "waiting": 1, "oldest_age_s": 300}],
            "workers": [{"name": "ada\u{202e}", "leases": 2, "last_seen_at": "2026-11-15T09:14:20Z"}]});
        Snapshot {
            at: "2026-11-15T09:14:22Z".to_owned(),
            url: "http://h".to_owned(),
            stats: serde_json::from_value(stats).expect("stats"),
            rates: BTreeMap::from([("received", 12.0), ("started", 0.25)]),
            rates_of: "node",
            webhooks: vec![
                Circuit {
                    id: "wh_1".to_owned(),
                    status: "active".to_owned(),
                    ..Circuit::default()
                },
                Circuit {
                    id: "wh_2".to_owned(),
                    url: Some("https://r.example/\u{9b}".to_owned()),
                    status: "active".to_owned(),
                    circuit: "open".to_owned(),
                    failures: 5,
                    opened_at: Some("2026-11-15T09:12:22Z".to_owned()),
                    ..Circuit::default()
                },
            ],
            dead_letters: Counted { count: 500, at_least: true },
            alerts: vec![],
            source_names: BTreeMap::from([("src_1".to_owned(), "shop".to_owned())]),
        }
    }

    #[test]
    fn a_snapshot_says_what_runs_and_what_is_amiss() {
        let text = lines(&snapshot(), Paint(false)).join("\n");
        for line in [
            "wakepost http://h  tenant acme  09:14:22Z",
            "rates         received 12.0/s  started 0.2/s  (this node, all tenants)",
            "work          pending 12 (5 min)",
            "classes       none waits or runs",
            "dead letters  500+",
            "webhooks      1 well  1 circuit open",
            "shop        job   issues\\u{1b}[2J  webhook  12     0        1        5 min",
            "ada\\u{202e}  2       2 s ago",
            "wh_2     circuit open  5         2 min ago  https://r.example/\\u{9b}",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
        }
        assert!(!text.contains("wh_1"), "it is well");
    }

    #[test]
    fn nothing_that_is_shown_can_steer_the_terminal() {
        let text = lines(&snapshot(), Paint(true)).join("\n");
        assert!(
            !text.contains("\u{1b}[2J") && !text.contains('\u{9b}') && !text.contains('\u{202e}')
        );
    }

    #[test]
    fn an_idle_server_without_counters_is_shown_too() {
        let idle = Snapshot { at: "2026-11-15T09:14:22Z".to_owned(), ..Snapshot::default() };
        let text = lines(&idle, Paint(false)).join("\n");
        assert!(text.contains("none waits or runs") && text.contains("rates         not known"));
    }
}
