//! The list of providers.

use crate::cloudevents::CloudEvents;
use crate::discord::Discord;
use crate::email_mailgun::EmailMailgun;
use crate::email_postmark::EmailPostmark;
use crate::email_resend::EmailResend;
use crate::email_sendgrid::EmailSendGrid;
use crate::generic::Generic;
use crate::github::GitHub;
use crate::gitlab::GitLab;
use crate::google_docs::GoogleDocs;
use crate::hubspot::HubSpot;
use crate::intercom::Intercom;
use crate::jira::Jira;
use crate::linear::Linear;
use crate::notion::Notion;
use crate::pagerduty::PagerDuty;
use crate::provider::Provider;
use crate::sendgrid_events::SendGridEvents;
use crate::shopify::Shopify;
use crate::slack::Slack;
use crate::square::Square;
use crate::standard_webhooks::StandardWebhooks;
use crate::stripe::Stripe;
use crate::telegram::Telegram;
use crate::twilio::Twilio;
use crate::whatsapp::WhatsApp;
use crate::zendesk::Zendesk;

static ALL: &[&dyn Provider] = &[
    &GitHub,
    &GitLab,
    &Stripe,
    &Slack,
    &Telegram,
    &WhatsApp,
    &Discord,
    &EmailResend,
    &EmailSendGrid,
    &EmailMailgun,
    &EmailPostmark,
    &GoogleDocs,
    &Zendesk,
    &Linear,
    &Shopify,
    &Twilio,
    &Jira,
    &Intercom,
    &PagerDuty,
    &HubSpot,
    &Square,
    &Notion,
    &SendGridEvents,
    &StandardWebhooks,
    &CloudEvents,
    &Generic,
];

/// Every provider this build knows.
pub fn all() -> &'static [&'static dyn Provider] {
    ALL
}

/// The provider with this name in the API.
pub fn find(name: &str) -> Option<&'static dyn Provider> {
    ALL.iter().copied().find(|provider| provider.name() == name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_provider_is_found_by_its_own_name_only() {
        let names: HashSet<_> = all().iter().map(|provider| provider.name()).collect();
        assert_eq!(names.len(), all().len());
        for name in names {
            assert_eq!(find(name).map(|provider| provider.name()), Some(name));
        }
        assert!(find("GitHub").is_none());
        assert!(find("").is_none());
    }

    #[test]
    fn every_provider_describes_itself() {
        for provider in all() {
            let facts = provider.facts();
            assert!(!facts.label.is_empty());
            assert!(facts.body_bytes_max > 0 && !facts.tolerance.is_zero());
            assert!(matches!(facts.accepted_status, 200 | 202));
            for setting in provider.settings() {
                assert!(!setting.label.is_empty() && !setting.help.is_empty(), "{}", setting.name);
                let needs_example = setting.need == crate::Need::Receiving;
                assert!(!needs_example || !setting.example.is_empty(), "{}", setting.name);
            }
        }
    }

    #[test]
    fn every_setting_that_says_where_secrets_go_is_declared_as_such() {
        let says_where = ["_url", "_uri", "_host", "_port", "_tls", "_via", "_endpoint"];
        for provider in all() {
            for setting in provider.settings() {
                let named_so = says_where.iter().any(|end| setting.name.ends_with(end));
                assert_eq!(setting.destination, named_so, "{} {}", provider.name(), setting.name);
            }
        }
        let of_mail = find("email-postmark").unwrap().settings();
        let mut declared: Vec<_> =
            of_mail.iter().filter(|setting| setting.destination).map(|each| each.name).collect();
        declared.sort_unstable();
        assert_eq!(declared, ["reply_api_url", "reply_via", "smtp_host", "smtp_port", "smtp_tls"]);
    }

    #[test]
    fn every_provider_says_where_its_address_goes() {
        let url = "https://hooks.example/in/src_1";
        for provider in all() {
            let steps = provider.steps(url);
            assert!(steps.iter().any(|step| step.contains(url)), "{}", provider.name());
            assert!(steps.iter().all(|step| step.ends_with(['.', '…'])), "{}", provider.name());
        }
    }
}
