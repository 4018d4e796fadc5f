"""The client: one method for each call of the jobs' part of the HTTP API."""

from __future__ import annotations

from .jobs import JobCalls
from .leases import LeaseCalls


class Client(JobCalls, LeaseCalls):
    """A Wakepost server, as one key sees it. Safe to share between threads, which share connections.

    Without arguments it goes by `WAKEPOST_URL` and `WAKEPOST_KEY`. `tenant` is whom an all-tenant key acts
    for. Refusals are `WakepostError`; no answer is `Unreachable`, also one.
    """
