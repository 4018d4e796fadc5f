"""The loop: lease what fits, run it, and stop without losing anything."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence

from .attempt import Handler, attempt
from .backoff import Backoff
from .client import Client
from .core import given
from .errors import WakepostError
from .keeper import Keeper
from .run import Leased, Run
from .shapes import OneAnswer

log = logging.getLogger("wakepost")

#: How long handing back may take.
HAND_BACK_S = 5.0
#: How much one loop may have at once: what one lease call gives.
CONCURRENCY_MAX = 500


class Loop:
    """Leases what fits, runs it in threads, and stops without losing anything. What is leased, others say."""

    def __init__(
        self, client: Client, *, concurrency: int, lease_s: int, wait_s: int, grace_s: float
    ) -> None:
        if not 1 <= concurrency <= CONCURRENCY_MAX:
            raise ValueError(f"concurrency must be from 1 to {CONCURRENCY_MAX}")
        if not 1 <= lease_s <= 3600:
            raise ValueError("lease_s must be from 1 to 3600")
        if not 1 <= wait_s <= 30:
            raise ValueError("wait_s must be from 1 to 30")
        self.client = client
        self.concurrency = concurrency
        self.lease_s = lease_s
        self.wait_s = wait_s
        self.grace_s = grace_s
        # A queue that a signal handler may put into: the locks of events and conditions are not safe there.
        self._mail: queue.SimpleQueue[Run | None] = queue.SimpleQueue()
        self._stopping = False
        self._running: set[Run] = set()

    def stop(self) -> None:
        """Asks it to stop: from any thread, or from a signal handler."""
        self._stopping = True
        self._mail.put(None)

    def _lease(self, free: int) -> Sequence[Leased]:
        """Asks for at most so much."""
        raise NotImplementedError

    def _beat(self, runs: list[Run], timeout_s: float) -> list[OneAnswer]:
        """Extends the leases of these runs."""
        raise NotImplementedError

    def _attempt(self, run: Run) -> None:
        """Does the work and reports how it went."""
        raise NotImplementedError

    def _work(self) -> None:
        """Works until it is stopped. Raises only when the server refuses the worker as such."""
        keeper = Keeper(self.lease_s, self.client.timeout_s, self._beat)
        try:
            self._lease_on(keeper)
        finally:
            self._drain()
            keeper.close()

    def _lease_on(self, keeper: Keeper) -> None:
        backoff = Backoff()
        while not self._stopping:
            self._collect()
            free = self.concurrency - len(self._running)
            if free == 0:
                self._wait(None)
                continue
            asked = time.monotonic()
            try:
                # Not cut short by a stop: what was leased in it would be nobody's until it expires.
                leased = self._lease(free)
            except WakepostError as error:
                if not error.is_transient:
                    raise
                log.warning("nothing can be leased now: %s", error)
                self._pause(backoff.next())
                continue
            if leased:
                backoff.reset()
            elif time.monotonic() - asked < self.wait_s / 2:
                # A server that does not wait must not be asked in a tight loop.
                self._pause(backoff.next())
            for one in leased:
                self._start(one, keeper)

    def _start(self, leased: Leased, keeper: Keeper) -> None:
        run = Run(self.client, leased, self.lease_s)
        self._running.add(run)
        keeper.add(run)

        def work() -> None:
            try:
                self._attempt(run)
            except BaseException:
                log.exception("a run of %s ended without a report", run.id)
            finally:
                keeper.remove(run)
                self._mail.put(run)

        # One that does not end must not keep the program from ending.
        threading.Thread(target=work, name=f"wakepost-{run.id}", daemon=True).start()

    def _drain(self) -> None:
        """Lets running jobs end within the grace period, and hands back the rest."""
        self._wait_for_all(self.grace_s)
        for run in self._running:
            run.hand_back()
        self._wait_for_all(HAND_BACK_S)
        for run in self._running:
            # A handler that does not listen cannot be ended from outside. Its lease is left to run out: the
            # job must not be offered to anyone while it may still act.
            log.warning("%s does not stop: its lease runs out by itself", run.id)
            run.lose()
        self._running.clear()

    def _wait_for_all(self, patience_s: float) -> None:
        end = time.monotonic() + patience_s
        while self._running and (left := end - time.monotonic()) > 0:
            self._wait(left)

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self._stopping and (left := end - time.monotonic()) > 0:
            self._wait(left)

    def _collect(self) -> None:
        while not self._mail.empty():
            self._wait(None)

    def _wait(self, timeout_s: float | None) -> None:
        """Waits for a run to end, or for the word to stop."""
        try:
            ended = self._mail.get(timeout=timeout_s)
        except queue.Empty:
            return
        if ended is not None:
            self._running.discard(ended)


class BaseWorker(Loop):
    """What a worker is told, and what its loop does with jobs."""

    def __init__(
        self,
        client: Client,
        name: str,
        handler: Handler | None = None,
        *,
        kinds: Sequence[str] = (),
        sources: Sequence[str] = (),
        concurrency: int = 1,
        lease_s: int = 120,
        wait_s: int = 5,
        grace_s: float = 20.0,
    ) -> None:
        super().__init__(
            client, concurrency=concurrency, lease_s=lease_s, wait_s=wait_s, grace_s=grace_s
        )
        self.name = name
        self.sources = list(sources)
        self._kinds = list(kinds)
        self._default = handler
        self._handlers: dict[str, Handler] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def job(self, *kinds: str) -> Callable[[Handler], Handler]:
        """Makes a function the handler of these kinds of job; of none: of every other kind."""

        def register(handler: Handler) -> Handler:
            if not kinds:
                self._default = handler
            for kind in kinds:
                self._handlers[kind] = handler
            return handler

        return register

    @property
    def kinds(self) -> list[str]:
        """The kinds it asks for; none: all."""
        if self._kinds:
            return list(dict.fromkeys([*self._kinds, *self._handlers]))
        return [] if self._default is not None else list(self._handlers)

    def _work(self) -> None:
        if self._default is None and not self._handlers:
            raise ValueError("the worker has no handler")
        super()._work()

    def _lease(self, free: int) -> Sequence[Leased]:
        return self.client.lease(
            self.name,
            max=free,
            wait_s=self.wait_s,
            kinds=self.kinds,
            sources=self.sources,
            lease_s=self.lease_s,
        )

    def _beat(self, runs: list[Run], timeout_s: float) -> list[OneAnswer]:
        rows = [
            {"id": run.id, "lease_token": run.token, "extend_s": self.lease_s}
            | given(cost=run.cost)
            for run in runs
        ]
        return self.client.heartbeats(rows, repeat=False, timeout_s=timeout_s)

    def _attempt(self, run: Run) -> None:
        handler = self._handlers.get(run.leased.get("kind") or "", self._default)
        attempt(run, handler or _no_handler, self._loop)


def _no_handler(_job: object) -> None:
    raise RuntimeError("there is no handler for this kind of job")
