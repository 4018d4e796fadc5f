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
