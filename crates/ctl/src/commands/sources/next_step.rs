//! What to do with a new source: where its URL goes, and what is still missing.

use wakepost_client::Source;

use crate::output::escape;

/// Lines to follow, ready to paste.
pub fn next_step(source: &Source) -> Vec<String> {
    let url = source.ingest_url.as_deref().unwrap_or_default();
    let mut lines = vec![String::new()];
    if !source.missing_settings.is_empty() {
        lines.push(format!(
            "still missing: {}. Set them with PATCH /api/v1/sources/{}",
            escape(&source.missing_settings.join(", ")),
            escape(&source.id)
        ));
    }
    lines.push(format!("next: {}", place(&source.provider)));
    lines.push(format!("  URL           {}", escape(url)));
    lines.extend(extras(source));
    if is_local(url) {
        lines.push(
            "this URL works on this machine only: set WAKEPOST_PUBLIC_URL on the server for others"
                .to_owned(),
        );
    }
    let watch = escape(&source.id);
    lines.push(format!("then: webhookctl inbox list --source {watch}"));
    lines
}

/// Where in the provider's product a webhook is set up.
fn place(provider: &str) -> &'static str {
    match provider {
        "github" => {
            "in GitHub, open the repository's (or organization's) Settings → Webhooks → Add webhook, and paste"
        }
        "gitlab" => {
            "in GitLab, open the project's Settings → Webhooks → Add new webhook, and paste"
        }
        "stripe" => {
            "in Stripe, open Developers → Webhooks → Add endpoint, paste the URL, then give its signing secret (whsec_…) to the source"
        }
        "slack" => {
            "at api.slack.com/apps, open your app's Event Subscriptions, and paste as Request URL"
        }
        "discord" => {
            "in the Discord developer portal, open General Information, and paste as Interactions Endpoint URL"
        }
        "linear" => "in Linear, open Settings → API → Webhooks, and paste",
        "shopify" => "in Shopify, open Settings → Notifications → Webhooks, and paste",
        "zendesk" => "in Zendesk, open Admin Center → Apps and integrations → Webhooks, and paste",
        "jira" => "in Jira, open Settings → System → WebHooks, and paste",
        "pagerduty" => "in PagerDuty, open Integrations → Generic Webhooks (v3), and paste",
        "notion" => "in Notion, open your integration's Webhooks tab, and paste",
        _ => "give this URL to whoever sends the webhooks",
    }
}

/// What else a provider's form asks for.
fn extras(source: &Source) -> Vec<String> {
    let secret = match (&source.secret, source.unsigned) {
        (Some(secret), _) => escape(secret).into_owned(),
        (None, true) => "none: this source does not check signatures".to_owned(),
        (None, false) => "the one you gave to the source".to_owned(),
    };
    match source.provider.as_str() {
        "github" => {
            vec!["  Content type  application/json".to_owned(), format!("  Secret        {secret}")]
        }
        "gitlab" => vec![format!("  Secret token  {secret}")],
        "jira" | "standard-webhooks" | "generic" | "cloudevents" => {
            vec![format!("  Secret        {secret}")]
        }
        _ => Vec::new(),
    }
}

fn is_local(url: &str) -> bool {
    ["://127.", "://localhost", "://[::1]"].iter().any(|local| url.contains(local))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn github_is_told_where_to_paste_what() {
        let source = Source {
            id: "src_1".to_owned(),
            provider: "github".to_owned(),
            ingest_url: Some("https://hooks.example.com/in/src_1".to_owned()),
            secret: Some("s3".to_owned()),
            ..Source::default()
        };
        let text = next_step(&source).join("\n");
        assert!(text.contains("Settings → Webhooks → Add webhook"));
        assert!(text.contains("  URL           https://hooks.example.com/in/src_1"));
        assert!(text.contains("  Secret        s3"));
        assert!(!text.contains("this machine only"));
    }
}
