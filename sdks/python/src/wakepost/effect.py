"""An irreversible act, done once: begin, act, commit."""

from __future__ import annotations

import inspect
import json
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from .core import write_json
from .ending import (
    ERROR_CHARS_MAX,
    Dropped,
    InDoubt,
    NeedsApproval,
    NotDone,
    Unknown,
    with_causes,
)
from .errors import WakepostError
from .run import Run

log = logging.getLogger("wakepost")

OnDoubt = Literal["hold", "execute"]


@dataclass(frozen=True)
class ToAct:
    """Go ahead, with this key to pass on."""

    idempotency_key: str


@dataclass(frozen=True)
class Skipped:
    """It happened already, with this result."""

    result: Any


class Effects:
    """The effects of one run, and those of them that it must not begin a second time."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._under_way: set[str] = set()
        #: What this run left in doubt. The server says `execute` to the same run again, because it cannot
        #: tell a repeated call from a repeated act; we can.
        self._in_doubt: set[str] = set()

    @property
    def is_idle(self) -> bool:
        """Whether none is under way."""
        with self._lock:
            return not self._under_way

    def begin(self, key: str, description: str | None, on_doubt: OnDoubt | None) -> ToAct | Skipped:
        """Asks to act. After `ToAct`, exactly one of the other methods has to follow."""
        run = self._run
        run.check()
        self._enter(key, on_doubt)
        try:
            begun = run.insist(
                lambda timeout_s: run.client.begin_effect(
                    run.id,
                    run.token,
                    key,
                    description=description,
                    on_doubt=on_doubt,
                    repeat=False,
                    timeout_s=timeout_s,
                )
            )
            match begun["decision"]:
                case "execute":
                    # Not `check`: an act that was allowed and not done would be in doubt for nothing.
                    if run.is_lost:
                        raise Dropped("the lease is lost")
                    return ToAct(begun.get("idempotency_key", ""))
                case "skip":
                    self._leave(key)
                    return Skipped(begun.get("result"))
                case "in_doubt":
                    # The server released the lease, and counts no attempt.
                    run.lose()
                    raise InDoubt(f"effect {key} is in doubt")
                case "needs_approval":
                    run.lose()
                    raise NeedsApproval(f"effect {key} needs approval")
            raise WakepostError(200, "protocol", f"unknown decision {begun['decision']!r}")
        except BaseException:
            self._leave(key)
            raise

    def commit(self, key: str, returned: Any) -> Any:
        """It happened: committed even if its result cannot be kept. Returns what later runs will get."""
        try:
            result = json.loads(write_json(returned))
        except ValueError as error:
            log.warning("the result of effect %s is not kept: %s", key, error)
            result = None
        try:
            try:
                self._commit(key, result)
            except WakepostError as error:
                if result is None or error.status not in (400, 413, 422):
                    raise
                log.warning("the result of effect %s is not kept: %s", key, error)
                result = None
                self._commit(key, result)
        except BaseException:
            self._in_doubt.add(key)
            raise
        finally:
            self._leave(key)
        return result

    def raised(self, key: str, error: BaseException) -> NoReturn:
        """The act raised: it did not happen, or nobody knows. Raises what ends the run."""
        run = self._run
        try:
            if not isinstance(error, NotDone):
                self._in_doubt.add(key)
                if not isinstance(error, Exception):
                    raise error
                text = str(error) if isinstance(error, Unknown) else with_causes(error)
                raise Unknown(text) from error
            try:
                text = str(error)[:ERROR_CHARS_MAX]
                run.insist(
                    lambda timeout_s: run.client.abort_effect(
                        run.id, run.token, key, text, repeat=False, timeout_s=timeout_s
                    )
                )
            except BaseException:
                self._in_doubt.add(key)
                raise
            raise error
        finally:
            self._leave(key)

    def _commit(self, key: str, result: Any) -> None:
        run = self._run
        run.insist(
            lambda timeout_s: run.client.commit_effect(
                run.id, run.token, key, result, repeat=False, timeout_s=timeout_s
            )
        )

    def _enter(self, key: str, on_doubt: OnDoubt | None) -> None:
        with self._lock:
            if key in self._under_way:
                raise RuntimeError(f"effect {key} is under way in this run already")
            if key in self._in_doubt and on_doubt != "execute":
                raise Unknown(f"effect {key} is in doubt since this run tried it")
            self._under_way.add(key)

    def _leave(self, key: str) -> None:
        with self._lock:
            self._under_way.discard(key)


def call_act(act: Callable[..., Any], idempotency_key: str) -> Any:
    """Calls the act, with the key if it takes an argument.

    One with a default does not count: `lambda to=to: send(to)` is how a loop's variable is kept.
    """
    try:
        parameters = inspect.signature(act).parameters.values()
    except (TypeError, ValueError):
        return act()
    for parameter in parameters:
        positional = parameter.kind in (
            parameter.POSITIONAL_ONLY,
            parameter.POSITIONAL_OR_KEYWORD,
        )
        if parameter.kind == parameter.VAR_POSITIONAL or (
            positional and parameter.default is parameter.empty
        ):
            return act(idempotency_key)
    return act()
