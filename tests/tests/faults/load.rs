//! The load: senders and workers that do what careful ones do while something goes wrong, and what they were told.
//!
//! Everybody repeats what got no answer or a 503, at the next node. What a job does outside is a counter; nobody acts
//! whose lease may be over; an operator says of an effect in doubt what the counter says.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::time::Duration;

use futures_util::future::join_all;
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use tokio::time::Instant;
use wakepost_tests::{Answer, Event, Gateway, Lease, Source, until};

const SENDERS: usize = 4;
const WORKERS: usize = 3;
/// Senders wait while so many jobs have not ended: what matters is the fault, not the heap.
const OPEN_MAX: usize = 30;
/// Short, since a lease whose answer got lost must run out before anybody else gets the job.
const LEASE_S: u64 = 4;
/// After this a caller takes it that no answer comes. More than a sender is kept waiting for a commit.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);
/// How many jobs somebody vanishes with.
const GHOSTS: usize = 4;
/// How long a node that did not answer is left out.
const SHUNNED: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);
/// How long all of it may take.
const LIMIT: Duration = Duration::from_secs(90);
/// The effect of every job.
const EFFECT: &str = "charge";

/// What clients were told, and what was really done outside.
#[derive(Default)]
struct Told {
    /// Acknowledged events, by the sender's id.
    events: HashMap<String, String>,
    /// The jobs of these, and whether a worker was told of the end.
    jobs: HashMap<String, bool>,
    /// Every lease that was given.
    leases: HashSet<(String, u64)>,
    /// How often the effect of each job was executed.
    executed: HashMap<String, u32>,
    /// The results of effects that were told to be committed.
    committed: HashMap<String, Value>,
    refused: usize,
    unanswered: usize,
}

/// The load on a gateway.
pub struct Load<'a> {
    nodes: &'a [Gateway],
    source: Source,
    told: RefCell<Told>,
    turn: Cell<usize>,
    /// Until when each node is left out, because it did not answer.
    shunned: RefCell<Vec<Option<Instant>>>,
    /// The senders stop.
    ending: Cell<bool>,
    /// Every job has ended.
    ended: Cell<bool>,
    deadline: Instant,
}

