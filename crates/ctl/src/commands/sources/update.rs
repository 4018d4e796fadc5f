//! `webhookctl sources update`

use clap::Args;
use serde_json::{Map, Value};
use wakepost_client::{SECRET_SETTING, SourceFields};

use super::fields::FieldFlags;
use super::next_step::still_missing;
use super::summary::summary;
use crate::commands::resetting::resets;
use crate::exit::Usage;
use crate::output;
use crate::session::Session;

/// What has a default to go back to, by the name of its flag.
const RESETTABLE: [&str; 31] = [
    "name",
    "executor",
    "preflight-url",
    "filter",
    "unsigned",
    "owner",
    "priority",
    "tolerance-s",
    "max-body-bytes",
    "rate-per-s",
    "budget",
    "allow-from",
    "redact",
    "dedup-window-s",
    "dedup-key",
    "dedup-body",
    "order-by",
    "sequence-by",
    "order-wait-s",
    "coalesce-by",
    "thread-policy",
    "quiet-ms",
    "quiet-cap-ms",
    "mode",
    "approval-expires-s",
    "max-attempts",
    "backoff-s",
    "run-timeout-s",
    "lease-s",
    "callback-url",
    "concurrency",
];

const NOTES: &str = "What is not named stays as it is. --setting NAME:=null removes a setting. A new --secret \
                     takes the old one's place at once; `sources rotate` accepts both for a while.";

#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Update {
    /// The source's id
    source: String,
    #[command(flatten)]
    fields: FieldFlags,
    /// Set this back to its default; may be repeated
    #[arg(long, value_name = "FLAG", value_parser = RESETTABLE)]
    reset: Vec<String>,
}

impl Update {
    pub async fn run(self: Box<Self>, session: &Session) -> anyhow::Result<()> {
        let mut change = self.fields.into_fields()?;
        let back = resets(&change, &self.reset, field_of)?;
        change.other.extend(back);
        if change == SourceFields::default() {
            let nothing = "nothing to change: say what, as in --name NAME; --help shows all flags";
            return Err(Usage(nothing.to_owned()).into());
        }
        // The API takes all settings or none.
        if let Some(given) = change.settings.take() {
            let known = session.client.get_source(&self.source).await?.settings;
            change.settings = Some(merged(known, given)?);
        }
        let call = session.client.update_source(&self.source, &change);
        let Some(source) = session.answer(call).await? else {
            return Ok(());
        };
        output::print(&summary(session.now, &source).render(session.paint))?;
        for line in still_missing(&source.id, &source.provider, &source.missing_settings) {
            output::hint(&line);
        }
        Ok(())
    }
}

/// A flag has its field's name.
fn field_of(flag: &str) -> String {
    flag.replace('-', "_")
}

/// All settings after the change. The server does not show the secret ones, so they must be given again: sent
/// back as they are shown, they would be lost.
fn merged(
    mut known: Map<String, Value>,
    given: Map<String, Value>,
) -> Result<Map<String, Value>, Usage> {
    if let Some((name, _)) = given.iter().find(|(_, value)| *value == SECRET_SETTING) {
        let only_shown = "is only what the server shows in its place; give the setting itself";
        return Err(Usage(format!("{name}: {SECRET_SETTING} {only_shown}")));
    }
    known.extend(given);
    let hidden: Vec<&str> = known
        .iter()
        .filter(|(_, value)| *value == SECRET_SETTING)
        .map(|(name, _)| name.as_str())
        .collect();
    if !hidden.is_empty() {
        let flags: Vec<String> = hidden.iter().map(|name| format!("--setting {name}=…")).collect();
        return Err(Usage(format!(
            "nothing was changed: settings can only be replaced all together, and the server does not show the \
             secret ones; give them again too: {}",
            flags.join(" ")
        )));
    }
    known.retain(|_, value| !value.is_null());
    Ok(known)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merge(known: Value, given: Value) -> Result<Value, String> {
        let map = |value: Value| value.as_object().cloned().unwrap_or_default();
        merged(map(known), map(given)).map(Value::Object).map_err(|usage| usage.0)
    }

    #[test]
    fn other_settings_stay_and_null_removes_one() {
        let known = json!({"team": "T1", "bot": "B1", "old": "x"});
        assert_eq!(
            merge(known, json!({"bot": "B2", "old": null, "new": true})),
            Ok(json!({"team": "T1", "bot": "B2", "new": true}))
        );
    }

    #[test]
    fn secret_settings_must_be_given_again_or_removed() {
        let known = || json!({"team": "T1", "token": "(secret)", "pass": "(secret)"});
        let refused = merge(known(), json!({"team": "T2", "pass": "p"})).unwrap_err();
        assert!(refused.ends_with("give them again too: --setting token=…"), "{refused}");
        assert_eq!(
            merge(known(), json!({"team": "T2", "pass": "p", "token": null})),
            Ok(json!({"team": "T2", "pass": "p"}))
        );
        let refused = merge(known(), json!({"token": "(secret)", "pass": "p"})).unwrap_err();
        assert!(refused.starts_with("token: (secret) is only"), "{refused}");
    }

    #[test]
    fn what_is_set_cannot_be_reset_as_well() {
        let mut change = SourceFields { dedup_key: Some("{/id}".to_owned()), ..Default::default() };
        assert!(resets(&change, &["dedup-key".to_owned()], field_of).is_err());
        let back = resets(&change, &["allow-from".to_owned()], field_of);
        change.other.extend(back.expect("it can be reset"));
        let sent = serde_json::to_value(&change).expect("JSON");
        assert_eq!(sent, json!({"dedup_key": "{/id}", "allow_from": null}));
    }
}
