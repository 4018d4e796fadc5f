//! Requests that Wakepost makes about a job: where they may go, and how they are signed.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use wakepost_providers::standard;

use crate::context::Context;
use crate::directory::Secret;
use crate::outbound::{AddressPolicy, KeepBody, OutboundRequest, Target, Trust};

/// What to post, and where.
pub(super) struct Post<'a> {
    pub url: &'a str,
    /// Whether an administrator of all tenants chose the address.
    pub trusted: bool,
    pub secret: &'a Secret,
    /// The message's id: the same for the same message.
    pub id: String,
    pub body: Bytes,
    pub timeout: Duration,
    pub answer_bytes_max: usize,
}

/// The request, signed as Standard Webhooks has it, with further headers. An error says why it cannot be made.
pub(super) fn signed(
    context: &Context,
    post: Post<'_>,
    further: &[(&'static str, &str)],
) -> Result<OutboundRequest, String> {
    let (trust, rules) = match post.trusted {
        true => (Trust::Trusted, AddressPolicy::trusted()),
        false => (Trust::Guarded, context.config.addresses.clone()),
    };
    let target = Target::parse(post.url, &rules).map_err(|refusal| refusal.to_string())?;
    let mut headers = HeaderMap::new();
    let mut put = |name: &'static str, value: &str| {
        HeaderValue::from_str(value)
            .map(|value| headers.insert(HeaderName::from_static(name), value))
            .map_err(|error| error.to_string())
    };
    let now = context.now();
    put("content-type", "application/json")?;
    put("user-agent", concat!("Wakepost/", env!("CARGO_PKG_VERSION")))?;
    put("webhook-id", &post.id)?;
    put("webhook-timestamp", &now.as_secs().to_string())?;
    let secret = match post.secret {
        Secret::Kept(secret) => secret.clone(),
        Secret::Derived(name) => Some(context.tokens.executor_secret(name)),
    };
    if let Some(secret) = &secret {
        let signature =
            standard::sign(secret, &post.id, now, &post.body).map_err(|error| error.to_string())?;
        put("webhook-signature", &signature)?;
    }
    for (name, value) in further {
        put(name, value)?;
    }
    Ok(OutboundRequest {
        target,
        trust,
        identity: None,
        method: Method::POST,
        headers,
        body: post.body,
        timeout: post.timeout,
        body_bytes_max: post.answer_bytes_max,
        keep: KeepBody::Whole,
    })
}
