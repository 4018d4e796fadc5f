//! What all platforms' tests do: somebody asks, a worker answers, and the answer is sent.

use std::time::Duration;

use serde_json::{Value, json};
use wakepost_providers::SignedRequest;
use wakepost_tests::{Api, Database, Gateway, Lease, Source, within};

/// What the agent says while it works.
pub const INTERIM: &str = "Working on it…";

/// How long a reply may take, with the lease of a node that was killed running out before.
pub const REPLIED: Duration = Duration::from_secs(90);

/// A gateway that may call stand-ins.
pub async fn gateway(database: Database) -> Gateway {
    let setup = Gateway::setup(database).setting("WAKEPOST_ALLOW_HTTP", "true");
    setup.setting("WAKEPOST_ALLOW_PRIVATE", "true").start().await
}

/// A source whose replies are tried again at once.
pub async fn source(gateway: &Gateway, provider: &str, settings: Value) -> Source {
    let fields = json!({"settings": settings, "lease_s": 5, "backoff_s": [1, 1, 1, 1]});
    gateway.admin().source_with(provider, fields).await
}

/// Somebody asks, and a worker has the question.
pub struct Asked {
    pub lease: Lease,
    pub event_id: String,
}

impl Asked {
    /// Sends a signed message, and leases its job.
    pub async fn by(gateway: &Gateway, request: &SignedRequest) -> Asked {
        let answer = gateway.send_request(request).await;
        assert!(matches!(answer.status, 200 | 202), "{answer:?}");
        let lease = gateway.worker("agent").wait().await;
        let event_id = lease.job["envelope"]["event_id"].as_str().expect("an event").to_owned();
        Asked { lease, event_id }
    }

    /// Says something before the work is done.
    pub async fn interim(&self) {
        let answer = self.lease.post("reply", json!({"text": INTERIM})).await;
        assert!(matches!(answer.status, 200..=202), "{answer:?}");
    }

    /// Ends the work with an answer.
    pub async fn answered(&self, text: &str) {
        self.lease.post("complete", json!({"reply": text})).await.is(200);
    }

    /// The reply items of the event.
    pub async fn replies(&self, api: &Api) -> Vec<Value> {
        let event = api.show_event(&self.event_id).await;
        let work = event["work"].as_array().expect("work").iter();
        work.filter(|work| work["kind"] == "reply").cloned().collect()
    }

    /// Waits until everything is sent.
    pub async fn sent(&self, api: &Api) {
        within(REPLIED, "every reply is sent", || async {
            let replies = self.replies(api).await;
            let is_sent = |reply: &Value| reply["status"] == "succeeded";
            (!replies.is_empty() && replies.iter().all(is_sent)).then_some(())
        })
        .await;
    }

    /// Waits until a reply is held for an operator, and says its id.
    pub async fn held(&self, api: &Api) -> String {
        let id = within(REPLIED, "a reply is held", || async {
            let replies = self.replies(api).await;
            let held = replies.iter().find(|reply| reply["status"] == "held")?;
            held["id"].as_str().map(str::to_owned)
        })
        .await;
        assert!(id.starts_with("rpl_"), "{id}");
        id
    }
}

/// An operator says what became of a part.
pub async fn resolve(api: &Api, reply: &str, key: &str, outcome: &str) {
    let path = format!("/jobs/{reply}/effects/{key}/resolve");
    let decision = json!({"outcome": outcome, "note": "looked at the thread"});
    api.post(&path, decision).await.is(200);
}

/// A text of about so many characters, with nothing in it that any platform formats.
pub fn long_text(characters: usize) -> String {
    let words = "what the agent found out and tells at length ".repeat(15);
    let paragraphs =
        (1..=characters / words.len() + 1).map(|n| format!("Paragraph {n} is {words}"));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

/// Checks that these parts are the text: whole, in order, each once, cut only at white space.
#[track_caller]
pub fn are_the_text<'t>(parts: impl IntoIterator<Item = &'t str>, text: &str) {
    let joined = parts.into_iter().collect::<Vec<_>>().join("\n");
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&joined), words(text));
}
