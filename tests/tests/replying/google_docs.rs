//! Google Docs: a comment is answered under it.

use serde_json::json;
use wakepost_tests::platform::{Fault, GoogleReplies};
use wakepost_tests::{Database, Drive, on_both};

use crate::conversation::{Asked, are_the_text, gateway, long_text};

on_both!(a_comment_is_answered_under_it_each_part_once);

/// Three parts, as we split for comments.
const LONG: usize = 9000;

async fn a_comment_is_answered_under_it_each_part_once(database: Database) {
    let gateway = gateway(database).await;
    let (drive, google) = (Drive::start().await, GoogleReplies::start().await);
    let api = gateway.admin();
    let fields = json!({"settings": drive.settings(), "backoff_s": [1, 1, 1, 1], "quiet_ms": 0});
    let source = api.source_with("google-docs", fields).await;
    api.post(&format!("/sources/{}/setup", source.id), json!({})).await.is(200);
    drive.comment("doc1", "c1", "Ada", "@agent when does it start?");
    assert_eq!(drive.push().await, [202]);
    let lease = gateway.worker("agent").wait().await;
    let event_id = lease.job["envelope"]["event_id"].as_str().expect("an event").to_owned();
    let asked = Asked { lease, event_id };

    // One stand-in has the documents, another the replies.
    google.with(|google| google.hears("doc1", "c1"));
    let mut settings = drive.settings();
    settings["service_account"] = google.with(|google| google.service_account()).into();
    settings["api_url"] = google.url("").into();
    api.patch(&format!("/sources/{}", source.id), json!({"settings": settings})).await.is(200);
    google.next_to("POST /drive", Fault::RateLimits { retry_after_s: 1 });
    google.next_to("POST /drive", Fault::Nothing);
    google.next_to("POST /drive", Fault::ClosesAfter);
    let text = long_text(LONG);
    asked.answered(&text).await;
    asked.sent(&api).await;
    let said = google.with(|google| google.said("doc1", "c1"));
    assert!(said.len() >= 3, "{} parts", said.len());
    are_the_text(said.iter().map(|reply| reply.content.as_str()), &text);
    assert!(google.script_is_over());
}
