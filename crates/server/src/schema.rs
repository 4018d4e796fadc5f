//! The domain's types as the OpenAPI description shows them.
//!
//! The domain knows nothing of HTTP, so each of its types that stands in a request or an answer is described
//! here once. Words and bounds come from the domain's own lists and constants. The types are only names: none
//! is ever a value.

use std::borrow::Cow;

use serde::Serialize;
use utoipa::openapi::schema::{
    AdditionalProperties, AllOfBuilder, ArrayBuilder, KnownFormat, ObjectBuilder, OneOfBuilder,
    Schema, SchemaFormat, SchemaType, Type,
};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};
use wakepost_domain::executor::BUDGET_S_MAX;
use wakepost_domain::lease::{LEASE_MAX, LEASE_MIN};
use wakepost_domain::work::WorkKind as Kind;
use wakepost_domain::{
    access, approval, backoff, budget, circuit, cron, effect, event_type, limits, receipt,
    redaction, run, thread, webhook, work,
};

macro_rules! described {
    ($($name:ident: $schema:expr;)*) => {$(
        pub enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                Schema::from($schema).into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                stringify!($name).into()
            }
        }
    )*
        /// All of them, by name: what stands only in a parameter is collected by nobody else.
        pub fn all() -> Vec<(String, RefOr<Schema>)> {
            vec![$(($name::name().into_owned(), $name::schema())),*]
        }
    };
}

/// The words for where an event stands: those of work, and two for events without any.
pub fn event_statuses() -> impl Iterator<Item = &'static str> {
    work::State::ALL.map(work::State::as_str).into_iter().chain(["ignored", "unmapped"])
}

