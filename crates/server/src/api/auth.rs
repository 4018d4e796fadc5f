//! Who is calling: a key of ours, a key that lives as long as one lease, or whoever was given a portal link.

use aws_lc_rs::digest;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;
use wakepost_domain::access::{Reach, Right, Role};
use wakepost_domain::lease::Ticket;
use wakepost_domain::ports::Entropy;
use wakepost_domain::{KeyId, TenantId};

use super::error::ApiError;
use crate::context::Context;

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
}

impl Caller {
    /// Finds out who calls: by the key in the headers, or one whom another part of this server already knows and calls
    /// for, which no request from outside can bring along.
    pub async fn of(context: &Context, parts: &Parts) -> Result<Caller, ApiError> {
        match parts.extensions.get::<Caller>() {
            Some(known) => Ok(known.clone()),
            None => Caller::find(context, &parts.headers).await,
        }
    }

    /// Finds out who calls by the key in the headers.
    pub async fn find(context: &Context, headers: &HeaderMap) -> Result<Caller, ApiError> {
        let secret = bearer(headers).ok_or_else(ApiError::unauthorized)?;
        if let Some(ticket) = context.tokens.read_job_key(secret) {
            return Ok(Caller {
                name: format!("job:{}", ticket.work.0),
                role: Role::Worker,
                reach: Reach::Tenant(ticket.tenant),
                ticket: Some(ticket),
                key: None,
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
        }
    }

    /// Who has the key with this hash.
    pub async fn by_key(context: &Context, hash: [u8; 32]) -> Result<Caller, ApiError> {
        let key = context.directory.key(hash).await?.ok_or_else(ApiError::unauthorized)?;
        if key.expires_at.is_some_and(|end| end <= context.now()) {
            return Err(ApiError::unauthorized());
        }
        Ok(Caller {
            name: key.id.to_string(),
            role: key.role,
            reach: key.reach,
            ticket: None,
            key: Some(key.id),
        })
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
