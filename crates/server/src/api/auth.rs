//! Who is calling: a key of ours, a key that lives as long as one lease, or whoever was given a portal link.

use std::net::SocketAddr;

use aws_lc_rs::digest;
use axum::extract::ConnectInfo;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use wakepost_domain::access::{Key, Reach, Right, Role};
use wakepost_domain::lease::Ticket;
use wakepost_domain::ports::Entropy;
use wakepost_domain::{KeyId, TenantId};

use super::error::ApiError;
use crate::context::Context;
use crate::edge::peer;
use crate::rates::Limit;

/// A caller whose key was checked.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The key's id, the job it was made for, or which portal link.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Whose data it reaches.
    pub reach: Reach,
    /// The one lease it is good for, if it is a job's own key.
    pub ticket: Option<Ticket>,
    /// The key's id, to note its use.
    pub key: Option<KeyId>,
    /// What the key is found by, to look at it again during a call that lasts.
    hash: Option<[u8; 32]>,
    /// How many calls it may make in a second, if that is its own.
    rate_per_s: Option<f64>,
}

impl Caller {
    /// Finds out who makes a request. Another part of this server may know already, and call in their name: nothing from
    /// outside can bring that along. Everybody else shows a key, within the limits: of a key on its calls, of an address
    /// on wrong keys. A right key is never refused for what others at its address sent.
    pub async fn of(context: &Context, parts: &Parts) -> Result<Caller, ApiError> {
        if let Some(known) = parts.extensions.get::<Caller>() {
            return Ok(known.clone());
        }
        let found = Caller::find(context, &parts.headers).await;
        if let Err(refusal) = &found
            && refusal.status() == StatusCode::UNAUTHORIZED
            && bearer(&parts.headers).is_some()
        {
            Caller::note_stranger(context, parts)?;
        }
        let caller = found?;
        caller.pace(context)?;
        Ok(caller)
    }

    /// Notes that a wrong key came from this address, and refuses where too many did.
    pub fn note_stranger(context: &Context, parts: &Parts) -> Result<(), ApiError> {
        let Some(ConnectInfo(peer)) = parts.extensions.get::<ConnectInfo<SocketAddr>>() else {
            return Ok(());
        };
        let trusted = &context.config.trusted_proxies;
        let noted = context.strangers.note(peer::address(peer.ip(), &parts.headers, trusted));
        noted.map_err(|wait| ApiError::rate_limited("too many wrong keys came from here", wait))
    }

    /// Refuses a key that makes more calls than it may.
    pub fn pace(&self, context: &Context) -> Result<(), ApiError> {
        let usual = Some(context.config.key_rate_per_s).filter(|rate| *rate > 0.0);
        let Some((key, rate)) = self.key.zip(self.rate_per_s.or(usual)) else { return Ok(()) };
        let taken = context.key_rates.take(key, Limit::per_second(rate));
        taken.map_err(|wait| ApiError::rate_limited("this key makes too many calls", wait))
    }

    /// Finds out whose key it is.
    pub async fn find(context: &Context, headers: &HeaderMap) -> Result<Caller, ApiError> {
        let secret = bearer(headers).ok_or_else(ApiError::unauthorized)?;
        if let Some(ticket) = context.tokens.read_job_key(secret) {
            return Ok(Caller {
                name: format!("job:{}", ticket.work.0),
                role: Role::Worker,
                reach: Reach::Tenant(ticket.tenant),
                ticket: Some(ticket),
                key: None,
                hash: None,
                rate_per_s: None,
            });
        }
        if let Some((tenant, _)) = context.tokens.read_portal(secret, context.now()) {
            return Ok(Caller::visitor(secret, tenant));
        }
        Caller::by_key(context, hash_key(secret)).await
    }

    /// Whoever came by a portal link.
    pub fn visitor(link: &str, tenant: TenantId) -> Caller {
        Caller {
            name: portal_name(link),
            role: Role::Subscriber,
            reach: Reach::Tenant(tenant),
            ticket: None,
            key: None,
            hash: None,
            rate_per_s: None,
        }
    }

    /// Who has the key with this hash.
    pub async fn by_key(context: &Context, hash: [u8; 32]) -> Result<Caller, ApiError> {
        let key = live_key(context, hash).await?.ok_or_else(ApiError::unauthorized)?;
        Ok(Caller {
            name: key.id.to_string(),
            role: key.role,
            reach: key.reach,
            ticket: None,
            key: Some(key.id),
            hash: Some(hash),
            rate_per_s: key.rate_per_s,
        })
    }

    /// Whether the key still stands. A call that lasts asks again and again: its key may be revoked, or come to its end.
    pub async fn still_stands(&self, context: &Context) -> wakepost_store::Result<bool> {
        match self.hash {
            Some(hash) => Ok(live_key(context, hash).await?.is_some()),
            None => Ok(true),
        }
    }

    /// Whether the caller has the right. A job's own key is good only for calls about its lease.
    fn may(&self, right: Right) -> bool {
        self.role.may(right) && (self.ticket.is_none() || right == Right::Work)
    }

    /// Refuses a caller without any of these rights.
    pub fn need_any(&self, rights: &[Right]) -> Result<(), ApiError> {
        match rights.iter().any(|right| self.may(*right)) {
            true => Ok(()),
            false => Err(ApiError::forbidden()),
        }
    }

    /// Whether the caller reaches a tenant.
    pub fn reaches(&self, tenant: TenantId) -> bool {
        match self.reach {
            Reach::All => true,
            Reach::Tenant(own) => own == tenant,
        }
    }
}

async fn live_key(context: &Context, hash: [u8; 32]) -> wakepost_store::Result<Option<Key>> {
    let key = context.directory.key(hash).await?;
    Ok(key.filter(|key| key.expires_at.is_none_or(|end| end > context.now())))
}

/// The secret in `Authorization: Bearer …`, if there is exactly one.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next()?.to_str().ok()?;
    if values.next().is_some() {
        return None;
    }
    let (scheme, secret) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then_some(secret.trim())
        .filter(|secret| !secret.is_empty())
}

/// What is stored of a key. Keys are 256 bits of chance, or at least 32 characters chosen by the operator,
/// so a plain hash is enough.
pub fn hash_key(secret: &str) -> [u8; 32] {
    digest::digest(&digest::SHA256, secret.as_bytes())
        .as_ref()
        .try_into()
        .expect("SHA-256 has 32 bytes")
}

/// What the audit trail calls a portal link: enough to know it by, and no help to anybody without it.
pub fn portal_name(token: &str) -> String {
    format!("portal:{}", hex::encode(&hash_key(token)[..8]))
}

/// A new secret for a key.
pub fn new_key(entropy: &dyn Entropy) -> String {
    let mut bytes = [0u8; 32];
    entropy.fill(&mut bytes);
    format!("wpk_{}", hex::encode(bytes))
}
