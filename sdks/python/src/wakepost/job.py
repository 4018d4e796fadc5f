"""A leased job, and what its handler can do with it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

from .client import Client
from .effect import Effects, OnDoubt, Skipped, call_act
from .errors import WakepostError
from .run import Run


class JobFacts:
    """What a job is, whichever way it is worked on."""

    def __init__(self, run: Run) -> None:
        leased = run.leased
        self._run = run
        #: The job's id.
        self.id: str = run.id
        #: This try's id.
        self.run_id: str = leased.get("run_id") or ""
        #: Which try this is, from 1.
        self.attempt: int = leased.get("attempt") or 1
        #: A free name; a webhook's job has the event type.
        self.kind: str = leased.get("kind") or ""
        #: Whose it is.
        self.tenant: str = leased.get("tenant") or ""
        #: The input, for a job made through the API.
        self.input: Any = leased.get("input")
        #: The event, for a webhook's job.
        self.envelope: dict[str, Any] | None = leased.get("envelope")
        #: All its events, oldest first.
        self.events: list[dict[str, Any]] = leased.get("events") or (
            [self.envelope] if self.envelope else []
        )
        #: What an earlier run saved, or this one; None: nothing yet.
        self.checkpoint_state: Any = leased.get("checkpoint")
        #: The scope of its effects.
        self.scope: str = leased.get("scope") or ""
        #: The tick that made it, for a job of a schedule.
        self.scheduled_for: str | None = leased.get("scheduled_for")
        #: Its place in the trace, to pass on.
        self.traceparent: str = leased.get("traceparent") or ""
        #: What to pass on, as the header `wakepost-chain`, with whatever leads to further work.
        self.chain: str = leased.get("chain") or ""
        self._client = run.client.on_behalf_of(self.chain, self.traceparent)

    def __repr__(self) -> str:
        # Without the lease token and the payloads.
        return f"{type(self).__name__}(id={self.id!r}, kind={self.kind!r}, attempt={self.attempt})"

    @property
    def client(self) -> Client:
        """A client for what the agent makes in the job's name: jobs that it creates know which job led to them."""
        return self._client

    @property
    def lease_token(self) -> str:
        """Proves that the job is ours; every call about it carries it."""
        return self._run.token

    @property
    def cancelled(self) -> threading.Event:
        """Set when the run should stop: someone cancelled the job, its lease is lost, or the worker stops.

        `check()` says which.
        """
        return self._run.over

    @property
    def cost(self) -> float | None:
        """What the run has cost so far. Set it; heartbeats and the end of the run carry it."""
        return self._run.cost

    @cost.setter
    def cost(self, cost: float | None) -> None:
        self._run.cost = cost

    def check(self) -> None:
        """Raises `Cancelled` or `Dropped` if the run should stop. Call it in long loops."""
        self._run.check()


class Job(JobFacts):
    """A leased job. Its calls insist until they are answered, and raise `Dropped` once the lease is lost."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._effects = Effects(run)
        self._replies = itertools.count()

    def effect(
        self,
        key: str,
        act: Callable[..., Any],
        *,
        description: str | None = None,
        on_doubt: OnDoubt | None = None,
    ) -> Any:
        """Does an irreversible act once over all runs of the job, and returns what it returned, as JSON.

        `act` gets an idempotency key to pass on, if it takes an argument. If an earlier run did it, `act` is
        not called. Raise `NotDone` in it where it certainly did not happen; any other exception leaves the
        effect in doubt and fails the run as `Unknown`.
        """
        begun = self._effects.begin(key, description, on_doubt)
        if isinstance(begun, Skipped):
            return begun.result
        try:
            returned = call_act(act, begun.idempotency_key)
        except BaseException as error:
            self._effects.raised(key, error)
        return self._effects.commit(key, returned)

    def checkpoint(self, state: Any) -> None:
        """Saves the agent's own state (at most 1 MiB of JSON), which the next run gets.

        A run that is to be handed back ends here, with the state saved.
        """
        run = self._run
        run.insist(
            lambda timeout_s: run.client.checkpoint(
                run.id, run.token, state, repeat=False, timeout_s=timeout_s
            )
        )
        self.checkpoint_state = state
        if run.is_handing_back:
            run.check()

    def progress(
        self,
        message: str | None = None,
        *,
        percent: float | None = None,
        step: str | None = None,
        data: Any = None,
    ) -> None:
        """Tells how the work goes. A word that does not get through is dropped."""
        run = self._run
        run.check()
        try:
            run.once(
                lambda timeout_s: run.client.progress(
                    run.id,
                    run.token,
                    message,
                    percent=percent,
                    step=step,
                    data=data,
                    timeout_s=timeout_s,
                )
            )
        except WakepostError as error:
            if not error.is_transient:
                raise

    def reply(self, text: str, *, update: bool | None = None) -> None:
        """Says something on the thread of the job's event, before the job is done.

        The reply it completes with takes the message's place, unless `update` says that it stays: `True` puts
        it in the place of the message before it, `False` makes it one of its own, for good.
        """
        run = self._run
        run.check()
        # An answer may get lost: the repeat is then known by its key.
        key = f"{self.run_id or run.token}:{next(self._replies)}"
        run.insist(
            lambda timeout_s: run.client.reply(
                run.id,
                run.token,
                text,
                update=update,
                idempotency_key=key,
                repeat=False,
                timeout_s=timeout_s,
            )
        )

    def sleep(self, seconds: float) -> None:
        """Waits; raises as `check` does as soon as the run should stop."""
        self._run.over.wait(seconds)
        self.check()
