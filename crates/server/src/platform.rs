//! Calls of a platform's API on behalf of a source.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, header};
use wakepost_providers::ApiCall;

use crate::context::Context;
use crate::directory::LiveSource;
use crate::outbound::{
    AddressPolicy, KeepBody, OutboundAnswer, OutboundRequest, SendErrorClass, Target, Trust,
};

/// Some platforms refuse whoever does not say who they are.
const USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("wakepost/", env!("CARGO_PKG_VERSION")));
const TIMEOUT: Duration = Duration::from_secs(15);
/// A platform's answer is small; a page of messages is the largest.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// A call without a usable answer.
#[derive(Debug, Clone)]
pub struct CallFault {
    /// What went wrong, for people.
    pub text: String,
    /// Whether the platform may have got the call all the same.
    pub is_doubtful: bool,
    /// Whether another try makes sense.
    pub is_retryable: bool,
}

/// How far a source's own addresses are trusted: those that an administrator of all tenants entered may be private.
pub fn trust(context: &Context, live: &LiveSource) -> (Trust, AddressPolicy) {
    match live.source.config.settings_trusted {
        true => (Trust::Trusted, AddressPolicy::trusted()),
        false => (Trust::Guarded, context.config.addresses.clone()),
    }
}

/// Makes a call. Its address may be the tenant's to set, so the guard applies to it.
pub async fn call(
    context: &Context,
    live: &LiveSource,
    mut call: ApiCall,
) -> Result<OutboundAnswer, CallFault> {
    let (trust, rules) = trust(context, live);
    let target = Target::parse(&call.url, &rules).map_err(|refusal| CallFault {
        text: refusal.to_string(),
        is_doubtful: false,
        is_retryable: false,
    })?;
    call.headers.entry(header::USER_AGENT).or_insert(USER_AGENT);
    let request = OutboundRequest {
        target,
        trust,
        method: call.method,
        headers: call.headers,
        body: Bytes::from(call.body),
        timeout: TIMEOUT,
        body_bytes_max: ANSWER_BYTES_MAX,
        keep: KeepBody::Prefix,
    };
    context.client.send(request).await.map_err(|error| CallFault {
        text: format!("{}: {}", error.class.as_str(), error.text),
        is_doubtful: matches!(error.class, SendErrorClass::Timeout | SendErrorClass::Protocol),
        is_retryable: error.class != SendErrorClass::Refused,
    })
}