described! {
    EventId: id(wakepost_domain::EventId::PREFIX, "One thing that happened.");
    SourceId: id(wakepost_domain::SourceId::PREFIX, "One integration of one tenant.");
    RunId: id(wakepost_domain::RunId::PREFIX, "One try at a job.");
    KeyId: id(wakepost_domain::KeyId::PREFIX, "One API key: its name, not its secret.");
    ReceiptId: id(wakepost_domain::ReceiptId::PREFIX, "One request that was received.");
    AuditId: id(wakepost_domain::AuditId::PREFIX, "One operator's action.");
    ScheduleId: id(wakepost_domain::ScheduleId::PREFIX, "One schedule.");
    WebhookId: id(wakepost_domain::WebhookId::PREFIX, "One subscription.");
    WebhookMode: words("How deliveries reach their receiver.", [webhook::Mode::Push, webhook::Mode::Pull]);
    SignatureKind: words("How deliveries are signed.", [webhook::Signature::Hmac, webhook::Signature::Ed25519]);
    WebhookAuth: OneOfBuilder::new()
        .item(credentials("bearer", &["token"]))
        .item(credentials("basic", &["username", "password"]))
        .item(credentials("mtls", &["cert", "key"]))
        .description(Some("Credentials beside the signature: a bearer token, a name and password, or a client certificate in PEM."));
    CircuitSettings: ObjectBuilder::new()
        .property("failures", whole("So many failures in a row open it; 0: nothing does.", 0, 1000))
        .property("rate", ObjectBuilder::new().schema_type(Type::Number).minimum(Some(0.0)).maximum(Some(1.0))
            .description(Some("So does a larger share of failures, …")))
        .property("min", whole("… of at least so many tries, …", 1, 100_000))
        .property("window_s", whole("… within this time.", 12, 86_400))
        .property("open_s", whole("How long it stays open before one delivery is tried.", 2, 86_400))
        .property("close_after", whole("So many successes in a row close it then.", 1, 100))
        .property("disable_after_s", whole("So long after the first opening that no close followed, the webhook is disabled.", 60, 7_776_000))
        .additional_properties(Some(AdditionalProperties::FreeForm(false)))
        .description(Some("When a circuit opens and closes."));
    CircuitState: words("Whether a receiver is sent anything.", [
        circuit::CircuitState::Closed,
        circuit::CircuitState::Open,
        circuit::CircuitState::HalfOpen,
    ]);
    CircuitChange: ObjectBuilder::new()
        .property("at", Ref::from_schema_name("Timestamp")).required("at")
        .property("state", Ref::from_schema_name("CircuitState")).required("state")
        .property("reason", text("Why.")).required("reason")
        .description(Some("What became of a circuit."));
    Published: ObjectBuilder::new()
        .property("id", Ref::from_schema_name("EventId")).required("id")
        .property("type", Ref::from_schema_name("EventTypeName")).required("type")
        .property("created_at", Ref::from_schema_name("Timestamp")).required("created_at")
        .property("livemode", ObjectBuilder::new().schema_type(Type::Boolean)
            .description(Some("Whether it is about the real thing."))).required("livemode")
        .property("api_version", ObjectBuilder::new()
            .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
            .description(Some("The version of the type."))).required("api_version")
        .property("data", ObjectBuilder::new()
            .property("object", anything("What it happened to, as it was published.")).required("object")
            .property("previous_attributes", anything("What it was like before.")))
        .required("data")
        .description(Some("A published event, as subscribers get it."));
    JobStreamEvent: stream_event(
        "One event of the stream.", &["state", "progress", "effect", "reply"],
        "JSON: what happened, as the call's description says.",
    );
    InboxStreamEvent: stream_event(
        "One event of the stream.", &["received"], "JSON: the event as lists show it.",
    );
    Cron: bounded("Wall times, as in cron; or a word such as `@daily`.", cron::CRON_CHARS_MAX);
    OperationId: id(wakepost_domain::OperationId::PREFIX, "One piece of bulk work.");
    JobId: id(Kind::Job.id_prefix(), "One job.");
    WorkId: id(
        &format!("({})", Kind::ALL.map(Kind::id_prefix).join("|")),
        "One durable thing to do: a job, a delivery, a reply or a callback.",
    );
    Timestamp: text("A moment: RFC 3339, answered in UTC with milliseconds.")
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .examples(["2026-11-15T10:00:00.000Z"]);
    Slug: text("A tenant, by the name its user chose.")
        .pattern(Some("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"));
    FixtureName: text("A name of small letters, digits, dots, dashes and underscores.")
        .pattern(Some("^[a-z0-9][a-z0-9._-]{0,99}$"));
    EventTypeName: text("A type of event: lower-case words joined by dots, such as `order.created`.")
        .max_length(Some(event_type::NAME_BYTES_MAX))
        .pattern(Some("^[a-z][a-z0-9_]*(\\.[a-z][a-z0-9_]*)+$"));
    Name: bounded("A free name of visible characters.", limits::NAME_CHARS_MAX);
    Key: bounded("A key or subject of visible characters.", limits::KEY_CHARS_MAX);
    RedactionRule: text("A JSON pointer in which `*` stands for all members or elements; empty: the whole payload.")
        .max_length(Some(redaction::RULE_BYTES_MAX))
        .pattern(Some("^(/([^/~]|~[01])*)*$"));
    Note: bounded("Who does it, and why. It stays in the audit trail.", limits::NOTE_CHARS_MAX);
    Attempts: whole("How often it may be tried.", 1, u64::from(limits::ATTEMPTS_MAX));
    Backoff: ArrayBuilder::new()
        .items(whole("Seconds.", 0, backoff::DELAY_MAX.as_secs()))
        .min_items(Some(1))
        .max_items(Some(limits::ATTEMPTS_MAX as usize))
        .description(Some("How long a failed job waits, attempt by attempt."));
    Retries: ArrayBuilder::new()
        .items(whole("Seconds.", 0, backoff::DELAY_MAX.as_secs()))
        .min_items(Some(1))
        .max_items(Some(webhook::RETRIES_MAX))
        .description(Some("How long each attempt at a delivery waits, the first one included."));
    LeaseSeconds: whole("How long a lease lasts.", LEASE_MIN.as_secs(), LEASE_MAX.as_secs());
    Seconds: ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(0.0))
        .description(Some("Seconds."));
    LeaseMax: whole("How many jobs at most; 1 if left out.", 1, u64::from(limits::LEASE_MAX))
        .default(Some(1.into()));
    LeaseWait: whole("How long to wait for the first job.", 0, limits::LEASE_WAIT_MAX.as_secs())
        .default(Some(0.into()));
    PageLimit: whole("How many rows.", 1, u64::from(limits::PAGE_MAX))
        .default(Some(limits::PAGE_DEFAULT.into()));

    State: words("Where work stands.", work::State::ALL);
    EventStatus: words(
        "Where an event stands: the most telling state of its work, or why it has none.",
        event_statuses(),
    );
    Priority: words("Which queue work waits in, most urgent first.", work::Priority::ALL);
    WorkKind: words("What executes it.", Kind::ALL);
    HeldReason: words("Why work waits for an operator.", [
        work::HeldReason::InDoubt,
        work::HeldReason::HopLimit,
        work::HeldReason::Budget,
        work::HeldReason::UnknownKind,
    ]);
    Role: words("What a key may do.", access::Role::ALL);
    Verdict: words("What became of a request.", receipt::Verdict::ALL);
    RunOutcome: words("How a run ended.", [
        run::RunOutcome::Succeeded,
        run::RunOutcome::Failed,
        run::RunOutcome::LeaseExpired,
        run::RunOutcome::HandedBack,
        run::RunOutcome::Held,
        run::RunOutcome::Cancelled,
        run::RunOutcome::Interrupted,
        run::RunOutcome::AwaitingApproval,
    ]);
    Mode: words("Whether a person must agree before a job acts.", approval::Mode::ALL);
    ProposalHash: text("What exactly is proposed: SHA-256 over `<bytes of the key>:<key><description>`.")
        .pattern(Some("^[0-9a-f]{64}$"));
    ThreadPolicy: words(
        "What a message does while its thread is busy.",
        thread::ThreadPolicy::ALL,
    );
    OnDoubt: words(
        "What to do about an effect that an earlier run began and never resolved.",
        [effect::OnDoubt::Hold, effect::OnDoubt::Execute],
    );
    Decision: words("What to do about the effect.", [
        effect::Decision::Execute,
        effect::Decision::Skip,
        effect::Decision::InDoubt,
        effect::Decision::NeedsApproval,
    ]);
    Budget: ObjectBuilder::new()
        .property("runs_per_day", whole("The most runs.", 1, u64::from(u32::MAX)))
        .property("cost_per_day", ObjectBuilder::new()
            .schema_type(Type::Number)
            .exclusive_minimum(Some(0.0))
            .maximum(Some(budget::COST_MAX))
            .description(Some("The most that its runs may cost, in the units that workers report.")))
        .property("over", ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(["wait", "refuse"]))
            .description(Some("What becomes of work beyond it: it waits for the next day, or is held.")))
        .additional_properties(Some(AdditionalProperties::FreeForm(false)))
        .description(Some("What a source may use on one day, in UTC. At least one of the first two is set."));
    Retention: kept(Type::Integer.into(), "How many days history is kept, by kind, where that is less than the server keeps it.");
    RetentionChange: kept(
        SchemaType::from_iter([Type::Integer, Type::Null]),
        "Days, by kind of history; at most the server's. A kind that is left out stays as it is; `null`: as the server says.",
    );
    Executor: OneOfBuilder::new()
        .item(executor("pull", None))
        .item(executor("http", Some("url")))
        .item(executor("exec", Some("name")))
        .item(
            executor("self_webhook", None)
                .property("run", OneOfBuilder::new()
                    .item(executor("http", Some("url")))
                    .item(executor("exec", Some("name")))
                    .description(Some("What runs it within the request.")))
                .required("run")
                .property("budget_s", whole("How long the request may take.", 1, BUDGET_S_MAX)),
        )
        .description(Some(
            "Who runs a job: a worker that asks for it, a URL, a command of wakepost.toml, or one of the last two \
             within a request that the server sends to itself.",
        ));
}

