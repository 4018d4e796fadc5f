"""Jobs, as workers see them: leased, kept alive, and finished."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

from .core import Core, given, new_key
from .shapes import Beaten, Begun, LeasedJob, Moved, OneAnswer


class LeaseCalls(Core):
    """The calls of those who work.

    Every one about a job carries its lease token; a stale one is `LeaseLost`. `repeat` is for those who
    repeat calls by themselves, such as `Worker`.
    """

    def lease(
        self,
        worker: str,
        *,
        max: int | None = None,
        wait_s: int | None = None,
        kinds: Sequence[str] | None = None,
        sources: Sequence[str] | None = None,
        lease_s: int | None = None,
    ) -> list[LeasedJob]:
        """Leases jobs, waiting up to `wait_s` (0 to 30) for the first.

        Never repeated by itself: jobs of an answer that got lost are nobody's until their leases end.
        """
        body = {
            "worker": worker,
            **given(
                max=max,
                wait_s=wait_s,
                kinds=list(kinds) if kinds else None,
                sources=list(sources) if sources else None,
                lease_s=lease_s,
            ),
        }
        timeout_s = self.timeout_s + (wait_s or 0)
        answer = self.call("POST", ["jobs", "lease"], body, timeout_s=timeout_s)
        return cast("list[LeasedJob]", answer["jobs"])

    def heartbeat(
        self,
        job_id: str,
        lease_token: str,
        *,
        extend_s: int | None = None,
        cost: float | None = None,
        repeat: bool = True,
        timeout_s: float | None = None,
    ) -> Beaten:
        """Extends a lease. `cost` is the run's total so far."""
        body = {"lease_token": lease_token, **given(extend_s=extend_s, cost=cost)}
        path = ["jobs", job_id, "heartbeat"]
        answer = self.call("POST", path, body, repeat=repeat, timeout_s=timeout_s)
        return cast(Beaten, answer)

    def heartbeats(
        self,
        jobs: Iterable[Mapping[str, Any]],
        *,
        repeat: bool = True,
        timeout_s: float | None = None,
    ) -> list[OneAnswer]:
        """Extends many leases: `id`, `lease_token`, and the fields of `heartbeat`; an answer for each."""
        body = {"jobs": [dict(job) for job in jobs]}
        path = ["jobs", "heartbeat"]
        answer = self.call("POST", path, body, repeat=repeat, timeout_s=timeout_s)
        return cast("list[OneAnswer]", answer["jobs"])

    def checkpoint(
        self,
        job_id: str,
        lease_token: str,
        state: Any,
        *,
        repeat: bool = True,
        timeout_s: float | None = None,
    ) -> Moved:
        """Saves the agent's own state (at most 1 MiB of JSON), which the next run gets."""
        body = {"lease_token": lease_token, "state": state}
        path = ["jobs", job_id, "checkpoint"]
        answer = self.call("PUT", path, body, repeat=repeat, timeout_s=timeout_s)
        return cast(Moved, answer)

    def progress(
        self,
        job_id: str,
        lease_token: str,
        message: str | None = None,
        *,
        percent: float | None = None,
        step: str | None = None,
        data: Any = None,
        timeout_s: float | None = None,
    ) -> Moved:
        """Tells how the work goes. Not repeated: it would be told twice."""
        fields = given(message=message, percent=percent, step=step, data=data)
        body = {"lease_token": lease_token, **fields}
        path = ["jobs", job_id, "progress"]
        return cast(Moved, self.call("POST", path, body, timeout_s=timeout_s))

    def begin_effect(
        self,
        job_id: str,
        lease_token: str,
        key: str,
        *,
        description: str | None = None,
        on_doubt: Literal["hold", "execute"] | None = None,
        repeat: bool = True,
        timeout_s: float | None = None,
    ) -> Begun:
        """Asks to act. Only `execute` means go ahead."""
        fields = given(description=description, on_doubt=on_doubt)
        body = {"lease_token": lease_token, "key": key, **fields}
        path = ["jobs", job_id, "effects"]
        answer = self.call("POST", path, body, repeat=repeat, timeout_s=timeout_s)
        return cast(Begun, answer)

    def commit_effect(
        self,
        job_id: str,
        lease_token: str,
        key: str,
        result: Any = None,
        *,
        repeat: bool = True,
        timeout_s: float | None = None,
    ) -> Moved:
        """Says that it happened."""
        body = {"lease_token": lease_token, "result": result}
        path = ["jobs", job_id, "effects", key, "commit"]
        answer = self.call("POST", path, body, repeat=repeat, timeout_s=timeout_s)
        return cast(Moved, answer)

    def abort_effect(
        self,
        job_id: str,
        lease_token: str,
        key: str,
        error: str,
        *,
        repeat: bool = True,
        timeout_s: float | None = None,
    ) -> Moved:
        """Says that it certainly did not happen."""
        body = {"lease_token": lease_token, "error": error}
        path = ["jobs", job_id, "effects", key, "abort"]
        answer = self.call("POST", path, body, repeat=repeat, timeout_s=timeout_s)
        return cast(Moved, answer)

    def reply(
        self,
        job_id: str,
        lease_token: str,
        text: str,
        *,
        update: bool | None = None,
        idempotency_key: str | None = None,
        repeat: bool = True,
        timeout_s: float | None = None,
    ) -> Moved:
        """Says something on the thread of the job's event, before the job is done."""
        body = {"lease_token": lease_token, "text": text, **given(update=update)}
        key = idempotency_key or new_key()
        path = ["jobs", job_id, "reply"]
        answer = self.call(
            "POST", path, body, idempotency_key=key, repeat=repeat, timeout_s=timeout_s
        )
        return cast(Moved, answer)

    def complete(
        self,
        job_id: str,
        lease_token: str,
        *,
        result: Any = None,
        reply: str | None = None,
        cost: float | None = None,
        repeat: bool = True,
        timeout_s: float | None = None,
    ) -> Moved:
        """Says that the work is done."""
        body = {"lease_token": lease_token, **given(result=result, reply=reply, cost=cost)}
        path = ["jobs", job_id, "complete"]
        answer = self.call("POST", path, body, repeat=repeat, timeout_s=timeout_s)
        return cast(Moved, answer)

    def fail(
        self,
        job_id: str,
        lease_token: str,
        error: str,
        *,
        retryable: bool | None = None,
        retry_after_s: int | None = None,
        hand_back: bool = False,
        cost: float | None = None,
        repeat: bool = True,
        timeout_s: float | None = None,
    ) -> Moved:
        """Says that the run failed. `retryable=False`: straight to the dead letters.

        `hand_back=True`: nothing went wrong, the worker stops. No attempt is counted.
        """
        fields = given(
            retryable=retryable,
            retry_after_s=retry_after_s,
            hand_back=hand_back or None,
            cost=cost,
        )
        body = {"lease_token": lease_token, "error": error, **fields}
        path = ["jobs", job_id, "fail"]
        answer = self.call("POST", path, body, repeat=repeat, timeout_s=timeout_s)
        return cast(Moved, answer)

    def finish(self, jobs: Iterable[Mapping[str, Any]]) -> list[OneAnswer]:
        """Ends many runs; an answer for each.

        Each has `id`, `lease_token`, `outcome` (`complete` or `fail`) and that call's fields.
        """
        body = {"jobs": [dict(job) for job in jobs]}
        answer = self.call("POST", ["jobs", "finish"], body, repeat=True)
        return cast("list[OneAnswer]", answer["jobs"])
