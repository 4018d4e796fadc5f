//! The conformance agent, as each SDK has one: its jobs say what to do, step by step (`docs/reference/sdks.md`).

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use wakepost_client::worker::{self, ActError, JobContext, Settings, Stop};
use wakepost_client::{
    Client, Completion, Failure, NewEffect, NewJob, OnDoubt, Progress, Reply, Verifier,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&variable("WAKEPOST_URL")?, &variable("WAKEPOST_KEY")?)?;
    let number = |name: &str, usual: u64| match std::env::var(name) {
        Ok(text) => text.parse(),
        Err(_) => Ok(usual),
    };
    let kinds = std::env::var("AGENT_KINDS").unwrap_or_else(|_| "conformance".to_owned());
    let name = std::env::var("AGENT_NAME").unwrap_or_else(|_| "rust".to_owned());
    let settings = Settings {
        kinds: kinds.split(',').map(str::to_owned).collect(),
        concurrency: usize::try_from(number("AGENT_CONCURRENCY", 1)?)?,
        lease: Duration::from_secs(number("AGENT_LEASE_S", 5)?),
        grace: Duration::from_secs(number("AGENT_GRACE_S", 5)?),
        wait: Duration::from_secs(2),
        ..Settings::named(&name)
    };
    let receiver = Receiver::new(variable("RECEIVER_URL")?);
    let mut terminated = signal(SignalKind::terminate())?;
    let stop = async move {
        terminated.recv().await;
    };
    println!("ready");
    worker::run(&client, &settings, move |job| run(job, receiver.clone()), stop).await?;
    Ok(())
}

fn variable(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|_| format!("{name} is not set"))
}

async fn run(job: JobContext, receiver: Receiver) -> Result<Completion, Stop> {
    let steps = steps_of(&job)?;
    let first = job.job().checkpoint["next"].as_u64().unwrap_or(0) as usize;
    let mut effects: BTreeMap<String, Value> = BTreeMap::new();
    let mut verified: BTreeMap<String, bool> = BTreeMap::new();
    for (index, step) in steps.iter().enumerate().skip(first) {
        let text = |name: &str| step[name].as_str().unwrap_or_default().to_owned();
        if step["verify"].is_string() {
            verified.insert(text("verify"), is_good(step)?);
        } else if step["create"].is_object() {
            let kind = step["create"]["kind"].as_str().map(str::to_owned);
            let input = step["create"]["input"].clone();
            job.client().create_job(&NewJob { input, kind, ..NewJob::default() }).await?;
        } else if let Some(cost) = step["spent"].as_f64() {
            job.set_cost(cost);
        } else if let Some(key) = step["effect"].as_str() {
            effects.insert(key.to_owned(), act(&job, &receiver, step, key).await?);
        } else if step["at"].is_string() {
            receiver.meet(&job, &text("at")).await?;
        } else if step["checkpoint"].is_boolean() {
            job.checkpoint(&json!({"next": index + 1})).await?;
        } else if step["progress"].is_string() {
            job.progress(Progress {
                message: Some(text("progress")),
                percent: step["percent"].as_f64(),
                step: step["step"].as_str().map(str::to_owned),
                data: None,
            })
            .await?;
        } else if step["reply"].is_string() && step.get("result").is_none() {
            let update = step["update"].as_bool();
            job.reply(Reply { text: text("reply"), update }).await?;
        } else if let Some(pause) = step["sleep_ms"].as_u64() {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(pause)) => {}
                () = job.cancelled() => return Err(Stop::retry("cancelled")),
            }
        } else if step["until_cancelled"].is_boolean() {
            job.cancelled().await;
            receiver.post("/cancelled", None, &json!({"job": job.job().id})).await?;
            return Err(Stop::retry("cancelled"));
        } else if step["fail"].is_string() {
            return Err(Stop::Failed(Failure {
                error: text("fail"),
                retryable: step["retryable"].as_bool(),
                retry_after_s: step["retry_after_s"].as_u64(),
                ..Failure::default()
            }));
        } else if let Some(times) = step["fail_first"].as_u64() {
            if u64::from(job.job().attempt) <= times {
                return Err(Stop::retry(step["error"].as_str().unwrap_or("not yet")));
            }
        } else if step["throw"].is_string() {
            return Err(std::io::Error::other(text("throw")).into());
        } else if let Some(result) = step.get("result") {
            return Ok(Completion {
                result: Some(result.clone()),
                reply: step["reply"].as_str().map(str::to_owned),
                cost: step["cost"].as_f64(),
            });
        }
    }
    let mut result = json!({"effects": effects, "attempt": job.job().attempt});
    if !verified.is_empty() {
        result["verified"] = json!(verified);
    }
    Ok(Completion { result: Some(result), ..Completion::default() })
}