/// Days by kind of history.
fn kept(days: SchemaType, description: &str) -> ObjectBuilder {
    let days = |about: &str| {
        let days = ObjectBuilder::new().schema_type(days.clone()).minimum(Some(1.0));
        days.maximum(Some(f64::from(u32::MAX))).description(Some(about))
    };
    ObjectBuilder::new()
        .property(
            "bodies_days",
            days("Headers and bodies. They go with their event at the latest."),
        )
        .property("events_days", days("Events, but for those of live work and of dead letters."))
        .property(
            "runs_days",
            days("Finished jobs and deliveries, their runs and effects; from their end on."),
        )
        .property(
            "dead_letters_days",
            days("Dead letters, with their event and its body; from their end on."),
        )
        .property("receipts_days", days("Receipts."))
        .additional_properties(Some(AdditionalProperties::FreeForm(false)))
        .description(Some(description))
}

/// What every text begins as.
fn text(description: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).description(Some(description))
}

fn id(prefix: &str, description: &str) -> ObjectBuilder {
    text(description).pattern(Some(format!("^{prefix}_[0-7][0-9A-HJKMNP-TV-Z]{{25}}$")))
}

fn bounded(description: &str, chars_max: usize) -> ObjectBuilder {
    text(description).min_length(Some(1)).max_length(Some(chars_max))
}

