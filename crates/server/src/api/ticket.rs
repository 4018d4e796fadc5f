//! From a lease token to the lease it stands for.

use serde::de::DeserializeOwned;
use wakepost_domain::WorkId;
use wakepost_domain::lease::Ticket;
use wakepost_domain::work::{State, WorkKind};
use wakepost_store::StoreError;

use super::call::Call;
use super::error::ApiError;

/// A body that carries a lease token.
pub trait Leased: DeserializeOwned {
    /// The token.
    fn token(&self) -> &str;

    /// Whether the other fields can be used.
    fn check(&self) -> Result<(), ApiError> {
        Ok(())
    }
}

impl Call {
    /// Reads a call about a lease. What is wrong with its fields is told last: a worker whose job is gone, or
    /// whose lease is lost, must hear that first. Only a refusal costs a look-up.
    pub async fn leased<T: Leased>(&self, id: &str) -> Result<(T, Ticket), ApiError> {
        self.leased_as(WorkKind::Job, id).await
    }

    /// The same, of another kind of work.
    pub async fn leased_as<T: Leased>(
        &self,
        kind: WorkKind,
        id: &str,
    ) -> Result<(T, Ticket), ApiError> {
        let work = read_id(kind, id)?;
        let body: T = match self.body() {
            Ok(body) => body,
            // Without a token nobody knows whose job it is, but for the caller's own tenant.
            Err(refusal) => return Err(self.or_gone(kind, work, refusal).await),
        };
        let ticket = match self.ticket_for(kind, work, body.token()) {
            Ok(ticket) => ticket,
            Err(refusal) => return Err(self.or_gone(kind, work, refusal).await),
        };
        match body.check() {
            Ok(()) => Ok((body, ticket)),
            Err(refusal) => Err(self.or_lost(&ticket, refusal).await),
        }
    }

    /// What a lease token says, if it is about this job and this caller may use it.
    pub fn ticket(&self, id: &str, token: &str) -> Result<Ticket, ApiError> {
        self.ticket_for(WorkKind::Job, read_id(WorkKind::Job, id)?, token)
    }

    fn ticket_for(&self, kind: WorkKind, id: WorkId, token: &str) -> Result<Ticket, ApiError> {
        let tokens = &self.context.tokens;
        let ticket = match kind {
            WorkKind::Delivery => tokens.read_delivery_lease(token),
            _ => tokens.read_lease(token),
        };
        // A token that is not ours is as good as a stale one: the worker must stop.
        let ticket = ticket.ok_or(StoreError::LeaseLost)?;
        if !self.caller.reaches(ticket.tenant) {
            return Err(ApiError::not_found());
        }
        let own = self
            .caller
            .ticket
            .is_none_or(|own| own.work == ticket.work && own.fence == ticket.fence);
        if ticket.work != id || !own {
            return Err(StoreError::LeaseLost.into());
        }
        Ok(ticket)
    }

    async fn or_gone(&self, kind: WorkKind, work: WorkId, refusal: ApiError) -> ApiError {
        let tenant = match self.tenant().await {
            Ok(tenant) => tenant.id,
            Err(error) => return error,
        };
        match self.context.store.work(tenant, work).await {
            Ok(Some(row)) if row.kind == kind => refusal,
            Ok(_) => ApiError::not_found(),
            Err(error) => error.into(),
        }
    }

    /// A refusal, unless the lease is lost: then that is what its worker must hear.
    pub async fn or_lost(&self, ticket: &Ticket, refusal: ApiError) -> ApiError {
        let store = &self.context.store;
        // By the clock that leases go by, which is not always this node's.
        let found =
            async { Ok((store.now().await?, store.work(ticket.tenant, ticket.work).await?)) };
        let live = match found.await {
            Ok((now, row)) => row.is_some_and(|row| {
                row.state == State::Running
                    && row.fence == ticket.fence
                    && row.lease_expires_at.is_some_and(|end| end > now)
            }),
            Err(error) => return StoreError::into(error),
        };
        if live { refusal } else { StoreError::LeaseLost.into() }
    }
}

fn read_id(kind: WorkKind, id: &str) -> Result<WorkId, ApiError> {
    WorkId::parse(id, kind).map_err(|_| ApiError::not_found())
}
