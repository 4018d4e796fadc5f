"""The client: one method for each call about jobs, and for each about what is sent to subscribers."""

from __future__ import annotations

from .deliveries import DeliveryCalls
from .events import EventCalls
from .jobs import JobCalls
from .leases import LeaseCalls
from .webhooks import WebhookCalls


class Client(JobCalls, LeaseCalls, EventCalls, WebhookCalls, DeliveryCalls):
    """A Wakepost server, as one key sees it. Safe to share between threads, which share connections.

    Without arguments it goes by `WAKEPOST_URL` and `WAKEPOST_KEY`. `tenant` is whom an all-tenant key acts
    for. Refusals are `WakepostError`; no answer is `Unreachable`, also one.
    """
