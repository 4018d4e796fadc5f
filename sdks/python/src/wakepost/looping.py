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
from .errors import WakepostError
from .keeper import Keeper
from .run import Run
from .shapes import LeasedJob

log = logging.getLogger("wakepost")

#: How long handing jobs back may take.
HAND_BACK_S = 5.0
#: How many jobs one worker may have at once: what one lease call gives.
CONCURRENCY_MAX = 500


class BaseWorker:
    """What a worker is told, and its loop."""

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
        if not 1 <= concurrency <= CONCURRENCY_MAX:
            raise ValueError(f"concurrency must be from 1 to {CONCURRENCY_MAX}")
        if not 1 <= lease_s <= 3600:
            raise ValueError("lease_s must be from 1 to 3600")
        if not 1 <= wait_s <= 30:
            raise ValueError("wait_s must be from 1 to 30")
        self.client = client
        self.name = name
        self.concurrency = concurrency
        self.lease_s = lease_s
        self.wait_s = wait_s
        self.grace_s = grace_s
        self.sources = list(sources)
        self._kinds = list(kinds)
        self._default = handler
        self._handlers: dict[str, Handler] = {}
        # A queue that a signal handler may put into: the locks of events and conditions are not safe there.
        self._mail: queue.SimpleQueue[Run | None] = queue.SimpleQueue()
        self._stopping = False
        self._running: set[Run] = set()
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

    def stop(self) -> None:
        """Asks it to stop: from any thread, or from a signal handler."""
        self._stopping = True
        self._mail.put(None)

    def _work(self) -> None:
        """Works until it is stopped. Raises only when the server refuses the worker as such."""
        if self._default is None and not self._handlers:
            raise ValueError("the worker has no handler")
        keeper = Keeper(self.client, self.lease_s)
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
                # Not cut short by a stop: jobs leased in it would be nobody's until they expire.
                jobs = self._lease(free)
            except WakepostError as error:
                if not error.is_transient:
                    raise
                log.warning("no jobs can be leased now: %s", error)
                self._pause(backoff.next())
                continue
            if jobs:
                backoff.reset()
            elif time.monotonic() - asked < self.wait_s / 2:
                # A server that does not wait must not be asked in a tight loop.
                self._pause(backoff.next())
            for job in jobs:
                self._start(job, keeper)

    def _lease(self, free: int) -> list[LeasedJob]:
        return self.client.lease(
            self.name,
            max=free,
            wait_s=self.wait_s,
            kinds=self.kinds,
            sources=self.sources,
            lease_s=self.lease_s,
        )

    def _start(self, leased: LeasedJob, keeper: Keeper) -> None:
        run = Run(self.client, leased, self.lease_s)
        handler = self._handlers.get(leased.get("kind") or "", self._default)
        self._running.add(run)
        keeper.add(run)

        def work() -> None:
            try:
                attempt(run, handler or _no_handler, self._loop)
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


def _no_handler(_job: object) -> None:
    raise RuntimeError("there is no handler for this kind of job")
