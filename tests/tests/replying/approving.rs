//! Replies that a person must agree to: nothing is said before, the whole text is shown, and then it is said once.

use serde_json::{Value, json};
use wakepost_tests::platform::{Fault, Platform, Slack};
use wakepost_tests::{Api, Database, Gateway, now, on_both, within};

use crate::conversation::{Asked, INTERIM, REPLIED, are_the_text, gateway, long_text};

on_both!(
    a_reply_is_said_whole_once_its_whole_text_was_approved,
    a_rejected_reply_is_never_said_and_lets_the_next_be,
    an_approval_lasts_through_the_retries_of_a_reply,
);

const TOKEN: &str = "xoxb-1-2-abc";
const CHANNEL: &str = "C0DEPLOYS";
const POST: &str = "chat.postMessage";

struct Thread {
    slack: Platform<Slack>,
    gateway: Gateway,
    asked: Asked,
    ts: String,
}

impl Thread {
    /// Somebody asks on Slack, and a worker has the question; what it says is to be approved.
    async fn start(database: Database) -> Thread {
        let (slack, gateway) = (Slack::start(TOKEN).await, gateway(database).await);
        let settings = json!({"bot_token": TOKEN, "api_url": slack.url("/api")});
        let fields = json!({"settings": settings, "backoff_s": [1, 1, 1, 1], "mode": "draft"});
        let source = gateway.admin().source_with("slack", fields).await;
        let at = now();
        let ts = format!("{}.4711", at.as_secs());
        slack.with(|slack| slack.hears(CHANNEL, &ts, "why did the build fail?"));
        let asked = Asked::by(&gateway, &source.sample_at(Some("app_mention"), "4711", at)).await;
        Thread { slack, gateway, asked, ts }
    }

    fn said(&self) -> Vec<String> {
        let said = self.slack.with(|slack| slack.said(CHANNEL, &self.ts));
        said.into_iter().map(|message| message.text).collect()
    }

    /// Waits until a reply waits for a person, and shows it.
    async fn waiting(&self, api: &Api) -> Value {
        let id = within(REPLIED, "a reply waits for approval", || async {
            let replies = self.asked.replies(api).await;
            let waits = |reply: &&Value| reply["status"] == "awaiting_approval";
            replies.iter().find(waits)?["id"].as_str().map(str::to_owned)
        })
        .await;
        api.show_job(&id).await
    }
}

async fn decide(api: &Api, word: &str, reply: &Value) {
    let effect = &reply["effects"][0];
    let seen = json!({"key": effect["key"], "proposal_hash": effect["proposal_hash"]});
    let path = format!("/jobs/{}/{word}", reply["id"].as_str().expect("an id"));
    api.post(&path, json!({"effects": [seen], "note": "Grace: read it"})).await.is(200);
}

async fn a_reply_is_said_whole_once_its_whole_text_was_approved(database: Database) {
    let thread = Thread::start(database).await;
    let api = thread.gateway.admin();
    let text = long_text(9000);
    thread.asked.answered(&text).await;
    let reply = thread.waiting(&api).await;
    assert!(reply["id"].as_str().is_some_and(|id| id.starts_with("rpl_")));
    assert_eq!(reply["effects"][0]["state"], "proposed");
    assert_eq!(reply["effects"][0]["description"], text);
    assert_eq!(reply["next_action"], "1 effect waits for approval: approve or reject it");
    assert!(thread.said().is_empty());
    assert_eq!(api.list("/inbox?status=awaiting_approval").await.len(), 1);
    decide(&api, "approve", &reply).await;
    thread.asked.sent(&api).await;
    let said = thread.said();
    assert!(said.len() >= 3);
    are_the_text(said.iter().map(String::as_str), &text);
    assert_eq!(thread.slack.calls(POST).len(), said.len());
}

async fn a_rejected_reply_is_never_said_and_lets_the_next_be(database: Database) {
    let thread = Thread::start(database).await;
    let api = thread.gateway.admin();
    thread.asked.interim().await;
    let interim = thread.waiting(&api).await;
    assert_eq!(interim["effects"][0]["description"], INTERIM);
    thread.asked.answered("Done.").await;
    decide(&api, "reject", &interim).await;
    let last = thread.waiting(&api).await;
    assert_ne!(last["id"], interim["id"]);
    decide(&api, "approve", &last).await;
    within(REPLIED, "the last word is said", || async {
        let said = thread.said();
        (said == ["Done."]).then_some(())
    })
    .await;
    let interim = api.show_job(interim["id"].as_str().expect("an id")).await;
    assert_eq!(interim["status"], "cancelled");
}

async fn an_approval_lasts_through_the_retries_of_a_reply(database: Database) {
    let thread = Thread::start(database).await;
    let api = thread.gateway.admin();
    for fault in [Fault::Nothing, Fault::Fails, Fault::ClosesBefore] {
        thread.slack.next_to(POST, fault);
    }
    let text = long_text(9000);
    thread.asked.answered(&text).await;
    let reply = thread.waiting(&api).await;
    decide(&api, "approve", &reply).await;
    thread.asked.sent(&api).await;
    are_the_text(thread.said().iter().map(String::as_str), &text);
    let audit = api.list("/audit").await;
    let approved = audit.iter().filter(|row| row["action"] == "effect.approve");
    assert_eq!(approved.count(), 1, "nobody was asked twice");
}
