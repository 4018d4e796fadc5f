"""One run of what was leased: whether it may still go on, and calls that insist on an answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from .backoff import Backoff
from .client import Client
from .ending import Cancelled, Dropped
from .errors import LeaseLost, WakepostError

#: How long a call insists where nobody here renews the lease (a pushed job, whose node does).
INSIST_S = 60.0

T = TypeVar("T")

#: What a run works on.
Leased = Mapping[str, Any]


class Run:
    """Where a run stands. Its worker, its keeper and its handler share it, each in its own thread."""

    def __init__(self, client: Client, leased: Leased, lease_s: int | None = None) -> None:
        self.client = client
        self.leased = leased
        self.id: str = leased["id"]
        self.token: str = leased["lease_token"]
        #: Set when the run should stop, for whatever reason.
        self.over = threading.Event()
        #: The run's total so far, which heartbeats carry.
        self.cost: float | None = None
        #: Whether its end is being reported, after which a live lease is not to be expected.
        self.is_reporting = False
        #: Until when the lease certainly lasts, by our own clock; None: someone else renews it.
        self.good_until = None if lease_s is None else time.monotonic() + lease_s
        self._lost = threading.Event()
        self._handing_back = False
        self._cancelled = False
        self._lock = threading.Lock()
        self._on_drop: Callable[[], None] | None = None

    @property
    def is_lost(self) -> bool:
        """Whether the lease is gone, so that nothing can be reported any more."""
        if self.good_until is not None and time.monotonic() >= self.good_until:
            self.lose()
        return self._lost.is_set()

    @property
    def is_handing_back(self) -> bool:
        """Whether the worker wants to hand the job back."""
        return self._handing_back

    def lose(self) -> None:
        """The lease is gone."""
        self._lost.set()
        self._drop()

    def hand_back(self) -> None:
        """The worker stops, and its patience is over."""
        self._handing_back = True
        self._drop()

    def cancel(self) -> None:
        """Someone asked for the job to stop."""
        self._cancelled = True
        self.over.set()

    def on_drop(self, call: Callable[[], None]) -> None:
        """Calls this once the run is to be dropped, at once if it is already."""
        with self._lock:
            self._on_drop = call
            now = self._lost.is_set() or self._handing_back
        if now:
            call()

    def check(self) -> None:
        """Raises what ended the run, if it is over."""
        if self.is_lost:
            raise Dropped("the lease is lost")
        if self._handing_back:
            raise Dropped("the worker stops")
        if self._cancelled:
            raise Cancelled("the job is asked to stop")

    def insist(self, call: Callable[[float], T]) -> T:
        """Repeats a call, which gets its timeout, until it is answered or the lease is lost."""
        backoff = Backoff()
        began = time.monotonic()
        while True:
            if self.is_lost:
                raise Dropped("the lease is lost")
            try:
                return self.once(call)
            except WakepostError as error:
                if not error.is_transient or self.is_out_of_patience(began):
                    raise
            self.wait_lost(backoff.next())

    def is_out_of_patience(self, began: float) -> bool:
        """Whether it insisted long enough, where no lease of its own says so."""
        return self.good_until is None and time.monotonic() - began >= INSIST_S

    def wait_lost(self, pause_s: float) -> bool:
        """Waits; ends early, and is true, once the lease is lost."""
        self._lost.wait(pause_s)
        return self.is_lost

    def once(self, call: Callable[[float], T]) -> T:
        """Makes a call, and heeds what its refusal says about the run."""
        try:
            return call(self.timeout_s())
        except LeaseLost as error:
            self.lose()
            raise Dropped("the lease is lost") from error
        except WakepostError as error:
            if error.code == "cancel_requested":
                self.cancel()
                raise Cancelled("the job is asked to stop") from error
            raise

    def timeout_s(self) -> float:
        """How long a call may take. No call outlasts the lease by much: an answer would come too late."""
        whole = self.client.timeout_s
        if self.good_until is None:
            return whole
        return max(0.5, min(whole, self.good_until - time.monotonic()))

    def _drop(self) -> None:
        self.over.set()
        with self._lock:
            call = self._on_drop
        if call is not None:
            call()
