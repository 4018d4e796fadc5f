//! What to do with a source: where its URL goes, and what is still missing.

use wakepost_client::Source;
use wakepost_domain::Timestamp;
use wakepost_providers::{Registering, Registration, SecretNeed, Settings, registry};

use super::setup::numbered;
use crate::output::escape;

/// Lines to follow after a source was made, ready to paste.
pub fn next_step(source: &Source) -> Vec<String> {
    let (id, url) = (escape(&source.id), source.ingest_url.as_deref().unwrap_or_default());
    let mut lines = vec![String::new()];
    lines.extend(still_missing(&source.id, &source.provider, &source.missing_settings));
    lines.push("next:".to_owned());
    lines.extend(numbered(steps(&source.provider, url).iter().map(String::as_str)));
    lines.push(format!("  URL     {}", escape(url)));
    lines.extend(secret(source).map(|secret| format!("  Secret  {secret}")));
    if registers_itself(&source.provider) {
        lines.push(format!("or let Wakepost do it: webhookctl sources setup {id}"));
    } else if need(&source.provider) == Some(SecretNeed::Sent) {
        lines.push(format!("to ask for this set-up: webhookctl sources setup {id}"));
    }
    if is_local(url) {
        lines.push(
            "this URL works on this machine only: set WAKEPOST_PUBLIC_URL on the server for others"
                .to_owned(),
        );
    }
    lines.push(format!("then: webhookctl inbox list --source {id}"));
    lines
}

/// What a source must still be told, and the command that does.
pub fn still_missing(id: &str, provider: &str, missing: &[String]) -> Vec<String> {
    let sent = need(provider) == Some(SecretNeed::Sent);
    let flags: Vec<String> = missing
        .iter()
        .filter(|name| !(sent && *name == "secret"))
        .map(|name| match name.as_str() {
            "secret" => "--secret …".to_owned(),
            name => format!("--setting {}=…", escape(name)),
        })
        .collect();
    let mut lines = Vec::new();
    if !missing.is_empty() {
        lines.push(format!("still missing: {}", escape(&missing.join(", "))));
    }
    if !flags.is_empty() {
        lines.push(format!("  webhookctl sources update {} {}", escape(id), flags.join(" ")));
    }
    lines
}

/// What to do at the provider. A newer server may know providers that this program does not.
fn steps(provider: &str, url: &str) -> Vec<String> {
    match registry::find(provider) {
        Some(provider) => provider.steps(url),
        None => vec![format!("Give the address {url} to whoever sends the webhooks.")],
    }
}

/// What to enter as the secret at the provider, unless it is the provider that makes it.
fn secret(source: &Source) -> Option<String> {
    match &source.secret {
        Some(secret) => Some(escape(secret).into_owned()),
        None if source.unsigned => Some("none: this source does not check signatures".to_owned()),
        None if need(&source.provider) == Some(SecretNeed::Generated) => {
            Some("the one you gave to the source".to_owned())
        }
        None => None,
    }
}

fn need(provider: &str) -> Option<SecretNeed> {
    registry::find(provider).map(|provider| provider.facts().secret)
}

/// Whether the provider has an API by which Wakepost can register the source, once all settings are there.
fn registers_itself(provider: &str) -> bool {
    registry::find(provider).is_some_and(|provider| {
        let all = provider.settings().iter();
        let settings: Settings =
            all.map(|setting| (setting.name.to_owned(), setting.example.into())).collect();
        let webhook_url = "https://hooks.example/in/src_1";
        let at = Registration { webhook_url, secret: "s", settings: &settings };
        let registering = Registering {
            at,
            before: None,
            position: None,
            fresh_id: String::new(),
            now: Timestamp::default(),
        };
        provider.registering(registering).is_some()
    })
}

fn is_local(url: &str) -> bool {
    ["://127.", "://localhost", "://[::1]"].iter().any(|local| url.contains(local))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(provider: &str) -> Source {
        Source {
            id: "src_1".to_owned(),
            provider: provider.to_owned(),
            ingest_url: Some("https://hooks.example.com/in/src_1".to_owned()),
            ..Source::default()
        }
    }

    #[test]
    fn github_is_told_where_to_paste_what() {
        let source = Source { secret: Some("s3".to_owned()), ..source("github") };
        let text = next_step(&source).join("\n");
        assert!(text.contains("Settings → Webhooks → Add webhook"), "{text}");
        assert!(text.contains("application/json"), "{text}");
        assert!(text.contains("\n  URL     https://hooks.example.com/in/src_1\n"), "{text}");
        assert!(text.contains("\n  Secret  s3\n"), "{text}");
        assert!(!text.contains("this machine only") && !text.contains("missing"), "{text}");
    }

    #[test]
    fn every_provider_has_its_own_steps() {
        for provider in registry::all() {
            let text = next_step(&source(provider.name())).join("\n");
            for step in provider.steps("https://hooks.example.com/in/src_1") {
                assert!(text.contains(&step), "{}: {text}", provider.name());
            }
            assert_eq!(
                text.contains("  Secret  "),
                provider.facts().secret == SecretNeed::Generated
            );
        }
        let unknown = next_step(&source("newer")).join("\n");
        assert!(unknown.contains("Give the address https://hooks.example.com/in/src_1 to"));
    }

    #[test]
    fn the_set_up_is_named_where_it_does_something() {
        let offers =
            |provider| next_step(&source(provider)).join("\n").contains("sources setup src_1");
        assert!(offers("telegram"));
        assert!(offers("notion"), "its secret is shown there");
        assert!(offers("google-docs"));
        assert!(!offers("github"));
    }

    #[test]
    fn what_is_missing_is_a_command_away() {
        let missing =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            still_missing("src_1", "slack", &missing(&["secret", "bot_token"])),
            [
                "still missing: secret, bot_token",
                "  webhookctl sources update src_1 --secret … --setting bot_token=…"
            ]
        );
        // It comes with the first request.
        let notion = still_missing("src_1", "notion", &missing(&["secret"]));
        assert_eq!(notion, ["still missing: secret"]);
        assert!(still_missing("src_1", "github", &[]).is_empty());
    }
}
