//! One run of one job: the handler, its lease, and the report.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinError, JoinHandle};
use tokio::time::timeout;

use super::context::Run;
use super::keep::keep;
use super::{JobContext, Settings, Stop, Worker};
use crate::backoff::Backoff;
use crate::{Client, Completion, Error, Failure, FinishOutcome, LeasedJob};

/// How long effects under way may still take once the job is to be handed back. The rest of that time is for the report.
const EFFECTS_MAX: Duration = Duration::from_secs(4);

type Ended = Result<Result<Completion, Stop>, JoinError>;

/// Runs a job to its end, or to the loss of its lease.
pub(super) async fn attempt<W: Worker>(
    client: Client,
    settings: Arc<Settings>,
    worker: Arc<W>,
    job: LeasedJob,
    hand_back: watch::Receiver<bool>,
) {
    let job = Arc::new(job);
    let (cancel_asked, cancel) = watch::channel(false);
    let run = Arc::<Run>::default();
    let context = JobContext { client: client.clone(), job: job.clone(), cancel, run: run.clone() };
    let work = async {
        if let Some(outcome) = outcome(&worker, context, hand_back).await {
            report(&client, &job, with_cost(outcome, run.cost())).await;
        }
    };
    // Heartbeats go on until the report is in, or it could come too late.
    tokio::select! {
        () = work => {}
        () = keep(&client, &job, settings.lease_s(), &run, &cancel_asked) => {
            tracing::warn!(job = %job.id, "the lease is lost: the run is dropped");
        }
    }
}

/// What the handler made of it; `None`: there is nothing to report.
async fn outcome<W: Worker>(
    worker: &Arc<W>,
    context: JobContext,
    mut hand_back: watch::Receiver<bool>,
) -> Option<FinishOutcome> {
    let (worker, run) = (worker.clone(), context.run.clone());
    // A task of its own, so that a panic fails one job and not the worker.
    let mut handler = tokio::spawn(async move { worker.run(context).await });
    let _guard = AbortOnDrop(handler.abort_handle());
    // Mapped, since the borrow that it answers must not live on.
    let asked_back = async { hand_back.wait_for(|now| *now).await.map(drop) };
    tokio::select! {
        ended = &mut handler => outcome_of(ended),
        Ok(()) = asked_back => hand_over(&run, handler).await,
    }
}

/// What a handler's end means.
fn outcome_of(ended: Ended) -> Option<FinishOutcome> {
    match ended {
        Ok(Ok(completion)) => Some(FinishOutcome::Complete(completion)),
        Ok(Err(Stop::Failed(failure))) => Some(FinishOutcome::Fail(failure)),
        Ok(Err(Stop::Ended)) => None,
        Err(error) => Some(FinishOutcome::Fail(failure(panic_text(error)))),
    }
}

/// Ends a handler whose job is handed back. An effect under way is seen through first: what happened and was not
/// committed would be in doubt.
async fn hand_over(
    run: &Run,
    mut handler: JoinHandle<Result<Completion, Stop>>,
) -> Option<FinishOutcome> {
    run.effects.close();
    let ended = tokio::select! {
        ended = &mut handler => ended,
        _ = timeout(EFFECTS_MAX, run.effects.idle()) => {
            // It must be over before the job is offered to someone else.
            handler.abort();
            handler.await
        }
    };
    match ended {
        Err(error) if error.is_cancelled() => Some(handed_back()),
        Ok(Err(Stop::Ended)) if run.effects.has_refused() => Some(handed_back()),
        ended => outcome_of(ended),
    }
}

fn handed_back() -> FinishOutcome {
    let stopped = failure("the worker stopped".to_owned());
    FinishOutcome::Fail(Failure { hand_back: true, ..stopped })
}

/// An outcome that does not say what the run cost gets what the run said while it went on.
fn with_cost(mut outcome: FinishOutcome, so_far: Option<f64>) -> FinishOutcome {
    let (FinishOutcome::Complete(Completion { cost, .. })
    | FinishOutcome::Fail(Failure { cost, .. })) = &mut outcome;
    *cost = cost.or(so_far);
    outcome
}

/// Tells the server, again and again if need be: a repeat of the same report changes nothing.
async fn report(client: &Client, job: &LeasedJob, mut outcome: FinishOutcome) {
    let mut backoff = Backoff::default();
    loop {
        let answer = match &outcome {
            FinishOutcome::Complete(done) => complete(client, job, done).await,
            FinishOutcome::Fail(why) => fail(client, job, why).await,
        };
        match (answer, &outcome) {
            (Ok(()), _) => return,
            (Err(error), _) if error.is_transient() => tokio::time::sleep(backoff.next()).await,
            (Err(error), FinishOutcome::Complete(_)) if is_unacceptable(&error) => {
                let error = format!("the result was refused: {error}");
                outcome = FinishOutcome::Fail(Failure { retryable: Some(false), ..failure(error) });
            }
            (Err(error), _) => {
                tracing::warn!(job = %job.id, %error, "the outcome was not recorded");
                return;
            }
        }
    }
}

async fn complete(client: &Client, job: &LeasedJob, done: &Completion) -> Result<(), Error> {
    client.complete_job(&job.id, &job.lease_token, done).await.map(drop)
}

async fn fail(client: &Client, job: &LeasedJob, why: &Failure) -> Result<(), Error> {
    client.fail_job(&job.id, &job.lease_token, why).await.map(drop)
}

/// Whether the same result would be refused again: too large, or not allowed.
pub(super) fn is_unacceptable(error: &Error) -> bool {
    error.problem().is_some_and(|problem| matches!(problem.status, 400 | 413 | 422))
}

fn failure(error: String) -> Failure {
    Failure { error, ..Failure::default() }
}

fn panic_text(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else {
        return "the run was dropped".to_owned();
    };
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    format!("the worker panicked: {}", text.unwrap_or_default())
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
