"""A worker in ten lines: it leases jobs, keeps their leases alive, runs them and reports how they went."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from .looping import BaseWorker, Loop

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class InThreads(Loop):
    """A loop that runs where `run` is called."""

    def run(self, *, signals: bool = True, on_start: Callable[[], None] | None = None) -> None:
        """Works until `stop()`, SIGTERM or SIGINT. `on_start` is called before it first asks for work.

        What runs then has `grace_s` to end; the rest is handed back. A second signal ends the program at
        once. Waits out a server that is away; raises only when the server refuses the worker as such.
        """
        with _stopping_on_signals(self) if signals else contextlib.nullcontext():
            if on_start is not None:
                on_start()
            self._work()


class Worker(InThreads, BaseWorker):
    """Does jobs, each in a thread of its own.

    A handler gets a `Job` (an `async def` an `AsyncJob`, on a loop of its own) and returns the result, `Done`
    or `Reply`. A run whose lease is lost is dropped: its next call raises `Dropped`, and nothing is reported.
    """


class AsyncWorker(BaseWorker):
    """Does jobs on the event loop that `run` is awaited on. Plain `def` handlers run in threads."""

    async def run(self, *, signals: bool = True) -> None:
        """As `Worker.run`; to cancel it is to stop it."""
        loop = asyncio.get_running_loop()
        self._loop = loop
        ended: asyncio.Future[None] = loop.create_future()
        thread = threading.Thread(
            target=self._work_and_tell, args=(loop, ended), name="wakepost-worker", daemon=True
        )
        stop_on = _SIGNALS if signals and _in_main_thread() else ()
        for number in stop_on:
            # Not every loop can: on Windows it is for the program to call `stop()`.
            with contextlib.suppress(NotImplementedError):
                loop.add_signal_handler(number, self._stop_once, loop)
        thread.start()
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            self.stop()
            await ended
            raise
        finally:
            for number in stop_on:
                with contextlib.suppress(NotImplementedError):
                    loop.remove_signal_handler(number)

    def _stop_once(self, loop: asyncio.AbstractEventLoop) -> None:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
        self.stop()

    def _work_and_tell(self, loop: asyncio.AbstractEventLoop, ended: asyncio.Future[None]) -> None:
        error: BaseException | None = None
        try:
            self._work()
        except BaseException as raised:
            error = raised

        def tell() -> None:
            if ended.done():
                return
            if error is None:
                ended.set_result(None)
            else:
                ended.set_exception(error)

        # The loop may have been closed over the worker's head.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(tell)


@contextlib.contextmanager
def _stopping_on_signals(worker: Loop) -> Iterator[None]:
    if not _in_main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def stop(_number: int, _frame: FrameType | None) -> None:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        worker.stop()

    for number in _SIGNALS:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            # None: it was not set from Python, and cannot be put back from here.
            if handler is not None:
                signal.signal(number, handler)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
