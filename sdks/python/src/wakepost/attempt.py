"""One run of one job: the handler, and the report."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

from .async_job import run_handler
from .backoff import Backoff
from .core import write_json
from .ending import (
    Done,
    Dropped,
    Failed,
    GiveUp,
    InDoubt,
    NeedsApproval,
    Retry,
    RunEnded,
    Unknown,
    done_of,
    failed_of,
)
from .errors import LeaseLost, WakepostError
from .job import Job
from .run import Run

log = logging.getLogger("wakepost")

Handler = Callable[..., Any]
T = TypeVar("T")


def attempt(run: Run, handler: Handler, loop: asyncio.AbstractEventLoop | None = None) -> None:
    """Runs a job to its end, or to the loss of its lease."""
    outcome = outcome_of(run, handler, loop)
    if outcome is not None and not run.is_lost:
        run.is_reporting = True
        report(run, outcome)


def outcome_of(
    run: Run, handler: Handler, loop: asyncio.AbstractEventLoop | None = None
) -> Done | Failed | None:
    """What the handler made of a job; None: there is nothing to report."""

    def work() -> Done:
        if is_async(handler):
            return done_of(run_handler(handler, run, loop))
        return done_of(handler(Job(run)))

    return ended(run, work)


def ended(run: Run, work: Callable[[], T]) -> T | Failed | None:
    """How work on what was leased ended; None: there is nothing to report."""
    try:
        return work()
    except Dropped as error:
        if run.is_handing_back:
            return Failed("the worker stopped", hand_back=True)
        return None if run.is_lost else failed_of(error)
    except (InDoubt, NeedsApproval) as error:
        # Nothing went wrong: the server ended the run, and a person decides.
        log.info("a run of %s ended: %s", run.id, error)
        return None if run.is_lost else failed_of(error)
    except BaseException as error:
        # All of them: what would end the thread must be reported, not waited out.
        failed = failed_of(error)
        foreseen = isinstance(error, (RunEnded, Retry, GiveUp)) and not isinstance(error, Unknown)
        log.warning("a run of %s failed: %s", run.id, failed.error, exc_info=not foreseen)
        return failed


def is_async(handler: Handler) -> bool:
    """Whether it is an `async def`, or an object that is called as one."""
    call = getattr(handler, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)


def report(run: Run, outcome: Done | Failed) -> None:
    """Tells the server how a job ended."""
    if isinstance(outcome, Done):
        outcome = writable(outcome)
    refusal = tell(run, lambda: _send(run, outcome))
    if refusal is not None and isinstance(outcome, Done) and refusal.status in (400, 413, 422):
        # The same result would be refused again: too large, or not allowed.
        failed = Failed(f"the result was refused: {refusal}", False)
        refusal = tell(run, lambda: _send(run, failed))
    if refusal is not None:
        log.warning("the outcome of %s was not recorded: %s", run.id, refusal)


def tell(run: Run, send: Callable[[], object]) -> WakepostError | None:
    """Makes a report, again and again if need be: a repeat of the same changes nothing. Returns a refusal."""
    backoff = Backoff()
    began = time.monotonic()
    while True:
        try:
            send()
            return None
        except LeaseLost:
            log.warning("the outcome of %s came too late: its lease is lost", run.id)
            return None
        except WakepostError as error:
            if not error.is_transient:
                return error
            if run.wait_lost(backoff.next()) or run.is_out_of_patience(began):
                log.warning("the outcome of %s did not get through: %s", run.id, error)
                return None


def writable(done: Done) -> Done | Failed:
    """The outcome, or why it cannot be sent."""
    try:
        write_json(done.result)
    except ValueError as error:
        return Failed(f"the result was refused: {error}", False)
    return done


def _send(run: Run, outcome: Done | Failed) -> None:
    timeout_s = run.timeout_s()
    match outcome:
        case Done(result, reply, cost):
            run.client.complete(
                run.id,
                run.token,
                result=result,
                reply=reply,
                cost=run.cost if cost is None else cost,
                repeat=False,
                timeout_s=timeout_s,
            )
        case Failed(error, retryable, retry_after_s, hand_back):
            run.client.fail(
                run.id,
                run.token,
                error,
                retryable=retryable,
                retry_after_s=retry_after_s,
                hand_back=hand_back,
                cost=run.cost,
                repeat=False,
                timeout_s=timeout_s,
            )
