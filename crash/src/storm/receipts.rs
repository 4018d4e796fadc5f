//! Every repeat of a storm has a receipt that says why it came, and none of them was a crime.

use std::collections::HashMap;

use serde_json::Value;

use super::outcome::Classes;
use super::plan::SENDINGS;
use super::tenant::Tenant;

/// How many receipts of its repeats an event keeps.
const KEPT_MAX: u64 = 20;
/// Why a repeat may have come: a vendor sent it again, or our own answer made it.
const EXPLAINED: [&str; 3] = ["provider_retry", "provider_replay", "self_inflicted"];

/// Checks the receipts of a tenant's sources, and counts the classes.
pub async fn check(tenant: &Tenant, classes: &mut Classes) -> anyhow::Result<()> {
    let told = &tenant.desk.told;
    let mut kept: HashMap<String, u64> = HashMap::new();
    for source in &tenant.sources {
        for row in tenant.caller.list(&format!("/sources/{}/receipts", source.id)).await? {
            match problem(&row) {
                Some(problem) => told.violation("receipts", format!("{problem}: {row}")),
                None if row["verdict"] == "duplicate" => {
                    classes.add(row["class"].as_str().unwrap_or_default());
                    let event = row["event_id"].as_str().unwrap_or_default();
                    *kept.entry(event.to_owned()).or_default() += 1;
                }
                None => {}
            }
        }
    }
    for event in tenant.caller.list("/inbox").await? {
        let (id, repeats) = (event["id"].as_str().unwrap_or_default(), &event["duplicates"]);
        let counted = repeats.as_u64().unwrap_or_default();
        let kept = kept.get(id).copied().unwrap_or_default();
        if counted < SENDINGS as u64 - 1 || kept != counted.min(KEPT_MAX) {
            let problem = format!("{id} has {counted} repeats, and {kept} receipts of them");
            told.violation("receipts", problem);
        }
    }
    Ok(())
}

fn problem(row: &Value) -> Option<&'static str> {
    let class = row["class"].as_str();
    match row["verdict"].as_str() {
        Some("duplicate") if class.is_none() => Some("a repeat without a class"),
        Some("duplicate") if !class.is_some_and(|class| EXPLAINED.contains(&class)) => {
            Some("a good repeat with a class that it cannot have")
        }
        // A server whose database was killed says 503, and keeps a receipt if it can.
        Some("duplicate" | "unavailable") => None,
        _ => Some("a good request that was refused"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_repeat_needs_a_class_and_a_crime_is_none() {
        let row = |verdict: &str, class: Value| json!({"verdict": verdict, "class": class});
        for class in EXPLAINED {
            assert_eq!(problem(&row("duplicate", class.into())), None);
        }
        assert_eq!(problem(&row("unavailable", Value::Null)), None);
        assert!(problem(&row("duplicate", Value::Null)).is_some());
        assert!(problem(&row("duplicate", "suspicious".into())).is_some());
        assert!(problem(&row("bad_signature", Value::Null)).is_some());
    }
}
