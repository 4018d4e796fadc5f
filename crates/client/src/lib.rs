//! The Rust SDK of Wakepost.
//!
//! [`Client`] has one method for each call of the HTTP API; a method returns a [`Call`], which is sent when
//! it is awaited. [`worker`] is a worker in ten lines: it leases jobs, keeps their leases alive, runs them
//! and reports how they went. [`Client::publish`] tells subscribers what happened, once, however often it has to be
//! sent. A [`Verifier`] is for those who receive. This crate knows the HTTP contract and nothing of the server behind
//! it.
//!
//! ```no_run
//! # async fn example() -> Result<(), wakepost_client::Error> {
//! let client = wakepost_client::Client::new("http://127.0.0.1:8787", "the key")?;
//! for event in client.list_inbox(&Default::default()).await?.data {
//!     println!("{} {}", event.envelope.event_id, event.status);
//! }
//! # Ok(()) }
//! ```

mod alerts;
mod approvals;
mod audit;
mod backoff;
mod call;
mod client;
mod dead_letters;
mod deliveries;
mod effects;
mod error;
mod event_types;
mod fixtures;
mod forwarding;
mod health;
mod inbox;
mod jobs;
mod keys;
mod lease;
mod lenient;
mod page;
mod portal;
mod publishing;
mod pulling;
mod schedules;
mod series;
mod sources;
/// For its fuzz target; no part of the SDK.
#[doc(hidden)]
pub mod sse;
mod stats;
mod tenants;
mod transport;
mod verify;
mod watching;
mod webhooks;
pub mod worker;

pub use alerts::{Alert, AlertQuery};
pub use approvals::Proposal;
pub use audit::AuditEntry;
pub use call::Call;
pub use client::Client;
pub use dead_letters::{
    DeadLetter, DeadLetterFilter, DeadLetterPurge, DeadLetterQuery, DeadLetterReplay,
    DeadLetterWhole,
};
pub use deliveries::{Attempt, Delivery, ReplayedDelivery};
pub use effects::{Begun, Decision, Effect, EffectOutcome, NewEffect, OnDoubt, Resolution};
pub use error::{Error, FieldError, Problem};
pub use event_types::{EventType, EventTypeFields, EventTypeVersion};
pub use fixtures::{Fixture, FixtureSending};
pub use forwarding::Forwarder;
pub use inbox::{
    Actor, Envelope, Event, EventHeaders, Evidence, HeaderLine, InboxQuery, Message, Operation,
    OperationBegun, Receipt, ReplayMany, Subject, Work,
};
pub use jobs::{
    CancelOn, CancelledSubject, ChainLink, Job, JobLease, JobQuery, JobRun, NewJob, Replay,
    Replayed, Scope,
};
pub use keys::{Key, NewKey};
pub use lease::{
    Completion, Extension, Failure, Finish, FinishOutcome, Finished, FinishedJob, Heartbeat,
    LeaseQuery, LeasedJob, LeasedJobs, Progress, Reply,
};
pub use page::{Moved, Nothing, Page, PageQuery};
pub use portal::{NewPortalLink, PortalLink};
pub use publishing::{NewEvent, PublishedEvent, PublishedEvents, PublishedQuery};
pub use pulling::{DeliveryLeaseQuery, LeasedDeliveries, LeasedDelivery, Nack};
pub use schedules::{Schedule, ScheduleFields};
pub use series::{ByPriority, Counted, Point, Series};
pub use sources::{
    Budget, Executor, NewSource, Rotation, SECRET_SETTING, Source, SourceFields, SourceSetup,
    SourceStatus, Trial, Tried,
};
pub use stats::{BudgetUse, LaneStats, Limits, SourceStats, Standing, Stats, WorkerStats};
pub use tenants::{NewTenant, Retention, Tenant, TenantChange};
pub use transport::Pieces;
pub use verify::{Verifier, VerifyError};
pub use watching::{Arrived, InboxEvents, JobEvent, JobEvents};
pub use webhooks::{
    Circuit, CircuitSettings, DeliveryQuery, Period, RotatedWebhook, Webhook, WebhookAuth,
    WebhookFields, WebhookTried,
};