impl<'a> Load<'a> {
    /// A load on these nodes, not begun yet.
    pub async fn new(nodes: &'a [Gateway]) -> Load<'a> {
        let policy = json!({"max_attempts": 20});
        Load {
            nodes,
            source: nodes[0].admin().source_with("github", policy).await,
            told: RefCell::default(),
            turn: Cell::new(0),
            shunned: RefCell::new(vec![None; nodes.len()]),
            ending: Cell::new(false),
            ended: Cell::new(false),
            deadline: Instant::now() + LIMIT,
        }
    }

    /// Runs until the faults are over and every job has ended; then holds what is there against what was told.
    pub async fn through(&self, faults: impl Future<Output = ()>) {
        let senders = join_all((0..SENDERS).map(|sender| self.sends(sender)));
        let faults = async {
            self.goes_on("before").await;
            faults.await;
            self.goes_on("after").await;
            self.ending.set(true);
        };
        let all = async {
            tokio::join!(senders, faults);
            self.all_have_ended().await;
            self.ended.set(true);
        };
        let workers = join_all((0..WORKERS).map(|worker| self.works(worker)));
        tokio::join!(all, workers, self.decides_doubts());
        self.check().await;
    }

    /// How many 503s there were so far.
    pub fn refused(&self) -> usize {
        self.told.borrow().refused
    }

    fn done(&self) -> usize {
        self.told.borrow().jobs.values().filter(|ended| **ended).count()
    }

    fn open(&self) -> usize {
        self.told.borrow().jobs.values().filter(|ended| !**ended).count()
    }

    /// Waits until events come in and jobs end.
    pub async fn goes_on(&self, when: &str) {
        let (events, done) = (self.told.borrow().events.len() + 20, self.done() + 20);
        until(&format!("{when}: events are taken in, and jobs end"), || async {
            (self.told.borrow().events.len() >= events && self.done() >= done).then_some(())
        })
        .await;
    }

    /// Waits until a sender was refused once more: the fault is there.
    pub async fn is_refused(&self) {
        let before = self.refused();
        until("a sender is refused", || async { (self.refused() > before).then_some(()) }).await;
    }

    /// Waits until a request got no answer once more.
    pub async fn is_not_answered(&self) {
        let before = self.told.borrow().unanswered;
        let more = async || (self.told.borrow().unanswered > before).then_some(());
        until("a request is not answered", more).await;
    }

    /// A worker that vanishes with some jobs it got from a node, in half of them after it began to act.
    pub async fn leaves_some(&self, node: usize) -> Vec<Lease> {
        let ghost = self.nodes[node].worker("ghost");
        let ask = json!({"max": 2, "wait_s": 1, "lease_s": LEASE_S});
        let mut left = Vec::new();
        while left.len() < GHOSTS {
            left.extend(ghost.lease_many(ask.clone()).await);
        }
        for lease in left.iter().step_by(2) {
            lease.begin(EFFECT).await.is(200);
        }
        let given = left.iter().map(|lease| (lease.id().to_owned(), lease.fence()));
        self.told.borrow_mut().leases.extend(given);
        left
    }

    /// Waits until all leases are over that are given now.
    pub async fn leases_run_out(&self) {
        tokio::time::sleep(Duration::from_secs(LEASE_S)).await;
    }

    fn in_time(&self, what: &str) {
        assert!(Instant::now() < self.deadline, "not within {LIMIT:?}: {what}");
    }

    /// The next node, in turns. One that did not answer is left out for a while, if there are others.
    fn next_node(&self) -> usize {
        let (count, shunned) = (self.nodes.len(), self.shunned.borrow());
        let turns = (1..=count).map(|step| (self.turn.get() + step) % count);
        let fit = |node: &usize| shunned[*node].is_none_or(|until| until < Instant::now());
        let node = turns.clone().find(fit).or_else(|| turns.clone().next()).expect("a node");
        self.turn.set(node);
        node
    }

    async fn sends(&self, sender: usize) {
        for number in 0.. {
            while self.open() >= OPEN_MAX && !self.ending.get() {
                tokio::time::sleep(PAUSE).await;
            }
            if self.ending.get() {
                return;
            }
            let id = format!("s{sender}-{number}");
            self.send(&id).await;
            if number % 5 == 0 {
                self.send(&id).await;
            }
        }
    }

    /// Of a provider that signs no time, so that clocks may be wrong. Its body is the same whenever it is sent.
    fn event(&self, id: &str) -> Event {
        self.source.event(id)
    }

    /// Sends an event until it is answered; every copy must be told the same id.
    async fn send(&self, id: &str) {
        let event = self.event(id);
        let answer = loop {
            self.in_time("an event is answered");
            let node = self.next_node();
            let sent = self.nodes[node].try_send(&self.source, &event);
            if let Some(answer) = self.heard(node, sent).await {
                break answer;
            }
        };
        assert!(matches!(answer.status, 200 | 202), "{}: {}", answer.status, answer.json());
        let (given, job) = (answer.text("event_id"), answer.text("job_id"));
        let told = &mut *self.told.borrow_mut();
        if let Some(before) = told.events.insert(id.to_owned(), given.clone()) {
            assert_eq!((before, 200), (given, answer.status), "U1: {id}");
        }
        told.jobs.entry(job).or_default();
    }

    /// `None`: nobody knows; ask again.
    async fn heard(
        &self,
        node: usize,
        asked: impl Future<Output = Result<Answer, String>>,
    ) -> Option<Answer> {
        match tokio::time::timeout(ANSWER_LIMIT, asked).await {
            Ok(Ok(answer)) if answer.status == 503 => {
                assert_eq!(answer.header("retry-after"), "1", "a 503 says when");
                self.told.borrow_mut().refused += 1;
            }
            Ok(Ok(answer)) => return Some(answer),
            Ok(Err(_)) | Err(_) => {
                self.told.borrow_mut().unanswered += 1;
                self.shunned.borrow_mut()[node] = Some(Instant::now() + SHUNNED);
            }
        }
        tokio::time::sleep(PAUSE).await;
        None
    }

    /// Makes a call of the API until it is answered.
    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        loop {
            self.in_time(path);
            let node = self.next_node();
            let api = self.nodes[node].admin();
            let asked = api.try_call(method.clone(), path, HeaderMap::new(), body);
            if let Some(answer) = self.heard(node, asked).await {
                return answer;
            }
        }
    }

    async fn works(&self, worker: usize) {
        let ask =
            json!({"worker": format!("w{worker}"), "max": 4, "wait_s": 1, "lease_s": LEASE_S});
        while !self.ended.get() {
            self.in_time("L7: every job ends");
            let (asked, node) = (Instant::now(), self.next_node());
            let api = self.nodes[node].admin();
            let answer = api.try_call(Method::POST, "/jobs/lease", HeaderMap::new(), Some(&ask));
            let Some(answer) = self.heard(node, answer).await else { continue };
            let answer = answer.is(200).json();
            for job in answer["jobs"].as_array().expect("jobs") {
                let lease = Run::new(job, asked);
                let given = (lease.id.clone(), lease.fence);
                let is_new = self.told.borrow_mut().leases.insert(given);
                assert!(is_new, "L1: {} was given twice under one fence", lease.id);
                self.run(&lease).await;
            }
        }
    }

