"""Jobs, as those see them who create, watch and steer them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, cast

from .core import Core, given, new_key
from .shapes import JobPage, JobView, Moved, Replayed


class JobCalls(Core):
    """The calls of those who have work done."""

    def create_job(
        self,
        input: Any,
        *,
        kind: str | None = None,
        priority: Literal["interactive", "webhook", "batch"] | None = None,
        run_at: str | None = None,
        delay_s: int | None = None,
        dedup_key: str | None = None,
        order_key: str | None = None,
        subject: str | None = None,
        owner: str | None = None,
        callback_url: str | None = None,
        cancel_on: Mapping[str, str] | None = None,
        executor: Mapping[str, Any] | None = None,
        max_attempts: int | None = None,
        mode: Literal["auto", "draft"] | None = None,
        idempotency_key: str | None = None,
    ) -> JobView:
        """Makes a job. A repeated `dedup_key` within 30 days answers the first job.

        `mode="draft"`: a person must agree before it acts.
        """
        body = given(
            kind=kind,
            priority=priority,
            run_at=run_at,
            delay_s=delay_s,
            dedup_key=dedup_key,
            order_key=order_key,
            subject=subject,
            owner=owner,
            callback_url=callback_url,
            cancel_on=cancel_on,
            executor=executor,
            max_attempts=max_attempts,
            mode=mode,
        )
        # Even when it is null, an input is needed.
        body["input"] = input
        key = idempotency_key or new_key()
        answer = self.call("POST", ["jobs"], body, idempotency_key=key, headers=self._asker)
        return cast(JobView, answer)

    def create_jobs(
        self, jobs: Iterable[Mapping[str, Any]], *, idempotency_key: str | None = None
    ) -> list[JobView]:
        """Makes up to 1,000 jobs, all or none. Each has the fields of `create_job`."""
        rows = [dict(job) for job in jobs]
        # In an array the server takes dedup keys or an idempotency key; the first make a repeat harmless
        # only if every job has one.
        any_key = any(row.get("dedup_key") is not None for row in rows)
        every_key = all(row.get("dedup_key") is not None for row in rows)
        if idempotency_key is None and not any_key:
            idempotency_key = new_key()
        repeat = idempotency_key is not None or every_key
        answer = self.call(
            "POST",
            ["jobs"],
            rows,
            idempotency_key=idempotency_key,
            headers=self._asker,
            repeat=repeat,
        )
        return cast("list[JobView]", answer["data"])

    def get_job(self, job_id: str) -> JobView:
        """One job, with its runs and effects."""
        return cast(JobView, self.call("GET", ["jobs", job_id], repeat=True))

    def list_jobs(
        self,
        *,
        status: str | None = None,
        source: str | None = None,
        kind: str | None = None,
        subject: str | None = None,
        thread: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> JobPage:
        """One page of jobs, newest first."""
        query = given(
            status=status,
            source=source,
            kind=kind,
            subject=subject,
            thread=thread,
            limit=limit,
            cursor=cursor,
        )
        return cast(JobPage, self.call("GET", ["jobs"], query=query, repeat=True))

    def iter_jobs(self, **query: Any) -> Iterator[JobView]:
        """All jobs that fit the query of `list_jobs`, page by page."""
        while True:
            page = self.list_jobs(**query)
            yield from page["data"]
            if not page.get("next_cursor"):
                return
            query["cursor"] = page["next_cursor"]

    def cancel(self, job_id: str, note: str | None = None) -> Moved:
        """Gives a job up. A running one learns of it on its next heartbeat."""
        return cast(Moved, self.call("POST", ["jobs", job_id, "cancel"], given(note=note)))

    def approve(self, job_id: str, effects: Mapping[str, str], note: str | None = None) -> Moved:
        """Approves proposed effects: key → the proposal's hash, so that what was read is what is done."""
        return self._decide(job_id, "approve", effects, note)

    def reject(self, job_id: str, effects: Mapping[str, str], note: str | None = None) -> Moved:
        """Rejects proposed effects: key → the proposal's hash."""
        return self._decide(job_id, "reject", effects, note)

    def _decide(
        self, job_id: str, word: str, effects: Mapping[str, str], note: str | None
    ) -> Moved:
        rows = [{"key": key, "proposal_hash": digest} for key, digest in effects.items()]
        body = {"effects": rows, **given(note=note)}
        return cast(Moved, self.call("POST", ["jobs", job_id, word], body))

    def resolve(
        self,
        job_id: str,
        key: str,
        outcome: Literal["committed", "not_done"],
        note: str,
        result: Any = None,
    ) -> Moved:
        """Says whether an effect in doubt happened. A job held for it alone goes on."""
        body = {"outcome": outcome, "note": note, **given(result=result)}
        path = ["jobs", job_id, "effects", key, "resolve"]
        return cast(Moved, self.call("POST", path, body))

    def release(self, job_id: str, note: str) -> Moved:
        """Lets a held job go on."""
        return cast(Moved, self.call("POST", ["jobs", job_id, "release"], {"note": note}))

    def replay(
        self,
        job_id: str,
        note: str,
        *,
        scope: Literal["same", "fresh"] | None = None,
        idempotency_key: str | None = None,
    ) -> Replayed:
        """Runs a finished job once more, as a new one. `fresh` does its effects again."""
        body = {"note": note, **given(scope=scope)}
        key = idempotency_key or new_key()
        answer = self.call("POST", ["jobs", job_id, "replay"], body, idempotency_key=key)
        return cast(Replayed, answer)
