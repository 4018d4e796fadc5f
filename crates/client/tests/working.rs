//! What the worker loop promises.

mod stand_in;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use stand_in::{Answer, Seen, StandIn, json_answer, problem, silence};
use wakepost_client::worker::{self, ActError, JobContext, Settings, Stop};
use wakepost_client::{Client, Completion, NewJob, Reply};

/// A server with one job, which answers everything else with `rest`.
fn one_job(rest: impl Fn(&Seen) -> Option<Answer> + Send + Sync + 'static) -> StandIn {
    let polls = AtomicUsize::new(0);
    StandIn::start(move |seen| {
        if seen.line == "POST /api/v1/jobs/lease" {
            let job = json!({"id": "job_1", "run_id": "run_1", "lease_token": "t", "attempt": 1,
                "kind": "k", "input": {"n": 1}, "checkpoint": null, "chain": "chain_1",
                "traceparent": "00-trace-span-01"});
            let jobs = match polls.fetch_add(1, Ordering::SeqCst) {
                0 => vec![job],
                _ => vec![],
            };
            return json_answer(200, json!({"jobs": jobs}));
        }
        rest(seen).unwrap_or_else(|| json_answer(200, json!({"id": "job_1", "status": "running"})))
    })
}

/// Works until the server was sent a request whose line ends so; panics after ten seconds.
async fn work_until<W: worker::Worker>(server: &StandIn, last: &str, settings: Settings, work: W) {
    let client = Client::new(&server.url, "k").expect("a client");
    let stop = async {
        while !server.lines().iter().any(|line| line.ends_with(last)) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let run = worker::run(&client, &settings, work, stop);
    tokio::time::timeout(Duration::from_secs(10), run).await.expect("it stops").expect("it works");
}

fn body_of(server: &StandIn, end: &str) -> Value {
    let seen = server.seen();
    let found = seen.iter().find(|seen| seen.line.ends_with(end));
    found.map(|seen| seen.body.clone()).unwrap_or_default()
}

fn settings() -> Settings {
    Settings::named("w")
}

#[tokio::test]
async fn a_job_is_leased_run_and_completed() {
    let server = one_job(|_| None);
    work_until(&server, "/complete", settings(), async |job: JobContext| {
        Ok(Completion { result: Some(job.job().input.clone()), ..Completion::default() })
    })
    .await;
    assert_eq!(
        body_of(&server, "/lease"),
        json!({"worker": "w", "max": 1, "wait_s": 5, "lease_s": 120})
    );
    assert_eq!(body_of(&server, "/complete"), json!({"lease_token": "t", "result": {"n": 1}}));
}

#[tokio::test]
async fn an_error_or_a_panic_fails_the_job() {
    let server = one_job(|_| None);
    work_until(&server, "/fail", settings(), async |_: JobContext| Err(Stop::give_up("never")))
        .await;
    assert_eq!(
        body_of(&server, "/fail"),
        json!({"lease_token": "t", "error": "never", "retryable": false})
    );
    let server = one_job(|_| None);
    work_until(&server, "/fail", settings(), async |job: JobContext| {
        assert!(job.job().attempt > 7, "oh");
        Ok(Completion::default())
    })
    .await;
    assert_eq!(body_of(&server, "/fail")["error"], "the worker panicked: oh");
}

#[tokio::test]
async fn a_report_is_repeated_until_it_is_answered() {
    let reports = AtomicUsize::new(0);
    let server = one_job(move |seen| {
        (seen.line.ends_with("/complete") && reports.fetch_add(1, Ordering::SeqCst) < 2)
            .then(|| problem(503, "unavailable", "later"))
    });
    work_until(&server, "/complete", settings(), async |_: JobContext| Ok(Completion::default()))
        .await;
    let lines = server.lines();
    let reports = lines.iter().filter(|line| line.ends_with("/complete"));
    assert_eq!(reports.count(), 3);
}

#[tokio::test]
async fn an_effect_is_begun_done_and_committed() {
    let server = one_job(|seen| {
        seen.line
            .ends_with("/effects")
            .then(|| json_answer(200, json!({"decision": "execute", "idempotency_key": "eff_1"})))
    });
    work_until(&server, "/complete", settings(), async |job: JobContext| {
        let sent: String =
            job.effect("email:welcome", async |key| Ok(format!("sent {key}"))).await?;
        Ok(Completion { reply: Some(sent), ..Completion::default() })
    })
    .await;
    assert_eq!(body_of(&server, "/effects"), json!({"lease_token": "t", "key": "email:welcome"}));
    assert_eq!(
        body_of(&server, "/effects/email:welcome/commit"),
        json!({"lease_token": "t", "result": "sent eff_1"})
    );
    assert_eq!(body_of(&server, "/complete")["reply"], "sent eff_1");
}

#[tokio::test]
async fn a_committed_effect_is_not_done_again() {
    let server = one_job(|seen| {
        seen.line.ends_with("/effects").then(|| {
            json_answer(200, json!({"decision": "skip", "idempotency_key": "e", "result": 7}))
        })
    });
    work_until(&server, "/complete", settings(), async |job: JobContext| {
        let stored: u32 = job.effect("e", async |_| panic!("it was done already")).await?;
        Ok(Completion { result: Some(stored.into()), ..Completion::default() })
    })
    .await;
    assert_eq!(body_of(&server, "/complete")["result"], 7);
}

#[tokio::test]
async fn only_an_act_that_certainly_did_not_happen_is_aborted() {
    for (error, aborted) in [
        (ActError::NotDone("refused".to_owned()), true),
        (ActError::Unknown("timeout".to_owned()), false),
    ] {
        let server = one_job(|seen| {
            seen.line
                .ends_with("/effects")
                .then(|| json_answer(200, json!({"decision": "execute", "idempotency_key": "e"})))
        });
        work_until(&server, "/fail", settings(), move |job: JobContext| {
            let error = error.clone();
            async move {
                job.effect("e", |_| async { Err::<(), _>(error) }).await?;
                Ok(Completion::default())
            }
        })
        .await;
        let lines = server.lines();
        assert_eq!(lines.iter().any(|l| l.ends_with("/abort")), aborted);
        assert!(!lines.iter().any(|l| l.ends_with("/commit")));
    }
}

/// A server that lets an effect be done, and answers its commits one after the other.
fn one_effect(commits: &'static [u16]) -> StandIn {
    let seen = AtomicUsize::new(0);
    one_job(move |request| {
        if request.line.ends_with("/effects") {
            let go = json!({"decision": "execute", "idempotency_key": "e"});
            return Some(json_answer(200, go));
        }
        let status = request.line.ends_with("/commit").then(|| seen.fetch_add(1, Ordering::SeqCst));
        match commits.get(status?)? {
            200 => None,
            status => Some(problem(*status, "too_large", "no")),
        }
    })
}

#[tokio::test]
async fn what_may_have_happened_is_not_done_again_in_the_same_run() {
    let server = one_effect(&[]);
    let acts = Arc::new(AtomicUsize::new(0));
    let counted = acts.clone();
    work_until(&server, "/fail", settings(), move |job: JobContext| {
        let acts = counted.clone();
        async move {
            for _ in 0..3 {
                let act = |_| async {
                    acts.fetch_add(1, Ordering::SeqCst);
                    Err::<(), _>(ActError::Unknown("timeout".to_owned()))
                };
                let _ = job.effect("e", act).await;
            }
            Err(Stop::retry("in doubt"))
        }
    })
    .await;
    assert_eq!(acts.load(Ordering::SeqCst), 1);
}

/// How often an act was done.
#[derive(Clone, Default)]
struct Acts(Arc<AtomicUsize>);

impl Acts {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    async fn slowly(&self) -> Result<usize, ActError> {
        let count = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        tokio::time::sleep(Duration::from_millis(200)).await;
        Ok(count)
    }
}

#[tokio::test]
async fn of_two_calls_with_one_key_only_the_first_acts() {
    let (server, acts) = (one_effect(&[]), Acts::default());
    let counted = acts.clone();
    work_until(&server, "/complete", settings(), move |job: JobContext| {
        let acts = counted.clone();
        async move {
            let both = tokio::join!(
                job.effect("e", |_| acts.slowly()),
                job.effect("e", |_| acts.slowly()),
            );
            assert!(matches!(both, (Ok(1), Err(Stop::Failed(_)))), "{both:?}");
            // Once it is committed, it is for the server to say what to do.
            job.effect("e", |_| acts.slowly()).await?;
            Ok(Completion::default())
        }
    })
    .await;
    assert_eq!(acts.count(), 2, "the stand-in says execute again");
}

#[tokio::test]
async fn an_act_that_its_caller_gave_up_is_not_done_again() {
    let (server, acts) = (one_effect(&[]), Acts::default());
    let counted = acts.clone();
    work_until(&server, "/fail", settings(), move |job: JobContext| {
        let acts = counted.clone();
        async move {
            let hasty = Duration::from_millis(50);
            let first = tokio::time::timeout(hasty, job.effect("e", |_| acts.slowly())).await;
            assert!(first.is_err());
            job.effect("e", |_| acts.slowly()).await?;
            Ok(Completion::default())
        }
    })
    .await;
    assert_eq!(acts.count(), 1);
    let error = body_of(&server, "/fail")["error"].as_str().expect("an error").to_owned();
    assert!(error.contains("may have happened"), "{error}");
}

#[tokio::test]
async fn an_act_whose_commit_was_refused_is_not_done_again() {
    let (server, acts) = (one_effect(&[403]), Acts::default());
    let counted = acts.clone();
    work_until(&server, "/fail", settings(), move |job: JobContext| {
        let acts = counted.clone();
        async move {
            job.effect("e", |_| acts.slowly()).await.expect_err("the commit was refused");
            job.effect("e", |_| acts.slowly()).await?;
            Ok(Completion::default())
        }
    })
    .await;
    assert_eq!(acts.count(), 1);
}

#[tokio::test]
async fn a_job_is_handed_back_after_its_effect_is_committed_and_no_other_is_begun() {
    let (server, acts) = (one_effect(&[]), Acts::default());
    let counted = acts.clone();
    let hasty = Settings { grace: Duration::ZERO, ..settings() };
    // It is asked to stop while the first act goes on.
    work_until(&server, "/effects", hasty, move |job: JobContext| {
        let acts = counted.clone();
        async move {
            job.effect("e", |_| acts.slowly()).await?;
            job.effect("f", |_| acts.slowly()).await?;
            Ok(Completion::default())
        }
    })
    .await;
    assert_eq!(acts.count(), 1);
    let lines = server.lines();
    let place = |end: &str| lines.iter().position(|line| line.ends_with(end));
    assert!(place("/e/commit").is_some() && place("/e/commit") < place("/fail"), "{lines:?}");
    assert_eq!(body_of(&server, "/fail")["hand_back"], true);
}

#[tokio::test]
async fn one_heartbeat_that_hangs_loses_no_lease() {
    let beats = AtomicUsize::new(0);
    let server = one_job(move |seen| {
        let first = seen.line.ends_with("/heartbeat") && beats.fetch_add(1, Ordering::SeqCst) == 0;
        first.then(silence)
    });
    let quick = Settings { lease: Duration::from_secs(1), ..settings() };
    work_until(&server, "/complete", quick, async |job: JobContext| {
        job.set_cost(0.25);
        tokio::time::sleep(Duration::from_millis(1500)).await;
        Ok(Completion::default())
    })
    .await;
    let beat = body_of(&server, "/heartbeat");
    assert_eq!(beat, json!({"lease_token": "t", "extend_s": 1, "cost": 0.25}));
    assert_eq!(body_of(&server, "/complete")["cost"], 0.25);
}

#[tokio::test]
async fn a_job_made_by_a_job_says_what_led_to_it() {
    let server = one_job(|_| None);
    work_until(&server, "/complete", settings(), async |job: JobContext| {
        job.client().create_job(&NewJob::default()).await?;
        Ok(Completion::default())
    })
    .await;
    let seen = server.seen();
    let made = seen.iter().find(|seen| seen.line.ends_with("/jobs")).expect("a job is made");
    assert_eq!(made.headers["wakepost-chain"], "chain_1");
    assert_eq!(made.headers["traceparent"], "00-trace-span-01");
    let others = seen.iter().filter(|seen| !seen.line.ends_with("/jobs"));
    assert!(others.into_iter().all(|seen| !seen.headers.contains_key("wakepost-chain")));
}

#[tokio::test]
async fn an_act_whose_result_is_refused_is_committed_without_it() {
    let server = one_effect(&[422, 200]);
    work_until(&server, "/complete", settings(), |job: JobContext| async move {
        job.effect("e", |_| async { Ok::<_, ActError>("large".to_owned()) }).await?;
        Ok(Completion::default())
    })
    .await;
    let commits: Vec<Value> = server
        .seen()
        .into_iter()
        .filter(|seen| seen.line.ends_with("/commit"))
        .map(|seen| seen.body["result"].clone())
        .collect();
    assert_eq!(commits, [json!("large"), Value::Null]);
}

#[tokio::test]
async fn a_reply_that_cannot_be_is_a_failure_like_any_other() {
    let server = one_job(|seen| {
        seen.line.ends_with("/reply").then(|| problem(409, "invalid_state", "it has no thread"))
    });
    work_until(&server, "/fail", settings(), |job: JobContext| async move {
        job.reply(Reply { text: "hello".to_owned(), update: None }).await?;
        Ok(Completion::default())
    })
    .await;
    let error = body_of(&server, "/fail")["error"].as_str().expect("an error").to_owned();
    assert!(error.contains("it has no thread"), "{error}");
}

#[tokio::test]
async fn a_run_that_ended_on_the_server_reports_nothing() {
    let server = one_job(|seen| {
        seen.line
            .ends_with("/effects")
            .then(|| json_answer(200, json!({"decision": "in_doubt", "idempotency_key": "e"})))
    });
    work_until(&server, "/effects", settings(), async |job: JobContext| {
        job.effect("e", async |_| Ok(())).await?;
        Ok(Completion::default())
    })
    .await;
    let lines = server.lines();
    assert!(!lines.iter().any(|l| l.ends_with("/complete") || l.ends_with("/fail")));
}

#[tokio::test]
async fn heartbeats_bring_the_wish_to_cancel() {
    let server = one_job(|seen| {
        seen.line
            .ends_with("/heartbeat")
            .then(|| json_answer(200, json!({"cancel_requested": true})))
    });
    let quick = Settings { lease: Duration::from_secs(1), ..settings() };
    work_until(&server, "/fail", quick, async |job: JobContext| {
        job.cancelled().await;
        Err(Stop::retry("cancelled"))
    })
    .await;
    assert_eq!(body_of(&server, "/heartbeat"), json!({"lease_token": "t", "extend_s": 1}));
}

#[tokio::test]
async fn a_run_whose_lease_is_lost_is_dropped() {
    let server = one_job(|seen| {
        seen.line.ends_with("/heartbeat").then(|| problem(409, "lease_lost", "someone else has it"))
    });
    let quick = Settings { lease: Duration::from_secs(1), ..settings() };
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = dropped.clone();
    work_until(&server, "/heartbeat", quick, move |_: JobContext| {
        let guard = CountOnDrop(count.clone());
        async move {
            let _guard = guard;
            std::future::pending::<()>().await;
            Ok(Completion::default())
        }
    })
    .await;
    let is_dropped = async {
        while dropped.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), is_dropped).await.expect("the run is dropped");
    let lines = server.lines();
    assert!(!lines.iter().any(|l| l.ends_with("/complete") || l.ends_with("/fail")));
}

#[tokio::test]
async fn a_stopping_worker_hands_back_what_it_cannot_finish() {
    let server = one_job(|_| None);
    let hasty = Settings { grace: Duration::from_millis(50), ..settings() };
    work_until(&server, "/progress", hasty, async |job: JobContext| {
        job.progress(Default::default()).await?;
        std::future::pending::<()>().await;
        Ok(Completion::default())
    })
    .await;
    assert_eq!(
        body_of(&server, "/fail"),
        json!({"lease_token": "t", "error": "the worker stopped", "hand_back": true})
    );
}

#[tokio::test]
async fn a_refused_key_ends_the_loop_at_once() {
    let server = StandIn::start(|_| problem(401, "unauthorized", "no"));
    let client = Client::new(&server.url, "k").expect("a client");
    let work = async |_: JobContext| Ok(Completion::default());
    let end = worker::run(&client, &settings(), work, std::future::pending()).await;
    assert_eq!(end.expect_err("401").problem().map(|p| p.status), Some(401));
    assert_eq!(server.lines().len(), 1);
}

struct CountOnDrop(Arc<AtomicUsize>);

impl Drop for CountOnDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}
