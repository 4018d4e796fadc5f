"""A job for `async def` handlers: the same calls, each made in a thread so that the loop goes on."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from .effect import OnDoubt, Skipped, ToAct, call_act
from .ending import Dropped, NotDone, RunEnded
from .errors import WakepostError
from .job import Job, JobFacts
from .run import Run

T = TypeVar("T")

#: How often a run that is handed back looks whether its effects have ended.
IDLE_POLL_S = 0.02


class AsyncJob(JobFacts):
    """A leased job. When its lease is lost, or the worker stops, the handler's task is cancelled."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._job = Job(run)

    async def effect(
        self,
        key: str,
        act: Callable[..., Any],
        *,
        description: str | None = None,
        on_doubt: OnDoubt | None = None,
    ) -> Any:
        """As `Job.effect`; `act` may be an `async def`. A plain one is called in a thread."""
        effects = self._job._effects

        def undo(begun: ToAct | Skipped) -> None:
            if isinstance(begun, ToAct):
                with contextlib.suppress(NotDone, WakepostError, RunEnded):
                    effects.raised(key, NotDone("the run ended before it acted"))

        begun = await _to_the_end(lambda: effects.begin(key, description, on_doubt), undo)
        if isinstance(begun, Skipped):
            return begun.result
        try:
            if inspect.iscoroutinefunction(act):
                returned = await call_act(act, begun.idempotency_key)
            else:
                returned = await asyncio.to_thread(call_act, act, begun.idempotency_key)
                if inspect.isawaitable(returned):
                    returned = await returned
        except BaseException as error:
            if not isinstance(error, Exception):
                # The task is being cancelled: it cannot wait for a thread, and nothing is to be told.
                effects.raised(key, error)
            failed = error
            await _to_the_end(lambda: effects.raised(key, failed))
        return await _to_the_end(lambda: effects.commit(key, returned))

    async def checkpoint(self, state: Any) -> None:
        """As `Job.checkpoint`."""
        await asyncio.to_thread(self._job.checkpoint, state)
        self.checkpoint_state = state

    async def progress(
        self,
        message: str | None = None,
        *,
        percent: float | None = None,
        step: str | None = None,
        data: Any = None,
    ) -> None:
        """As `Job.progress`."""
        await asyncio.to_thread(self._job.progress, message, percent=percent, step=step, data=data)

    async def reply(self, text: str, *, update: bool | None = None) -> None:
        """As `Job.reply`."""
        await asyncio.to_thread(self._job.reply, text, update=update)

    async def sleep(self, seconds: float) -> None:
        """As `Job.sleep`."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (left := end - loop.time()) > 0 and not self._run.over.is_set():
            await asyncio.sleep(min(left, 0.1))
        self.check()


async def _to_the_end(call: Callable[[], T], undo: Callable[[T], None] | None = None) -> T:
    """Makes a call in a thread, and sees it through even if the task is cancelled meanwhile.

    A commit that was left alone could come after the report of the run's end, and an effect that happened
    would be in doubt. The lease bounds how long this takes.
    """
    calling = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(calling)
    except asyncio.CancelledError:
        await asyncio.wait([calling])
        if calling.exception() is None and undo is not None:
            await asyncio.to_thread(undo, calling.result())
        raise


def run_handler(
    handler: Callable[[AsyncJob], Awaitable[Any]],
    run: Run,
    loop: asyncio.AbstractEventLoop | None,
) -> Any:
    """Runs an `async def` handler of a job from a thread: on `loop`, or on one of its own."""
    job = AsyncJob(run)
    # An act that was cancelled halfway would be in doubt. With its lease lost, the run has no time for it.
    return run_async(
        lambda: handler(job), run, loop, lambda: run.is_lost or job._job._effects.is_idle
    )


def run_async(
    work: Callable[[], Awaitable[Any]],
    run: Run,
    loop: asyncio.AbstractEventLoop | None = None,
    may_cancel: Callable[[], bool] = lambda: True,
) -> Any:
    """Awaits work from a thread: on `loop`, or on one of its own. It is cancelled when its run is dropped."""
    if loop is None:
        return asyncio.run(_supervise(work, run, may_cancel))
    return asyncio.run_coroutine_threadsafe(_supervise(work, run, may_cancel), loop).result()


async def _supervise(
    work: Callable[[], Awaitable[Any]], run: Run, may_cancel: Callable[[], bool]
) -> Any:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work())

    def cancel() -> None:
        if may_cancel():
            task.cancel()
        elif not task.done():
            loop.call_later(IDLE_POLL_S, cancel)

    def drop() -> None:
        # The loop may be gone by the time the lease is.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(cancel)

    run.on_drop(drop)
    try:
        return await task
    except asyncio.CancelledError:
        if run.over.is_set():
            run.check()
        raise Dropped("the run was cancelled") from None
