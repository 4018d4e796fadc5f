//! The check once faults have stopped: what publishers were told and receivers saw, against what the API shows now. It
//! never looks into the database.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::Value;
use tokio::time::Instant;

use super::Office;
use super::hooks::Hook;
use super::record::Facts;
use super::watcher::look;
use crate::chance::Chance;
use crate::told::Problem;

/// How long what is left may take: a lease of the server's own, a rescue, a circuit that is open.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(200);
/// Questions under way at once.
const AT_ONCE: usize = 16;
/// From this size on subscribers may get a link in place of the event.
const INLINE_BYTES_MAX: usize = 64 * 1024;

/// Waits until every delivery has ended (L7); those that have not when the time is over are violations.
pub async fn drain(office: &Office) -> anyhow::Result<()> {
    let deadline = Instant::now() + DRAIN_TIMEOUT;
    let mut chance = Chance::new(0, 0);
    loop {
        let mut left = Vec::new();
        for hook in Hook::ALL {
            match look(office, &mut chance, hook).await {
                Some(0) => {}
                waiting => left.push((hook, waiting)),
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let problem = format!("deliveries did not end within {DRAIN_TIMEOUT:?}: {left:?}");
            office.desk.told.violation("L7", problem);
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Checks everything.
pub async fn everything(office: &Office) -> anyhow::Result<()> {
    let counts = office.record.counts();
    if counts.acknowledged == 0 || counts.received == 0 || counts.pulled == 0 {
        // Nothing that happened to nothing is a proof.
        office.desk.told.violation("load", format!("there was hardly any: {counts}"));
    }
    let types = events(office).await?;
    let mut tried_often = Vec::new();
    for hook in Hook::ALL {
        let path = format!("/webhooks/{}/deliveries", office.hooks.id(hook));
        let rows = office.desk.caller.list(&path).await?;
        tried_often.extend(deliveries(office, hook, &rows, &types));
    }
    tries(office, tried_often).await
}

fn report(office: &Office, problems: Vec<Problem>) {
    problems.into_iter().for_each(|(rule, problem)| office.desk.told.violation(rule, problem));
}

/// Every acknowledged event is there once under the id that was told (D1, U1), one without an answer at most once (D3);
/// says the type of each that is there.
async fn events(office: &Office) -> anyhow::Result<HashMap<String, &'static str>> {
    let mut rows: HashMap<String, Vec<String>> = HashMap::new();
    for row in office.desk.caller.list("/events").await? {
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        rows.entry(text("dedup_key")).or_default().push(text("id"));
    }
    let (mut problems, mut types) = (Vec::new(), HashMap::new());
    let facts = office.record.lock();
    for (key, publication) in &facts.publications {
        let ids = rows.remove(key).unwrap_or_default();
        if ids.len() > 1 {
            problems.push(("U1", format!("{key} is there {} times: {ids:?}", ids.len())));
        }
        if let Some(told) = &publication.id
            && !ids.contains(told)
        {
            problems
                .push(("D1", format!("{key} was acknowledged as {told} and is listed as {ids:?}")));
        }
        for id in ids {
            problems.extend(facts.said_otherwise(&id, &publication.data));
            types.insert(id, publication.event_type);
        }
    }
    problems
        .extend(rows.keys().map(|key| ("D1", format!("{key} is there and nobody published it"))));
    let unknown = facts.bodies.keys().filter(|(_, event)| !types.contains_key(event));
    problems.extend(
        unknown.map(|(hook, event)| ("D1", format!("{event} came to {hook:?} and is not there"))),
    );
    drop(facts);
    report(office, problems);
    Ok(types)
}

impl Facts {
    /// What receivers read of an event that its publisher did not say.
    fn said_otherwise(&self, event: &str, data: &Value) -> Vec<Problem> {
        let mut problems = Vec::new();
        for hook in Hook::ALL {
            let Some(body) = self.bodies.get(&(hook, event.to_owned())) else { continue };
            let read: Value = serde_json::from_slice(body).unwrap_or_default();
            let linked = read["data"]["truncated"] == true;
            let fits = match linked {
                true => data.to_string().len() + 1024 > INLINE_BYTES_MAX,
                false => read["data"]["object"] == *data,
            };
            if !fits || read["id"] != event {
                problems.push(("O3", format!("{event} to {hook:?} is not what was published")));
            }
        }
        problems
    }
}

/// A delivery that was sent or handed out several times.
struct TriedOften {
    id: String,
    /// Of how many tries its receiver knows.
    times: usize,
}

/// Every event has one delivery to each webhook that wants it, and none to another (O1); it succeeded if its receiver
/// took it, and only then (O4); and it came again only where the server could not know that (O2).
fn deliveries(
    office: &Office,
    hook: Hook,
    rows: &[Value],
    types: &HashMap<String, &'static str>,
) -> Vec<TriedOften> {
    let mut by_event: HashMap<&str, Vec<&Value>> = HashMap::new();
    for row in rows {
        by_event.entry(row["event_id"].as_str().unwrap_or_default()).or_default().push(row);
    }
    let mut facts = office.record.lock();
    let (mut problems, mut tried_often) = (Vec::new(), Vec::new());
    let (mut succeeded, mut dead) = (0, 0);
    for (event, event_type) in types {
        let made = by_event.remove(event.as_str()).unwrap_or_default();
        let wanted = usize::from(hook.wants(event_type));
        if made.len() != wanted {
            let count = made.len();
            let problem =
                format!("{event} has {count} deliveries to {hook:?} in place of {wanted}");
            problems.push(("O1", problem));
        }
        for row in made {
            succeeded += u64::from(row["status"] == "succeeded");
            dead += u64::from(row["status"] == "dead_letter");
            let found = match hook {
                Hook::Pull => facts.pull_problems(event, row),
                _ => facts.push_problems(hook, event, row),
            };
            let name = |(rule, problem)| (rule, format!("{event} to {hook:?} {problem}"));
            problems.extend(found.into_iter().map(name));
            let times = facts.times(hook, event);
            if times > 1 {
                let id = row["id"].as_str().unwrap_or_default().to_owned();
                tried_often.push(TriedOften { id, times });
            }
        }
    }
    let strangers = by_event.into_keys();
    problems.extend(
        strangers.map(|event| ("O1", format!("a delivery of {event}, which is not there"))),
    );
    facts.counts.succeeded += succeeded;
    facts.counts.dead += dead;
    drop(facts);
    report(office, problems);
    tried_often
}

impl Facts {
    /// How often a receiver was sent or handed an event.
    fn times(&self, hook: Hook, event: &str) -> usize {
        match hook {
            Hook::Pull => self.pulled.get(event).map_or(0, |pulled| pulled.leases.len()),
            _ => self.receipts.get(&(hook, event.to_owned())).map_or(0, Vec::len),
        }
    }

    fn push_problems(&self, hook: Hook, event: &str, row: &Value) -> Vec<Problem> {
        let receipts = self.receipts.get(&(hook, event.to_owned()));
        let receipts = receipts.map(Vec::as_slice).unwrap_or_default();
        let mut problems = Vec::new();
        let taken = receipts.iter().any(|receipt| receipt.was_taken());
        match row["status"].as_str().unwrap_or_default() {
            "succeeded" if taken => {}
            "succeeded" => {
                problems.push(("O4", format!("succeeded, and its receiver saw {receipts:?}")));
            }
            "dead_letter" if !taken && row["attempts"] == row["max_attempts"] => {}
            status => problems.push(("L7", format!("is {status}; its receiver saw {receipts:?}"))),
        }
        let settled = receipts.iter().position(|one| one.is_settled(hook, &self.faults));
        if settled.is_some_and(|place| place + 1 < receipts.len()) {
            let problem = format!("came again although it was taken: {receipts:?}");
            problems.push(("O2", problem));
        }
        problems
    }

    fn pull_problems(&self, event: &str, row: &Value) -> Vec<Problem> {
        let pulled = self.pulled.get(event);
        let taken = pulled.is_some_and(|pulled| pulled.was_taken());
        let maybe_taken = pulled.is_some_and(|pulled| pulled.maybe_taken);
        let maybe_refused = pulled.is_some_and(|pulled| pulled.maybe_refused);
        let expected = match row["status"].as_str().unwrap_or_default() {
            "succeeded" => maybe_taken,
            "dead_letter" => !taken && (maybe_refused || row["attempts"] == row["max_attempts"]),
            _ => false,
        };
        match expected {
            true => Vec::new(),
            false => vec![("L5", format!("is {}; pullers know: {pulled:?}", row["status"]))],
        }
    }
}

/// Every try that a receiver knows of was recorded before it was made, and is still there (O2).
async fn tries(office: &Office, tried_often: Vec<TriedOften>) -> anyhow::Result<()> {
    let caller = &office.desk.caller;
    let reading = tried_often.into_iter().map(|delivery| async move {
        let shown = caller.read(&format!("/deliveries/{}", delivery.id)).await;
        shown.map(|shown| (delivery, shown.unwrap_or_default()))
    });
    let mut answers = futures_util::stream::iter(reading).buffer_unordered(AT_ONCE);
    while let Some(answer) = answers.next().await {
        let (TriedOften { id, times }, shown) = answer?;
        let shown: Value = serde_json::from_slice(&shown).unwrap_or_default();
        let kept = shown["attempts"].as_array().map_or(0, Vec::len);
        if kept < times {
            let problem =
                format!("{id} was tried {times} times, and {kept} tries are kept: {shown}");
            office.desk.told.violation("O2", problem);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::record::Receipt;
    use super::*;

    fn rules(status: &str, receipts: &[Receipt]) -> Vec<&'static str> {
        let mut facts = Facts::default();
        facts.receipts.insert((Hook::Healthy, "evt_1".to_owned()), receipts.to_vec());
        let row = json!({"status": status, "attempts": 1, "max_attempts": 3});
        let problems = facts.push_problems(Hook::Healthy, "evt_1", &row);
        problems.into_iter().map(|(rule, _)| rule).collect()
    }

    fn receipt(at: i64, status: Option<u16>) -> Receipt {
        Receipt { at, answered: status.map(|status| (status, at + 5)) }
    }

    #[test]
    fn what_was_taken_once_or_after_a_failure_is_fine() {
        assert_eq!(rules("succeeded", &[receipt(1, Some(200))]), [""; 0]);
        let again = [receipt(1, Some(500)), receipt(900, None), receipt(1800, Some(200))];
        assert_eq!(rules("succeeded", &again), [""; 0]);
    }

    #[test]
    fn a_success_that_nobody_saw_an_end_that_is_none_and_a_needless_repeat_are_noticed() {
        assert_eq!(rules("succeeded", &[]), ["O4"]);
        assert_eq!(rules("succeeded", &[receipt(1, Some(500))]), ["O4"]);
        assert_eq!(rules("retrying", &[receipt(1, Some(500))]), ["L7"]);
        assert_eq!(rules("dead_letter", &[receipt(1, Some(500))]), ["L7"]);
        assert_eq!(rules("cancelled", &[receipt(1, Some(200))]), ["L7"]);
        let again = [receipt(1, Some(200)), receipt(900, Some(200))];
        assert_eq!(rules("succeeded", &again), ["O2"]);
    }
}
