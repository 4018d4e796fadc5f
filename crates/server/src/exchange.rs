//! Conversations with the APIs of providers: what an adapter wants sent is sent here, and nowhere else.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, header};
use serde_json::Value;
use wakepost_domain::Timestamp;
use wakepost_providers::{Answered, ApiCall, Exchange, Failure, Step};
use wakepost_store::Store;
use wakepost_store::vault::Slot;

use crate::context::Context;
use crate::directory::LiveSource;
use crate::hub::Setting;
use crate::outbound::{
    AddressPolicy, KeepBody, OutboundAnswer, OutboundRequest, SendError, SendErrorClass, Target,
    Trust, retry_after,
};

/// Some providers refuse whoever does not say who they are.
const USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("wakepost/", env!("CARGO_PKG_VERSION")));
const CALL_TIMEOUT: Duration = Duration::from_secs(15);
/// A mail with all its text is the largest answer that is asked for.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How many steps one conversation may have.
const STEPS_MAX: usize = 500;

/// Why a conversation did not come to its end.
#[derive(Debug)]
pub enum Halt {
    /// The address of the provider's API is not allowed; why.
    Address(String),
    /// It failed.
    Failed {
        /// What went wrong; never a secret.
        error: String,
        /// Whether another try makes sense.
        retryable: bool,
        /// When, if the provider said so.
        retry_after: Option<Duration>,
    },
}

impl Halt {
    fn passing(error: impl Into<String>) -> Halt {
        Halt::Failed { error: error.into(), retryable: true, retry_after: None }
    }
}

impl std::fmt::Display for Halt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Halt::Address(why) => write!(f, "settings.api_url {why}"),
            Halt::Failed { error, .. } => f.write_str(error),
        }
    }
}

/// Leads a conversation to its end.
pub async fn lead<T>(
    context: &Context,
    live: &LiveSource,
    exchange: &mut dyn Exchange<T>,
) -> Result<T, Halt> {
    let mut answer: Option<OutboundAnswer> = None;
    for _ in 0..STEPS_MAX {
        let answered = answer.as_ref().map(|answer| Answered {
            status: answer.status,
            headers: &answer.headers,
            body: &answer.body,
        });
        match exchange.next(answered.as_ref()) {
            Step::Call(call) => answer = Some(send(context, live, call).await?),
            Step::Keep(registration) => {
                let keeping = keep(context, live, &registration, None);
                keeping.await.map_err(|error| Halt::passing(error.to_string()))?;
                answer = None;
            }
            Step::Done(done) => return Ok(done),
            Step::Failed(Failure { error, retryable }) => {
                let asked = answer.as_ref().and_then(|answer| wait(context, answer));
                return Err(Halt::Failed {
                    error,
                    retryable,
                    retry_after: asked.filter(|_| retryable),
                });
            }
        }
    }
    Err(Halt::passing(format!("{} did not come to an end", live.facts.label)))
}

/// Keeps a registration, sealed. `ends`: when it does, and when somebody should renew it; none changes neither.
pub async fn keep(
    context: &Context,
    live: &LiveSource,
    registration: &Value,
    ends: Option<(Timestamp, Timestamp)>,
) -> wakepost_store::Result<()> {
    let (tenant, id) = (live.source.tenant, live.source.id);
    let sealed = live.key.seal(Slot::Registration(id), registration.to_string().as_bytes());
    let keep = |store: Arc<dyn Store>| async move {
        store.keep_registration(tenant, id, sealed, ends).await
    };
    context.change(Setting::Source(id), keep).await
}

fn wait(context: &Context, answer: &OutboundAnswer) -> Option<Duration> {
    let value = answer.headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    retry_after::parse(value, context.now())
}

/// Sends one call.
pub async fn send(
    context: &Context,
    live: &LiveSource,
    call: ApiCall,
) -> Result<OutboundAnswer, Halt> {
    self::call(context, live, call).await.map_err(|fault| match fault {
        CallFault::Address(why) => Halt::Address(why),
        CallFault::Unanswered { error, retryable, .. } => {
            Halt::Failed { error, retryable, retry_after: None }
        }
    })
}

/// A call without a usable answer.
#[derive(Debug, Clone)]
pub enum CallFault {
    /// Its address is not allowed; why.
    Address(String),
    /// No answer came.
    Unanswered {
        /// What went wrong.
        error: String,
        /// Whether another try makes sense.
        retryable: bool,
        /// Whether the provider may have got the call all the same.
        doubtful: bool,
    },
}

/// How far a source's own addresses are trusted: those that an administrator of all tenants entered may be private.
pub fn trust(context: &Context, live: &LiveSource) -> (Trust, AddressPolicy) {
    match live.source.config.settings_trusted {
        true => (Trust::Trusted, AddressPolicy::trusted()),
        false => (Trust::Guarded, context.config.addresses.clone()),
    }
}

/// Makes one call, once. Its address is in the source's settings: whoever set them decides whether the guard applies.
pub async fn call(
    context: &Context,
    live: &LiveSource,
    mut call: ApiCall,
) -> Result<OutboundAnswer, CallFault> {
    let (trust, rules) = trust(context, live);
    let target = Target::parse(&call.url, &rules)
        .map_err(|refusal| CallFault::Address(refusal.to_string()))?;
    call.headers.entry(header::USER_AGENT).or_insert(USER_AGENT);
    let outbound = OutboundRequest {
        target,
        trust,
        identity: None,
        method: call.method,
        headers: call.headers,
        body: Bytes::from(call.body),
        timeout: CALL_TIMEOUT,
        body_bytes_max: ANSWER_BYTES_MAX,
        keep: KeepBody::Whole,
    };
    context.client.send(outbound).await.map_err(|error| CallFault::Unanswered {
        retryable: error.class != SendErrorClass::Refused,
        doubtful: may_have_arrived(&error),
        error: format!("{}: {}", error.class.as_str(), error.text),
    })
}

/// Whether a request may have reached its receiver although no answer came.
fn may_have_arrived(error: &SendError) -> bool {
    // A new connection whose handshake did not end has carried nothing.
    let shook_hands = error.timings.connect.is_none() || error.timings.tls.is_some();
    match error.class {
        SendErrorClass::Refused | SendErrorClass::Resolve | SendErrorClass::Connect => false,
        SendErrorClass::Tls => shook_hands,
        SendErrorClass::Timeout | SendErrorClass::Protocol | SendErrorClass::TooLarge => true,
    }
}
