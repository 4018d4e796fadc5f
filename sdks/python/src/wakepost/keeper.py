"""Keeping the leases of runs alive: one thread for all of them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from .backoff import Backoff
from .errors import WakepostError
from .run import Run
from .shapes import OneAnswer

log = logging.getLogger("wakepost")

#: Refusals after which a lease does not come back. Any other may be gone at the next beat.
FINAL_CODES = frozenset({"lease_lost", "not_found", "invalid_state"})


#: Sends the heartbeats of these runs, each within so many seconds; an answer for each.
Beat = Callable[[list[Run], float], list[OneAnswer]]


class Keeper:
    """Sends a heartbeat at every third of the lease.

    A run is lost when the server says so, or when no heartbeat got through for as long as a lease lasts:
    the job may then be someone else's.
    """

    def __init__(self, lease_s: int, timeout_s: float, beat: Beat) -> None:
        self._lease_s = lease_s
        self._timeout_s = timeout_s
        self._send = beat
        self._pause_s = lease_s / 3
        self._backoff = Backoff()
        self._changed = threading.Condition()
        #: Each run with when its next heartbeat is due.
        self._due: dict[Run, float] = {}
        self._closed = False
        self._thread = threading.Thread(target=self._beat_on, name="wakepost-keeper", daemon=True)
        self._thread.start()

    def add(self, run: Run) -> None:
        """Keeps this run's lease alive from now on."""
        with self._changed:
            self._due[run] = time.monotonic() + self._pause_s
            self._changed.notify()

    def remove(self, run: Run) -> None:
        """Lets go of it: it is reported, or dropped."""
        with self._changed:
            self._due.pop(run, None)

    def close(self) -> None:
        """Ends the thread. What it still kept is let go of."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(self._timeout_s)

    def _beat_on(self) -> None:
        while (due := self._wait()) is not None:
            try:
                self._beat(due)
            except Exception:
                # An answer that no server gives must not end the beats of every run.
                log.exception("a heartbeat's answer is not understood")
                self._again(due, min(0.5, self._pause_s))

    def _wait(self) -> list[Run] | None:
        """The runs whose heartbeat is due; None: it is closed."""
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                due = [run for run, at in self._due.items() if at <= now]
                if due:
                    return due
                next_at = min(self._due.values(), default=None)
                self._changed.wait(None if next_at is None else next_at - now)
            return None

    def _beat(self, due: list[Run]) -> None:
        runs = [run for run in due if not self._gave_up(run)]
        if not runs:
            return
        sent = time.monotonic()
        # Not longer than a third: the next try must still come in time.
        timeout_s = max(0.2, min(self._pause_s, self._timeout_s))
        try:
            answers = self._send(runs, timeout_s)
            if len(answers) != len(runs):
                raise WakepostError(200, "protocol", "an answer for each run is missing")
        except WakepostError as error:
            log.warning("a heartbeat did not get through: %s", error)
            self._again(runs, min(self._backoff.next(), self._pause_s))
            return
        self._backoff.reset()
        for run, answer in zip(runs, answers, strict=True):
            self._heed(run, answer, sent)

    def _heed(self, run: Run, answer: OneAnswer, sent: float) -> None:
        if answer.get("ok"):
            # From when it was sent: the server counts from no earlier than that.
            run.good_until = sent + self._lease_s
            if answer.get("cancel_requested"):
                run.cancel()
            self._again([run], self._pause_s)
        elif answer.get("code") in FINAL_CODES:
            self._lose(run)
        else:
            log.warning("a heartbeat of %s was refused: %s", run.id, answer.get("code"))
            self._again([run], min(0.5, self._pause_s))

    def _again(self, runs: list[Run], pause_s: float) -> None:
        """Sets the next beat, or the moment at which the lease runs out if that comes first."""
        now = time.monotonic()
        with self._changed:
            for run in runs:
                if run in self._due:
                    at = now + pause_s
                    self._due[run] = at if run.good_until is None else min(at, run.good_until)

    def _gave_up(self, run: Run) -> bool:
        if not run.is_lost:
            return False
        self._lose(run)
        return True

    def _lose(self, run: Run) -> None:
        with self._changed:
            kept = self._due.pop(run, None)
        # One that was let go of meanwhile has been reported: that is why its lease is over.
        if kept is not None:
            if not run.is_reporting:
                log.warning("the lease of %s is lost: its run is dropped", run.id)
            run.lose()
