"""A consumer of a pull webhook: it fetches deliveries, hands them over, and says whether they were taken."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

from .async_job import run_async
from .attempt import Handler, ended, is_async, tell
from .client import Client
from .ending import Failed
from .errors import WakepostError
from .run import Leased, Run
from .shapes import OneAnswer
from .worker import InThreads

log = logging.getLogger("wakepost")

#: How many heartbeats are under way at once: each delivery has its own.
BEATS_MAX = 16


class Delivery:
    """A delivery, with the headers and the body that a push would have had."""

    def __init__(self, run: Run) -> None:
        self._run = run
        #: As the server handed it over.
        self.leased: Leased = run.leased
        self.id: str = run.id
        #: Which try this is, from 1.
        self.attempt: int = run.leased.get("attempt") or 1
        self.headers: dict[str, str] = dict(run.leased.get("headers") or {})
        body = run.leased.get("body")
        #: Byte for byte what was signed: `verify(delivery.headers, delivery.body, secret)` checks it.
        self.body: bytes = (body if isinstance(body, str) else json.dumps(body)).encode()

    @property
    def event_id(self) -> str | None:
        """The event's id, the same over all tries and replays: remember it to know a repeat."""
        by_name = {name.lower(): value for name, value in self.headers.items()}
        return by_name.get("webhook-id")

    @cached_property
    def event(self) -> Any:
        """The event: `id`, `type`, `api_version`, `created_at`, `livemode` and `data`."""
        return json.loads(self.body)

    def check(self) -> None:
        """Raises `Dropped` once the lease is lost or the consumer stops: for long loops."""
        self._run.check()


class _Taken:
    """A delivery was taken."""


class Consumer(InThreads):
    """Fetches the deliveries of a pull webhook, and hands each to a handler in a thread of its own.

    A handler that returns has taken it. `Retry("why", after_s=30)` or any other exception: it is offered again,
    by the webhook's own schedule. `GiveUp("why")`: it is a dead letter. Leases are kept alive meanwhile; one that
    is lost is someone else's, and nothing is said about it any more. A delivery may come more than once.
    """

    def __init__(
        self,
        client: Client,
        webhook_id: str,
        handler: Handler,
        *,
        name: str | None = None,
        concurrency: int = 1,
        lease_s: int = 60,
        wait_s: int = 20,
        grace_s: float = 20.0,
    ) -> None:
        super().__init__(
            client, concurrency=concurrency, lease_s=lease_s, wait_s=wait_s, grace_s=grace_s
        )
        self.webhook_id = webhook_id
        #: Who asks, for people.
        self.name = name or socket.gethostname() or "consumer"
        self._handler = handler
        self._beats = ThreadPoolExecutor(
            min(concurrency, BEATS_MAX), thread_name_prefix="wakepost-beat"
        )

    def _work(self) -> None:
        try:
            super()._work()
        finally:
            self._beats.shutdown(wait=False)

    def _lease(self, free: int) -> Sequence[Leased]:
        return self.client.lease_deliveries(
            self.webhook_id, self.name, max=free, wait_s=self.wait_s, lease_s=self.lease_s
        )

    def _beat(self, runs: list[Run], timeout_s: float) -> list[OneAnswer]:
        def one(run: Run) -> OneAnswer:
            try:
                self.client.heartbeat_delivery(
                    run.id, run.token, extend_s=self.lease_s, repeat=False, timeout_s=timeout_s
                )
                return {"id": run.id, "ok": True}
            except WakepostError as error:
                return {"id": run.id, "ok": False, "code": error.code}

        # At once: one that hangs must not make the others late.
        return list(self._beats.map(one, runs))

    def _attempt(self, run: Run) -> None:
        delivery = Delivery(run)

        def work() -> _Taken:
            if is_async(self._handler):
                run_async(lambda: self._handler(delivery), run)
            else:
                self._handler(delivery)
            return _Taken()

        outcome = ended(run, work)
        if outcome is None or run.is_lost:
            return
        run.is_reporting = True
        refusal = tell(run, lambda: _answer(run, outcome))
        if refusal is not None:
            log.warning("the outcome of %s was not recorded: %s", run.id, refusal)


def _answer(run: Run, outcome: _Taken | Failed) -> None:
    client, timeout_s = run.client, run.timeout_s()
    if isinstance(outcome, _Taken):
        client.ack_delivery(run.id, run.token, repeat=False, timeout_s=timeout_s)
        return
    client.nack_delivery(
        run.id,
        run.token,
        outcome.error,
        retryable=outcome.retryable,
        retry_after_s=outcome.retry_after_s,
        hand_back=outcome.hand_back,
        repeat=False,
        timeout_s=timeout_s,
    )
