"""How a run ends: what a handler returns, and what it raises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Done:
    """It worked. A handler that returns anything else returns the result itself."""

    #: Any JSON, at most 1 MiB.
    result: Any = None
    #: What to say on the event's thread, as Markdown.
    reply: str | None = None
    #: What the run cost in all.
    cost: float | None = None


@dataclass(frozen=True)
class Reply:
    """It worked, and this is what to say on the event's thread."""

    #: As Markdown.
    text: str


class Retry(Exception):
    """The run failed, and may be tried again: after `after_s`, or as the backoff says."""

    def __init__(self, reason: str | float = "try again", after_s: float | None = None) -> None:
        # `Retry(30)` reads well, so a number alone is the wait.
        if isinstance(reason, (int, float)):
            after_s = float(reason)
            reason = f"try again in {reason} s"
        super().__init__(reason)
        self.after_s = after_s


class GiveUp(Exception):
    """The run failed for good: straight to the dead letters."""


class NotDone(Retry):
    """Raised inside an effect: it certainly did not happen, so a retry may do it."""


class Unknown(Retry):
    """An effect may have happened (a timeout, say): it is left in doubt.

    What any other exception inside an effect becomes. The next run is held, or acts again, as the effect's
    `on_doubt` says.
    """


class RunEnded(BaseException):
    """The run is over, and the handler has to end.

    Not an `Exception`, as `asyncio.CancelledError` is not: agents catch every `Exception` of a tool and go
    on, and this is not the tool's.
    """


class Cancelled(RunEnded):
    """Someone asked for the job to stop."""


class Dropped(RunEnded):
    """The lease is lost, or the worker stops and hands the job back."""


class InDoubt(RunEnded):
    """An earlier run began the effect and nobody knows whether it happened: the job is held."""


class NeedsApproval(RunEnded):
    """A person must approve the effect first: the job waits, and goes on from its checkpoint."""


@dataclass(frozen=True)
class Failed:
    """How a failure is reported."""

    error: str
    retryable: bool | None = None
    retry_after_s: int | None = None
    hand_back: bool = False


#: What the server keeps of an error.
ERROR_CHARS_MAX = 4000


def done_of(returned: Any) -> Done:
    """What a handler's return value means."""
    match returned:
        case Done():
            return returned
        case Reply(text=text):
            return Done(reply=text)
        case _:
            return Done(result=returned)


def failed_of(error: BaseException) -> Failed:
    """What an exception of a handler means."""
    match error:
        case Retry(after_s=after_s):
            whole = None if after_s is None else max(0, round(after_s))
            return Failed(str(error)[:ERROR_CHARS_MAX], True, whole)
        case GiveUp():
            return Failed(str(error)[:ERROR_CHARS_MAX] or "given up", False)
        case Cancelled():
            return Failed("cancelled")
        case _:
            return Failed(with_causes(error))


def with_causes(error: BaseException) -> str:
    """An error with what caused it, as one line."""
    texts: list[str] = []
    at: BaseException | None = error
    # A chain of causes may be a ring.
    while at is not None and len(texts) < 8:
        texts.append(f"{type(at).__name__}: {at}" if str(at) else type(at).__name__)
        at = at.__cause__
    return ", caused by ".join(texts)[:ERROR_CHARS_MAX]
