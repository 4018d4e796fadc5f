//! Our SDKs: the same program, written with each, does the same with the real server.
//!
//! `scenarios` is the conformance list. The contract is HTTP, so it runs on one database. `killing` ends agents
//! where it hurts, on both.

mod killing;
mod scenarios;

use serde_json::{Value, json};
use wakepost_tests::{Agent, Database, Gateway, Meeting, Sdk, until};

/// A gateway, a place to meet, and one SDK.
struct World {
    gateway: Gateway,
    meeting: Meeting,
    sdk: Sdk,
}

impl World {
    async fn start(sdk: Sdk, database: Database) -> World {
        // Replies go to a stand-in of the platform.
        let setup = Gateway::setup(database).setting("WAKEPOST_ALLOW_HTTP", "true");
        let gateway = setup.setting("WAKEPOST_ALLOW_PRIVATE", "true").start().await;
        World { gateway, meeting: Meeting::start().await, sdk }
    }

    async fn agent(&self, settings: &[(&str, &str)]) -> Agent {
        Agent::start(self.sdk, &self.gateway, &self.meeting, settings).await
    }

    /// Makes a job for the agents, and says its id.
    async fn job(&self, steps: Value) -> String {
        self.job_of("conformance", steps).await
    }

    async fn job_of(&self, kind: &str, steps: Value) -> String {
        self.gateway.admin().job_with(json!({"kind": kind, "input": {"steps": steps}})).await
    }

    async fn show(&self, id: &str) -> Value {
        self.gateway.admin().show_job(id).await
    }

    /// Waits until a job stands so.
    async fn becomes(&self, id: &str, status: &str) -> Value {
        let what = format!("{id} becomes {status}");
        until(&what, || async { Some(self.show(id).await).filter(|job| job["status"] == status) })
            .await
    }

    /// Decides on the one effect that a job proposes.
    async fn decide(&self, job: &Value, word: &str) {
        let effect = &job["effects"][0];
        let proposal = json!({"key": effect["key"], "proposal_hash": effect["proposal_hash"]});
        let body = json!({"effects": [proposal], "note": "Grace: looked at it"});
        let path = format!("/jobs/{}/{word}", job["id"].as_str().expect("an id"));
        self.gateway.admin().post(&path, body).await.is(200);
    }

    /// Says whether an effect in doubt happened.
    async fn resolve(&self, id: &str, key: &str, outcome: &str) {
        let path = format!("/jobs/{id}/effects/{key}/resolve");
        let word = json!({"outcome": outcome, "note": "the receiver was asked"});
        self.gateway.admin().post(&path, word).await.is(200);
    }
}
