//! Dead letters as JSON Lines: read a page at a time and written a line at a time, so that memory is bounded however
//! many there are.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::header;
use tokio::sync::OwnedSemaphorePermit;
use wakepost_domain::Ulid;
use wakepost_domain::tenant::Tenant;
use wakepost_store::moves::{DeadFilter, Page, WorkRow};

use super::dead_letters::whole;
use super::error::ApiError;
use crate::context::Context;

/// How many rows are read at a time. Their documents are read one by one.
const PAGE: u32 = 100;

/// One answer under way.
struct Export {
    context: Arc<Context>,
    tenant: Arc<Tenant>,
    filter: DeadFilter,
    before: Option<Ulid>,
    rows: VecDeque<WorkRow>,
    is_last: bool,
    _place: OwnedSemaphorePermit,
}

/// The answer that holds them all.
pub fn lines(
    context: Arc<Context>,
    tenant: Arc<Tenant>,
    filter: DeadFilter,
    place: OwnedSemaphorePermit,
) -> Response {
    let rows = VecDeque::new();
    let export =
        Export { context, tenant, filter, before: None, rows, is_last: false, _place: place };
    let body = Body::from_stream(stream::try_unfold(export, Export::next));
    let headers = [
        (header::CONTENT_TYPE, "application/jsonl"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"dead-letters.jsonl\""),
    ];
    (headers, body).into_response()
}

impl Export {
    /// The next line. An error breaks the answer off, so that nobody takes it for whole.
    async fn next(mut self) -> io::Result<Option<(Bytes, Export)>> {
        if self.context.stop.is_cancelled() {
            return Err(io::Error::other("the server stops"));
        }
        if self.rows.is_empty() && !self.is_last {
            self.read().await.map_err(broken)?;
        }
        let Some(row) = self.rows.pop_front() else {
            return Ok(None);
        };
        let whole = whole(&self.context, &self.tenant, row).await.map_err(broken)?;
        Ok(Some((Bytes::from(format!("{whole}\n")), self)))
    }

    async fn read(&mut self) -> Result<(), ApiError> {
        let page = Page { before: self.before, limit: PAGE };
        let store = &self.context.store;
        self.rows = store.dead_letters(self.tenant.id, self.filter.clone(), page).await?.into();
        self.before = self.rows.back().map(|row| row.id.0);
        self.is_last = self.rows.len() < PAGE as usize;
        Ok(())
    }
}

fn broken(error: ApiError) -> io::Error {
    tracing::warn!(code = error.code(), "an export broke off");
    io::Error::other(error.code())
}