    /// A run, to its end or to the loss of its lease.
    async fn run(&self, run: &Run) -> Option<()> {
        let begun = self.about(run, "effects", json!({"key": EFFECT})).await?.json();
        let known = self.told.borrow().committed.get(&run.id).cloned();
        match begun["decision"].as_str() {
            Some("execute") => {
                assert_eq!(known, None, "E1: {} is executed after it was committed", run.id);
                if run.may_be_over() {
                    return None;
                }
                let told = &mut *self.told.borrow_mut();
                let count = told.executed.entry(run.id.clone()).or_default();
                *count += 1;
                assert_eq!(*count, 1, "E1: {} is executed again", run.id);
            }
            Some("skip") => {
                assert!(known.is_none_or(|result| begun["result"] == result), "{begun}");
                assert_eq!(self.told.borrow().executed.get(&run.id), Some(&1), "E1: nobody did it");
            }
            _ => return None,
        }
        if begun["decision"] == "execute" {
            let result = json!({"by": run.fence});
            let path = format!("effects/{EFFECT}/commit");
            self.about(run, &path, json!({"result": result})).await?;
            self.told.borrow_mut().committed.insert(run.id.clone(), result);
        }
        let answer = self.about(run, "complete", json!({"result": 1})).await?;
        assert_eq!(answer.text("status"), "succeeded");
        self.told.borrow_mut().jobs.insert(run.id.clone(), true);
        Some(())
    }

    /// Makes a call with a lease's token until it is answered. `None`: the lease is lost.
    async fn about(&self, run: &Run, path: &str, mut fields: Value) -> Option<Answer> {
        fields["lease_token"] = run.token.clone().into();
        let path = format!("/jobs/{}/{path}", run.id);
        let answer = self.call(Method::POST, &path, Some(&fields)).await;
        if answer.status == 200 {
            return Some(answer);
        }
        answer.refuses(409, "lease_lost");
        None
    }

    /// An operator says of each effect in doubt whether it was really done.
    async fn decides_doubts(&self) {
        while !self.ended.get() {
            let held = self.call(Method::GET, "/jobs?status=held", None).await.is(200).json();
            for job in held["data"].as_array().expect("rows") {
                let id = job["id"].as_str().expect("an id");
                let done = self.told.borrow().executed.contains_key(id);
                let outcome = if done { "committed" } else { "not_done" };
                let word = json!({"outcome": outcome, "note": "looked it up"});
                let path = format!("/jobs/{id}/effects/{EFFECT}/resolve");
                let answer = self.call(Method::POST, &path, Some(&word)).await;
                // Refused: it was decided by the try whose answer got lost.
                assert!(matches!(answer.status, 200 | 409), "{}", answer.json());
            }
            tokio::time::sleep(10 * PAUSE).await;
        }
    }

    /// Waits for the ends; some of them nobody heard of.
    async fn all_have_ended(&self) {
        let jobs: Vec<String> = self.told.borrow().jobs.keys().cloned().collect();
        for id in jobs {
            while !self.told.borrow().jobs[&id] {
                self.in_time("L7: every job ends");
                let shown = self.call(Method::GET, &format!("/jobs/{id}"), None).await.is(200);
                if shown.text("status") == "succeeded" {
                    self.told.borrow_mut().jobs.insert(id.clone(), true);
                } else {
                    tokio::time::sleep(5 * PAUSE).await;
                }
            }
        }
    }

    async fn check(&self) {
        // Nobody is told anything more.
        let (told, api) = (self.told.take(), self.nodes[0].admin());
        let rows = api.list("/inbox").await;
        let count = rows.len();
        let rows: HashMap<_, _> = rows.iter().map(|row| (row["dedup_key"].as_str(), row)).collect();
        assert_eq!(count, told.events.len(), "D3: each event once");
        for (name, id) in &told.events {
            let row = rows.get(&Some(name.as_str()));
            let row = row.unwrap_or_else(|| panic!("D1: {name} was acknowledged and is lost"));
            assert_eq!(row["id"], *id, "U1: {name}");
        }
        for (name, id) in told.events.iter().take(20) {
            let raw = api.get(&format!("/inbox/{id}/raw")).await.is(200);
            assert_eq!(raw.body, self.event(name).body, "D1: {name}");
        }
        let jobs = api.list("/jobs").await;
        assert_eq!(jobs.len(), told.jobs.len(), "U1: one job for each event");
        assert_eq!(told.jobs.len(), told.events.len(), "U1: one job for each event");
        for job in &jobs {
            let id = job["id"].as_str().expect("an id");
            assert_eq!(job["status"], "succeeded", "L7: {job}");
            assert_eq!(told.executed.get(id), Some(&1), "E1: {job}");
        }
        for (id, result) in &told.committed {
            let shown = api.show_job(id).await;
            assert_eq!(shown["effects"][0]["result"], *result, "E1: {shown}");
        }
        eprintln!(
            "{} events, {} leases, {} refused, {} unanswered",
            told.events.len(),
            told.leases.len(),
            told.refused,
            told.unanswered
        );
    }
}

/// A run of a job: a lease, and when it was asked for.
struct Run {
    id: String,
    token: String,
    fence: u64,
    asked: Instant,
}

impl Run {
    fn new(job: &Value, asked: Instant) -> Run {
        let text = |field: &str| job[field].as_str().expect("a text").to_owned();
        let fence = job["fence"].as_u64().expect("a fence");
        Run { id: text("id"), token: text("lease_token"), fence, asked }
    }

    fn may_be_over(&self) -> bool {
        self.asked.elapsed() >= Duration::from_secs(LEASE_S)
    }
}
