//! Many jobs in one call: each has its own answer.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakepost_domain::work::State;
use wakepost_domain::{Timestamp, limits};

use super::error::ApiError;
use crate::schema;

/// Many at once: at most 1,000.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(bound = "T: ToSchema")]
pub struct Many<T> {
    #[schema(schema_with = schema::rows::<T>)]
    pub jobs: Vec<T>,
}

impl<T> Many<T> {
    pub fn bounded(self) -> Result<Vec<T>, ApiError> {
        match self.jobs.len() <= limits::JOBS_PER_CALL_MAX {
            true => Ok(self.jobs),
            false => Err(ApiError::field(
                "jobs",
                format!("must be at most {}", limits::JOBS_PER_CALL_MAX),
            )),
        }
    }
}

/// Each job with its own answer, in the order of the request.
#[derive(Serialize, ToSchema)]
pub struct Answers {
    /// They.
    pub jobs: Vec<OneAnswer>,
}

/// One of many answers.
#[derive(Serialize, ToSchema, Clone, Default)]
pub struct OneAnswer {
    /// The job, as it was named.
    pub id: String,
    /// Whether it went well.
    pub ok: bool,
    /// If not: the code that a single call would have had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// After a heartbeat: when the lease ends now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Timestamp>)]
    pub lease_expires_at: Option<Timestamp>,
    /// After a heartbeat: whether the worker is asked to stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel_requested: Option<bool>,
    /// After the end of a run: where the job stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::State>)]
    pub status: Option<State>,
}

pub fn refused(id: &str, error: &ApiError) -> OneAnswer {
    OneAnswer { id: id.to_owned(), code: Some(error.code()), ..OneAnswer::default() }
}
