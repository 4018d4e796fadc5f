//! Slack: threads, the interim message, and every way a call can go wrong.

use std::time::Duration;

use serde_json::json;
use wakepost_tests::platform::{Fault, Platform, Slack, SlackMessage};
use wakepost_tests::{Database, Event, Gateway, Source, now, on_both};

use crate::conversation::{Asked, INTERIM, are_the_text, gateway, long_text, source};

on_both!(
    the_interim_message_becomes_the_first_part_and_the_rest_follow_on_the_thread,
    a_wait_that_slack_asks_for_is_kept,
    a_part_that_failed_before_it_was_posted_is_posted_again,
    a_part_in_doubt_is_looked_for_and_not_posted_again,
    a_kill_between_two_parts_repeats_and_loses_none,
    a_conversation_from_the_mention_to_the_last_word,
    a_last_word_whose_place_is_gone_is_a_message_of_its_own_once,
);

const TOKEN: &str = "xoxb-1-2-abc";
const CHANNEL: &str = "C0DEPLOYS";
const POST: &str = "chat.postMessage";

/// Three parts, as Slack splits.
const LONG: usize = 9000;

struct Thread {
    slack: Platform<Slack>,
    gateway: Gateway,
    asked: Asked,
    ts: String,
}

impl Thread {
    async fn start(database: Database) -> Thread {
        let (slack, gateway) = (Slack::start(TOKEN).await, gateway(database).await);
        let settings = json!({"bot_token": TOKEN, "api_url": slack.url("/api")});
        let source = source(&gateway, "slack", settings).await;
        let at = now();
        let ts = format!("{}.4711", at.as_secs());
        slack.with(|slack| slack.hears(CHANNEL, &ts, "why did the build fail?"));
        let request = source.sample_at(Some("app_mention"), "4711", at);
        let asked = Asked::by(&gateway, &request).await;
        Thread { slack, gateway, asked, ts }
    }

    fn said(&self) -> Vec<SlackMessage> {
        self.slack.with(|slack| slack.said(CHANNEL, &self.ts))
    }

    /// Checks that the thread holds the whole answer, each part once and known by its own metadata.
    #[track_caller]
    fn holds(&self, text: &str) {
        let said = self.said();
        assert!(said.len() >= 3, "{} parts", said.len());
        are_the_text(said.iter().map(|message| message.text.as_str()), text);
        let mut keys: Vec<String> = said
            .iter()
            .map(|message| message.metadata.as_ref().expect("metadata").to_string())
            .collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), said.len(), "each part has its own metadata");
        assert!(self.slack.script_is_over());
    }
}

async fn the_interim_message_becomes_the_first_part_and_the_rest_follow_on_the_thread(
    database: Database,
) {
    let thread = Thread::start(database).await;
    thread.asked.interim().await;
    let interim = thread
        .slack
        .wait_for("the interim message", |slack| slack.said(CHANNEL, &thread.ts).pop())
        .await;
    assert_eq!(interim.text, INTERIM);
    thread.asked.sent(&thread.gateway.admin()).await;

    let text = long_text(LONG);
    thread.asked.answered(&text).await;
    thread.asked.sent(&thread.gateway.admin()).await;
    thread.holds(&text);
    let said = thread.said();
    assert_eq!((&said[0].ts, said[0].edits), (&interim.ts, 1));
    assert!(said[1..].iter().all(|message| message.edits == 0));
}

async fn a_wait_that_slack_asks_for_is_kept(database: Database) {
    let thread = Thread::start(database).await;
    thread.slack.next_to(POST, Fault::RateLimits { retry_after_s: 1 });
    let text = long_text(LONG);
    thread.asked.answered(&text).await;
    thread.asked.sent(&thread.gateway.admin()).await;
    thread.holds(&text);
    let calls = thread.slack.calls(POST);
    assert!(calls[1].at - calls[0].at >= Duration::from_secs(1));
    assert_eq!(calls.len(), thread.said().len() + 1);
}

async fn a_part_that_failed_before_it_was_posted_is_posted_again(database: Database) {
    let thread = Thread::start(database).await;
    for fault in [Fault::Fails, Fault::Nothing, Fault::ClosesBefore] {
        thread.slack.next_to(POST, fault);
    }
    let text = long_text(LONG);
    thread.asked.answered(&text).await;
    thread.asked.sent(&thread.gateway.admin()).await;
    thread.holds(&text);
}

async fn a_part_in_doubt_is_looked_for_and_not_posted_again(database: Database) {
    let thread = Thread::start(database).await;
    thread.slack.next_to(POST, Fault::Nothing);
    thread.slack.next_to(POST, Fault::ClosesAfter);
    let text = long_text(LONG);
    thread.asked.answered(&text).await;
    thread.asked.sent(&thread.gateway.admin()).await;
    thread.holds(&text);
    assert_eq!(thread.slack.calls(POST).len(), thread.said().len());
    assert!(!thread.slack.calls("conversations.replies").is_empty());
}

