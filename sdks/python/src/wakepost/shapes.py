"""What calls answer. Plain dictionaries: a newer server may add fields."""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class JobView(TypedDict, total=False):
    """One job, as those see it who create, watch and steer it."""

    id: str
    kind: str
    event_id: str | None
    event_ids: list[str]
    tenant: str
    source: str | None
    owner: str | None
    status: str
    held_reason: str | None
    priority: str
    attempts: int
    max_attempts: int
    run_at: str | None
    created_at: str
    finished_at: str | None
    subject: str | None
    order_key: str | None
    mode: str | None
    flags: list[str]
    waiting_on: Any
    superseded_by: str | None
    parent_id: str | None
    hops: int
    scope: str
    lease: dict[str, Any] | None
    last_error: str | None
    input: Any
    result: Any
    reply: str | None
    checkpoint: Any
    cost: float | None
    effects: list[dict[str, Any]]
    runs: list[dict[str, Any]]
    chain: list[dict[str, Any]]
    next_action: str
    trace_id: str
    replayed_as: str | None
    cancel_on: dict[str, str] | None
    schedule_id: str | None
    scheduled_for: str | None
    duplicate: bool
    executor_secret: str
    callback_secret: str


class LeasedJob(TypedDict, total=False):
    """A job that is this worker's until its lease expires."""

    id: str
    run_id: str
    tenant: str
    lease_token: str
    lease_expires_at: str
    attempt: int
    kind: str
    envelope: dict[str, Any] | None
    events: list[dict[str, Any]]
    input: Any
    scheduled_for: str
    checkpoint: Any
    scope: str
    traceparent: str
    chain: str


class JobPage(TypedDict):
    """One page of a list, newest first; no `next_cursor`: it was the last."""

    data: list[JobView]
    next_cursor: str | None


class Beaten(TypedDict):
    """How a lease stands after a heartbeat."""

    lease_expires_at: str
    cancel_requested: bool


class Begun(TypedDict, total=False):
    """What to do about an effect."""

    decision: Literal["execute", "skip", "in_doubt", "needs_approval"]
    idempotency_key: str
    result: Any
    proposal_hash: str


class Moved(TypedDict, total=False):
    """What was moved, and where it stands now."""

    id: str
    status: str


class OneAnswer(TypedDict, total=False):
    """The answer about one of many jobs."""

    id: str
    ok: bool
    code: str
    lease_expires_at: str
    cancel_requested: bool
    status: str


class Replayed(TypedDict):
    """What a replay made."""

    job_id: str


class PublishedEvent(TypedDict, total=False):
    """An event that was published. Its id is the `webhook-id` of its deliveries.

    `status`: of a new one `accepted` or `duplicate`, later where its deliveries stand, all in all. `api_version`,
    `livemode`, `data` (as it was published) and `envelope` (what subscribers get) are only in a single event.
    """

    id: str
    type: str
    status: str
    created_at: str
    deliver_at: str | None
    dedup_key: str | None
    duplicates: int
    parent_id: str | None
    api_version: str | None
    livemode: bool
    data: Any
    envelope: dict[str, Any]


class EventPage(TypedDict):
    """One page of published events, newest first; no `next_cursor`: it was the last."""

    data: list[PublishedEvent]
    next_cursor: str | None


class EventType(TypedDict, total=False):
    """One type of event; `versions`: version → its `schema`, `example` and `change`."""

    name: str
    description: str | None
    versions: dict[str, dict[str, Any]]


class EventTypePage(TypedDict):
    """One page of the catalogue."""

    data: list[EventType]
    next_cursor: str | None


class Webhook(TypedDict, total=False):
    """One webhook. `secret` is in the answer that made it, and never again."""

    id: str
    url: str | None
    mode: Literal["push", "pull"]
    events: list[str]
    description: str | None
    status: Literal["active", "paused", "disabled"]
    enabled: bool
    disabled_reason: str | None
    circuit: dict[str, Any]
    signature: Literal["hmac", "ed25519"]
    headers: dict[str, str]
    auth: dict[str, Any] | None
    rate_per_s: float | None
    order: bool
    timeout_s: int
    retry_s: list[int]
    circuit_settings: dict[str, Any]
    metadata: dict[str, Any]
    created_by: str | None
    created_at: str
    secret_age_days: int | None
    warning: str
    secret: str


class WebhookPage(TypedDict):
    """One page of webhooks, newest first; no `next_cursor`: it was the last."""

    data: list[Webhook]
    next_cursor: str | None


class Tried(TypedDict, total=False):
    """What the receiver of a sample answered."""

    status_code: int | None
    body: str | None
    timings: dict[str, Any]
    error: str


class DeliveryView(TypedDict, total=False):
    """One event's way to one webhook. `attempts` are its tries where one is asked for, else their number."""

    id: str
    event_id: str
    webhook_id: str
    type: str
    status: str
    attempts: Any
    max_attempts: int
    created_at: str
    finished_at: str | None
    last_error: str | None
    replayed_as: str | None


class DeliveryPage(TypedDict):
    """One page of deliveries, newest first; no `next_cursor`: it was the last."""

    data: list[DeliveryView]
    next_cursor: str | None


class LeasedDelivery(TypedDict, total=False):
    """A delivery that is this consumer's until its lease expires."""

    id: str
    lease_token: str
    lease_expires_at: str
    attempt: int
    headers: dict[str, str]
    body: str


class Operation(TypedDict, total=False):
    """How far bulk work is."""

    id: str
    kind: str
    status: str
    matched: int
    done: int
    failed: int
