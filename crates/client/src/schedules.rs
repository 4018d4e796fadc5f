//! Schedules: jobs that are made again and again.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::{delete, get, patch, post};
use crate::lenient::null_as_default;
use crate::{Call, Client, Executor, Nothing, Page, PageQuery};

/// A schedule.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Schedule {
    /// Its id.
    pub id: String,
    /// What people call it.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// The wall times.
    #[serde(deserialize_with = "null_as_default")]
    pub cron: String,
    /// Where these are the wall times.
    #[serde(deserialize_with = "null_as_default")]
    pub time_zone: String,
    /// The kind of its jobs.
    pub kind: Option<String>,
    /// What they get; lists leave it out.
    pub input: Value,
    /// Which queue they wait in.
    pub priority: Option<String>,
    /// How they run.
    pub executor: Option<Executor>,
    /// What requests to its own http executor are signed with; shown once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor_secret: Option<String>,
    /// What they run in order with.
    pub order_key: Option<String>,
    /// What they are about.
    pub subject: Option<String>,
    /// Who asks for them.
    pub owner: Option<String>,
    /// How often each may be tried.
    pub max_attempts: Option<u32>,
    /// Whether it fires.
    #[serde(deserialize_with = "null_as_default")]
    pub enabled: bool,
    /// When it fires next.
    pub next_at: Option<String>,
    /// The last tick that it fired.
    pub last_at: Option<String>,
    /// The job that made.
    pub last_job_id: Option<String>,
    /// When it was made.
    pub created_at: Option<String>,
}

impl std::fmt::Debug for Schedule {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schedule")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("cron", &self.cron)
            .field("time_zone", &self.time_zone)
            .field("next_at", &self.next_at)
            .finish_non_exhaustive()
    }
}

/// The fields of a schedule that can be set. What is `None` is not sent: a new one gets the default, a changed one keeps
/// what it has. A new one needs `name`, `cron` and `input`.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ScheduleFields {
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The wall times: minute, hour, day of the month, month, day of the week; or a word such as `@daily`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// Where these are the wall times, such as `Europe/Berlin`; UTC unless told otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// The kind of its jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// What they get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// Which queue they wait in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// How they run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor: Option<Executor>,
    /// What they run in order with: one that has not ended keeps the next waiting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_key: Option<String>,
    /// What they are about, as `provider:kind:id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Who asks for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// How often each may be tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// Whether it fires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

impl Client {
    /// `POST /schedules`
    pub fn create_schedule(&self, schedule: &ScheduleFields) -> Call<Schedule> {
        self.call(post(&["schedules"], schedule))
    }

    /// `GET /schedules`
    pub fn list_schedules(&self, query: &PageQuery) -> Call<Page<Schedule>> {
        self.call(get(&["schedules"]).query(query))
    }

    /// `GET /schedules/{id}`
    pub fn get_schedule(&self, id: &str) -> Call<Schedule> {
        self.call(get(&["schedules", id]))
    }

    /// `PATCH /schedules/{id}`
    pub fn update_schedule(&self, id: &str, change: &ScheduleFields) -> Call<Schedule> {
        self.call(patch(&["schedules", id], change))
    }

    /// `DELETE /schedules/{id}`: its jobs stay.
    pub fn delete_schedule(&self, id: &str) -> Call<Nothing> {
        self.call(delete(&["schedules", id]))
    }
}
