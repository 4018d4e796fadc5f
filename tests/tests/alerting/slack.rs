//! Alerts in Slack: each change is one message in the channel that a source of the tenant names, whatever goes wrong.

use std::time::Duration;

use serde_json::{Value, json};
use wakepost_tests::platform::{Fault, Platform, Slack};
use wakepost_tests::{Api, Database, Gateway, on_both, until, within};

use crate::{alert, dead_job, setup};

on_both!(
    a_change_is_one_message_in_the_channel_of_the_tenants_own_source,
    a_message_is_sent_when_slack_is_ready_for_it,
    a_message_in_doubt_is_looked_for_and_not_posted_again,
    a_channel_is_named_by_its_id,
);

const TOKEN: &str = "xoxb-1-2-abc";
const CHANNEL: &str = "C0ALERTS01";
const OTHER: &str = "C0OTHERS01";
const POST: &str = "chat.postMessage";

/// With the lease of a node that was killed running out before.
const SENT: Duration = Duration::from_secs(90);

async fn workspace() -> Platform<Slack> {
    let slack = Slack::start(TOKEN).await;
    slack.with(|slack| [CHANNEL, OTHER].map(|channel| slack.joins(channel)));
    slack
}

fn settings(slack: &Platform<Slack>, channel: &str) -> Value {
    json!({"bot_token": TOKEN, "api_url": slack.url("/api"), "alerts_channel": channel})
}

async fn source(api: &Api, settings: Value) -> String {
    api.source_with("slack", json!({"settings": settings, "backoff_s": [1, 1, 1, 1]})).await.id
}

fn posted(slack: &Platform<Slack>, channel: &str) -> Vec<String> {
    slack.with(|slack| slack.posted(channel)).into_iter().map(|message| message.text).collect()
}

/// Waits until so many messages are in the channel, and nothing more is on its way.
async fn told(slack: &Platform<Slack>, gateway: &Gateway, count: usize) -> Vec<String> {
    within(SENT, &format!("{count} messages"), || async {
        let waiting = gateway.count("SELECT count(*) FROM work").await;
        let posted = posted(slack, CHANNEL);
        (waiting == 0 && posted.len() >= count).then_some(posted)
    })
    .await
}

async fn deal_with(gateway: &Gateway, api: &Api, dead: &str) {
    api.post(&format!("/jobs/{dead}/replay"), json!({"note": "again"})).await.is(202);
    let lease = gateway.worker("ada").wait_with(json!({"kinds": ["x"]})).await;
    lease.complete(json!({})).await.is(200);
    alert(api, "dead_letters", "resolved").await;
}

async fn a_change_is_one_message_in_the_channel_of_the_tenants_own_source(database: Database) {
    let slack = workspace().await;
    let setup = setup(database).setting("WAKEPOST_PUBLIC_URL", "https://hooks.example");
    let mut gateway = setup.start().await;
    let second = match database {
        Database::Sqlite => None,
        Database::Postgres => Some(gateway.node().await),
    };
    let api = gateway.admin();
    source(&api, settings(&slack, CHANNEL)).await;
    let off = source(&api, settings(&slack, OTHER)).await;
    api.post(&format!("/sources/{off}/disable"), json!({})).await.is(200);
    let mut without_token = settings(&slack, OTHER);
    without_token.as_object_mut().expect("settings").remove("bot_token");
    let silent = source(&api, without_token).await;
    source(&api.tenant("acme").await, settings(&slack, OTHER)).await;

    let dead = dead_job(&gateway, &api, "no").await;
    let fired = alert(&api, "dead_letters", "firing").await;
    let said = told(&slack, &gateway, 1).await;
    let since = &fired["fired_at"].as_str().expect("a time").replace('T', " ")[..19];
    assert_eq!(
        said,
        [format!(
            "*Warning: Dead letters pile up* (tenant default)\n1 dead letters wait to be dealt with. \
             Threshold: 0. Since {since} UTC.\n<https://hooks.example/?tenant=default|Overview>"
        )]
    );
    drop(second);

    // A crash before it was noted that the alert was told: it is told again, and nobody hears it twice.
    gateway.restart().await;
    let api = gateway.admin();
    gateway.execute("UPDATE alerts SET untold = 1").await;
    until("it is told again", || async {
        gateway.logged().contains("an alert fired").then_some(())
    })
    .await;
    deal_with(&gateway, &api, &dead).await;
    let said = told(&slack, &gateway, 2).await;
    assert!(said[1].starts_with("*Over: Dead letters pile up* (tenant default)\n"), "{said:?}");
    assert!(said[1].contains("It lasted ") && said[1].contains(&format!("since {since} UTC")));
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(posted(&slack, OTHER).is_empty());
    assert_eq!(slack.calls(POST).len(), 2);
    let status = api.get(&format!("/sources/{silent}/status")).await.is(200).json();
    assert_eq!(status["error"], Value::Null);
}

async fn a_message_is_sent_when_slack_is_ready_for_it(database: Database) {
    let slack = workspace().await;
    let gateway = setup(database).start().await;
    let api = gateway.admin();
    source(&api, settings(&slack, CHANNEL)).await;
    slack.next_to(POST, Fault::RateLimits { retry_after_s: 1 });
    slack.next_to(POST, Fault::Fails);
    dead_job(&gateway, &api, "no").await;
    assert_eq!(told(&slack, &gateway, 1).await.len(), 1);
    let calls = slack.calls(POST);
    assert!(calls[1].at - calls[0].at >= Duration::from_secs(1));
    assert_eq!(calls.len(), 3);
    assert!(slack.script_is_over());
}

async fn a_message_in_doubt_is_looked_for_and_not_posted_again(database: Database) {
    let slack = workspace().await;
    let mut gateway = setup(database).start().await;
    let api = gateway.admin();
    source(&api, settings(&slack, CHANNEL)).await;
    slack.next_to(POST, Fault::HangsAfter);
    dead_job(&gateway, &api, "no").await;
    slack.wait_for_calls(POST, 1).await;
    gateway.restart().await;
    assert_eq!(told(&slack, &gateway, 1).await.len(), 1);
    assert_eq!(slack.calls(POST).len(), 1);
    assert!(!slack.calls("conversations.history").is_empty());
}

async fn a_channel_is_named_by_its_id(database: Database) {
    let gateway = Gateway::start(database).await;
    let fields = json!({"provider": "slack", "settings": {"alerts_channel": "#alerts"}});
    gateway.admin().post("/sources", fields).await.refuses_field("settings.alerts_channel");
}
