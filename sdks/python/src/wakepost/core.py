"""One call of the API: sent, repeated where that is harmless, and its answer read."""

from __future__ import annotations

import copy
import json
import os
import ssl
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from .backoff import LAST_S, Backoff
from .errors import LeaseLost, WakepostError
from .transport import Answer, Transport
from .version import VERSION

if TYPE_CHECKING:
    from typing_extensions import Self

#: How long a call may take, unless told otherwise.
TIMEOUT_S = 30.0
#: How often a call is sent at most, where a repeat is harmless.
TRIES_MAX = 4


class Core:
    """Where the server is, which key it gets, and how calls are made."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        tenant: str | None = None,
        timeout_s: float = TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        url = url or os.environ.get("WAKEPOST_URL") or "http://127.0.0.1:8787"
        key = key or os.environ.get("WAKEPOST_KEY")
        if not key:
            raise ValueError("a key is needed: give one, or set WAKEPOST_KEY")
        if not (key.isascii() and key.isprintable()):
            raise ValueError("the key has characters that no key has")
        if timeout_s <= 0:
            raise ValueError("timeout_s must be more than 0")
        self._transport = Transport(url, tls)
        self._key = key
        self.tenant = tenant
        self.timeout_s = timeout_s
        #: The headers that say which run makes a job.
        self._asker: dict[str, str] = {}

    def on_behalf_of(self, chain: str | None, traceparent: str | None = None) -> Self:
        """The same client, but jobs that it makes know which run made them: by the `chain` it was given.

        So agents that call each other without end are stopped. `job.client` is one. They share connections.
        """
        client = copy.copy(self)
        client._asker = given(
            **{"wakepost-chain": chain or None, "traceparent": traceparent or None}
        )
        return client

    @property
    def url(self) -> str:
        """The server's base URL."""
        return self._transport.url

    def __repr__(self) -> str:
        # Without the key.
        return f"{type(self).__name__}(url={self.url!r}, tenant={self.tenant!r})"

    def close(self) -> None:
        """Closes idle connections. The client can be used again afterwards."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def call(
        self,
        method: str,
        path: Sequence[str],
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        repeat: bool | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        """Sends a call under `/api/v1` and returns its answer. `path` is its parts: `["jobs", job_id]`.

        `repeat` says that sending it twice is harmless: it is then repeated if no answer comes, or the
        server has trouble. Unless told, only a call with an idempotency key is.
        """
        target = self._target(path, query or {})
        headers = {
            **(headers or {}),
            "Authorization": f"Bearer {self._key}",
            "Accept": "application/json",
            "User-Agent": f"wakepost-python/{VERSION}",
        }
        payload = None
        if body is not None:
            payload = write_json(body)
            headers["Content-Type"] = "application/json"
        if idempotency_key is not None:
            headers["Idempotency-Key"] = idempotency_key
        timeout_s = timeout_s or self.timeout_s
        if repeat is None:
            repeat = idempotency_key is not None
        tries = TRIES_MAX if repeat else 1
        backoff = Backoff()
        while True:
            tries -= 1
            try:
                return _read(self._transport.send(method, target, headers, payload, timeout_s))
            except WakepostError as error:
                if tries == 0 or not error.is_transient:
                    raise
                time.sleep(max(backoff.next(), min(error.retry_after_s or 0.0, LAST_S)))

    def _target(self, path: Sequence[str], query: Mapping[str, Any]) -> str:
        if isinstance(path, str):
            # It is a sequence too: of characters.
            raise TypeError(
                f'the path must be a list of its parts, such as ["stats"], not {path!r}'
            )
        for part in path:
            if part in ("", ".", ".."):
                raise ValueError(f"{part!r} is not an id")
        target = "/api/v1/" + "/".join(quote(part, safe="") for part in path)
        pairs = {name: str(value) for name, value in query.items() if value is not None}
        if self.tenant is not None:
            pairs["tenant"] = self.tenant
        return f"{target}?{urlencode(pairs)}" if pairs else target


def write_json(value: Any) -> bytes:
    """JSON as the server reads it. Not a number, infinity and other types are a `ValueError`."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"it cannot be written as JSON: {error}") from error


def given(**fields: Any) -> dict[str, Any]:
    """The fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def new_key() -> str:
    """A key that nobody else has."""
    return uuid.uuid4().hex


def _read(answer: Answer) -> Any:
    if answer.status >= 400:
        raise _refusal(answer)
    if not 200 <= answer.status < 300:
        hint = f"status {answer.status}; is the URL right, https or http included?"
        raise WakepostError(answer.status, "protocol", hint)
    if not answer.body.strip():
        return None
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError) as error:
        raise WakepostError(
            answer.status, "protocol", f"the answer is not understood: {error}"
        ) from error


def _refusal(answer: Answer) -> WakepostError:
    """Reads a refusal. One that is not Wakepost's has no code."""
    try:
        problem = json.loads(answer.body)
    except (ValueError, RecursionError):
        problem = None
    if not isinstance(problem, dict):
        problem = {}
    code = str(problem.get("code") or "")
    detail = str(problem.get("detail") or problem.get("title") or "refused")
    errors = problem.get("errors")
    after = (answer.headers.get("Retry-After") or "").strip()
    kind = LeaseLost if code == "lease_lost" else WakepostError
    return kind(
        answer.status,
        code,
        detail,
        errors if isinstance(errors, list) else None,
        float(after) if after.isdecimal() and len(after) < 10 else None,
    )