/// A value of any shape.
fn anything(description: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::AnyValue).description(Some(description))
}

/// A server-sent event, in the fields that its format has.
fn stream_event(description: &str, names: &[&str], data: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .property("id", text("Its place: a stream that ends is gone on with by `Last-Event-ID`."))
        .property("event", text("What it tells of.").enum_values(Some(names.iter().copied())))
        .property("data", text(data))
        .description(Some(description))
}

fn whole(description: &str, low: u64, high: u64) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .description(Some(description))
        .minimum(Some(low as f64))
        .maximum(Some(high as f64))
}

fn words<T: Serialize>(description: &str, all: impl IntoIterator<Item = T>) -> ObjectBuilder {
    let words =
        all.into_iter().map(|word| serde_json::to_value(word).expect("a word is plain data"));
    text(description).enum_values(Some(words))
}

/// Credentials of one kind.
fn credentials(kind: &str, fields: &[&str]) -> ObjectBuilder {
    let word = ObjectBuilder::new().schema_type(Type::String).enum_values(Some([kind]));
    let object = ObjectBuilder::new().property("type", word).required("type");
    let text = || ObjectBuilder::new().schema_type(Type::String);
    let all = fields
        .iter()
        .fold(object, |object, field| object.property(*field, text()).required(*field));
    all.additional_properties(Some(AdditionalProperties::FreeForm(false)))
}

fn executor(kind: &str, field: Option<&str>) -> ObjectBuilder {
    let tagged = ObjectBuilder::new()
        .property("kind", text("How.").enum_values(Some([kind])))
        .required("kind")
        .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(false)));
    match field {
        None => tagged,
        Some(field) => {
            tagged.property(field, ObjectBuilder::new().schema_type(Type::String)).required(field)
        }
    }
}

/// Rows of a generic list, by name: a derive would copy their description.
pub fn rows<T: ToSchema>() -> Schema {
    ArrayBuilder::new().items(Ref::from_schema_name(T::name())).into()
}

/// Describes a body of which a creating call needs more fields than a change.
macro_rules! requiring {
    ($name:ident: $part:ty, $fields:expr) => {
        enum $name {}

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                crate::schema::with_required(&<$part as utoipa::ToSchema>::name(), &$fields)
            }
        }

        impl utoipa::ToSchema for $name {
            fn name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn schemas(all: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>) {
                let part = <$part as utoipa::ToSchema>::name().into_owned();
                all.push((part, <$part as utoipa::PartialSchema>::schema()));
                <$part as utoipa::ToSchema>::schemas(all);
            }
        }
    };
}
pub(crate) use requiring;

/// The named description, with more of its fields required.
pub fn with_required(name: &str, fields: &[&str]) -> RefOr<Schema> {
    let more = ObjectBuilder::new();
    let more = fields.iter().fold(more, |object, field| object.required(*field));
    let part = Ref::from_schema_name(name);
    Schema::from(AllOfBuilder::new().item(part).item(more)).into()
}