async fn a_kill_between_two_parts_repeats_and_loses_none(database: Database) {
    // The second part is on its way when the server dies: not posted yet, or posted and not answered.
    for fault in [Fault::Hangs, Fault::HangsAfter] {
        let mut thread = Thread::start(database).await;
        thread.slack.next_to(POST, Fault::Nothing);
        thread.slack.next_to(POST, fault);
        let text = long_text(LONG);
        thread.asked.answered(&text).await;
        thread.slack.wait_for_calls(POST, 2).await;
        thread.gateway.restart().await;
        thread.asked.sent(&thread.gateway.admin()).await;
        thread.holds(&text);
    }
}

async fn a_last_word_whose_place_is_gone_is_a_message_of_its_own_once(database: Database) {
    let thread = Thread::start(database).await;
    thread.asked.interim().await;
    thread.asked.sent(&thread.gateway.admin()).await;
    let interim = thread.said().pop().expect("the interim message");
    thread.slack.with(|slack| slack.forgets(CHANNEL, &interim.ts));
    // Posted, and the answer lost: it must be looked up, and not posted again.
    thread.slack.next_to(POST, Fault::ClosesAfter);
    thread.asked.answered("Done.").await;
    thread.asked.sent(&thread.gateway.admin()).await;
    let said: Vec<String> = thread.said().into_iter().map(|message| message.text).collect();
    assert_eq!(said, ["Done."]);
}

/// Somebody mentions the agent in a thread.
async fn mentioned(gateway: &Gateway, source: &Source, thread: &str, id: &str) -> String {
    let body = json!({
        "type": "event_callback", "event_id": id, "event_time": now().as_secs(),
        "team_id": "T0ACME001", "api_app_id": "A0AGENT01",
        "authorizations": [{"team_id": "T0ACME001", "user_id": "U0AGENT01", "is_bot": true}],
        "event": {
            "type": "app_mention", "channel": CHANNEL, "user": "U0ADA0001", "team": "T0ACME001",
            "ts": format!("{}.{id}", now().as_secs()), "thread_ts": thread,
            "text": format!("<@U0AGENT01> {id}"),
        },
    });
    let body = body.to_string().into_bytes();
    let event = Event { id: id.to_owned(), body, headers: Vec::new() };
    gateway.send(source, &event).await.is(202).text("job_id")
}

async fn a_conversation_from_the_mention_to_the_last_word(database: Database) {
    let (slack, mut gateway) = (Slack::start(TOKEN).await, gateway(database).await);
    let settings = json!({"bot_token": TOKEN, "api_url": slack.url("/api")});
    // Long enough for a busy machine to say two things in.
    let fields = json!({"settings": settings, "backoff_s": [1, 1, 1, 1], "quiet_ms": 3000});
    let source = gateway.admin().source_with("slack", fields).await;
    let thread = format!("{}.100", now().as_secs());
    slack.with(|slack| slack.hears(CHANNEL, &thread, "why did the build fail?"));

    let first = mentioned(&gateway, &source, &thread, "200001").await;
    assert_eq!(mentioned(&gateway, &source, &thread, "200002").await, first, "merged");
    let lease = gateway.worker("agent").wait().await;
    let said: Vec<&str> = lease.job["events"]
        .as_array()
        .expect("both messages")
        .iter()
        .map(|envelope| envelope["message"]["text"].as_str().expect("a text"))
        .collect();
    assert_eq!(said, ["200001", "200002"]);
    let event_id = lease.job["envelope"]["event_id"].as_str().expect("an event").to_owned();
    let asked = Asked { lease, event_id };
    asked.interim().await;
    asked.sent(&gateway.admin()).await;
    let next = mentioned(&gateway, &source, &thread, "200003").await;
    assert_ne!(next, first, "the agent is at work: the next job gathers");

    // The last word is three parts: the first takes the interim message's place, and the server dies at the second.
    let text = long_text(LONG);
    slack.next_to(POST, Fault::Hangs);
    asked.answered(&text).await;
    slack.wait_for_calls(POST, 2).await;
    gateway.restart().await;
    asked.sent(&gateway.admin()).await;
    let said = slack.with(|slack| slack.said(CHANNEL, &thread));
    assert_eq!((said.len(), said[0].edits), (3, 1));
    are_the_text(said.iter().map(|message| message.text.as_str()), &text);

    let lease = gateway.worker("agent").wait().await;
    assert_eq!(lease.job["id"], next);
    let event_id = lease.job["envelope"]["event_id"].as_str().expect("an event").to_owned();
    let asked = Asked { lease, event_id };
    asked.answered("That too.").await;
    asked.sent(&gateway.admin()).await;
    let said = slack.with(|slack| slack.said(CHANNEL, &thread));
    assert_eq!((said.len(), said[3].text.as_str()), (4, "That too."));
}
