//! The self-webhook: this server calls itself by its base URL, so that a job runs within a request.
//!
//! For hosts that freeze a process between two requests. Here is what this node knows of its own calls: which are
//! under way, whether the base URL can be reached, and when to try again if not. `workers/fire.rs` decides what is
//! called for, `api/process_task.rs` answers. A call that gets lost costs time and nothing else: the sweep repeats
//! it, and claiming makes a second one harmless.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;
use wakepost_domain::executor::Executor;
use wakepost_domain::lane::LaneId;
use wakepost_domain::work::WorkKind;
use wakepost_domain::{TenantId, Ulid, WorkId};
use wakepost_store::moves::Item;

use crate::config::Config;
use crate::context::Context;
use crate::outbound::{AddressPolicy, KeepBody, OutboundRequest, Target, Trust};

/// Where it is answered, after the base URL.
pub const PATH: &str = "/integrations/_process-task";
/// What is asked about to see whether the base URL leads here. No job has this id.
pub const PROBE: Item = Item { tenant: TenantId(0), work: WorkId(Ulid::MIN) };
/// The answer to that.
pub const REACHED: &str = "reachable";

/// How long a token is good for.
const TOKEN_LIFE: Duration = Duration::from_secs(60);
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
/// How long it is remembered what a probe came to.
const REACH_KEPT: Duration = Duration::from_secs(30);
/// How long a node rests after a call that did not get through: the first time, and at most.
const REST: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_secs(60);
const ANSWER_BYTES_MAX: usize = 4096;

/// A node's own calls.
#[derive(Debug)]
pub struct SelfWebhook {
    url: String,
    calls_max: usize,
    commands: HashMap<String, usize>,
    under_way: Mutex<HashMap<Item, Call>>,
    rest: Mutex<Rest>,
    /// When it was last looked whether the base URL leads here, and why not. Held during the look, so that
    /// many who ask at once cause one.
    reach: tokio::sync::Mutex<Option<(Instant, Option<String>)>>,
}

/// A call that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The job's lane.
    pub lane: LaneId,
    /// What runs the job.
    pub runner: Executor,
}

#[derive(Debug, Default)]
struct Rest {
    failures: u32,
    until: Option<Instant>,
}

impl Rest {
    /// After a failure. Calls that fail together are one.
    fn longer(&mut self, now: Instant) {
        if self.until.is_some_and(|until| until > now) {
            return;
        }
        let pause = REST.saturating_mul(1 << self.failures.min(6)).min(REST_MAX);
        *self = Rest { failures: self.failures + 1, until: Some(now + pause) };
    }
}

/// What it is answered.
#[derive(Debug, Deserialize)]
pub struct Answered {
    /// Where the job stands, or [`REACHED`].
    pub status: String,
    /// Whether it was run within that request.
    #[serde(default)]
    pub ran: bool,
}

impl SelfWebhook {
    /// No call is under way.
    pub fn new(base_url: &str, config: &Config) -> SelfWebhook {
        let commands = config.exec.iter();
        SelfWebhook {
            url: format!("{base_url}{PATH}"),
            calls_max: config.push_concurrency,
            commands: commands.map(|(name, command)| (name.clone(), command.concurrency)).collect(),
            under_way: Mutex::default(),
            rest: Mutex::default(),
            reach: tokio::sync::Mutex::default(),
        }
    }

    /// Where it calls.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How many more calls there may be. More jobs than their command can run at once are not called for.
    pub fn free_for(&self, executor: &Executor) -> usize {
        let under_way = self.under_way.lock();
        let free = self.calls_max.saturating_sub(under_way.len());
        let Executor::Exec { name } = executor.runner() else { return free };
        let Some(max) = self.commands.get(name) else { return free };
        let same = under_way.values().filter(|call| call.runner == *executor.runner()).count();
        free.min(max.saturating_sub(same))
    }

    /// How many more calls there may be in all.
    pub fn free(&self) -> usize {
        self.calls_max.saturating_sub(self.under_way.lock().len())
    }

