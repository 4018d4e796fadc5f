"""What can go wrong with a call, by what the caller can do about it."""

from __future__ import annotations

from typing import Any


class WakepostError(Exception):
    """The server refused, or could not be understood (RFC 9457)."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        errors: list[dict[str, Any]] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        #: The HTTP status; 0 if there was no answer.
        self.status = status
        #: A stable word; empty if the answer was not Wakepost's (a proxy's page, say).
        self.code = code
        #: What exactly.
        self.detail = detail
        #: For 422: which fields, and why, each with `field` and `message`.
        self.errors = errors or []
        #: How long to wait, from the `Retry-After` header.
        self.retry_after_s = retry_after_s
        super().__init__(f"{detail} ({status} {code})".replace(" )", ")"))

    @property
    def is_transient(self) -> bool:
        """Whether the same call may work later: no answer, 429, or the server's own trouble."""
        return self.status in (0, 429) or self.status >= 500


class Unreachable(WakepostError):
    """No answer: nobody listens, or it took too long. The call may still have worked."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(0, "unreachable", f"cannot reach {url}: {reason}")


class LeaseLost(WakepostError):
    """The lease is not live any more: the job is someone else's, or nobody's."""
