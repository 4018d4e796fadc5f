"""The agent as a command: the job on standard input, the answer on standard output."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import sys
import threading
import traceback
from types import FrameType
from typing import IO

from ..attempt import Handler, outcome_of, report, writable
from ..client import Client
from ..core import write_json
from ..ending import Done, Failed
from ..run import Run

#: "Try again later", and "the input data was wrong", of sysexits.h.
EXIT_RETRY = 75
EXIT_GIVE_UP = 65
#: The largest job that is read: its input, its checkpoint and its events fit.
JOB_BYTES_MAX = 64 * 1024 * 1024


def exec_job(handler: Handler) -> None:
    """Does the job on standard input, and ends the program.

    `Job`'s calls go by `WAKEPOST_URL`, `WAKEPOST_KEY` and the job's own lease token. What the handler prints
    becomes progress. SIGTERM, which is how the server asks for a stop, sets `job.cancelled`.
    """
    answers = sys.stdout
    # Only the answer may be on standard output; lines on standard error become progress.
    with contextlib.redirect_stdout(sys.stderr):
        run = _read_job(sys.stdin.buffer)
        _heed_sigterm(run)
        outcome = outcome_of(run, handler)
    if isinstance(outcome, Done):
        outcome = writable(outcome)
    if isinstance(outcome, Done):
        fields = {"result": outcome.result, "reply": outcome.reply}
        fields["cost"] = run.cost if outcome.cost is None else outcome.cost
        answers.write(write_json({k: v for k, v in fields.items() if v is not None}).decode())
        answers.flush()
        sys.exit(0)
    _fail(run, outcome)


def _read_job(stdin: IO[bytes]) -> Run:
    text = stdin.read(JOB_BYTES_MAX + 1)
    if len(text) > JOB_BYTES_MAX:
        raise ValueError("the job is too large")
    leased = json.loads(text)
    leased["lease_token"] = os.environ.get("WAKEPOST_LEASE_TOKEN") or leased["lease_token"]
    return Run(Client(), leased)


def _heed_sigterm(run: Run) -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    # A queue and a thread, because the locks of an event are not safe in a signal handler.
    asked: queue.SimpleQueue[int] = queue.SimpleQueue()

    def wait() -> None:
        asked.get()
        run.cancel()

    def stop(number: int, _frame: FrameType | None) -> None:
        asked.put(number)

    threading.Thread(target=wait, name="wakepost-stop", daemon=True).start()
    signal.signal(signal.SIGTERM, stop)


def _fail(run: Run, failed: Failed | None) -> None:
    """Tells the server in words, since an exit code has none; the code says the same if that fails."""
    if failed is None:
        sys.exit(EXIT_RETRY)
    # Why it was asked to stop (cancelled, too slow, a node that stops), the server knows better.
    if not run.over.is_set():
        try:
            report(run, failed)
        except Exception:
            traceback.print_exc()
    sys.exit(EXIT_GIVE_UP if failed.retryable is False else EXIT_RETRY)