    /// How many calls about a lane's jobs are under way.
    pub fn under_way_in(&self, lane: LaneId) -> u32 {
        let under_way = self.under_way.lock();
        let count = under_way.values().filter(|call| call.lane == lane).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Whether a call about this job is under way.
    pub fn is_under_way(&self, item: &Item) -> bool {
        self.under_way.lock().contains_key(item)
    }

    /// A call begins; says whether there was none about the same job.
    pub fn begin(&self, item: Item, call: Call) -> bool {
        self.under_way.lock().insert(item, call).is_none()
    }

    /// A call got through, or its job is taken care of all the same.
    pub fn ended(&self, item: &Item) {
        self.under_way.lock().remove(item);
        *self.rest.lock() = Rest::default();
    }

    /// A call did not get through.
    pub fn failed(&self, item: &Item) {
        self.under_way.lock().remove(item);
        self.rest();
    }

    fn rest(&self) {
        self.rest.lock().longer(Instant::now());
    }

    /// Whether calls may be made now. After a failure this looks first whether the base URL leads here.
    pub async fn is_rested(&self, context: &Context) -> bool {
        match self.rest.lock().until {
            None => return true,
            Some(until) if until > Instant::now() => return false,
            Some(_) => {}
        }
        if let Err(error) = probe(context).await {
            tracing::debug!(%error, "the base URL does not lead here yet");
            self.rest();
            return false;
        }
        *self.rest.lock() = Rest::default();
        true
    }

    /// Whether the base URL leads here, after a call that failed.
    pub async fn is_way_good(&self, context: &Context) -> bool {
        let rests = self.rest.lock().until.is_some();
        !rests && probe(context).await.is_ok()
    }

    /// Why the base URL does not lead here, if it does not. Looked at anew every half minute at most.
    pub async fn unreachable(&self, context: &Context) -> Option<String> {
        let mut reach = self.reach.lock().await;
        if let Some((at, error)) = &*reach
            && at.elapsed() < REACH_KEPT
        {
            return error.clone();
        }
        let error = probe(context).await.err();
        *reach = Some((Instant::now(), error.clone()));
        error
    }
}

async fn probe(context: &Context) -> Result<(), String> {
    match call(context, PROBE, PROBE_TIMEOUT).await?.status.as_str() {
        REACHED => Ok(()),
        _ => Err("another server answers there".to_owned()),
    }
}

/// Calls this server, or another of its nodes, about a job.
pub async fn call(context: &Context, item: Item, timeout: Duration) -> Result<Answered, String> {
    let target = Target::parse(&context.self_webhook.url, &AddressPolicy::trusted())
        .map_err(|refusal| refusal.to_string())?;
    let token = context.tokens.task(item, context.now().after(TOKEN_LIFE));
    let bearer = HeaderValue::try_from(format!("Bearer {token}")).map_err(|e| e.to_string())?;
    let body = json!({"task_id": item.work.text(WorkKind::Job)}).to_string();
    let request = OutboundRequest {
        target,
        trust: Trust::Trusted,
        identity: None,
        method: Method::POST,
        headers: HeaderMap::from_iter([
            (header::AUTHORIZATION, bearer),
            (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        ]),
        body: Bytes::from(body),
        timeout,
        body_bytes_max: ANSWER_BYTES_MAX,
        keep: KeepBody::Prefix,
    };
    match context.client.send(request).await {
        Ok(answer) if answer.status.is_success() => serde_json::from_slice(&answer.body)
            .map_err(|_| "another server answers there".to_owned()),
        Ok(answer) => Err(format!("it answered {}", answer.status)),
        Err(error) => Err(error.text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls() -> SelfWebhook {
        SelfWebhook {
            url: String::new(),
            calls_max: 3,
            commands: HashMap::from([("agent".to_owned(), 1)]),
            under_way: Mutex::default(),
            rest: Mutex::default(),
            reach: tokio::sync::Mutex::default(),
        }
    }

    fn item(number: u8) -> Item {
        Item { tenant: TenantId(1), work: WorkId::from_bytes([number; 16]) }
    }

    #[test]
    fn calls_are_bounded_in_all_and_by_the_command_they_lead_to() {
        let calls = calls();
        let run = |name: &str| Executor::SelfWebhook {
            run: Box::new(Executor::Exec { name: name.to_owned() }),
            budget_s: None,
        };
        let call = |name: &str| Call { lane: LaneId(1), runner: run(name).runner().clone() };
        assert_eq!((calls.free_for(&run("agent")), calls.free_for(&run("elsewhere"))), (1, 3));
        assert!(calls.begin(item(1), call("agent")));
        assert!(!calls.begin(item(1), call("agent")), "one call a job");
        assert_eq!((calls.free_for(&run("agent")), calls.free_for(&run("elsewhere"))), (0, 2));
        assert_eq!((calls.under_way_in(LaneId(1)), calls.under_way_in(LaneId(2))), (1, 0));
        calls.ended(&item(1));
        assert_eq!((calls.free(), calls.is_under_way(&item(1))), (3, false));
    }

    #[test]
    fn a_node_rests_longer_with_every_failure_and_not_at_all_after_a_success() {
        let (mut rest, mut now) = (Rest::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..8 {
            rest.longer(now);
            // One more at the same time changes nothing.
            rest.longer(now);
            let until = rest.until.unwrap();
            pauses.push((until - now).as_secs());
            now = until;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        let calls = calls();
        calls.failed(&item(1));
        assert!(calls.rest.lock().until.is_some());
        calls.ended(&item(1));
        assert!(calls.rest.lock().until.is_none());
    }
}