/// A job made through the API has them as its input, a message as its text.
fn steps_of(job: &JobContext) -> Result<Vec<Value>, Stop> {
    let job = job.job();
    let message = job.envelope.as_ref().and_then(|envelope| envelope.message.as_ref());
    let given = match message.and_then(|message| message.text.as_deref()) {
        Some(text) if job.input.is_null() => serde_json::from_str(text)?,
        _ => job.input.clone(),
    };
    Ok(given["steps"].as_array().cloned().unwrap_or_default())
}

fn is_good(step: &Value) -> Result<bool, Stop> {
    let list = |name: &str| step[name].as_array().cloned().unwrap_or_default();
    let mut headers = HeaderMap::new();
    for pair in list("headers") {
        let text = |index: usize| pair[index].as_str().unwrap_or_default().to_owned();
        headers.append(HeaderName::try_from(text(0))?, text(1).parse()?);
    }
    let secrets = list("secrets");
    // A key of a key set is an object there.
    let secrets = secrets.iter().map(|secret| match secret.as_str() {
        Some(text) => text.to_owned(),
        None => secret.to_string(),
    });
    let secrets: Vec<String> = secrets.collect();
    let verifier = Verifier::new(secrets.iter().map(String::as_str))?;
    let (body, now) = (step["body"].as_str().unwrap_or_default(), step["now"].as_u64());
    Ok(verifier.verify_at(&headers, body.as_bytes(), now.unwrap_or_default()).is_ok())
}

async fn act(
    job: &JobContext,
    receiver: &Receiver,
    step: &Value,
    key: &str,
) -> Result<Value, Stop> {
    let effect = NewEffect {
        key: key.to_owned(),
        description: step["description"].as_str().map(str::to_owned),
        on_doubt: match step["on_doubt"].as_str() {
            Some("execute") => Some(OnDoubt::Execute),
            Some(_) => Some(OnDoubt::Hold),
            None => None,
        },
    };
    let posting = |idempotency_key: String| async move {
        if let Some(name) = step["before"].as_str() {
            receiver.meet(job, name).await?;
        }
        let path = step["post"].as_str().unwrap_or("/effect");
        let body = json!({"job": job.job().id, "key": key});
        let answer = receiver.post(path, Some((&idempotency_key, job)), &body).await?;
        if let Some(name) = step["inside"].as_str() {
            receiver.meet(job, name).await?;
        }
        match answer {
            (status, value) if status.is_success() => Ok(value),
            (status, value) if status.is_client_error() => {
                Err(ActError::NotDone(value.to_string()))
            }
            (status, _) => Err(ActError::Unknown(format!("the receiver answered {status}"))),
        }
    };
    // The control of the kill trials: what an agent without the ledger would do.
    if std::env::var_os("AGENT_WITHOUT_LEDGER").is_some() {
        return posting("none".to_owned()).await.map_err(|_| Stop::retry("the post failed"));
    }
    job.effect(effect, posting).await
}

/// The test's own HTTP server.
#[derive(Clone)]
struct Receiver {
    url: String,
    pool: Pool<HttpConnector, Full<Bytes>>,
}

impl Receiver {
    fn new(url: String) -> Receiver {
        Receiver { url, pool: Pool::builder(TokioExecutor::new()).build_http() }
    }

    /// Waits until the test lets it go on.
    async fn meet(&self, job: &JobContext, name: &str) -> std::io::Result<()> {
        let job = job.job();
        let body = json!({"job": job.id, "run": job.run_id, "attempt": job.attempt});
        self.post(&format!("/at/{name}"), None, &body).await.map(drop)
    }

    async fn post(
        &self,
        path: &str,
        act: Option<(&str, &JobContext)>,
        body: &Value,
    ) -> std::io::Result<(StatusCode, Value)> {
        let mut request =
            Request::builder().method(Method::POST).uri(format!("{}{path}", self.url));
        if let Some((key, job)) = act {
            let run = job.job().run_id.as_deref().unwrap_or_default();
            request = request.header("idempotency-key", key).header("wakepost-run-id", run);
        }
        let request = request.body(Full::from(body.to_string())).map_err(broken)?;
        let answer = self.pool.request(request).await.map_err(broken)?;
        let status = answer.status();
        let bytes = answer.into_body().collect().await.map_err(broken)?.to_bytes();
        Ok((status, serde_json::from_slice(&bytes).unwrap_or_default()))
    }
}

fn broken(error: impl Error + Send + Sync + 'static) -> std::io::Error {
    std::io::Error::other(error)
}
